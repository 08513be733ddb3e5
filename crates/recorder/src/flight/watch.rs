//! When a file is written: a trigger fires, what fired it comes to its end, the file is due, and for a
//! while nothing is.

use std::collections::VecDeque;
use std::time::Duration;

use nodespy_capture::Stall;
use nodespy_model::{FastMap, FastSet, Nanoseconds};

use super::cause::Cause;
use super::trigger::Trigger;

/// What follows the end of a stall belongs to it: who waited for the loop comes then.
const AFTERMATH: Nanoseconds = 1_000_000_000;
/// A window counts when so much of it was watched.
const MIN_WATCHED: f64 = 0.9;

/// What was seen in a slice.
pub(super) struct Seen<'a> {
    /// From the start of the recording to the end of the slice.
    pub(super) now: Nanoseconds,
    pub(super) stalls: &'a [Stall],
    /// The processes that run.
    pub(super) pids: &'a [u32],
    /// CPU time, run delay or resident bytes of a process, as a trigger needs it.
    pub(super) measure: &'a dyn Fn(&Trigger, u32) -> Option<u64>,
    pub(super) has_signal: bool,
}

/// The triggers and where they stand.
#[derive(Debug)]
pub(super) struct TriggerWatch {
    levels: Vec<Level>,
    /// What counts as a stall.
    stall: Option<Nanoseconds>,
    keep: Nanoseconds,
    hold_off: Nanoseconds,
    state: State,
    /// What fired meanwhile and got no file of its own.
    missed: u64,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Armed,
    Fired(Fired),
    HoldingOff { until: Nanoseconds },
}

#[derive(Debug, Clone, Copy)]
struct Fired {
    cause: Cause,
    /// When the file is due; not known while the cause goes on.
    due: Option<Nanoseconds>,
    /// When it is due at the latest.
    deadline: Nanoseconds,
}

impl TriggerWatch {
    pub(super) fn new(triggers: &[Trigger], keep: Duration, hold_off: Duration) -> Self {
        let stalls = triggers.iter().filter_map(|trigger| match trigger {
            Trigger::Stall(time) => Some(time.as_nanos() as Nanoseconds),
            _ => None,
        });
        let is_level = |trigger: &&Trigger| !matches!(trigger, Trigger::Stall(_) | Trigger::Signal);
        Self {
            levels: triggers
                .iter()
                .filter(is_level)
                .copied()
                .map(Level::new)
                .collect(),
            stall: stalls.min(),
            keep: keep.as_nanos() as Nanoseconds,
            hold_off: hold_off.as_nanos() as Nanoseconds,
            state: State::Armed,
            missed: 0,
        }
    }

    /// Whether a file is to be written once its cause is over: until then nothing is forgotten.
    pub(super) fn has_fired(&self) -> bool {
        matches!(self.state, State::Fired(_))
    }

    /// What counts as a stall, where one does.
    pub(super) fn shortest_stall(&self) -> Option<Duration> {
        self.stall.map(Duration::from_nanos)
    }

    /// How often something fired that got no file.
    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    /// Takes what was seen; returns the cause of a file that is due.
    pub(super) fn take(&mut self, seen: &Seen<'_>) -> Option<Cause> {
        if matches!(self.state, State::HoldingOff { until } if seen.now >= until) {
            self.state = State::Armed;
        }
        let is_held_off = matches!(self.state, State::HoldingOff { .. });
        for stall in seen.stalls {
            if self.stall.is_some_and(|limit| stall.lasted >= limit) {
                self.take_stall(stall, seen.now);
            }
        }
        let mut crossed = Vec::new();
        for level in &mut self.levels {
            crossed.extend(level.take(seen, is_held_off));
        }
        for cause in crossed {
            self.fire(cause, None, seen.now);
        }
        if seen.has_signal {
            self.fire(Cause::Signal, Some(seen.now), seen.now);
        }
        self.look_for_the_end(seen.now);
        match self.state {
            State::Fired(fired)
                if seen.now >= fired.deadline || fired.due.is_some_and(|due| seen.now >= due) =>
            {
                self.state = State::HoldingOff {
                    until: seen.now.saturating_add(self.hold_off),
                };
                Some(fired.cause)
            }
            _ => None,
        }
    }

    /// The cause of a file that is not due yet, where nothing follows any more.
    pub(super) fn take_rest(&mut self) -> Option<Cause> {
        match std::mem::replace(&mut self.state, State::Armed) {
            State::Fired(fired) => Some(fired.cause),
            State::Armed | State::HoldingOff { .. } => None,
        }
    }

    fn take_stall(&mut self, stall: &Stall, now: Nanoseconds) {
        let due = stall.is_over.then(|| {
            let end = stall.started.saturating_add(stall.lasted);
            end.saturating_add(AFTERMATH)
        });
        if let State::Fired(fired) = &mut self.state
            && let Cause::Stall(known) = &mut fired.cause
            && (known.pid, known.tid) == (stall.pid, stall.tid)
            && !known.is_over
        {
            *known = *stall;
            fired.due = due;
            return;
        }
        self.fire(Cause::Stall(*stall), due, now);
    }

    fn fire(&mut self, cause: Cause, due: Option<Nanoseconds>, now: Nanoseconds) {
        match self.state {
            State::Armed => {
                self.state = State::Fired(Fired {
                    cause,
                    due,
                    deadline: now.saturating_add(self.keep),
                });
            }
            State::Fired(_) => {}
            State::HoldingOff { .. } => self.missed += 1,
        }
    }

    /// Finds out whether a level that fired is no longer exceeded.
    fn look_for_the_end(&mut self, now: Nanoseconds) {
        let State::Fired(Fired {
            cause: Cause::Level { trigger, pid, .. },
            due: due @ None,
            ..
        }) = &mut self.state
        else {
            return;
        };
        let level = self.levels.iter().find(|level| level.trigger == *trigger);
        let is_above = level.is_some_and(|level| level.above.contains(pid));
        // Memory that is full may be the end of the process: that file does not wait.
        if !is_above || matches!(trigger, Trigger::Rss(_)) {
            *due = Some(now.saturating_add(AFTERMATH));
        }
    }
}

/// A trigger that compares a number of each process. It fires when a process goes above the limit, and
/// again when it has been below.
#[derive(Debug)]
struct Level {
    trigger: Trigger,
    /// What was measured of each process over the window, the oldest first.
    measured: FastMap<u32, VecDeque<(Nanoseconds, u64)>>,
    above: FastSet<u32>,
}

impl Level {
    fn new(trigger: Trigger) -> Self {
        Self {
            trigger,
            measured: FastMap::default(),
            above: FastSet::default(),
        }
    }

    /// The processes that went above. While nothing is written they are not counted as known, so that
    /// one that stays above gets its file later.
    fn take(&mut self, seen: &Seen<'_>, is_held_off: bool) -> Vec<Cause> {
        self.measured.retain(|pid, _| seen.pids.contains(pid));
        self.above.retain(|pid| seen.pids.contains(pid));
        let mut crossed = Vec::new();
        for &pid in seen.pids {
            let Some(value) = (seen.measure)(&self.trigger, pid) else {
                continue;
            };
            let Some((measured, is_above)) = self.level_of(pid, seen.now, value) else {
                continue;
            };
            if !is_above {
                self.above.remove(&pid);
            } else if !is_held_off && self.above.insert(pid) {
                crossed.push(Cause::Level {
                    trigger: self.trigger,
                    pid,
                    measured,
                });
            }
        }
        crossed
    }

    /// What is compared, and whether it is above the limit; none before a window is over.
    fn level_of(&mut self, pid: u32, now: Nanoseconds, value: u64) -> Option<(f64, bool)> {
        let (limit, window) = match self.trigger {
            Trigger::Rss(limit) => return Some((value as f64, value > limit)),
            Trigger::Cpu { percent, window } | Trigger::RunDelay { percent, window } => {
                (percent, window.as_nanos() as Nanoseconds)
            }
            Trigger::Stall(_) | Trigger::Signal => return None,
        };
        let history = self.measured.entry(pid).or_default();
        history.push_back((now, value));
        let start = now.saturating_sub(window);
        while history.get(1).is_some_and(|(time, _)| *time <= start) {
            history.pop_front();
        }
        let (since, before) = *history.front()?;
        let watched = now.saturating_sub(since);
        if (watched as f64) < window as f64 * MIN_WATCHED {
            return None;
        }
        let share = 100.0 * value.saturating_sub(before) as f64 / watched.max(1) as f64;
        Some((share, share > limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanoseconds = 1_000_000_000;

    fn watch(trigger: &str) -> TriggerWatch {
        let triggers = [trigger.parse().unwrap()];
        TriggerWatch::new(&triggers, Duration::from_secs(10), Duration::from_secs(60))
    }

    fn stall(started: Nanoseconds, lasted: Nanoseconds, is_over: bool) -> Stall {
        Stall {
            pid: 7,
            tid: 7,
            started,
            lasted,
            is_over,
        }
    }

    /// The seconds after which files are written, where `value` is measured at each.
    fn written(
        watch: &mut TriggerWatch,
        seconds: u64,
        value: impl Fn(u64) -> u64,
        stalls: impl Fn(u64) -> Vec<Stall>,
    ) -> Vec<u64> {
        let is_written = |second: &u64| {
            let seen = Seen {
                now: second * SECOND,
                stalls: &stalls(*second),
                pids: &[7],
                measure: &|_, _| Some(value(*second)),
                has_signal: false,
            };
            watch.take(&seen).is_some()
        };
        (1..=seconds).filter(is_written).collect()
    }

    #[test]
    fn a_stall_is_written_when_it_is_over_and_then_there_is_a_pause() {
        let mut watch = watch("stall>200ms");
        let every_four = |second: u64| match second % 4 {
            0 => vec![stall(second * SECOND - 500_000_000, 400_000_000, true)],
            _ => Vec::new(),
        };
        let files = written(&mut watch, 80, |_| 0, every_four);
        // At 4 s and, after a minute, at the next; a second later each.
        assert_eq!(files, [5, 69]);
        assert!(watch.missed() > 10);
    }

    #[test]
    fn a_stall_that_goes_on_is_waited_for_but_not_forever() {
        let mut short = watch("stall>200ms");
        let over_at_six = |second: u64| match second {
            3 => vec![stall(SECOND, 2 * SECOND, false)],
            6 => vec![stall(SECOND, 5 * SECOND, true)],
            _ => Vec::new(),
        };
        assert_eq!(written(&mut short, 20, |_| 0, over_at_six), [7]);
        let mut endless = watch("stall>200ms");
        let never_over = |second: u64| match second {
            3 => vec![stall(SECOND, 2 * SECOND, false)],
            _ => Vec::new(),
        };
        assert_eq!(written(&mut endless, 60, |_| 0, never_over), [13]);
    }

    #[test]
    fn shorter_stalls_are_none() {
        let mut watch = watch("stall>500ms");
        let files = written(&mut watch, 20, |_| 0, |_| vec![stall(0, 400_000_000, true)]);
        assert!(files.is_empty());
    }

    #[test]
    fn a_busy_process_is_written_once_until_it_was_idle() {
        // Busy from 10 s to 15 s and from 200 s on.
        let cpu_time = |second: u64| {
            let first = second.clamp(10, 15) - 10;
            let later = second.max(200) - 200;
            (first + later) * SECOND
        };
        let mut watch = watch("cpu>90%/3s");
        let files = written(&mut watch, 400, cpu_time, |_| Vec::new());
        // At 13 s it has been busy for three, until 15; the second time it goes on for all of --keep.
        assert_eq!(files, [17, 213]);
    }

    #[test]
    fn memory_is_written_at_once_and_when_it_grows_again() {
        let bytes = |second: u64| match second {
            5..=99 => 2_000_000_000,
            150.. => 3_000_000_000,
            _ => 10,
        };
        let mut watch = watch("rss>1GB");
        assert_eq!(written(&mut watch, 300, bytes, |_| Vec::new()), [6, 151]);
    }

    #[test]
    fn the_rest_is_written_when_the_recording_ends() {
        let mut watch = watch("stall>200ms");
        written(&mut watch, 1, |_| 0, |_| vec![stall(0, SECOND, true)]);
        assert!(watch.has_fired());
        assert!(watch.take_rest().is_some());
        assert!(watch.take_rest().is_none());
    }
}
