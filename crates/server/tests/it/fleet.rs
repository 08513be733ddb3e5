//! A fleet that is made up: instances of two versions behind one load balancer, through some hours of a day.
//!
//! What real fleets have and a test must not mistake for a change: instances with more or less load, hosts that are slower, another mix of
//! requests on each, a mix that drifts with the hour, and samples that are counted. What changed is one function of the later version.

use std::path::Path;

use nodespy_model::{Labels, ThreadRole, WeightUnit, label_key};
use nodespy_store::{
    Batch, CPU_EVENT, Count, OpenMode, Series, SqliteStore, Store, StoredFrame, StoredFunction,
    Symbols, UnixSeconds, Window,
};

/// When the fleet starts: a multiple of an hour.
pub(crate) const START: UnixSeconds = 1_700_000_400 / 3600 * 3600;
/// When the later version is deployed.
pub(crate) const DEPLOYED: UnixSeconds = START + 1800;
/// When it is looked at.
pub(crate) const END: UnixSeconds = START + 7200;
/// The function that changes, the fourth by what it takes.
pub(crate) const CHANGED: usize = 3;

const FUNCTIONS: usize = 60;
const RATE_HZ: f64 = 19.0;
const BUSY: f64 = 0.4;
/// A window has what six would: the store does not care, and the test is quick.
const STEP: u64 = 60;

/// How a fleet is made.
pub(crate) struct Fleet {
    /// Instances of each version.
    pub(crate) instances: usize,
    /// What the changed function takes of the later version, beside the earlier: 1.25 is a quarter more.
    pub(crate) effect: f64,
    /// When the earlier version ends.
    pub(crate) earlier_ends: UnixSeconds,
    /// What processes of the later version say they are.
    pub(crate) later_label: &'static str,
    pub(crate) seed: u64,
}

impl Fleet {
    /// The store of what agents saw of it.
    pub(crate) fn store(&self, folder: &Path) -> SqliteStore {
        let path = folder.join(format!("{}-{}.sqlite", self.seed, self.effect));
        let mut store = SqliteStore::open(&path, OpenMode::Write).unwrap();
        store.append(&self.batch()).unwrap();
        store
    }

    fn batch(&self) -> Batch {
        let mut random = Random(self.seed);
        let symbols = symbols();
        let hashes = symbols.hashes();
        let phases: Vec<f64> = (0..FUNCTIONS)
            .map(|_| random.uniform() * std::f64::consts::TAU)
            .collect();
        let mut batch = Batch {
            symbols,
            ..Batch::default()
        };
        for number in 0..2 * self.instances {
            let is_later = number >= self.instances;
            let (from, until) = match is_later {
                // One after the other, as deployments roll.
                true => (DEPLOYED + 20 * (number - self.instances) as u64, END),
                false => (START, self.earlier_ends),
            };
            let version = if is_later { self.later_label } else { "1.0.0" };
            batch.series.push(series(number, version));
            let load = (0.25 * random.normal()).exp();
            let mix: Vec<f64> = (0..FUNCTIONS)
                .map(|_| (0.06 * random.normal()).exp())
                .collect();
            let mut start = from.div_ceil(STEP) * STEP;
            while start + STEP <= until {
                let hours = (start - START) as f64 / 3600.0;
                let by_day = 1.0 + 0.3 * (hours * 1.5).sin();
                let mut counts = Vec::new();
                for function in 0..FUNCTIONS {
                    let drift = 1.0 + 0.15 * (hours * 1.2 + phases[function]).sin();
                    let effect = if is_later && function == CHANGED {
                        self.effect
                    } else {
                        1.0
                    };
                    let mean = STEP as f64 * RATE_HZ * BUSY * share(function);
                    let count =
                        random.poisson(mean * load * by_day * drift * mix[function] * effect);
                    if count > 0 {
                        let stack = hashes[usize::from(is_later) * FUNCTIONS + function];
                        counts.push(Count::new(stack, ThreadRole::Main, count));
                    }
                }
                batch.windows.push(Window {
                    series: number,
                    start,
                    counts,
                });
                start += STEP;
            }
        }
        batch
    }
}

/// Where the two versions have their functions.
pub(crate) const FILES: [&str; 2] = ["/srv/shop/1.0.0/server.js", "/srv/shop/2.0.0/server.js"];

/// What a function takes of all: few take most.
fn share(function: usize) -> f64 {
    let weight = |function: usize| 1.0 / (function as f64 + 2.0);
    weight(function) / (0..FUNCTIONS).map(weight).sum::<f64>()
}

/// The functions of both versions, which have folders of their own.
fn symbols() -> Symbols {
    const ALL: usize = FUNCTIONS + 1;
    let name = |number: usize| match number {
        FUNCTIONS => "handleRequest".to_owned(),
        number => format!("work{number}"),
    };
    let function = |number: usize| StoredFunction {
        name: name(number % ALL),
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

fn series(number: usize, version: &str) -> Series {
    let mut labels = Labels::default();
    labels.set(label_key::VERSION, version);
    labels.set("instance", format!("web-{number}/7"));
    labels.set(label_key::STARTED, "2023-11-14T22:00:00Z");
    Series {
        service: "shop".to_owned(),
        event: CPU_EVENT.to_owned(),
        unit: WeightUnit::Nanoseconds,
        period: (1e9 / RATE_HZ) as u64,
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
