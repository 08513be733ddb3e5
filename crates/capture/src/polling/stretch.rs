//! How long a loop is away from poll.

use std::collections::BTreeMap;

use nodespy_model::Nanoseconds;

use super::uv_loop::Reading;

/// Of longer times all are as long as this, in milliseconds.
const LONGEST_MS: u64 = 100_000;

/// Stretches without a return to poll, as far as readings tell.
#[derive(Debug, Default)]
pub(super) struct Stretches {
    last: Option<Reading>,
    /// When the loop was first seen where it is now.
    since: Nanoseconds,
}

/// How long a loop was away from poll at each reading.
#[derive(Debug, Clone, Default)]
pub(super) struct Ages {
    longest: Nanoseconds,
    /// For how many milliseconds the readings stand that found it away from poll for so many milliseconds.
    readings: BTreeMap<u64, u64>,
}

impl Stretches {
    /// Takes a reading; returns how long the loop has been away from poll at least.
    pub(super) fn take(&mut self, reading: Reading) -> Nanoseconds {
        let age = self.age(reading);
        self.last = Some(reading);
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
}

impl Ages {
    /// Counts a reading, which stands for the milliseconds since the one before: readings are not
    /// as frequent all the time.
    pub(super) fn take(&mut self, age: Nanoseconds, stands_for_ms: u64) {
        self.longest = self.longest.max(age);
        let ms = (age / 1_000_000).min(LONGEST_MS);
        *self.readings.entry(ms).or_default() += stands_for_ms;
    }

    /// Adds those of another time.
    pub(super) fn add(&mut self, other: &Self) {
        self.longest = self.longest.max(other.longest);
        for (ms, readings) in &other.readings {
            *self.readings.entry(*ms).or_default() += readings;
        }
    }

    /// The longest that was seen.
    pub(super) fn longest(&self) -> Nanoseconds {
        self.longest
    }

    /// The time within which the loop was in poll at 99 of 100 readings.
    pub(super) fn p99(&self) -> Nanoseconds {
        let all: u64 = self.readings.values().sum();
        let mut left = all / 100;
        for (ms, readings) in self.readings.iter().rev() {
            if *readings > left {
                return ms * 1_000_000;
            }
            left -= readings;
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

    /// What was read.
    #[derive(Default)]
    struct Read {
        stretches: Stretches,
        ages: Ages,
    }

    impl Read {
        fn take(&mut self, reading: Reading) -> Nanoseconds {
            let age = self.stretches.take(reading);
            self.ages.take(age, 1);
            age
        }
    }

    #[test]
    fn a_stretch_starts_when_poll_returned() {
        let mut read = Read::default();
        assert_eq!(read.take(reading(100, true, Some(1), 90)), 0);
        assert_eq!(read.take(reading(150, false, Some(2), 120)), 30 * MS);
        assert_eq!(read.take(reading(200, false, Some(2), 120)), 80 * MS);
        assert_eq!(read.take(reading(250, true, Some(3), 210)), 0);
        assert_eq!(read.ages.longest(), 80 * MS);
    }

    #[test]
    fn timers_that_are_set_hide_a_stretch_only_where_nothing_is_counted() {
        let at = |iterations| {
            let mut read = Read::default();
            for ms in (1000..1400).step_by(50) {
                read.take(reading(ms, false, iterations, ms - 1));
            }
            read.ages.longest()
        };
        assert_eq!(at(Some(7)), 350 * MS);
        assert_eq!(at(None), MS);
    }

    #[test]
    fn a_loop_that_goes_round_without_waiting_stands_nowhere() {
        let mut read = Read::default();
        for ms in (1000..2000).step_by(50) {
            read.take(reading(ms, false, Some(ms), ms - 1));
        }
        assert_eq!(read.ages.longest(), MS);
    }

    #[test]
    fn one_reading_of_a_hundred_is_left_out_of_the_99_of_100() {
        let mut read = Read::default();
        for ms in 0..99 {
            read.take(reading(1000 + 50 * ms, false, Some(ms), 1000 + 50 * ms - 3));
        }
        read.take(reading(9000, false, Some(99), 8700));
        assert_eq!(read.ages.p99(), 3 * MS);
        read.take(reading(9050, false, Some(99), 8700));
        assert_eq!(read.ages.p99(), 300 * MS);
        assert_eq!(read.ages.longest(), 350 * MS);
    }

    #[test]
    fn ages_of_two_times_add_up() {
        let mut one = Ages::default();
        one.take(2 * MS, 99);
        let mut other = Ages::default();
        other.take(400 * MS, 1);
        one.add(&other);
        assert_eq!((one.longest(), one.p99()), (400 * MS, 2 * MS));
        one.add(&other);
        assert_eq!(one.p99(), 400 * MS);
    }
}
