//! How long a process is waited for that was sent the signal and does not open its inspector, and why it may not.

use std::time::Duration;

use super::InspectorOptions;
use super::native_block::what_blocks;

/// A main thread that ran, sleeps again and still does not listen has a handler of its own. Node
/// listens after 24 to 190 ms on a loaded machine.
const OWN_HANDLER_TIMEOUT: Duration = Duration::from_secs(3);

/// What is known of the main thread of a process that was sent the signal and does not listen yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct MainState {
    /// It has not run at all since the signal, and waits for something else than events.
    pub(super) is_blocked: bool,
    /// It runs, has not had a CPU since the signal, or may wait for a child.
    pub(super) is_busy: bool,
    pub(super) waited: Duration,
    /// How long it has not been blocked.
    pub(super) free: Duration,
}

impl MainState {
    pub(super) fn gives_up(&self, options: &InspectorOptions) -> bool {
        match self.is_blocked {
            true => self.waited > options.max_block,
            false if self.is_busy => self.waited > options.timeout,
            false => self.free > OWN_HANDLER_TIMEOUT.min(options.timeout),
        }
    }

    /// Whether it had the time to turn to the signal and did not: it has a handler of its own.
    pub(super) fn has_own_handler(&self) -> bool {
        !self.is_blocked && !self.is_busy && self.free > OWN_HANDLER_TIMEOUT
    }
}

/// Why a process did not open its inspector, and what happens if it does later: only its own
/// standard error has the reason for sure.
pub(super) fn why_not(pid: u32, state: &MainState, companion: Option<u32>) -> String {
    let seconds = state.waited.as_secs_f64();
    let reason = match state.is_blocked {
        true => format!("its main thread is {}", what_blocks(pid)),
        // A thread that runs now may run its own code or a native call: both look the same.
        false => "although its main thread runs: it has a handler of its own for SIGUSR1, or is \
                  busy in native code"
            .to_owned(),
    };
    let later = what_if_later(companion);
    format!(
        "process {pid} did not open its inspector within {seconds:.1} s: {reason}; record with perf \
         events instead: nodespy record --engine perf -p {pid}. {later}"
    )
}

/// What happens to an inspector that opens when nodespy is gone.
pub(super) fn what_if_later(companion: Option<u32>) -> String {
    match companion {
        Some(companion) => format!(
            "If it opens later, a background nodespy (pid {companion}) closes it; that waits for \
             an hour at most"
        ),
        None => "It may open later, and then stays open".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::inspector::InspectorEvent;

    fn state(is_blocked: bool, is_busy: bool, waited: u64, free: u64) -> MainState {
        MainState {
            is_blocked,
            is_busy,
            waited: Duration::from_secs(waited),
            free: Duration::from_secs(free),
        }
    }

    #[test]
    fn how_long_is_waited_depends_on_what_the_main_thread_does() {
        let read = |_: InspectorEvent, _: &str| Err("nothing is read".into());
        let options = &InspectorOptions::new(read);
        // Idle and still not listening: a handler of its own.
        assert!(!state(false, false, 3, 3).gives_up(options));
        assert!(state(false, false, 4, 4).gives_up(options));
        // Blocked a long time, and free only now.
        assert!(!state(false, false, 60, 1).gives_up(options));
        assert!(!state(false, true, 10, 10).gives_up(options));
        assert!(state(false, true, 11, 11).gives_up(options));
        assert!(!state(true, true, 600, 0).gives_up(options));
        assert!(state(true, true, 601, 0).gives_up(options));
    }

    #[test]
    fn only_a_main_thread_that_sleeps_again_has_a_handler_of_its_own() {
        assert!(state(false, false, 4, 4).has_own_handler());
        assert!(!state(false, false, 3, 3).has_own_handler());
        // In native code for an hour.
        assert!(!state(false, true, 3600, 3600).has_own_handler());
        assert!(!state(true, true, 3600, 0).has_own_handler());
    }

    #[test]
    fn giving_up_says_what_happens_if_it_opens_later() {
        let own = std::process::id();
        let busy = state(false, true, 11, 11);
        let text = why_not(own, &busy, Some(77));
        assert!(
            text.contains("within 11.0 s: although its main thread runs"),
            "{text}"
        );
        assert!(text.contains("(pid 77) closes it"), "{text}");
        let text = why_not(own, &state(false, false, 4, 4), None);
        assert!(text.contains("a handler of its own"), "{text}");
        assert!(text.contains("stays open"), "{text}");
    }
}
