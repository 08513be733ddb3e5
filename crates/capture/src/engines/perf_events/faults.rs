//! Memory that could not be read at samples, which the reader is told of once.

use super::ring_set::CopyCounts;

/// From so many samples on it is known whether more reads fail than the guesses of a walk.
const ENOUGH_SAMPLES: u64 = 100;

/// What was said of reads that failed.
#[derive(Debug, Default)]
pub(super) struct Faults {
    is_told: bool,
}

impl Faults {
    /// What to say of all that was copied so far: once, where there is something to say.
    pub(super) fn take_remark(&mut self, copied: CopyCounts) -> Option<String> {
        let remark = remark(copied).filter(|_| !self.is_told)?;
        self.is_told = true;
        Some(remark)
    }
}

/// A few guesses of a walk always lead nowhere (4 in 805 samples of express), but no more where all of a process is in memory. A
/// stack that can't be read ends its walk: that is one failed read a sample.
fn remark(copied: CopyCounts) -> Option<String> {
    let are_many = copied.samples >= ENOUGH_SAMPLES && copied.faults >= copied.samples;
    are_many.then(|| {
        format!(
            "{} reads of memory at {} samples failed: is it swapped out? Stacks, names and async callers may be missing",
            copied.faults, copied.samples
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(samples: u64, faults: u64) -> CopyCounts {
        CopyCounts {
            samples,
            faults,
            ..CopyCounts::default()
        }
    }

    #[test]
    fn reads_that_fail_are_told_where_each_sample_has_one() {
        // Express, Node 24.
        assert_eq!(remark(counts(805, 4)), None);
        assert_eq!(remark(counts(805, 804)), None);
        assert!(remark(counts(805, 805)).unwrap().contains("swapped out"));
        // Too few to tell.
        assert_eq!(remark(counts(99, 5000)), None);
        assert_eq!(remark(counts(0, 0)), None);
    }

    #[test]
    fn reads_that_fail_are_told_once_and_before_the_end() {
        let mut faults = Faults::default();
        assert_eq!(faults.take_remark(counts(50, 50)), None);
        assert!(faults.take_remark(counts(100, 100)).is_some());
        assert_eq!(faults.take_remark(counts(200, 200)), None);
    }
}
