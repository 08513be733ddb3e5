//! How long samples wait in their rings for others, where a program has copied what moves: pages of the heap are read and
//! callers named once for all that are read together, which is most of what a sample costs.

use nodespy_model::Nanoseconds;

/// At most so long: more than a slice of a recording, at whose end rings are read anyway.
const MAX_UNREAD: Nanoseconds = 1_100_000_000;
/// The same while something was born a moment ago, which may end as soon.
const MAX_UNREAD_YOUNG: Nanoseconds = 380_000_000;
/// What was born so many times as long ago as its samples wait is not young any more: of a process that ends, at most a tenth is
/// read when its memory is gone.
const YOUNG_FACTOR: Nanoseconds = 10;
/// At most so long where the objects of requests have V8 maps that have to be read while they live: a major collection ends them.
const MAX_UNREAD_MAPS: Nanoseconds = 100_000_000;
/// How long after a new map further ones are likely.
const NEW_MAPS: Nanoseconds = 380_000_000;

/// Since when samples wait, and until when they may.
#[derive(Debug)]
pub(super) struct Unread {
    /// How long rings may fill: small ones have little room.
    pub(super) fill_time: Nanoseconds,
    /// When rings were read last.
    pub(super) last_read: Nanoseconds,
    /// When they are to be read, however little there is.
    pub(super) read_by: Option<Nanoseconds>,
    /// Until when further maps are likely.
    new_maps_until: Nanoseconds,
}

impl Unread {
    pub(super) fn new(fill_time: Nanoseconds) -> Self {
        Self {
            fill_time,
            last_read: 0,
            read_by: None,
            new_maps_until: 0,
        }
    }

    /// Whether rings are to be read now, the newest process or thread being born at `newest_birth`.
    pub(super) fn is_due(&self, now: Nanoseconds, newest_birth: Nanoseconds) -> bool {
        let max_unread = match now < self.new_maps_until {
            true => MAX_UNREAD_MAPS,
            false => max_unread(now.saturating_sub(newest_birth)),
        };
        now.saturating_sub(self.last_read) >= max_unread.min(self.fill_time)
            || self.read_by.is_some_and(|time| now >= time)
    }

    /// A request's object had a new map.
    pub(super) fn expect_new_maps(&mut self, now: Nanoseconds) {
        self.new_maps_until = now.saturating_add(NEW_MAPS);
    }
}

fn max_unread(newest_age: Nanoseconds) -> Nanoseconds {
    (newest_age / YOUNG_FACTOR).clamp(MAX_UNREAD_YOUNG, MAX_UNREAD)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanoseconds = 1_000_000_000;

    #[test]
    fn samples_wait_longer_the_older_what_was_born_last_is() {
        let ages = [0, SECOND, 5 * SECOND, 10 * SECOND, 60 * SECOND];
        let waits = ages.map(|age| max_unread(age) / 1_000_000);
        assert_eq!(waits, [380, 380, 500, 1000, 1100]);
    }

    #[test]
    fn samples_wait_no_longer_than_their_slice_and_while_maps_are_new() {
        let mut unread = Unread {
            last_read: 99 * SECOND,
            ..Unread::new(Nanoseconds::MAX)
        };
        assert!(!unread.is_due(100 * SECOND, 0));
        assert!(unread.is_due(100 * SECOND + SECOND / 5, 0));
        unread.read_by = Some(100 * SECOND);
        assert!(unread.is_due(100 * SECOND, 0));
        unread.read_by = Some(101 * SECOND);
        assert!(!unread.is_due(100 * SECOND, 0));
        unread.expect_new_maps(100 * SECOND);
        assert!(unread.is_due(100 * SECOND, 0));
    }

    #[test]
    fn samples_wait_no_longer_than_there_is_room_for_them() {
        let unread = Unread {
            last_read: 9 * SECOND,
            ..Unread::new(SECOND / 10)
        };
        assert!(!unread.is_due(9 * SECOND + SECOND / 20, 0));
        assert!(unread.is_due(9 * SECOND + SECOND / 10, 0));
    }
}
