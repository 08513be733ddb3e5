//! How long a loop is away from poll.

use std::collections::BTreeMap;

use nodespy_model::Nanoseconds;

use super::uv_loop::Reading;

/// Of longer times all are as long as this, in milliseconds.
const LONGEST_MS: u64 = 100_000;

/// Stretches without a return to poll, as far as looks see them.
#[derive(Debug, Default)]
pub(super) struct Stretches {
    last: Option<Reading>,
    /// When the loop was first seen where it is now.
    since: Nanoseconds,
    longest: Nanoseconds,
    /// How many looks found it away from poll for so many milliseconds.
    looks: BTreeMap<u64, u64>,
}

impl Stretches {
    /// Takes what a look has seen; returns how long the loop has been away from poll at least.
    pub(super) fn take(&mut self, reading: Reading) -> Nanoseconds {
        let age = self.age(reading);
        self.last = Some(reading);
        self.longest = self.longest.max(age);
        let ms = (age / 1_000_000).min(LONGEST_MS);
        *self.looks.entry(ms).or_default() += 1;
        age
    }

    fn age(&mut self, reading: Reading) -> Nanoseconds {
        if reading.is_in_poll {
            return 0;
        }
        let by_time = reading.at.saturating_sub(reading.time);
        let stands = |last: &Reading| {
            // Timers that are set move the time of a loop that stands; where iterations are not
            // counted, going round and standing look the same then.
            let has_same_time = last.iterations.is_some() || last.time == reading.time;
            !last.is_in_poll
                && last.iterations == reading.iterations
                && last.idle == reading.idle
                && has_same_time
        };
        if !self.last.as_ref().is_some_and(stands) {
            self.since = reading.at;
        }
        by_time.max(reading.at.saturating_sub(self.since))
    }

    /// The longest that was seen.
    pub(super) fn longest(&self) -> Nanoseconds {
        self.longest
    }

    /// The time within which the loop was in poll at 99 of 100 looks.
    pub(super) fn p99(&self) -> Nanoseconds {
        let all: u64 = self.looks.values().sum();
        let mut left = all / 100;
        for (ms, looks) in self.looks.iter().rev() {
            if *looks > left {
                return ms * 1_000_000;
            }
            left -= looks;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanoseconds = 1_000_000;

    fn reading(at_ms: u64, is_in_poll: bool, iterations: Option<u64>, time_ms: u64) -> Reading {
        Reading {
            at: at_ms * MS,
            idle: 5,
            is_in_poll,
            iterations,
            time: time_ms * MS,
        }
    }

    #[test]
    fn a_stretch_starts_when_poll_returned() {
        let mut stretches = Stretches::default();
        assert_eq!(stretches.take(reading(100, true, Some(1), 90)), 0);
        assert_eq!(stretches.take(reading(150, false, Some(2), 120)), 30 * MS);
        assert_eq!(stretches.take(reading(200, false, Some(2), 120)), 80 * MS);
        assert_eq!(stretches.take(reading(250, true, Some(3), 210)), 0);
        assert_eq!(stretches.longest(), 80 * MS);
    }

    #[test]
    fn timers_that_are_set_hide_a_stretch_only_where_nothing_is_counted() {
        let at = |iterations| {
            let mut stretches = Stretches::default();
            for ms in (1000..1400).step_by(50) {
                stretches.take(reading(ms, false, iterations, ms - 1));
            }
            stretches.longest()
        };
        assert_eq!(at(Some(7)), 350 * MS);
        assert_eq!(at(None), MS);
    }

    #[test]
    fn a_loop_that_goes_round_without_waiting_stands_nowhere() {
        let mut stretches = Stretches::default();
        for ms in (1000..2000).step_by(50) {
            stretches.take(reading(ms, false, Some(ms), ms - 1));
        }
        assert_eq!(stretches.longest(), MS);
    }

    #[test]
    fn one_look_of_a_hundred_is_left_out_of_the_99_of_100() {
        let mut stretches = Stretches::default();
        for ms in 0..99 {
            stretches.take(reading(1000 + 50 * ms, false, Some(ms), 1000 + 50 * ms - 3));
        }
        stretches.take(reading(9000, false, Some(99), 8700));
        assert_eq!(stretches.p99(), 3 * MS);
        stretches.take(reading(9050, false, Some(99), 8700));
        assert_eq!(stretches.p99(), 300 * MS);
        assert_eq!(stretches.longest(), 350 * MS);
    }
}
