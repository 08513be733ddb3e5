//! The time of day of a recording that goes on for months.
//!
//! Samples carry the monotonic clock. The time of day runs beside it, a little faster or slower, and is set now and
//! then. Small differences are left alone, so that windows follow one another; a clock that was set is followed.

use nodespy_model::Nanoseconds;

/// What is left alone.
const TOLERANCE: Nanoseconds = 1_000_000_000;

/// When a recording started, by the time of day as it is now.
#[derive(Debug, Default)]
pub(crate) struct WallClock {
    started: Option<Nanoseconds>,
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
    /// When a recording started that goes on for `elapsed` at `now`.
    pub(crate) fn start(&mut self, now: Nanoseconds, elapsed: Nanoseconds) -> StartTime {
        let measured = now.saturating_sub(elapsed);
        let known = self.started.unwrap_or(measured);
        let is_set = known.abs_diff(measured) > TOLERANCE;
        let unix = if is_set { measured } else { known };
        self.started = Some(unix);
        let step = (measured as i64).saturating_sub(known as i64) / TOLERANCE as i64;
        StartTime {
            unix,
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
        let first = clock.start(1000 * SECOND, 10 * SECOND);
        assert_eq!((first.unix, first.step), (990 * SECOND, None));
        let later = clock.start(1010 * SECOND + SECOND / 2, 20 * SECOND);
        assert_eq!((later.unix, later.step), (990 * SECOND, None));
        let back = clock.start(420 * SECOND, 30 * SECOND);
        assert_eq!((back.unix, back.step), (390 * SECOND, Some(-600)));
        let after = clock.start(430 * SECOND, 40 * SECOND);
        assert_eq!((after.unix, after.step), (390 * SECOND, None));
    }
}
