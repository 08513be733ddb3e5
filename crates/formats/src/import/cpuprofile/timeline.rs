//! When each sample was taken and how long it lasts.
//!
//! V8 writes the gap before each sample, the first from the start of the profile. A sample lasts
//! until the next one and the last until the end, as Chrome's DevTools have it, so the pause while
//! the profiler starts (the first gap) is charged to no function. Gaps can be negative (seen on Node
//! 24): samples are put in order of time first.

use nodespy_model::Notes;

use super::nodes::Row;

/// Times further from the start than this, two years, are taken for it: nothing that is added to
/// them overflows.
const FURTHEST: i64 = 1 << 56;
/// A gap this many times the usual one is time without samples.
const LONG_GAP: u64 = 20;

/// The samples of one thread as the file has them. Times are nanoseconds from any start.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    /// The node of each sample.
    pub(crate) nodes: Vec<u32>,
    /// The gap before each sample.
    pub(crate) deltas: Vec<i64>,
    /// The time of each sample, in files that have no gaps.
    pub(crate) timestamps: Vec<i64>,
    /// The line each sample was in, where the file has it; 0 when not known.
    pub(crate) lines: Vec<u32>,
    /// When the profile starts, in the unit of the file.
    pub(crate) start: Option<i64>,
    /// When it ends, in the unit of the file.
    pub(crate) end: Option<i64>,
}

/// One sample, placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    /// From the start of the profile.
    pub(crate) time: u64,
    pub(crate) weight: u64,
    pub(crate) row: Row,
    /// The line it was in; 0 when the file does not say.
    pub(crate) line: u32,
}

/// The samples in order of time.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    pub(crate) samples: Vec<Placed>,
    /// How long the profile lasted.
    pub(crate) duration: u64,
    /// The usual gap between samples; 0 when not known.
    pub(crate) interval: u64,
}

impl Timeline {
    /// Places every sample whose node `row_of` knows.
    pub(crate) fn place(self, row_of: impl Fn(u32) -> Option<Row>, notes: &mut Notes) -> Placement {
        let nodes = &self.nodes;
        let (mut times, backward) = self.times();
        if times.len() < nodes.len() {
            notes.remark(format!(
                "{} of {} samples have no time and were left out",
                nodes.len() - times.len(),
                nodes.len()
            ));
        }
        let announced = times.get(nodes.len()).copied();
        times.truncate(nodes.len());
        let lines = self.lines.iter().copied().chain(std::iter::repeat(0));
        let mut samples: Vec<(i64, u32, u32)> = times
            .into_iter()
            .zip(nodes.iter().copied().zip(lines))
            .map(|(time, (node, line))| (time, node, line))
            .collect();
        if backward > 0 {
            samples.sort_by_key(|(time, ..)| *time);
            notes.remark(format!(
                "{backward} samples come before their predecessors; they were put in order of time"
            ));
        }
        let interval = usual_interval(&samples);
        let last = samples.last().map_or(0, |(time, ..)| *time);
        let end = announced
            .or_else(|| self.duration(last))
            .filter(|end| *end >= last)
            .unwrap_or(last.saturating_add(interval as i64));
        let mut unknown = 0;
        let mut long = 0;
        let mut placed = Vec::with_capacity(samples.len());
        for (position, &(time, node, line)) in samples.iter().enumerate() {
            let next = samples.get(position + 1).map_or(end, |(next, ..)| *next);
            let weight = (next - time) as u64;
            if interval > 0 && weight / interval >= LONG_GAP {
                long += weight;
            }
            match row_of(node) {
                Some(row) => placed.push(Placed {
                    time: time as u64,
                    weight,
                    row,
                    line,
                }),
                None => unknown += 1,
            }
        }
        if unknown > 0 {
            notes.remark(format!(
                "{unknown} samples name a node that is not there and were left out"
            ));
        }
        let first = samples.first().map_or(0, |(time, ..)| *time);
        remark_gaps(long, (end - first) as u64, notes);
        Placement {
            samples: placed,
            duration: end as u64,
            interval,
        }
    }

    /// The time of each sample from the start of the profile, and how many go backwards.
    fn times(&self) -> (Vec<i64>, usize) {
        let mut backward = 0;
        if self.deltas.is_empty() {
            let start = self.timestamps.first().copied().unwrap_or(0);
            let mut times: Vec<i64> = self
                .timestamps
                .iter()
                .map(|time| time.saturating_sub(start).clamp(0, FURTHEST))
                .collect();
            backward += times.windows(2).filter(|pair| pair[1] < pair[0]).count();
            times.shrink_to_fit();
            return (times, backward);
        }
        let mut time = 0i64;
        let times = self.deltas.iter().map(|delta| {
            let last = time;
            time = time.saturating_add(*delta).clamp(0, FURTHEST);
            backward += usize::from(time < last);
            time
        });
        (times.collect(), backward)
    }

    /// How long the profile says it lasted, when its last sample is at `last`. Node and Chrome
    /// count microseconds, old files seconds.
    fn duration(&self, last: i64) -> Option<i64> {
        let stated = self.end?.checked_sub(self.start?)?;
        let seconds = stated.saturating_mul(1_000_000);
        let duration = match stated >= last / 2 {
            true => stated,
            false => seconds,
        };
        Some(duration.clamp(0, FURTHEST))
    }

    /// How long the profile says it lasted, when all that is known of its samples is their number.
    pub(crate) fn stated_duration(&self, samples: u64) -> u64 {
        // V8 samples every 50 µs at the very most.
        let shortest = samples.saturating_mul(10_000).min(FURTHEST as u64);
        self.duration(2 * shortest as i64).unwrap_or(0) as u64
    }
}

/// The median of the gaps.
fn usual_interval(samples: &[(i64, u32, u32)]) -> u64 {
    let mut gaps: Vec<u64> = samples
        .windows(2)
        .map(|pair| (pair[1].0 - pair[0].0) as u64)
        .collect();
    if gaps.is_empty() {
        return 0;
    }
    let middle = gaps.len() / 2;
    *gaps.select_nth_unstable(middle).1
}

fn remark_gaps(long: u64, total: u64, notes: &mut Notes) {
    // Idle processes are sampled too, so a gap is a sampler that did not get to run.
    let percent = long as f64 * 100.0 / total.max(1) as f64;
    if percent >= 10.0 {
        notes.remark(format!(
            "{percent:.0} % of the time lies in gaps of {LONG_GAP} and more sampling intervals, \
             where V8 took no sample: shares are less sure than the number of samples suggests"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(timeline: Timeline) -> (Vec<(u64, u64, Row)>, Notes) {
        let mut notes = Notes::default();
        let placement = timeline.place(|node| (node < 100).then_some(node), &mut notes);
        let samples = placement.samples.iter();
        (
            samples
                .map(|sample| (sample.time, sample.weight, sample.row))
                .collect(),
            notes,
        )
    }

    #[test]
    fn a_sample_lasts_until_the_next_and_the_first_gap_is_nobodys() {
        let (samples, notes) = place(Timeline {
            nodes: vec![1, 2, 3],
            deltas: vec![9000, 10, 20],
            start: Some(500),
            end: Some(10_000),
            ..Timeline::default()
        });
        assert_eq!(samples, [(9000, 10, 1), (9010, 20, 2), (9030, 470, 3)]);
        assert!(notes.remarks[0].contains("gaps"));
    }

    #[test]
    fn negative_gaps_put_samples_in_order_and_keep_the_total() {
        let (samples, notes) = place(Timeline {
            nodes: vec![1, 2, 3, 999],
            deltas: vec![100, 50, -20, 40],
            start: Some(0),
            end: Some(180),
            ..Timeline::default()
        });
        assert_eq!(samples, [(100, 30, 1), (130, 20, 3), (150, 20, 2)]);
        assert_eq!(notes.remarks.len(), 2);
    }

    #[test]
    fn timestamps_and_seconds_of_old_files_are_understood() {
        let timestamps = |count: i64| (0..count).map(|at| 5_000_000_000 + at * 1000).collect();
        let (samples, _) = place(Timeline {
            nodes: vec![1, 2],
            timestamps: timestamps(3),
            start: Some(5),
            end: Some(5),
            ..Timeline::default()
        });
        assert_eq!(samples, [(0, 1000, 1), (1000, 1000, 2)]);
        let (samples, _) = place(Timeline {
            nodes: vec![1, 2],
            timestamps: timestamps(2),
            ..Timeline::default()
        });
        assert_eq!(samples[1].1, 1000);
    }
}
