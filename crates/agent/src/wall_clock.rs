//! The time of day of a recording that goes on for months.
//!
//! Samples carry the monotonic clock. The time of day runs beside it, a little faster or slower, and is set now and
//! then. Small differences are left alone, so that windows follow one another; a clock that was set is followed.

use nodespy_capture::{monotonic_now, unix_now};
use nodespy_model::Nanoseconds;

/// What is left alone.
const TOLERANCE: Nanoseconds = 1_000_000_000;
/// How long reading both clocks may take: a pause in between looks like a clock that was set.
const ENOUGH_AT_ONCE: Nanoseconds = TOLERANCE / 10;
/// How often they are read again for that.
const MAX_TRIES: usize = 5;

/// A moment by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// Since 1970.
    pub(crate) unix: Nanoseconds,
    pub(crate) monotonic: Nanoseconds,
}

impl Moment {
    pub(crate) fn now() -> Self {
        Self::read(unix_now, monotonic_now)
    }

    /// The time of day between two looks at the monotonic clock, where these are farthest from a pause of this thread.
    fn read(unix: impl Fn() -> Nanoseconds, monotonic: impl Fn() -> Nanoseconds) -> Self {
        let mut nearest: Option<(Nanoseconds, Self)> = None;
        for _ in 0..MAX_TRIES {
            let before = monotonic();
            let moment = Self {
                unix: unix(),
                monotonic: before,
            };
            let took = monotonic().saturating_sub(before);
            if nearest.is_none_or(|(shortest, _)| took < shortest) {
                nearest = Some((took, moment));
            }
            if took <= ENOUGH_AT_ONCE {
                break;
            }
        }
        let (_, moment) = nearest.expect("they were read at least once");
        moment
    }
}

/// The time of day beside the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct WallClock {
    /// What the monotonic clock's zero is by the time of day, in nanoseconds since 1970.
    zero: Option<Nanoseconds>,
}

/// When a recording started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StartTime {
    /// In nanoseconds since 1970.
    pub(crate) unix: Nanoseconds,
    /// By how many seconds the clock was set, if it was.
    pub(crate) step: Option<i64>,
}

impl WallClock {
    /// When a recording started that began at `started`, by what time it is now. One clock serves all recordings of an agent: it
    /// may be set between two of them.
    pub(crate) fn start(&mut self, now: Moment, started: Nanoseconds) -> StartTime {
        let measured = now.unix.saturating_sub(now.monotonic);
        let known = self.zero.unwrap_or(measured);
        let is_set = known.abs_diff(measured) > TOLERANCE;
        let zero = if is_set { measured } else { known };
        self.zero = Some(zero);
        let step = (measured as i64).saturating_sub(known as i64) / TOLERANCE as i64;
        StartTime {
            unix: zero.saturating_add(started),
            step: is_set.then_some(step),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const SECOND: Nanoseconds = 1_000_000_000;

    #[test]
    fn small_differences_are_left_alone_and_steps_are_followed() {
        let mut clock = WallClock::default();
        let mut start = |unix, monotonic| clock.start(Moment { unix, monotonic }, 40 * SECOND);
        let first = start(1000 * SECOND, 50 * SECOND);
        assert_eq!((first.unix, first.step), (990 * SECOND, None));
        let later = start(1010 * SECOND + SECOND / 2, 60 * SECOND);
        assert_eq!((later.unix, later.step), (990 * SECOND, None));
        let back = start(420 * SECOND, 70 * SECOND);
        assert_eq!((back.unix, back.step), (390 * SECOND, Some(-600)));
        let after = start(430 * SECOND, 80 * SECOND);
        assert_eq!((after.unix, after.step), (390 * SECOND, None));
    }

    #[test]
    fn a_clock_that_is_set_between_two_recordings_is_noticed() {
        let mut clock = WallClock::default();
        let at = |unix, monotonic| Moment {
            unix: unix * SECOND,
            monotonic: monotonic * SECOND,
        };
        clock.start(at(1000, 50), 40 * SECOND);
        let next = clock.start(at(460, 110), 100 * SECOND);
        assert_eq!((next.unix, next.step), (450 * SECOND, Some(-600)));
    }

    /// The thread is paused between reading one clock and the other, three times on end or each time.
    #[test]
    fn a_pause_between_the_clocks_is_no_clock_that_was_set() {
        let read = |pauses: &[Nanoseconds]| {
            let (now, reads) = (Cell::new(50 * SECOND), Cell::new(0));
            let moment = Moment::read(
                || {
                    let pause = pauses.get(reads.replace(reads.get() + 1));
                    now.set(now.get() + pause.unwrap_or(&0));
                    now.get() + 950 * SECOND
                },
                || now.get(),
            );
            (moment.unix - moment.monotonic, reads.get())
        };
        assert_eq!(read(&[]), (950 * SECOND, 1));
        let long = 3 * SECOND;
        assert_eq!(read(&[long, long, long]), (950 * SECOND, 4));
        let always = [long, long, SECOND / 2, long, long];
        assert_eq!(read(&always), (950 * SECOND + SECOND / 2, 5));
    }
}
