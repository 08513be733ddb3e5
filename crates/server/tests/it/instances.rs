//! The odd instance out, in fleets whose truth is known.

use nodespy_model::{Labels, ThreadRole, WeightUnit, label_key};
use nodespy_server::query::{InstancesQuery, Odd, SeenInstance, instances, instances_json};
use nodespy_store::{
    Batch, CPU_EVENT, Count, OpenMode, Selection, Series, SqliteStore, Store, StoredFrame,
    StoredFunction, Symbols, UnixSeconds, Window,
};

use crate::fleet::{END, Random, START};

const FUNCTIONS: usize = 20;
/// An agent asks for 95 samples a second and takes one in five, which counts for all five.
const PERIOD: u64 = 1_000_000_000 / 95;
const COUNTED: u64 = 5;
/// Windows have what six would have: the store does not care, and the test is quick.
const STEP: u64 = 60;

/// One instance: how much more it does than its siblings, how much more of that in `work2`, and from when on it runs.
struct Truth {
    version: &'static str,
    load: f64,
    work2: f64,
    from: UnixSeconds,
}

impl Truth {
    fn usual() -> Self {
        Self {
            version: "1.0.0",
            load: 1.0,
            work2: 1.0,
            from: START,
        }
    }
}

fn store_of(truths: &[Truth], seed: u64) -> (tempfile::TempDir, SqliteStore) {
    let folder = tempfile::tempdir().unwrap();
    let mut store = SqliteStore::open(&folder.path().join("store"), OpenMode::Write).unwrap();
    let mut random = Random(seed);
    let mut batch = Batch {
        symbols: symbols(),
        ..Batch::default()
    };
    let hashes = batch.symbols.hashes();
    for (number, truth) in truths.iter().enumerate() {
        batch.series.push(series(number, truth.version));
        // No two instances get the same requests.
        let load = truth.load * (0.05 * random.normal()).exp();
        for start in (truth.from..END).step_by(STEP as usize) {
            let counts = (0..FUNCTIONS).map(|function| {
                let more = if function == 2 { truth.work2 } else { 1.0 };
                let mean = 400.0 * load * more / (function as f64 + 2.0) / 4.0;
                let count = random.poisson(mean);
                Count::new(hashes[function], ThreadRole::Main, count * COUNTED)
            });
            batch.windows.push(Window {
                series: number,
                start,
                counts: counts.filter(|count| count.count > 0).collect(),
            });
        }
    }
    store.append(&batch).unwrap();
    (folder, store)
}

fn symbols() -> Symbols {
    Symbols {
        functions: (0..FUNCTIONS)
            .map(|number| StoredFunction {
                name: format!("work{number}"),
                file: "/srv/shop/server.js".to_owned(),
                line: number as u32 + 1,
                ..StoredFunction::default()
            })
            .collect(),
        frames: (0..FUNCTIONS as u32)
            .map(|function| StoredFrame {
                function,
                ..StoredFrame::default()
            })
            .collect(),
        // All are called by the first.
        stacks: (0..FUNCTIONS as u32).map(|frame| vec![0, frame]).collect(),
    }
}

fn series(number: usize, version: &str) -> Series {
    let mut labels = Labels::default();
    labels.set(label_key::VERSION, version);
    labels.set("instance", format!("web-{number}/7"));
    Series {
        service: "shop".to_owned(),
        event: CPU_EVENT.to_owned(),
        unit: WeightUnit::Nanoseconds,
        period: PERIOD,
        labels,
    }
}

fn query() -> InstancesQuery {
    InstancesQuery {
        selection: Selection::new("shop", CPU_EVENT, START..END),
    }
}

fn seen(truths: &[Truth], seed: u64) -> Vec<SeenInstance> {
    let (_folder, store) = store_of(truths, seed);
    instances(&store, &query()).unwrap().instances
}

#[test]
fn siblings_that_do_the_same_are_not_odd() {
    for seed in 0..20 {
        let truths: Vec<Truth> = (0..8).map(|_| Truth::usual()).collect();
        let seen = seen(&truths, seed);
        assert_eq!(seen.len(), 8);
        let odd: Vec<_> = seen.iter().filter(|it| !it.odd.is_empty()).collect();
        assert!(odd.is_empty(), "{odd:#?}");
        assert!(seen.iter().all(|it| it.is_judged));
    }
}

/// A quarter of an hour of processes with little to do: what few samples differ by was odd as long as each counted as five.
#[test]
fn a_few_samples_more_or_less_are_not_odd() {
    const FLEETS: u64 = 60;
    let mut raised = 0;
    for seed in 0..FLEETS {
        let truths: Vec<Truth> = (0..3)
            .map(|_| Truth {
                load: 0.1,
                ..Truth::usual()
            })
            .collect();
        let (_folder, store) = store_of(&truths, seed);
        let query = InstancesQuery {
            selection: Selection::new("shop", CPU_EVENT, START..START + 900),
        };
        let seen = instances(&store, &query).unwrap().instances;
        assert!(seen.iter().all(|it| it.is_judged && it.samples < 600));
        raised += u64::from(seen.iter().any(|it| !it.odd.is_empty()));
    }
    eprintln!("quiet, few samples: {raised} of {FLEETS} fleets have an odd instance");
    assert!(raised * 20 <= FLEETS, "{raised} of {FLEETS}");
}

#[test]
fn one_that_uses_twice_the_cpu_is_first_and_says_so() {
    let mut truths: Vec<Truth> = (0..8).map(|_| Truth::usual()).collect();
    truths[5].load = 2.0;
    let seen = seen(&truths, 3);
    assert_eq!(seen[0].name, "web-5/7");
    let [Odd::Cpu { cores, median }] = seen[0].odd[..] else {
        panic!("{:?}", seen[0].odd);
    };
    assert!((1.7..2.3).contains(&(cores / median)), "{cores} {median}");
    let sentence = seen[0].odd[0].sentence();
    assert!(
        sentence.contains("times the CPU of its siblings"),
        "{sentence}"
    );
    assert!(seen[1..].iter().all(|it| it.odd.is_empty()), "{seen:#?}");
}

#[test]
fn one_that_spends_its_cpu_elsewhere_is_named_with_the_function() {
    let mut truths: Vec<Truth> = (0..6).map(|_| Truth::usual()).collect();
    truths[2].work2 = 2.0;
    let (_folder, store) = store_of(&truths, 4);
    let json = instances_json(&store, &query()).unwrap();
    let first = &json["instances"][0];
    assert_eq!(first["instance"], "web-2/7");
    let odd = first["odd"].as_array().unwrap();
    let function = odd.iter().find(|odd| odd["kind"] == "function").unwrap();
    assert_eq!(function["function"], "work2");
    assert_eq!(function["line"], 3);
    let (share, median) = (
        function["value"].as_f64().unwrap(),
        function["median"].as_f64().unwrap(),
    );
    assert!(share > 1.4 * median && median > 0.0, "{function}");
    assert!(json["instances"][1]["odd"].as_array().unwrap().is_empty());
}

#[test]
fn siblings_are_of_one_version_and_seen_for_as_long() {
    // A version of its own is no odd instance, and neither is one that has just started.
    let mut truths: Vec<Truth> = (0..6).map(|_| Truth::usual()).collect();
    truths[1].version = "2.0.0";
    truths[1].load = 3.0;
    truths[4].from = END - 600;
    truths[4].work2 = 3.0;
    let seen = seen(&truths, 5);
    assert!(seen.iter().all(|it| it.odd.is_empty()), "{seen:#?}");
    let is_judged = |name: &str| {
        let found = seen.iter().find(|it| it.name == name);
        found.unwrap().is_judged
    };
    assert!(!is_judged("web-1/7") && !is_judged("web-4/7") && is_judged("web-0/7"));
    // Of two nobody can say which one it is.
    let mut truths = vec![Truth::usual(), Truth::usual()];
    truths[0].load = 5.0;
    assert!(self::seen(&truths, 6).iter().all(|it| it.odd.is_empty()));
}
