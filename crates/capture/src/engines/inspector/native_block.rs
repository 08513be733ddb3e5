//! Distinguishes a main thread that is blocked in native code from one that ignores the signal.
//!
//! Node opens its inspector, and answers commands, on its main thread. A thread that sits in
//! `execSync` or in a synchronous addon uses no CPU time at all meanwhile; nor does one that has nothing to do, but that
//! waits in epoll.

use std::time::{Duration, Instant};

use nodespy_model::{Nanoseconds, printable};

use crate::target::proc;

/// Clock ticks a second in `/proc`; the same on every Linux of this architecture.
const TICKS: f64 = 100.0;

/// A main thread that has not run for so long waits for something.
const QUIET: Duration = Duration::from_millis(700);

/// A main thread that is watched from now on.
#[derive(Debug, Clone, Copy)]
pub(super) struct MainThread {
    pid: u32,
    cpu_time: Option<Nanoseconds>,
    /// What it had used when it was read last, and since when it has used no more.
    last: (Option<Nanoseconds>, Instant),
}

impl MainThread {
    pub(super) fn watch(pid: u32) -> Self {
        let cpu_time = proc::thread_cpu_time(pid, pid);
        Self {
            pid,
            cpu_time,
            last: (cpu_time, Instant::now()),
        }
    }

    /// Whether it has not run at all since it is watched, though there are events for it: one that waits for any, and has
    /// no child that it may be waiting for, is only idle.
    pub(super) fn is_blocked(&mut self) -> bool {
        let now = proc::thread_cpu_time(self.pid, self.pid);
        if now != self.last.0 {
            self.last = (now, Instant::now());
        }
        now.is_some() && now == self.cpu_time && !self.waits_for_events()
    }

    /// Whether its event loop has nothing to do; where there is a child it may be the loop that waits for that.
    pub(super) fn waits_for_events(&self) -> bool {
        proc::waits_for_events(self.pid, self.pid) && proc::children(self.pid).is_empty()
    }

    /// Whether it may be waiting for a child: it has one, and has not run for a while.
    pub(super) fn may_wait_for_child(&self) -> bool {
        self.last.1.elapsed() > QUIET && !proc::children(self.pid).is_empty()
    }
}

/// What a blocked main thread waits for, as far as can be seen from outside.
pub(super) fn what_blocks(pid: u32) -> String {
    let children = proc::children(pid);
    let youngest = children
        .into_iter()
        .filter_map(|child| Some((proc::start_time(child)?, child)))
        .max();
    match youngest {
        Some((started, child)) => format!(
            "in execSync or the like for {:.1} s, waiting for process {child} ({})",
            (uptime() - started as f64 / TICKS).max(0.0),
            printable(&proc::command_line(child).join(" "))
                .chars()
                .take(80)
                .collect::<String>()
        ),
        None => "blocked in native code (a synchronous addon, a lock)".to_owned(),
    }
}

fn uptime() -> f64 {
    let text = proc::read_text("/proc/uptime".as_ref(), 256).unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_is_waited_for_is_named() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let text = what_blocks(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(text.contains("execSync"), "{text}");
    }
}
