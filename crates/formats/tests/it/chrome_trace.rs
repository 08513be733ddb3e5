//! Chrome's trace events.

use std::collections::BTreeMap;

use nodespy_formats::{ImportOptions, import};
use nodespy_model::{Contents, Profile, ThreadRole, WeightUnit};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::corpus::{corpus, json, path, samples, self_weight};
use crate::sample::{any_profile, read, small, written};

fn read_trace(bytes: &[u8]) -> Profile {
    let options = ImportOptions::from(Some("chrome-trace"));
    match import(bytes.to_vec().into(), &options).unwrap().contents {
        Contents::Named(profile) => *profile,
        _ => panic!("traces come with names"),
    }
}

fn events(file: &Value) -> &Vec<Value> {
    file.as_array()
        .unwrap_or_else(|| file["traceEvents"].as_array().unwrap())
}

/// The samples of every thread: when, how much, and where.
fn by_thread(profile: &Profile) -> BTreeMap<u32, Vec<(u64, u64, String)>> {
    let mut threads: BTreeMap<u32, Vec<(u64, u64, String)>> = BTreeMap::new();
    for sample in &profile.samples {
        let thread = &profile.threads[sample.thread.at()];
        let row = (sample.time, sample.weight, path(profile, sample));
        threads.entry(thread.tid).or_default().push(row);
    }
    threads
}

#[test]
fn the_cpu_profiles_of_real_traces_have_all_their_time() {
    for (name, threads) in [("chrome69-simple", 1), ("chrome70-worker", 2)] {
        let bytes = corpus(&format!("chrome-trace/{name}.json"));
        let file = json(&bytes);
        let mut expected = 0i64;
        let mut count = 0;
        let mut profiles: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for event in events(&file) {
            if event["name"] == "ProfileChunk" {
                let data = &event["args"]["data"];
                let none = Vec::new();
                let deltas = data["timeDeltas"].as_array().unwrap_or(&none);
                count += data["cpuProfile"]["samples"]
                    .as_array()
                    .unwrap_or(&none)
                    .len();
                let all = profiles.entry(event["id"].to_string()).or_default();
                all.extend(deltas.iter().map(|delta| delta.as_i64().unwrap()));
            }
        }
        assert_eq!(profiles.len(), threads);
        let profile = read(&bytes).unwrap();
        for deltas in profiles.values() {
            // From the first sample to the last; the last lasts as long as they usually do.
            expected += deltas[1..].iter().sum::<i64>();
        }
        assert_eq!(profile.samples.len(), count, "{name}");
        assert_eq!(profile.threads.len(), threads, "{name}");
        let ends: u64 = (0..threads)
            .map(|thread| {
                let mut own = profile.samples.iter().rev();
                own.find(|sample| sample.thread.at() == thread)
                    .unwrap()
                    .weight
            })
            .sum();
        assert_eq!(
            profile.total_weight() - ends,
            expected as u64 * 1000,
            "{name}"
        );
        assert!(
            profile
                .notes
                .remarks
                .iter()
                .any(|one| one.contains("events with a length"))
        );
    }
}

#[test]
fn threads_have_the_names_of_the_file() {
    let profile = read(&corpus("chrome-trace/chrome70-worker.json")).unwrap();
    let names: Vec<_> = profile
        .threads
        .iter()
        .map(|thread| (thread.tid, &*thread.name, thread.role))
        .collect();
    assert_eq!(
        names,
        [
            (775, "CrRendererMain", ThreadRole::Main),
            (7443, "DedicatedWorker thread", ThreadRole::Worker)
        ]
    );
    assert_eq!(profile.processes[0].name, "Renderer");
    assert_eq!(profile.processes[0].pid, 29018);
    let simple = read(&corpus("chrome-trace/chrome69-simple.json")).unwrap();
    for name in ["alpha", "beta", "gamma", "delta"] {
        assert!(self_weight(&simple, name) > 0, "{name}");
    }
}

#[test]
fn events_with_a_length_become_stacks() {
    let expected = [
        (0, 1000, "alpha  (app) at 0"),
        (1000, 1000, "alpha  (app);beta  (app) at 0"),
        (2000, 5000, "alpha  (app);beta  (app);gamma  (app) at 0"),
        (7000, 4000, "alpha  (app);beta  (app);epsilon  (app) at 0"),
        (11000, 2000, "alpha  (app);beta  (app) at 0"),
        (13000, 1000, "alpha  (app) at 0"),
    ];
    let expected = expected.map(|(time, weight, path)| (time, weight, path.to_owned()));
    // The second file lacks its last bracket.
    for name in ["event-simple", "event-simple-partial"] {
        let profile = read(&corpus(&format!("chrome-trace/{name}.json"))).unwrap();
        assert_eq!(samples(&profile), expected, "{name}");
        assert_eq!(profile.notes.remarks, [""; 0]);
        assert_eq!(profile.about.duration, 14000);
    }
}

#[test]
fn every_thread_of_every_process_is_a_thread() {
    let profile = read(&corpus("chrome-trace/event-multiprocess.json")).unwrap();
    assert_eq!((profile.processes.len(), profile.threads.len()), (4, 8));
    assert_eq!(profile.threads[3].name, "p1t1");
    assert_eq!(profile.total_weight(), 8000);
}

#[test]
fn samples_beside_the_events_are_read() {
    let profile = read(&corpus("chrome-trace/event-simple-with-samples.json")).unwrap();
    // From 11552125241 to 11552189951 µs; the last sample lasts as long as the others do.
    let last = profile.samples.last().unwrap().weight;
    assert_eq!(profile.total_weight() - last, 64_710_000);
    assert_eq!(self_weight(&profile, "function1"), 13_326_000);
    let paths: Vec<String> = profile
        .samples
        .iter()
        .map(|sample| path(&profile, sample))
        .collect();
    assert!(
        paths[3].starts_with("[root]  (native);function2 http://localhost"),
        "{}",
        paths[3]
    );
    assert!(paths[5].ends_with("[GC Young Gen]  (GC) at 0"));
    assert_eq!(profile.threads[0].name, "mqt_js");
    let many = read(&corpus("chrome-trace/event-multi-thread-with-samples.json")).unwrap();
    assert_eq!((many.threads.len(), many.samples.len()), (2, 8));
}

#[test]
fn events_that_do_not_fit_are_counted() {
    let text = br#"[{"ph":"E","name":"x","ts":0,"pid":1,"tid":1},
        {"ph":"X","name":"late","ts":5,"dur":10,"pid":1,"tid":1},
        {"ph":"X","name":"around","ts":0,"dur":8,"pid":1,"tid":1},
        {"ph":"B","name":"open","ts":20,"pid":1,"tid":1},
        {"ph":"B","name":"inner","ts":21,"pid":1,"tid":1},
        {"ph":"E","ts":25,"pid":1,"tid":1},"#;
    let profile = read(text).unwrap();
    let mut remarks = profile.notes.remarks.clone();
    remarks.sort();
    assert_eq!(
        remarks,
        [
            "1 events end after the event around them and were cut",
            "1 events end that never began",
            "1 events never end"
        ]
    );
    assert_eq!(self_weight(&profile, "late"), 3000);
    assert_eq!(self_weight(&profile, "around"), 5000);
    assert_eq!(self_weight(&profile, "inner"), 4000);
}

#[test]
fn pieces_of_a_profile_come_in_any_order() {
    let chunk = |ts: u32, data: Value| {
        json!({"name": "ProfileChunk", "ph": "P", "ts": ts,
        "pid": 1, "tid": 99, "id": "0x1", "args": {"data": data}})
    };
    let node = |id: u32, parent: u32, name: &str| {
        json!({"id": id, "parent": parent,
        "callFrame": {"functionName": name, "scriptId": 4, "url": "file:///a.js",
            "lineNumber": 2, "columnNumber": 0}})
    };
    let root = json!({"id": 1, "callFrame": {"functionName": "(root)", "scriptId": 0}});
    let trace = json!({"metadata": {}, "traceEvents": [
        chunk(30, json!({"endTime": 200})),
        chunk(20, json!({"cpuProfile": {"samples": [3], "nodes": [node(3, 2, "b")]},
            "timeDeltas": [40], "lines": [7]})),
        chunk(10, json!({"cpuProfile": {"samples": [2, 2], "nodes": [root, node(2, 1, "a")]},
            "timeDeltas": [10, 20]})),
        {"name": "Profile", "ph": "P", "ts": 5, "pid": 1, "tid": 8, "id": "0x1",
            "args": {"data": {"startTime": 100}}}]});
    let profile = read(trace.to_string().as_bytes()).unwrap();
    assert_eq!(
        samples(&profile),
        [
            (10_000, 20_000, "a /a.js:3:1 (app) at 0".to_owned()),
            (30_000, 40_000, "a /a.js:3:1 (app) at 0".to_owned()),
            (
                70_000,
                30_000,
                "a /a.js:3:1 (app);b /a.js:3:1 (app) at 7".to_owned()
            ),
        ]
    );
    assert_eq!(profile.threads[0].tid, 8);
}

#[test]
fn what_is_written_has_the_shape_of_what_v8_writes_and_reads_back() {
    let profile = small();
    let bytes = written(&profile, "chrome-trace");
    let file = json(&bytes);
    let count = |name: &str| {
        let events = events(&file).iter();
        events.filter(|event| event["name"] == name).count()
    };
    assert_eq!(
        [
            "thread_name",
            "process_name",
            "Profile",
            "ProfileChunk",
            "JSRoot"
        ]
        .map(count),
        [2, 1, 2, 4, 2]
    );
    let again = read(&bytes).unwrap();
    assert_eq!(again.notes.remarks, [""; 0]);
    let names = |profile: &Profile| -> Vec<(u32, String)> {
        let threads = profile.threads.iter();
        threads
            .map(|thread| (thread.tid, thread.name.clone()))
            .collect()
    };
    assert_eq!(names(&again), names(&profile));
    assert_eq!(again.processes[0].pid, profile.processes[0].pid);
    for name in [
        "cpuprofile/node20.cpuprofile",
        "chrome-trace/chrome70-worker.json",
    ] {
        let first = read(&corpus(name)).unwrap();
        let again = read(&written(&first, "chrome-trace")).unwrap();
        assert_eq!(by_thread(&again), by_thread(&first), "{name}");
    }
}

#[test]
fn a_hostile_number_of_ends_takes_no_time() {
    let mut text = "[".to_owned();
    for position in 0..50_000 {
        text.push_str(&format!(
            "{{\"ph\":\"B\",\"name\":\"f{position}\",\"ts\":{position}}},"
        ));
    }
    for position in 0..50_000 {
        text.push_str(&format!(
            "{{\"ph\":\"E\",\"name\":\"g\",\"ts\":{position}}},"
        ));
    }
    let profile = read_trace(text.as_bytes());
    assert!(profile.notes.remarks[0].starts_with("50000 events end that never began"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_thread_keeps_its_samples(profile in any_profile()) {
        let mut profile = profile;
        profile.unit = WeightUnit::Nanoseconds;
        profile.about.started_unix = 0;
        for (position, process) in profile.processes.iter_mut().enumerate() {
            process.pid = position as u32;
        }
        for (position, thread) in profile.threads.iter_mut().enumerate() {
            thread.tid = position as u32;
        }
        for sample in &mut profile.samples {
            sample.time = sample.time % 1_000_000_000 * 1000;
            sample.weight = sample.weight % 1_000_000 * 1000;
        }
        profile.samples.sort_by_key(|sample| sample.time);
        prop_assume!(!profile.samples.is_empty());
        let places = |profile: &Profile| -> BTreeMap<u32, Vec<(u64, String)>> {
            let threads = by_thread(profile).into_iter();
            threads
                .map(|(tid, samples)| {
                    let samples = samples.into_iter().map(|(_, weight, path)| (weight, path));
                    (tid, samples.filter(|(_, path)| path != "(idle)  (idle) at 0").collect())
                })
                .collect()
        };
        let first = read(&written(&profile, "chrome-trace")).unwrap();
        prop_assert_eq!(places(&first), places(&profile));
        let again = read(&written(&first, "chrome-trace")).unwrap();
        prop_assert_eq!(by_thread(&again), by_thread(&first));
    }
}
