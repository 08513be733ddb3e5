//! How fast rings fill. What a program copies for a sample is 4 KiB mostly and 57 in a deep recursion, so what it has copied
//! lately says how long samples may wait.

use nodespy_model::Nanoseconds;

use super::WALKED_STACK_BYTES;
use super::mapping::{MAX_COPIED_BYTES, sample_bytes};
use super::ring_set::CopyCounts;
use crate::sys::perf_event::Sampling;

/// What is copied for most samples.
const USUALLY_COPIED_BYTES: u32 = 4 << 10;
/// Rings are read no more often: the loop never spins.
const MIN_FILL_TIME: Nanoseconds = 1_000_000;
/// A ring of which half is full sooner by the largest samples has no room for these.
const ROOMY_FILL_TIME: Nanoseconds = 100_000_000;

/// How long the smallest ring takes to fill.
#[derive(Debug)]
pub(super) struct Filling {
    smallest_ring: usize,
    /// How many samples a second a busy CPU has of each event, and how much of a stack is in them.
    rates: Vec<(u32, u32)>,
    /// What was copied until the last look.
    seen: CopyCounts,
    /// For a sample, lately.
    copied_bytes: u32,
}

impl Filling {
    pub(super) fn new(smallest_ring: usize, samplings: &[Sampling]) -> Self {
        let large = samplings.iter().filter(|it| !it.is_of_javascript);
        Self {
            smallest_ring,
            rates: large
                .map(|it| (it.every.expected_rate_hz(), it.stack_bytes))
                .collect(),
            seen: CopyCounts::default(),
            copied_bytes: USUALLY_COPIED_BYTES,
        }
    }

    /// Takes in how much was copied until now. More is believed at once, less by and by.
    pub(super) fn note(&mut self, copied: CopyCounts) {
        let samples = copied.samples.saturating_sub(self.seen.samples);
        let bytes = copied.bytes.saturating_sub(self.seen.bytes);
        self.seen = copied;
        if let Some(mean) = bytes.checked_div(samples) {
            let mean = mean.min(MAX_COPIED_BYTES.into()) as u32;
            self.copied_bytes = mean.max(self.copied_bytes.midpoint(mean));
        }
    }

    /// How long samples of busy CPUs may gather until a ring is half full. The kernel wakes us when there are some bytes, but of a
    /// ring that is smaller than that it does when the ring is full.
    pub(super) fn time(&self) -> Nanoseconds {
        self.time_of(self.rates.iter(), self.copied_bytes)
    }

    /// Whether there is room for samples of which as much is copied as can be.
    pub(super) fn is_roomy(&self) -> bool {
        let is_walked = |(_, stack_bytes): &&(u32, u32)| *stack_bytes == WALKED_STACK_BYTES;
        let walked = self.rates.iter().filter(is_walked);
        self.time_of(walked, MAX_COPIED_BYTES) >= ROOMY_FILL_TIME
    }

    fn time_of<'a>(
        &self,
        rates: impl Iterator<Item = &'a (u32, u32)>,
        copied_bytes: u32,
    ) -> Nanoseconds {
        let bytes_per_second = |&(rate_hz, stack_bytes): &(u32, u32)| {
            u64::from(rate_hz) * u64::from(sample_bytes(stack_bytes, copied_bytes))
        };
        let most = rates.map(bytes_per_second).max().unwrap_or(0);
        let time = self.smallest_ring as u64 / 2 * 1_000_000_000 / most.max(1);
        time.max(MIN_FILL_TIME)
    }
}

#[cfg(test)]
mod tests {
    use super::super::probing::PROBE;
    use super::*;
    use crate::sys::perf_event::Every;

    fn filling(bytes: usize) -> Filling {
        let walked = Sampling {
            every: Every::Rate(999),
            stack_bytes: WALKED_STACK_BYTES,
            ..PROBE
        };
        Filling::new(bytes, &[walked])
    }

    fn milliseconds(filling: &Filling) -> u64 {
        filling.time() / 1_000_000
    }

    #[test]
    fn small_rings_are_read_before_they_are_full_and_never_without_a_pause() {
        assert!(milliseconds(&filling(32 << 20)) > 1_000);
        assert!((100..150).contains(&milliseconds(&filling(2 << 20))));
        for bytes in [0, 4096] {
            assert_eq!(milliseconds(&filling(bytes)), 1);
        }
    }

    #[test]
    fn rings_are_read_sooner_while_samples_are_large() {
        let mut filling = filling(32 << 20);
        let mut counts = CopyCounts::default();
        let mut read = |filling: &mut Filling, copied_bytes: u64| {
            counts.samples += 100;
            counts.bytes += 100 * copied_bytes;
            filling.note(counts);
            milliseconds(filling)
        };
        let usual = read(&mut filling, 4 << 10);
        let deep = read(&mut filling, 52 << 10);
        assert!(
            (200..300).contains(&deep) && usual > 2_000,
            "{usual} {deep}"
        );
        let after = read(&mut filling, 4 << 10);
        assert!(deep < after && after < usual, "{after}");
        for _ in 0..20 {
            read(&mut filling, 4 << 10);
        }
        assert!(milliseconds(&filling) + 10 > usual);
        // Nothing was copied: as before.
        filling.note(counts);
        assert!(milliseconds(&filling) + 10 > usual);
    }

    #[test]
    fn rings_that_may_not_be_larger_have_no_room_for_bare_stacks() {
        assert!(filling(32 << 20).is_roomy());
        assert!(!filling(1 << 20).is_roomy());
    }
}
