//! A fleet that is made up: instances of two versions behind one load balancer, through some hours of a day. What they run is made up
//! too, or a real server as it was recorded.
//!
//! What real fleets have and a test must not mistake for a change: instances with more or less load, hosts that are slower, another mix of
//! requests on each, a mix that drifts with the hour, and samples that are counted. What changed is one function of the later version.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;

use nodespy_formats::{ImportOptions, import_file};
use nodespy_model::{Contents, Labels, Profile, ThreadRole, WeightUnit, label_key};
use nodespy_store::{
    Batch, CPU_EVENT, Count, OpenMode, REQUESTS_EVENT, Series, SqliteStore, StackHash, Store,
    StoredFrame, StoredFunction, Symbols, UnixSeconds, Window, batch_of,
};

/// When the fleet starts: a multiple of an hour.
pub(crate) const START: UnixSeconds = 1_700_000_400 / 3600 * 3600;
/// When the later version is deployed.
pub(crate) const DEPLOYED: UnixSeconds = START + 1800;
/// When it is looked at.
pub(crate) const END: UnixSeconds = START + 7200;
/// What an agent takes, and what it asks for: a sample counts for as many as that is more.
const RATE_HZ: u64 = 19;
const COUNTED: u64 = 5;
/// A window has what six would, or thirty where there are many stacks: the store does not care, and the test is quick.
const STEP: u64 = 60;
const LONG_STEP: u64 = 300;

/// How a fleet is made.
pub(crate) struct Fleet {
    pub(crate) service: &'static str,
    /// What its instances run.
    pub(crate) program: &'static Program,
    /// What an instance with the usual load uses of a CPU.
    pub(crate) busy: f64,
    /// Instances of each version.
    pub(crate) instances: usize,
    /// What the changed function takes of the later version, beside the earlier: 1.25 is a quarter more.
    pub(crate) effect: f64,
    /// When that is over.
    pub(crate) effect_ends: UnixSeconds,
    /// What everything takes of the later version for a request, beside the earlier.
    pub(crate) effect_on_all: f64,
    /// Requests a second of an instance with the usual load; none are known at 0.
    pub(crate) requests: f64,
    /// By how much hosts differ in speed.
    pub(crate) hosts: f64,
    /// From when until when the earlier version runs.
    pub(crate) earlier: Range<UnixSeconds>,
    /// Until when the later version runs.
    pub(crate) end: UnixSeconds,
    /// So many seconds after one another the instances of the later version start.
    pub(crate) every: u64,
    /// Whether an instance of the earlier version ends when one of the later has started, and not at the end of `earlier`.
    pub(crate) retires: bool,
    /// By how much the mix of each instance is another every half hour, beside what stays.
    pub(crate) wander: f64,
    /// How much the mix of functions drifts, and in how many hours it is back.
    pub(crate) drift: (f64, f64),
    /// What processes of the later version say they are.
    pub(crate) later_label: &'static str,
    pub(crate) seed: u64,
}

impl Fleet {
    /// The store of what agents saw of it.
    pub(crate) fn store(&self, folder: &Path) -> SqliteStore {
        let path = folder.join(format!("{}-{}.sqlite", self.seed, self.effect));
        store_of(&path, &[self.batch()])
    }

    pub(crate) fn batch(&self) -> Batch {
        let mut random = Random(self.seed);
        let functions = self.program.functions();
        let phases: Vec<f64> = (0..functions)
            .map(|_| random.uniform() * std::f64::consts::TAU)
            .collect();
        let mut batch = Batch {
            symbols: self.program.symbols.clone(),
            ..Batch::default()
        };
        let mut counted = Vec::new();
        for number in 0..2 * self.instances {
            let is_later = number >= self.instances;
            // One after the other, as deployments roll.
            let replaced = DEPLOYED + self.every * (number % self.instances) as u64;
            let time = match (is_later, self.retires) {
                (true, _) => replaced..self.end,
                (false, true) => self.earlier.start..replaced,
                (false, false) => self.earlier.clone(),
            };
            let version = if is_later { self.later_label } else { "1.0.0" };
            batch.series.push(series(self.service, number, version));
            let load = (0.25 * random.normal()).exp();
            let mix = random.mix(functions, 0.06);
            let mut wandered = vec![1.0; functions];
            let host = match self.hosts > 0.0 {
                true => (self.hosts * random.normal()).exp(),
                false => 1.0,
            };
            let step = self.program.step;
            let mut start = time.start.div_ceil(step) * step;
            while start + step <= time.end {
                if self.wander > 0.0 && start.is_multiple_of(1800) {
                    wandered = random.mix(functions, self.wander);
                }
                let factor = |function: usize| {
                    let is_changed = is_later && function == self.program.changed;
                    let effect = match is_changed && start < self.effect_ends {
                        true => self.effect,
                        false => 1.0,
                    };
                    let effect = match is_later {
                        true => effect * self.effect_on_all,
                        false => effect,
                    };
                    let load = self.busy * load * host;
                    load * self.at(start, phases[function])
                        * mix[function]
                        * wandered[function]
                        * effect
                };
                batch.windows.push(Window {
                    series: number,
                    start,
                    counts: self.program.counts(number, is_later, factor, &mut random),
                });
                if self.requests > 0.0 {
                    let mean = step as f64 * self.requests * load * by_day(start);
                    counted.push((number, start, random.poisson(mean)));
                }
                start += step;
            }
        }
        add_requests(&mut batch, &counted);
        batch
    }

    /// How much is done of a function at some time of the day.
    fn at(&self, time: UnixSeconds, phase: f64) -> f64 {
        let hours = time as f64 / 3600.0 - START as f64 / 3600.0;
        let (size, period) = self.drift;
        by_day(time) * (1.0 + size * (hours / period * std::f64::consts::TAU + phase).sin())
    }
}

/// How much there is to do at some time of the day.
fn by_day(time: UnixSeconds) -> f64 {
    let hours = time as f64 / 3600.0 - START as f64 / 3600.0;
    1.0 + 0.3 * (hours * 1.5).sin()
}

/// A store of what agents sent.
pub(crate) fn store_of(path: &Path, batches: &[Batch]) -> SqliteStore {
    let mut store = SqliteStore::open(path, OpenMode::Write).unwrap();
    for batch in batches {
        store.append(batch).unwrap();
    }
    store
}

/// Adds requests as an agent counts them: by instance, the start of a window, how many.
fn add_requests(batch: &mut Batch, counted: &[(usize, UnixSeconds, u64)]) {
    let sampled = batch.series.len();
    let series = batch.series.iter().map(|series| Series {
        event: REQUESTS_EVENT.to_owned(),
        unit: WeightUnit::Events,
        period: 1,
        ..series.clone()
    });
    let requests = Batch::counted(series.collect(), counted);
    batch.series.extend(requests.series);
    let windows = requests.windows.into_iter();
    batch.windows.extend(windows.map(|window| Window {
        series: sampled + window.series,
        ..window
    }));
    batch.symbols.stacks.extend(requests.symbols.stacks);
}

/// What an instance runs: stacks, and how much of its time each takes.
pub(crate) struct Program {
    symbols: Symbols,
    hashes: Vec<StackHash>,
    /// Where the stacks of the later version begin; at 0 where they are those of the earlier.
    later: usize,
    /// Of each stack the function that it is in.
    leaves: Vec<usize>,
    /// Of each kind of instance the share that each stack takes.
    shares: Vec<Vec<f64>>,
    /// The function that changes.
    changed: usize,
    /// The seconds of a window.
    step: u64,
}

impl Program {
    /// Of recordings, each of which is one kind of instance.
    fn of(recordings: &[Batch], changed: &str) -> Self {
        let mut symbols = Symbols::default();
        let mut places: BTreeMap<StackHash, usize> = BTreeMap::new();
        for batch in recordings {
            let functions = symbols.functions.len() as u32;
            let frames = symbols.frames.len() as u32;
            let moved = |frame: &StoredFrame| StoredFrame {
                function: frame.function + functions,
                ..*frame
            };
            symbols
                .functions
                .extend(batch.symbols.functions.iter().cloned());
            symbols
                .frames
                .extend(batch.symbols.frames.iter().map(moved));
            for (hash, path) in batch
                .symbols
                .hashes()
                .into_iter()
                .zip(&batch.symbols.stacks)
            {
                if !path.is_empty() && !places.contains_key(&hash) {
                    places.insert(hash, symbols.stacks.len());
                    let path = path.iter().map(|frame| frame + frames);
                    symbols.stacks.push(path.collect());
                }
            }
        }
        let mut names: Vec<(&str, &str)> = Vec::new();
        let leaf = |path: &Vec<u32>| {
            let frame = &symbols.frames[*path.last().unwrap() as usize];
            let function = &symbols.functions[frame.function as usize];
            let name = (&*function.name, &*function.file);
            let known = names.iter().position(|it| *it == name);
            known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            })
        };
        let leaves = symbols.stacks.iter().map(leaf).collect();
        let changed = names.iter().position(|(name, _)| *name == changed);
        let shares = recordings.iter().map(|batch| shares_of(batch, &places));
        Self {
            hashes: symbols.hashes(),
            later: 0,
            leaves,
            shares: shares.collect(),
            changed: changed.unwrap(),
            step: LONG_STEP,
            symbols,
        }
    }

    fn functions(&self) -> usize {
        self.leaves.iter().max().map_or(0, |last| last + 1)
    }

    /// What a window of an instance has, where so much of a CPU is used, by function.
    fn counts(
        &self,
        instance: usize,
        is_later: bool,
        factor: impl Fn(usize) -> f64,
        random: &mut Random,
    ) -> Vec<Count> {
        let first = usize::from(is_later) * self.later;
        let shares = &self.shares[instance % self.shares.len()];
        let mut counts = Vec::new();
        for (stack, (&leaf, share)) in self.leaves.iter().zip(shares).enumerate() {
            let mean = (self.step * RATE_HZ) as f64 * share * factor(leaf);
            let count = random.poisson(mean);
            if count > 0 {
                let hash = self.hashes[first + stack];
                counts.push(Count::new(hash, ThreadRole::Main, count * COUNTED));
            }
        }
        counts
    }

    /// The name of the function that changes, and its place in the later version.
    pub(crate) fn changed(&self) -> (&str, &str, u32) {
        let stack = self.leaves.iter().position(|leaf| *leaf == self.changed);
        let path = &self.symbols.stacks[self.later + stack.unwrap()];
        let frame = &self.symbols.frames[*path.last().unwrap() as usize];
        let function = &self.symbols.functions[frame.function as usize];
        (&function.name, &function.file, function.line)
    }
}

/// What each stack takes of a recording.
fn shares_of(batch: &Batch, places: &BTreeMap<StackHash, usize>) -> Vec<f64> {
    let mut shares = vec![0.0; places.len()];
    let counts = batch.windows.iter().flat_map(|window| &window.counts);
    let total: u64 = counts.clone().map(|count| count.count).sum();
    for count in counts {
        if let Some(place) = places.get(&count.stack) {
            shares[*place] += count.count as f64 / total as f64;
        }
    }
    shares
}

/// Sixty functions of which few take most; the fourth changes.
pub(crate) fn made_up() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| made_up_of(["work"; 2]));
    &PROGRAM
}

/// The same where the later version is another program that has taken the name of the first.
pub(crate) fn replaced() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| made_up_of(["work", "render"]));
    &PROGRAM
}

/// By what the names of the functions of both versions begin with.
fn made_up_of(names: [&str; 2]) -> Program {
    let symbols = made_up_symbols(names);
    Program {
        hashes: symbols.hashes(),
        symbols,
        later: FUNCTIONS,
        leaves: (0..FUNCTIONS).collect(),
        shares: vec![(0..FUNCTIONS).map(share).collect()],
        changed: 3,
        step: STEP,
    }
}

/// An express server as it was recorded, four times, with all its stacks; a function of lodash changes, which takes 2 to 3 %.
pub(crate) fn recorded() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/fleet");
        let recordings: Vec<Batch> = (1..=4)
            .map(|number| batch_of(&read(&folder.join(format!("express-{number}.pb.gz")))))
            .collect();
        Program::of(&recordings, "eq")
    });
    &PROGRAM
}

fn read(path: &Path) -> Profile {
    let recording = import_file(path, &ImportOptions::default()).unwrap();
    match recording.contents {
        Contents::Named(profile) => *profile,
        _ => panic!("{} has names", path.display()),
    }
}

/// Where the two versions have their functions.
const FUNCTIONS: usize = 60;
const FILES: [&str; 2] = ["/srv/shop/1.0.0/server.js", "/srv/shop/2.0.0/server.js"];

/// What a function takes of all: few take most.
fn share(function: usize) -> f64 {
    let weight = |function: usize| 1.0 / (function as f64 + 2.0);
    weight(function) / (0..FUNCTIONS).map(weight).sum::<f64>()
}

/// The functions of both versions, which have folders of their own.
fn made_up_symbols(names: [&str; 2]) -> Symbols {
    const ALL: usize = FUNCTIONS + 1;
    let name = |number: usize| match number % ALL {
        FUNCTIONS => format!("{}Request", names[number / ALL]),
        place => format!("{}{place}", names[number / ALL]),
    };
    let function = |number: usize| StoredFunction {
        name: name(number),
        file: FILES[number / ALL].to_owned(),
        line: (number % ALL) as u32 + 1,
        column: 1,
        category: nodespy_model::Category::App,
    };
    let frame = |number: usize| StoredFrame {
        function: number as u32,
        line: (number % ALL) as u32 + 1,
        ..StoredFrame::default()
    };
    let stack = |version: usize, number: usize| {
        let first = version * ALL;
        vec![(first + FUNCTIONS) as u32, (first + number) as u32]
    };
    let stacks =
        (0..2).flat_map(|version| (0..FUNCTIONS).map(move |number| stack(version, number)));
    Symbols {
        functions: (0..2 * ALL).map(function).collect(),
        frames: (0..2 * ALL).map(frame).collect(),
        stacks: stacks.collect(),
    }
}

fn series(service: &str, number: usize, version: &str) -> Series {
    let mut labels = Labels::default();
    labels.set(label_key::VERSION, version);
    labels.set("instance", format!("web-{number}/7"));
    labels.set(label_key::STARTED, "2023-11-14T22:00:00Z");
    labels.set("sampling-rate", RATE_HZ.to_string());
    Series {
        service: service.to_owned(),
        event: CPU_EVENT.to_owned(),
        unit: WeightUnit::Nanoseconds,
        period: 1_000_000_000 / (RATE_HZ * COUNTED),
        labels,
    }
}

/// Numbers that are the same in every run (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn normal(&mut self) -> f64 {
        let (one, other) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos()
    }

    /// A factor for each of so many functions.
    fn mix(&mut self, functions: usize, size: f64) -> Vec<f64> {
        let factor = |_| (size * self.normal()).exp();
        (0..functions).map(factor).collect()
    }

    pub(crate) fn poisson(&mut self, mean: f64) -> u64 {
        if mean > 50.0 {
            return (mean + mean.sqrt() * self.normal()).round().max(0.0) as u64;
        }
        let limit = (-mean).exp();
        let (mut count, mut product) = (0, self.uniform());
        while product > limit {
            count += 1;
            product *= self.uniform();
        }
        count
    }
}
