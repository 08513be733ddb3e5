//! Times between polls that keep step with nothing: timers of programs are periodic, and polls in step with one would see
//! the same moment of it again and again.

use nodespy_model::Nanoseconds;

/// A source of such times.
#[derive(Debug)]
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) fn new(seed: u64) -> Self {
        // It never leaves 0.
        Self(seed | 1)
    }

    /// From half of a time to one and a half.
    pub(super) fn around(&mut self, time: Nanoseconds) -> Nanoseconds {
        time / 2 + self.next() % time.max(1)
    }

    /// From three quarters of a time to all of it.
    pub(super) fn at_most(&mut self, time: Nanoseconds) -> Nanoseconds {
        time - self.next() % (time / 4).max(1)
    }

    fn next(&mut self) -> u64 {
        // Marsaglia's xorshift.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

impl Default for Jitter {
    fn default() -> Self {
        Self::new(crate::sys::clock::monotonic_now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_fall_on_every_part_of_a_period() {
        let mut jitter = Jitter::new(7);
        let mut at = 0;
        let mut parts = [0; 10];
        for _ in 0..1000 {
            let pause = jitter.around(50);
            assert!((25..75).contains(&pause));
            at += pause;
            parts[(at % 100 / 10) as usize] += 1;
        }
        assert!(parts.iter().all(|&polls| polls > 50), "{parts:?}");
    }

    #[test]
    fn the_longest_time_is_kept() {
        let mut jitter = Jitter::new(7);
        let times: Vec<_> = (0..1000).map(|_| jitter.at_most(200)).collect();
        assert!(times.iter().all(|time| (151..=200).contains(time)));
        assert!(times.contains(&200) && times.contains(&151));
        assert_eq!(jitter.at_most(0), 0);
    }
}
