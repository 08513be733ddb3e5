//! How much a figure of a single run may be off: blocks of its time are drawn again and again.
//!
//! Within a run one cannot see what differs between runs, so what comes out is widened and never a verdict.

use nodespy_model::{FastMap, FunctionIndex, Profile};

/// The length of a block, unless a recording would have too many.
const BLOCK_NANOSECONDS: u64 = 250_000_000;
const MAX_BLOCKS: u64 = 400;
const DRAWS: usize = 200;

/// What each function itself weighs in each block of a run's time: functions by their position in the run.
#[derive(Debug, Clone)]
pub(super) struct Blocks(Vec<Vec<(u32, u64)>>);

impl Blocks {
    pub(super) fn of(profile: &Profile, positions: &FastMap<FunctionIndex, u32>) -> Self {
        let times = profile.samples.iter().map(|sample| sample.time);
        let (first, last) = (times.clone().min().unwrap_or(0), times.max().unwrap_or(0));
        let length = BLOCK_NANOSECONDS.max((last - first) / MAX_BLOCKS + 1);
        let mut blocks =
            vec![FastMap::<u32, u64>::default(); ((last - first) / length + 1) as usize];
        for sample in &profile.samples {
            let function = sample.stack.map(|stack| profile.function_of(stack));
            if let Some(&position) = function.and_then(|function| positions.get(&function)) {
                let block = &mut blocks[((sample.time - first) / length) as usize];
                let weight = block.entry(position).or_default();
                *weight = weight.saturating_add(sample.weight);
            }
        }
        let sorted = |block: FastMap<u32, u64>| {
            let mut entries: Vec<(u32, u64)> = block.into_iter().collect();
            entries.sort_unstable();
            entries
        };
        Self(blocks.into_iter().map(sorted).collect())
    }

    /// The standard deviation of the logarithm of every row's cost, by row. `row_of` is by position; `sample` is what
    /// one sample weighs.
    pub(super) fn spread(&self, row_of: &[usize], rows: usize, sample: f64) -> Vec<f64> {
        let mut sums = vec![(0.0, 0.0); rows];
        let mut random = SplitMix(0x9e37_79b9);
        for _ in 0..DRAWS {
            let mut weights = vec![0u64; rows];
            for _ in 0..self.0.len() {
                for &(position, weight) in &self.0[random.below(self.0.len())] {
                    let sum = &mut weights[row_of[position as usize]];
                    *sum = sum.saturating_add(weight);
                }
            }
            for (sum, weight) in sums.iter_mut().zip(weights) {
                let log = (weight as f64 + sample / 2.0).ln();
                sum.0 += log;
                sum.1 += log * log;
            }
        }
        let draws = DRAWS as f64;
        let deviation =
            |(sum, squares): (f64, f64)| (squares / draws - (sum / draws).powi(2)).max(0.0).sqrt();
        sums.into_iter().map(deviation).collect()
    }
}

/// Random numbers that are the same each time: a report must not change when it is made again.
pub(super) struct SplitMix(pub(super) u64);

impl SplitMix {
    pub(super) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
    }
}
