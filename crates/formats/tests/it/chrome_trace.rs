//! Chrome's trace events.

use std::collections::BTreeMap;

use nodespy_formats::{ImportOptions, import};
use nodespy_model::{Contents, Profile, ThreadRole, WeightUnit};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::chrome_trace_claims::{
    by_thread, comes_back_as_it_was, events, profiles_have_all_their_time,
};
use crate::fixture::fixture;
use crate::in_words::{json, path, samples, self_weight};
use crate::sample::{any_profile, read, small, written};

fn read_trace(bytes: &[u8]) -> Profile {
    let options = ImportOptions::from(Some("chrome-trace"));
    match import(bytes.to_vec().into(), &options).unwrap().contents {
        Contents::Named(profile) => *profile,
        _ => panic!("traces come with names"),
    }
}

#[test]
fn the_cpu_profiles_of_node_s_traces_have_all_their_time() {
    for (name, threads) in [
        ("node16", 1),
        ("node20", 1),
        ("node26", 1),
        ("node20-workers", 3),
    ] {
        let bytes = fixture(&format!("chrome_trace/{name}.json.gz"));
        profiles_have_all_their_time(name, &bytes, threads);
    }
}

/// `workloads/workers.js`: each worker runs one function that the other threads never run.
#[test]
fn threads_have_the_names_of_the_file_and_their_own_samples() {
    let profile = read(&fixture("chrome_trace/node20-workers.json.gz")).unwrap();
    let names: Vec<_> = (profile.threads.iter())
        .map(|thread| (&*thread.name, thread.role))
        .collect();
    assert_eq!(
        names,
        [
            ("JavaScriptMainThread", ThreadRole::Main),
            ("[worker 1] resize", ThreadRole::Worker),
            ("[worker 2] parse", ThreadRole::Worker)
        ]
    );
    assert_eq!(profile.processes[0].pid, profile.threads[0].tid);
    for (function, thread) in [("resizeImages", 1), ("parseFeeds", 2)] {
        let threads = (profile.samples.iter())
            .filter(|sample| {
                let stack = sample.stack.into_iter();
                let mut frames = stack.flat_map(|stack| profile.frames_of(stack));
                frames.any(|frame| profile.name_of(profile.frame(frame).function) == function)
            })
            .map(|sample| sample.thread.at());
        let threads: Vec<usize> = threads.collect();
        assert!(threads.len() > 50, "{function}: {}", threads.len());
        assert!(threads.iter().all(|one| *one == thread), "{function}");
    }
}

#[test]
fn events_with_a_length_become_stacks() {
    let expected = [
        (0, 2000, "serve  (app) at 0"),
        (2000, 1000, "serve  (app);parse  (app) at 0"),
        (3000, 6000, "serve  (app);parse  (app);token  (app) at 0"),
        (9000, 3000, "serve  (app);parse  (app);check  (app) at 0"),
        (12000, 3000, "serve  (app);parse  (app) at 0"),
        (15000, 1000, "serve  (app) at 0"),
    ];
    let expected = expected.map(|(time, weight, path)| (time, weight, path.to_owned()));
    // The second file lacks its last bracket.
    for name in ["begin-end", "begin-end-open", "complete"] {
        let profile = read(&fixture(&format!("chrome_trace/{name}.json"))).unwrap();
        assert_eq!(samples(&profile), expected, "{name}");
        assert_eq!(profile.notes.remarks, [""; 0]);
        assert_eq!(profile.about.duration, 16000);
    }
}

/// py-spy writes a pair of events for each frame.
#[test]
fn every_frame_of_py_spy_has_the_time_between_its_events() {
    let bytes = fixture("chrome_trace/py-spy.json");
    let file = json(&bytes);
    let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
    let mut open: Vec<&str> = Vec::new();
    let mut last = 0;
    for event in events(&file) {
        let time = event["ts"].as_u64().unwrap();
        if let Some(innermost) = open.last() {
            *expected.entry(innermost).or_default() += (time - last) * 1000;
        }
        last = time;
        match event["ph"].as_str().unwrap() {
            "B" => open.push(event["name"].as_str().unwrap()),
            "E" => assert_eq!(open.pop(), event["name"].as_str()),
            other => panic!("{other}"),
        }
    }
    let profile = read(&bytes).unwrap();
    assert_eq!(profile.total_weight(), expected.values().sum::<u64>());
    for (name, weight) in expected {
        assert_eq!(self_weight(&profile, name), weight, "{name}");
    }
}

#[test]
fn every_thread_of_every_process_is_a_thread() {
    let profile = read(&fixture("chrome_trace/processes.json")).unwrap();
    let names: Vec<_> = (profile.threads.iter())
        .map(|thread| (profile.processes[thread.process.at()].pid, &*thread.name))
        .collect();
    assert_eq!(
        names,
        [
            (10, "web main"),
            (10, "web pool"),
            (20, "jobs main"),
            (20, "jobs pool")
        ]
    );
    assert_eq!(profile.processes[1].name, "jobs");
    assert_eq!(profile.total_weight(), 10_000);
}

#[test]
fn samples_beside_the_events_are_read() {
    let profile = read(&fixture("chrome_trace/stack-frames.json")).unwrap();
    // The last sample lasts as long as the others do.
    let last = profile.samples.last().unwrap().weight;
    assert_eq!(profile.total_weight() - last, 8_000_000);
    assert_eq!(self_weight(&profile, "total"), 3_000_000);
    assert_eq!(self_weight(&profile, "round"), 5_000_000);
    let paths: Vec<String> = (profile.samples.iter())
        .map(|sample| path(&profile, sample))
        .collect();
    assert!(
        paths[0].starts_with("[root]  (native);total http://localhost/cart.js"),
        "{}",
        paths[0]
    );
    assert!(paths[3].ends_with("[GC Young Gen]  (GC) at 0"));
    assert_eq!(profile.threads[0].name, "shop main");
    let many = read(&fixture("chrome_trace/stack-frames-threads.json")).unwrap();
    assert_eq!((many.threads.len(), many.samples.len()), (2, 4));
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
}

#[test]
fn recorded_files_come_back_as_they_were() {
    for name in [
        "cpuprofile/node20.cpuprofile",
        "chrome_trace/node26.json.gz",
        "chrome_trace/node20-workers.json.gz",
    ] {
        comes_back_as_it_was(name, &fixture(name));
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
        profile.events[0].unit = WeightUnit::Nanoseconds;
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
