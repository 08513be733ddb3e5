//! How long a process is waited for that was sent the signal and does not open its inspector, and why it may not.

use std::time::{Duration, Instant};

use super::InspectorOptions;
use super::native_block::what_blocks;

/// A process whose event loop turns for so long and that still does not listen has a handler of its own. Node listens after 24
/// to 190 ms on a loaded machine.
const OWN_HANDLER_TIMEOUT: Duration = Duration::from_secs(3);
/// A main thread that was not seen to wait for events for so long may have been in a native call: the loop turns anew from then on.
const MAX_GAP: Duration = Duration::from_millis(500);

/// For how long the event loop of a process that was sent the signal has turned. A main thread that sleeps elsewhere (a read
/// of a disk, a lock, the start of the inspector itself) has not come to the signal yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EventLoop {
    /// When its main thread was first and last seen to wait for events, without a gap between.
    seen: Option<(Instant, Instant)>,
}

impl EventLoop {
    /// Takes note of whether the main thread waits for events now, and returns for how long the loop has turned.
    pub(super) fn see(&mut self, is_waiting: bool, now: Instant) -> Duration {
        if let Some((_, last)) = self.seen
            && now.saturating_duration_since(last) > MAX_GAP
        {
            self.seen = None;
        }
        if is_waiting {
            let first = self.seen.map_or(now, |(first, _)| first);
            self.seen = Some((first, now));
        }
        self.seen.map_or(Duration::ZERO, |(first, last)| {
            last.saturating_duration_since(first)
        })
    }

    /// Whether the process had the time to turn to the signal and did not: it has a handler of its own.
    pub(super) fn is_past_the_signal(turning: Duration) -> bool {
        turning > OWN_HANDLER_TIMEOUT
    }
}

/// What is known of the main thread of a process that was sent the signal and does not listen yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct MainState {
    /// It has not run at all since the signal, and waits for something else than events.
    pub(super) is_blocked: bool,
    /// It does not wait for events: it runs, has not had a CPU since the signal, is in a native call, or may wait for a child.
    pub(super) is_busy: bool,
    pub(super) waited: Duration,
    /// How long it has not been blocked.
    pub(super) free: Duration,
    /// How long its event loop has turned.
    pub(super) turning: Duration,
}

impl MainState {
    pub(super) fn gives_up(&self, options: &InspectorOptions) -> bool {
        match self.is_blocked {
            true => self.waited > options.max_block,
            // One that was blocked gets its time from then on.
            false if self.is_busy => self.free > options.timeout,
            false => self.turning > OWN_HANDLER_TIMEOUT.min(options.timeout),
        }
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

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn turning(waited: u64, turning: u64) -> MainState {
        MainState {
            is_blocked: false,
            is_busy: false,
            waited: seconds(waited),
            free: seconds(waited),
            turning: seconds(turning),
        }
    }

    fn busy(waited: u64, free: u64) -> MainState {
        MainState {
            is_busy: true,
            free: seconds(free),
            ..turning(waited, 0)
        }
    }

    fn blocked(waited: u64) -> MainState {
        MainState {
            is_blocked: true,
            ..busy(waited, 0)
        }
    }

    #[test]
    fn how_long_is_waited_depends_on_what_the_main_thread_does() {
        let read = |_: InspectorEvent, _: &str| Err("nothing is read".into());
        let options = &InspectorOptions::new(read);
        // Idle and still not listening: a handler of its own.
        assert!(!turning(3, 3).gives_up(options));
        assert!(turning(4, 4).gives_up(options));
        // In a native call for a long time, and idle only now.
        assert!(!turning(9, 1).gives_up(options));
        assert!(!busy(10, 10).gives_up(options));
        assert!(busy(11, 11).gives_up(options));
        // Blocked for a long time, and busy with opening the inspector now.
        assert!(!busy(60, 1).gives_up(options));
        assert!(!blocked(600).gives_up(options));
        assert!(blocked(601).gives_up(options));
    }

    /// Shows a main thread every 5 ms for some time.
    fn watch(
        event_loop: &mut EventLoop,
        now: &mut Instant,
        time: Duration,
        is_waiting: impl Fn(u32) -> bool,
    ) -> Duration {
        let polls = u32::try_from(time.as_millis() / 5).unwrap();
        let mut turning = Duration::ZERO;
        for poll in 0..polls {
            *now += Duration::from_millis(5);
            turning = event_loop.see(is_waiting(poll), *now);
        }
        turning
    }

    #[test]
    fn only_an_event_loop_that_goes_on_turning_is_past_the_signal() {
        let mut now = Instant::now();
        let mut idle = EventLoop::default();
        let turning = watch(&mut idle, &mut now, seconds(3), |_| true);
        assert!(!EventLoop::is_past_the_signal(turning));
        let turning = watch(&mut idle, &mut now, seconds(1), |_| true);
        assert!(EventLoop::is_past_the_signal(turning));
        // Busy for 19 of 20 polls: an event loop under load.
        let mut loaded = EventLoop::default();
        let turning = watch(&mut loaded, &mut now, seconds(4), |poll| poll % 20 == 0);
        assert!(EventLoop::is_past_the_signal(turning));
    }

    #[test]
    fn time_in_a_native_call_is_not_time_in_which_the_event_loop_turns() {
        let mut now = Instant::now();
        let mut event_loop = EventLoop::default();
        // It handles the signal itself, and then is in a call that reads a disk.
        watch(&mut event_loop, &mut now, seconds(1), |_| true);
        let turning = watch(&mut event_loop, &mut now, seconds(3600), |_| false);
        assert_eq!(turning, Duration::ZERO);
        let turning = watch(&mut event_loop, &mut now, seconds(3), |_| true);
        assert!(!EventLoop::is_past_the_signal(turning));
    }

    #[test]
    fn giving_up_says_what_happens_if_it_opens_later() {
        let own = std::process::id();
        let text = why_not(own, &busy(11, 11), Some(77));
        assert!(
            text.contains("within 11.0 s: although its main thread runs"),
            "{text}"
        );
        assert!(text.contains("(pid 77) closes it"), "{text}");
        let text = why_not(own, &turning(4, 4), None);
        assert!(text.contains("a handler of its own"), "{text}");
        assert!(text.contains("stays open"), "{text}");
    }
}
