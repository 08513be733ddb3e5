//! What event loops and thread pools did over time, in a bounded number of intervals.

use crate::SmallSort;
use crate::profile::Nanoseconds;

/// How long an interval is at first.
pub const MIN_INTERVAL: Nanoseconds = 50_000_000;
/// How many there are at most: when they are full, two become one.
pub const MAX_INTERVALS: usize = 2048;
/// How often they may become longer: any time fits then.
pub const MAX_DOUBLINGS: u32 = 30;
/// From when on a time away from poll is a stall.
pub const MIN_STALL: Nanoseconds = 100_000_000;
/// How many stalls are kept, the longest.
pub const MAX_STALLS: usize = 1000;

/// What is known of an interval: numbers that can be added.
pub trait Part: Copy + Default {
    /// Adds another's numbers.
    fn add(&mut self, other: Self);
}

/// Numbers over time. Intervals are of one length, the first starts with the recording, so that what was seen of one thing
/// at different times can be put together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Intervals<T> {
    doublings: u32,
    /// How many intervals there are before the first row.
    first: usize,
    rows: Vec<T>,
}

impl<T: Part> Intervals<T> {
    /// Rows that were stored; none where they can't be intervals.
    pub fn from_rows(doublings: u32, first: usize, rows: Vec<T>) -> Option<Self> {
        let end = first.checked_add(rows.len())?;
        let fits = doublings <= MAX_DOUBLINGS && end <= MAX_INTERVALS;
        fits.then_some(Self {
            doublings,
            first,
            rows,
        })
    }

    /// How often intervals have become twice as long.
    pub fn doublings(&self) -> u32 {
        self.doublings
    }

    /// How many intervals there are before the first row.
    pub fn first(&self) -> usize {
        self.first
    }

    /// The rows.
    pub fn rows(&self) -> &[T] {
        &self.rows
    }

    /// How long an interval is.
    pub fn length(&self) -> Nanoseconds {
        MIN_INTERVAL << self.doublings
    }

    /// Adds to what is known of the interval in which `time` is.
    pub fn add(&mut self, time: Nanoseconds, part: T) {
        self.make_room(time);
        let at = (time / self.length()) as usize;
        self.put(at, part);
    }

    /// Adds what others have seen.
    pub fn merge(&mut self, other: &Self) {
        let mut other = other.clone();
        while self.doublings < other.doublings {
            self.double();
        }
        while other.doublings < self.doublings {
            other.double();
        }
        for (position, part) in other.rows.iter().enumerate() {
            self.put(other.first + position, *part);
        }
    }

    /// The part from `start` to `end`, with times from `start` on. An interval belongs where its middle is.
    pub fn between(&self, start: Nanoseconds, end: Nanoseconds) -> Self {
        let mut part = Self {
            doublings: self.doublings,
            ..Self::default()
        };
        let length = self.length();
        for (position, row) in self.rows.iter().enumerate() {
            let at = (self.first + position) as u64;
            let middle = at.saturating_mul(length).saturating_add(length / 2);
            if (start..end).contains(&middle) {
                part.put(((middle - start) / length) as usize, *row);
            }
        }
        part
    }

    fn make_room(&mut self, time: Nanoseconds) {
        while time / self.length() >= MAX_INTERVALS as u64 && self.doublings < MAX_DOUBLINGS {
            self.double();
        }
    }

    fn double(&mut self) {
        let before = std::mem::take(&mut self.rows);
        let first = self.first;
        self.first /= 2;
        self.doublings += 1;
        for (position, part) in before.into_iter().enumerate() {
            self.put((first + position) / 2, part);
        }
    }

    fn put(&mut self, at: usize, part: T) {
        if self.rows.is_empty() {
            self.first = at;
        }
        if at < self.first {
            let missing = self.first - at;
            self.rows
                .splice(..0, std::iter::repeat_n(T::default(), missing));
            self.first = at;
        }
        let row = at - self.first;
        if row >= self.rows.len() {
            self.rows.resize(row + 1, T::default());
        }
        self.rows[row].add(part);
    }
}

/// What an event loop did in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoopPart {
    /// How long it was watched.
    pub watched: Nanoseconds,
    /// How long of that it was away from poll.
    pub busy: Nanoseconds,
}

impl Part for LoopPart {
    fn add(&mut self, other: Self) {
        self.watched = self.watched.saturating_add(other.watched);
        self.busy = self.busy.saturating_add(other.busy);
    }
}

impl Intervals<LoopPart> {
    /// From `from` to `to` a loop was away from poll for `busy` in all; when is not known.
    pub fn spread(&mut self, from: Nanoseconds, to: Nanoseconds, busy: Nanoseconds) {
        let whole = to.saturating_sub(from);
        if whole == 0 {
            return;
        }
        self.make_room(to);
        let busy = busy.min(whole);
        // Rounded from the start each time, so that nothing is lost.
        let busy_until = |time: Nanoseconds| {
            let part = u128::from(busy) * u128::from(time - from) / u128::from(whole);
            part as Nanoseconds
        };
        let mut at = from;
        while at < to {
            let end = (at / self.length() + 1).saturating_mul(self.length());
            let until = end.min(to);
            let part = LoopPart {
                watched: until - at,
                busy: busy_until(until) - busy_until(at),
            };
            self.add(at, part);
            at = until;
        }
    }
}

/// What a thread pool did in an interval, as sums over the readings of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolPart {
    /// How many readings.
    pub readings: u64,
    /// Threads with a job.
    pub busy: u64,
    /// Jobs that waited.
    pub waiting: u64,
}

impl Part for PoolPart {
    fn add(&mut self, other: Self) {
        self.readings = self.readings.saturating_add(other.readings);
        self.busy = self.busy.saturating_add(other.busy);
        self.waiting = self.waiting.saturating_add(other.waiting);
    }
}

/// What a thread pool did over time.
pub type PoolTimeline = Intervals<PoolPart>;

/// A time that a loop was away from poll for [`MIN_STALL`] or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoopStall {
    /// When it started, from the start of the recording.
    pub start: Nanoseconds,
    /// How long it lasted, as far as was seen.
    pub lasted: Nanoseconds,
}

impl LoopStall {
    fn end(&self) -> Nanoseconds {
        self.start.saturating_add(self.lasted)
    }
}

/// What an event loop did over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LoopTimeline {
    /// How much of the time it was away from poll.
    pub intervals: Intervals<LoopPart>,
    stalls: Vec<LoopStall>,
}

impl LoopTimeline {
    /// The longest stalls, in the order of time: twice [`MAX_STALLS`] at most, that many after
    /// [`Self::keep_longest`].
    pub fn stalls(&self) -> &[LoopStall] {
        &self.stalls
    }

    /// Adds a stall. Those that overlap are one: a loop that has been away for long is seen again and
    /// again.
    pub fn stall(&mut self, stall: LoopStall) {
        let at = match self.stalls.last() {
            Some(last) if last.start >= stall.start => {
                self.stalls.partition_point(|it| it.start < stall.start)
            }
            _ => self.stalls.len(),
        };
        let before = at.checked_sub(1).map(|before| self.stalls[before]);
        let first = match before.filter(|before| before.end() > stall.start) {
            Some(_) => at - 1,
            None => {
                self.stalls.insert(at, stall);
                at
            }
        };
        let start = self.stalls[first].start;
        let mut end = self.stalls[first].end().max(stall.end());
        let mut next = first + 1;
        while let Some(after) = self.stalls.get(next)
            && (after.start < end || after.start == start)
        {
            end = end.max(after.end());
            next += 1;
        }
        self.stalls[first].lasted = end - start;
        self.stalls.drain(first + 1..next);
        if self.stalls.len() > 2 * MAX_STALLS {
            self.keep_longest();
        }
    }

    /// Adds what was seen at other times.
    pub fn merge(&mut self, other: &Self) {
        self.intervals.merge(&other.intervals);
        other.stalls.iter().for_each(|stall| self.stall(*stall));
    }

    /// The part from `start` to `end`, with times from `start` on.
    pub fn between(&self, start: Nanoseconds, end: Nanoseconds) -> Self {
        let part = |stall: &LoopStall| {
            let from = stall.start.max(start);
            let to = stall.end().min(end);
            let lasted = to.saturating_sub(from);
            (lasted >= MIN_STALL).then(|| LoopStall {
                start: from - start,
                lasted,
            })
        };
        Self {
            intervals: self.intervals.between(start, end),
            stalls: self.stalls.iter().filter_map(part).collect(),
        }
    }

    /// Leaves no more stalls than are kept.
    pub fn keep_longest(&mut self) {
        if self.stalls.len() > MAX_STALLS {
            self.stalls
                .small_sort_by_key(|stall| (std::cmp::Reverse(stall.lasted), stall.start));
            self.stalls.truncate(MAX_STALLS);
            self.stalls.small_sort_by_key(|stall| stall.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanoseconds = 1_000_000;

    fn sums(intervals: &Intervals<LoopPart>) -> LoopPart {
        let mut sum = LoopPart::default();
        intervals.rows().iter().for_each(|part| sum.add(*part));
        sum
    }

    #[test]
    fn time_is_spread_over_intervals_and_none_is_lost() {
        let mut intervals = Intervals::<LoopPart>::default();
        intervals.spread(10 * MS, 160 * MS + 1, 75 * MS);
        let watched: Vec<u64> = intervals.rows().iter().map(|part| part.watched).collect();
        assert_eq!(watched, [40 * MS, 50 * MS, 50 * MS, 10 * MS + 1]);
        assert_eq!(sums(&intervals).busy, 75 * MS);
        intervals.spread(160 * MS + 1, 170 * MS, u64::MAX);
        assert_eq!(sums(&intervals).watched, 160 * MS);
    }

    #[test]
    fn a_month_fits_and_sums_stay() {
        let mut intervals = Intervals::<LoopPart>::default();
        let minute = 60_000 * MS;
        for at in 0..30 * 24 * 60 {
            intervals.spread(at * minute, (at + 1) * minute, minute / 4);
        }
        assert!(intervals.rows().len() <= MAX_INTERVALS);
        assert!(intervals.rows().len() > MAX_INTERVALS / 2);
        let sum = sums(&intervals);
        assert_eq!(sum.watched, 30 * 24 * 60 * minute);
        assert_eq!(sum.busy, sum.watched / 4);
    }

    #[test]
    fn slices_put_together_are_the_whole() {
        let mut whole = LoopTimeline::default();
        let mut merged = LoopTimeline::default();
        for slice in 0..300u64 {
            let mut part = LoopTimeline::default();
            for reading in 0..20 {
                let from = slice * 1000 * MS + reading * 50 * MS;
                for timeline in [&mut whole, &mut part] {
                    timeline
                        .intervals
                        .spread(from, from + 50 * MS, reading * 2 * MS);
                }
            }
            // One goes on into the next slice, where it is seen again, longer.
            for (start, lasted) in [(slice, 150 + slice), (slice / 2 * 2, 400 + slice)] {
                let stall = LoopStall {
                    start: start * 1000 * MS,
                    lasted: lasted * MS,
                };
                part.stall(stall);
                whole.stall(stall);
            }
            assert!(part.intervals.rows().len() <= 21);
            merged.merge(&part);
        }
        assert_eq!(whole.intervals.length(), 200 * MS);
        assert_eq!(merged.intervals, whole.intervals);
        assert_eq!(merged.stalls(), whole.stalls());
        assert_eq!(whole.stalls().len(), 300);
    }

    #[test]
    fn stalls_that_overlap_are_one() {
        let mut timeline = LoopTimeline::default();
        // The second was first seen later than when poll had returned; the third joins both others.
        for (start, lasted) in [
            (100, 150),
            (200, 200),
            (500, 100),
            (900, 100),
            (350, 200),
            (100, 10),
        ] {
            timeline.stall(LoopStall {
                start: start * MS,
                lasted: lasted * MS,
            });
        }
        let stalls = timeline.stalls().iter();
        let stalls: Vec<_> = stalls.map(|it| (it.start / MS, it.lasted / MS)).collect();
        assert_eq!(stalls, [(100, 500), (900, 100)]);
    }

    #[test]
    fn the_longest_stalls_are_kept_in_the_order_of_time() {
        let mut timeline = LoopTimeline::default();
        for at in 0..5000u64 {
            timeline.stall(LoopStall {
                start: at * 1000 * MS,
                lasted: (100 + at % 5) * MS,
            });
        }
        timeline.keep_longest();
        assert_eq!(timeline.stalls().len(), MAX_STALLS);
        assert!(
            timeline
                .stalls()
                .iter()
                .all(|stall| stall.lasted == 104 * MS)
        );
        assert!(timeline.stalls().is_sorted_by_key(|stall| stall.start));
    }

    #[test]
    fn a_part_of_the_time_counts_from_its_start() {
        let mut timeline = LoopTimeline::default();
        timeline.intervals.spread(0, 1000 * MS, 500 * MS);
        for (start, lasted) in [(50, 120), (300, 400), (900, 150)] {
            timeline.stall(LoopStall {
                start: start * MS,
                lasted: lasted * MS,
            });
        }
        let part = timeline.between(210 * MS, 610 * MS);
        assert_eq!(sums(&part.intervals).watched, 400 * MS);
        assert_eq!(part.intervals.first(), 0);
        let stalls: Vec<(u64, u64)> = part
            .stalls()
            .iter()
            .map(|it| (it.start / MS, it.lasted / MS))
            .collect();
        assert_eq!(stalls, [(90, 310)]);
        assert_eq!(timeline.between(0, u64::MAX), timeline);
        assert!(timeline.between(5, 5).intervals.rows().is_empty());
    }

    #[test]
    fn rows_that_can_not_be_intervals_are_refused() {
        let rows = |count| vec![PoolPart::default(); count];
        assert!(Intervals::from_rows(MAX_DOUBLINGS, 48, rows(2000)).is_some());
        assert!(Intervals::from_rows(0, 49, rows(2000)).is_none());
        assert!(Intervals::from_rows(MAX_DOUBLINGS + 1, 0, rows(1)).is_none());
        assert!(Intervals::from_rows(0, usize::MAX, rows(1)).is_none());
        // The latest time there is.
        let mut intervals = Intervals::default();
        let part = PoolPart {
            readings: 1,
            ..PoolPart::default()
        };
        intervals.add(u64::MAX, part);
        intervals.add(0, part);
        assert!(intervals.rows().len() <= MAX_INTERVALS);
    }
}
