//! A made-up day of a fleet: four services of eight processes, three versions rolled out through the day, stacks that
//! share their beginnings and are seen as often as Zipf's law has it.

use nodespy_model::{Category, Labels, ThreadRole, WeightUnit, label_key};
use nodespy_store::{
    Batch, Count, HOST, PID, Series, StackHash, StoredFrame, StoredFunction, Symbols, UnixSeconds,
    WINDOW_SECONDS, Window,
};

/// When the day begins.
pub(crate) const START: UnixSeconds = 1_794_700_800;
/// Windows of a process in an hour.
pub(crate) const WINDOWS_AN_HOUR: u64 = 360;
pub(crate) const SERVICES: usize = 4;
const PROCESSES: usize = 8;
const VERSIONS: usize = 3;
/// Stacks of one version of a service; a fifth of them differs between versions.
const RANKS: usize = 10_720;
const FUNCTIONS: u32 = 2250;
/// Samples of a window, on the average: 19 Hz on a fifth of a CPU.
const SAMPLES: f64 = 36.2;
const ZIPF: f64 = 1.08;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }
}

/// The fleet; every window follows from its place.
pub(crate) struct Fleet {
    symbols: Vec<Symbols>,
    hashes: Vec<Vec<StackHash>>,
    /// How likely ranks up to each are.
    likely: Vec<f64>,
    pub(crate) series: Vec<Series>,
}

impl Fleet {
    pub(crate) fn new() -> Self {
        let symbols: Vec<Symbols> = (0..SERVICES).map(symbols_of).collect();
        let hashes = symbols.iter().map(Symbols::hashes).collect();
        let weights = (0..RANKS).map(|rank| 1.0 / ((rank + 3) as f64).powf(ZIPF));
        let mut likely: Vec<f64> = weights
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let all = likely[RANKS - 1];
        likely.iter_mut().for_each(|sum| *sum /= all);
        Self {
            symbols,
            hashes,
            likely,
            series: all_series(),
        }
    }

    pub(crate) fn service_name(service: usize) -> String {
        format!("service-{service}")
    }

    /// Versions are rolled out process by process.
    fn version(service: usize, process: usize, window: u64) -> usize {
        let lag = process as u64 * WINDOWS_AN_HOUR / 4 + service as u64 * 60;
        let step = WINDOWS_AN_HOUR * 24 / VERSIONS as u64;
        (window.saturating_sub(lag) / step).min(VERSIONS as u64 - 1) as usize
    }

    /// The windows of all processes at one time.
    pub(crate) fn windows(&self, number: u64) -> Vec<Window> {
        let places =
            (0..SERVICES).flat_map(|service| (0..PROCESSES).map(move |process| (service, process)));
        places
            .map(|(service, process)| self.window(service, process, number))
            .collect()
    }

    fn window(&self, service: usize, process: usize, number: u64) -> Window {
        let mut random = Random((service * 64 + process) as u64 ^ Random(number).next());
        let version = Self::version(service, process, number);
        let time_of_day = number as f64 / (WINDOWS_AN_HOUR * 24) as f64 * std::f64::consts::TAU;
        let busy = [1.4, 1.0, 0.8, 0.8][service] * (0.8 + 0.05 * process as f64);
        let mean = SAMPLES * (1.0 + 0.5 * time_of_day.sin()) * busy;
        let noise = (0..12).map(|_| random.share()).sum::<f64>() - 6.0;
        let samples = (mean + mean.sqrt() * noise).max(0.0) as usize;
        let mut counts: Vec<Count> = (0..samples)
            .map(|_| {
                let share = random.share();
                let rank = self
                    .likely
                    .partition_point(|sum| *sum < share)
                    .min(RANKS - 1);
                // Ids have no order of heat.
                let stack = rank * 7919 % RANKS;
                let role = match Random(stack as u64).below(100) {
                    0..85 => ThreadRole::Main,
                    85..92 => ThreadRole::Worker,
                    92..97 => ThreadRole::Pool,
                    _ => ThreadRole::Platform,
                };
                let stack = match stack.is_multiple_of(5) && version > 0 {
                    true => RANKS + (version - 1) * (RANKS / 5) + stack / 5,
                    false => stack,
                };
                Count::new(self.hashes[service][stack], role, 1)
            })
            .collect();
        counts.sort_unstable();
        counts.dedup_by(|later, earlier| {
            let is_same = later.stack == earlier.stack;
            earlier.count += u64::from(is_same);
            is_same
        });
        Window {
            series: (service * VERSIONS + version) * PROCESSES + process,
            start: START + number * WINDOW_SECONDS,
            counts,
        }
    }

    /// A batch of windows with names of the stacks that are not known.
    pub(crate) fn batch(&self, windows: Vec<Window>, unknown: &[StackHash]) -> Batch {
        let mut batch = Batch {
            series: self.series.clone(),
            windows,
            symbols: Symbols::default(),
        };
        if unknown.is_empty() {
            return batch;
        }
        let unknown: std::collections::HashSet<&StackHash> = unknown.iter().collect();
        let named = &mut batch.symbols;
        for (symbols, hashes) in self.symbols.iter().zip(&self.hashes) {
            // As an agent does, only functions of these stacks are sent. Each function has one frame here.
            let mut sent: std::collections::HashMap<u32, u32> = std::collections::HashMap::new();
            for (stack, hash) in symbols.stacks.iter().zip(hashes) {
                if !unknown.contains(hash) {
                    continue;
                }
                let frames = stack.iter().map(|frame| {
                    *sent.entry(*frame).or_insert_with(|| {
                        let function = named.functions.len() as u32;
                        let known = &symbols.functions[*frame as usize];
                        named.functions.push(known.clone());
                        let frame = symbols.frames[*frame as usize];
                        named.frames.push(StoredFrame { function, ..frame });
                        function
                    })
                });
                let frames = frames.collect();
                named.stacks.push(frames);
            }
        }
        batch
    }
}

/// Stacks that grow as a tree: a part of an older one, and more.
fn symbols_of(service: usize) -> Symbols {
    let mut random = Random(service as u64 + 99);
    let functions: Vec<StoredFunction> = (0..FUNCTIONS)
        .map(|number| StoredFunction {
            name: format!("handleSomething{}", number % 977),
            file: format!(
                "/srv/app-{service}/node_modules/pkg-{}/lib/module{}.js",
                number % 83,
                number % 311
            ),
            line: number % 900 + 1,
            column: number % 60 + 1,
            category: Category::Dependency,
        })
        .collect();
    let frames = (0..FUNCTIONS).map(|function| StoredFrame {
        function,
        line: function % 900 + 4,
        ..StoredFrame::default()
    });
    let mut stacks: Vec<Vec<u32>> = Vec::new();
    for _ in 0..RANKS + RANKS / 5 * (VERSIONS - 1) {
        let mut stack = match stacks.len() {
            0 => Vec::new(),
            length => {
                let older = &stacks[random.below(length)];
                let keep = older.len() as f64 * (0.35 + 0.6 * random.share());
                older[..keep as usize].to_vec()
            }
        };
        let depth = (12.0 + 30.0 * (random.share() + random.share()) / 2.0) as usize;
        while stack.len() < depth.max(stack.len().min(41) + 1) {
            let share = random.share();
            stack.push((share * share * f64::from(FUNCTIONS)) as u32);
            if stack.len() >= depth {
                break;
            }
        }
        stacks.push(stack);
    }
    Symbols {
        functions,
        frames: frames.collect(),
        stacks,
    }
}

/// A series for each version of each process.
fn all_series() -> Vec<Series> {
    let mut all = Vec::new();
    for service in 0..SERVICES {
        for version in 0..VERSIONS {
            for process in 0..PROCESSES {
                let mut labels = Labels::default();
                labels.set(label_key::VERSION, format!("v{version}"));
                labels.set(HOST, format!("host-{process}"));
                labels.set(PID, (1000 + version * 100 + process).to_string());
                all.push(Series {
                    service: Fleet::service_name(service),
                    event: "cpu-clock".to_owned(),
                    unit: WeightUnit::Nanoseconds,
                    period: 52_631_579,
                    labels,
                });
            }
        }
    }
    all
}
