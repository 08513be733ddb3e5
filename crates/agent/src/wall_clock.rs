//! The time of day of a recording that goes on for months.
//!
//! Samples carry the monotonic clock. The time of day runs beside it, a little faster or slower, and is set now and
//! then. Small differences are left alone, so that windows follow one another; a clock that was set is followed.

use nodespy_model::Nanoseconds;

/// What is left alone.
const TOLERANCE: Nanoseconds = 1_000_000_000;

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
    /// When a recording started that began at `started`, if it is `unix` and `monotonic` now. One clock serves all recordings of
    /// an agent: it may be set between two of them.
    pub(crate) fn start(
        &mut self,
        unix: Nanoseconds,
        monotonic: Nanoseconds,
        started: Nanoseconds,
    ) -> StartTime {
        let measured = unix.saturating_sub(monotonic);
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
    use super::*;

    const SECOND: Nanoseconds = 1_000_000_000;

    #[test]
    fn small_differences_are_left_alone_and_steps_are_followed() {
        let mut clock = WallClock::default();
        let mut start = |unix, monotonic| clock.start(unix, monotonic, 40 * SECOND);
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
        clock.start(1000 * SECOND, 50 * SECOND, 40 * SECOND);
        let next = clock.start(460 * SECOND, 110 * SECOND, 100 * SECOND);
        assert_eq!((next.unix, next.step), (450 * SECOND, Some(-600)));
    }
}
