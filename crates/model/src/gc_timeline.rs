//! The pauses of V8's garbage collector over time: the longest, so that they can be marked where they were.

use crate::{GcKind, Nanoseconds, SmallSort};

/// How many pauses of a thread are kept, of more the longest.
pub const MAX_GC_PAUSES: usize = 1000;

/// A time that the garbage collector kept a thread from running JavaScript.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcPause {
    /// When it started, from the start of the recording.
    pub start: Nanoseconds,
    /// How long it lasted.
    pub lasted: Nanoseconds,
    /// What was collected.
    pub kind: GcKind,
}

impl GcPause {
    fn end(&self) -> Nanoseconds {
        self.start.saturating_add(self.lasted)
    }
}

/// The pauses of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GcTimeline {
    pauses: Vec<GcPause>,
}

impl GcTimeline {
    /// The longest pauses, in the order of time: twice [`MAX_GC_PAUSES`] at most, that many after
    /// [`Self::keep_longest`].
    pub fn pauses(&self) -> &[GcPause] {
        &self.pauses
    }

    /// Adds a pause; mostly one that is later than all others.
    pub fn add(&mut self, pause: GcPause) {
        let at = match self.pauses.last() {
            Some(last) if last.start > pause.start => {
                self.pauses.partition_point(|it| it.start <= pause.start)
            }
            _ => self.pauses.len(),
        };
        self.pauses.insert(at, pause);
        if self.pauses.len() > 2 * MAX_GC_PAUSES {
            self.keep_longest();
        }
    }

    /// Adds those of another time.
    pub fn merge(&mut self, other: &Self) {
        other.pauses.iter().for_each(|pause| self.add(*pause));
    }

    /// Those that began from `start` to `end`, with times from `start` on.
    pub fn between(&self, start: Nanoseconds, end: Nanoseconds) -> Self {
        let part = |pause: &GcPause| {
            let is_in = (start..end).contains(&pause.start);
            is_in.then(|| GcPause {
                start: pause.start - start,
                lasted: pause.end().min(end) - pause.start,
                kind: pause.kind,
            })
        };
        Self {
            pauses: self.pauses.iter().filter_map(part).collect(),
        }
    }

    /// Leaves no more than are kept.
    pub fn keep_longest(&mut self) {
        if self.pauses.len() > MAX_GC_PAUSES {
            self.pauses
                .small_sort_by_key(|pause| (std::cmp::Reverse(pause.lasted), pause.start));
            self.pauses.truncate(MAX_GC_PAUSES);
            self.pauses.small_sort_by_key(|pause| pause.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(start: Nanoseconds, lasted: Nanoseconds) -> GcPause {
        GcPause {
            start,
            lasted,
            kind: GcKind::Scavenge,
        }
    }

    #[test]
    fn pauses_are_in_order_and_the_longest_are_kept() {
        let mut timeline = GcTimeline::default();
        for time in (0..3 * MAX_GC_PAUSES as u64).rev() {
            timeline.add(pause(time * 10, time));
        }
        timeline.keep_longest();
        let kept = timeline.pauses();
        assert_eq!(kept.len(), MAX_GC_PAUSES);
        assert!(kept.is_sorted_by_key(|it| it.start));
        assert_eq!(kept[0].lasted, 2 * MAX_GC_PAUSES as u64);
    }

    #[test]
    fn a_part_has_what_began_in_it_counted_from_its_start() {
        let mut timeline = GcTimeline::default();
        [pause(5, 4), pause(10, 4), pause(18, 9), pause(20, 1)]
            .into_iter()
            .for_each(|it| timeline.add(it));
        let part = timeline.between(10, 20);
        assert_eq!(part.pauses(), [pause(0, 4), pause(8, 2)]);
        let mut both = part.clone();
        both.merge(&part);
        assert_eq!(both.pauses().len(), 4);
    }
}
