//! Samples one after the other, because in V8's files a sample lasts until the next one.
//!
//! A sample starts when the one before it ends, or at its own time if that is later by more than
//! half a sampling interval; the time between is `(idle)`. So every weight is kept exactly, to
//! the microsecond, whatever the times say.
//!
//! DevTools (Chromium 156) do not ask when a profile ends and take its last sample for an average one.
//! Where samples without times stand for many each, that is far off: there, `(idle)` of no length
//! comes last.

use nodespy_model::{Profile, Sample, WeightUnit};

use super::tree::{ROOT, Row, Tree};

/// How long a sample lasts when not known.
const DEFAULT_INTERVAL: u64 = 1_000_000;

/// One sample at its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scheduled {
    pub(crate) row: Row,
    /// The line it was in; 0 when not known.
    pub(crate) line: u32,
    /// Microseconds from the start of the recording.
    pub(crate) start: u64,
}

/// The samples of a thread, and when the last of them ends.
#[derive(Debug)]
pub(crate) struct Schedule {
    pub(crate) samples: Vec<Scheduled>,
    pub(crate) end: u64,
}

impl Schedule {
    /// Puts the samples of a thread one after the other. Idle time gets its node in the tree.
    pub(crate) fn of(profile: &Profile, of_thread: &[&Sample], tree: &mut Tree) -> Self {
        let rate_hz = u64::from(profile.event().rate_hz());
        let interval = 1_000_000_000_u64.checked_div(rate_hz);
        let tolerance = interval.map_or(999, |interval| interval / 2);
        let interval_or_default = interval.unwrap_or(DEFAULT_INTERVAL);
        let length_of = |weight: u64| match profile.unit() {
            WeightUnit::Samples => weight.saturating_mul(interval_or_default),
            WeightUnit::Nanoseconds | WeightUnit::Bytes => weight,
            // How many cycles or faults says nothing about time.
            WeightUnit::Events => interval_or_default,
        };
        let mut samples = Vec::new();
        let mut end = None;
        for sample in of_thread {
            let mut start = end.unwrap_or(sample.time);
            if sample.time > start && sample.time - start > tolerance {
                samples.push(Scheduled {
                    row: tree.idle(),
                    line: 0,
                    start: microseconds(start),
                });
                start = sample.time;
            }
            samples.push(Scheduled {
                row: sample.stack.map_or(ROOT, |stack| tree.row_of(stack)),
                line: sample.stack.map_or(0, |stack| {
                    profile.frame(profile.stacks[stack.at()].frame).line
                }),
                start: microseconds(start),
            });
            end = Some(start.saturating_add(length_of(sample.weight)));
        }
        let end = microseconds(end.unwrap_or(0));
        let is_summed = of_thread.iter().all(|sample| sample.time == 0);
        if is_summed && samples.len() > 1 {
            samples.push(Scheduled {
                row: tree.idle(),
                line: 0,
                start: end,
            });
        }
        Self { samples, end }
    }
}

/// The nearest microsecond. Moments are rounded, not lengths, so nothing adds up.
fn microseconds(time: u64) -> u64 {
    time / 1000 + u64::from(time % 1000 >= 500)
}
