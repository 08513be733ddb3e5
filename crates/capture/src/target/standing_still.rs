//! Processes that run nothing until somebody lets them: stopped ones, and those whose group is frozen.

use super::proc::{RunState, path_of, read_text, run_state};

/// Where in the kernel a thread is that its group's freezer holds, or a signal or a debugger: the second and third on Linux 6.18
/// and where the compiler leaves them apart, the last with the first version of groups.
const STANDS_STILL_IN: [&str; 5] = [
    "do_signal_stop",
    "get_signal",
    "do_freezer_trap",
    "ptrace_stop",
    "__refrigerator",
];

/// Whether a process is stopped or frozen.
pub(crate) fn stands_still(pid: u32) -> bool {
    let is_stopped = matches!(
        run_state(pid, pid),
        Some(RunState::Stopped | RunState::Traced)
    );
    is_stopped || {
        // A frozen one is said to sleep.
        let place = read_text(&path_of(pid, "wchan"), 256).unwrap_or_default();
        STANDS_STILL_IN.contains(&place.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_process_stands_still() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let is_sleeping = !stands_still(child.id());
        let pid = child.id() as libc::pid_t;
        // SAFETY: the child was not waited for, so the pid is its own.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
        while run_state(child.id(), child.id()) != Some(RunState::Stopped) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let is_stopped = stands_still(child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_sleeping && is_stopped);
    }
}
