//! The Firefox profiler's format, in and out.

use std::collections::BTreeMap;
use std::io::Read;

use nodespy_formats::ImportError;
use nodespy_model::{Category, Profile, ThreadRole, Tier, WeightUnit};
use proptest::prelude::*;
use serde_json::Value;

use crate::fixture::{fixture, fixture_text};
use crate::sample::{any_profile, read, small, written};

/// The text of what is written.
pub(crate) fn unpacked(profile: &Profile) -> Vec<u8> {
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&written(profile, "firefox")[..])
        .read_to_end(&mut text)
        .unwrap();
    text
}

/// What the format can hold: for each thread its stacks in order, with times and weights.
fn held(profile: &Profile) -> BTreeMap<String, Vec<(u64, String, u64)>> {
    let mut threads: BTreeMap<String, Vec<(u64, String, u64)>> = BTreeMap::new();
    for sample in profile.samples.iter().filter(|sample| sample.weight > 0) {
        let thread = &profile.threads[sample.thread.at()];
        let process = &profile.processes[thread.process.at()];
        let key = format!(
            "{} {} {} {}",
            process.pid, process.name, thread.tid, thread.name
        );
        let mut path = String::new();
        for frame in sample
            .stack
            .into_iter()
            .flat_map(|it| profile.frames_of(it))
        {
            let frame = profile.frame(frame);
            let function = profile.function(frame.function);
            path += &format!(
                "|{} {:?} {}:{} {:?} {}:{} {:?} {}",
                match profile.name_of(frame.function) {
                    "" => "[unknown]",
                    name => name,
                },
                profile.file_of(frame.function),
                function.line,
                function.column,
                function.category,
                frame.line,
                frame.column,
                frame.tier,
                frame.kind.is_inlined()
            );
        }
        let row = (sample.time, path, sample.weight);
        threads.entry(key).or_default().push(row);
    }
    threads
}

/// Every column as long as its table says, every index within its table.
fn check_tables(text: &[u8]) {
    let file: Value = serde_json::from_slice(text).unwrap();
    let strings = file["shared"]["stringArray"].as_array().unwrap().len() as u64;
    let libs = file["libs"].as_array().unwrap().len() as u64;
    let categories = file["meta"]["categories"].as_array().unwrap();
    assert!(categories.iter().any(|it| it["color"] == "grey"));
    let within = |table: &Value, column: &str, end: u64| {
        for value in table[column].as_array().unwrap() {
            assert!(
                value.is_null() || value == -1 || value.as_u64().unwrap() < end,
                "{column}"
            );
        }
    };
    for thread in file["threads"].as_array().unwrap() {
        let mut lengths = BTreeMap::new();
        for (name, table) in thread.as_object().unwrap() {
            let Some(length) = table.get("length") else {
                continue;
            };
            let length = length.as_u64().unwrap();
            lengths.insert(name.as_str(), length);
            for column in table.as_object().unwrap().values() {
                let rows = column.as_array().map(|rows| rows.len() as u64);
                assert!(rows.is_none_or(|rows| rows == length), "{name}");
            }
        }
        assert_eq!(lengths.len(), 7);
        assert!(thread["pid"].is_string());
        within(&thread["samples"], "stack", lengths["stackTable"]);
        within(&thread["stackTable"], "frame", lengths["frameTable"]);
        within(&thread["frameTable"], "func", lengths["funcTable"]);
        within(&thread["frameTable"], "category", categories.len() as u64);
        within(&thread["frameTable"], "subcategory", 5);
        within(&thread["funcTable"], "name", strings);
        within(&thread["funcTable"], "fileName", strings);
        within(&thread["funcTable"], "resource", lengths["resourceTable"]);
        within(&thread["resourceTable"], "name", strings);
        within(&thread["resourceTable"], "lib", libs);
        within(&thread["markers"], "name", strings);
        let parents = thread["stackTable"]["prefix"].as_array().unwrap();
        for (row, parent) in parents.iter().enumerate() {
            assert!(parent.as_u64().is_none_or(|parent| parent < row as u64));
        }
    }
}

#[test]
fn what_was_recorded_comes_back() {
    let profile = small();
    check_tables(&unpacked(&profile));
    let again = read(&written(&profile, "firefox")).unwrap();
    assert_eq!(held(&again), held(&profile));
    assert_eq!(again.about, profile.about);
    assert_eq!(again.notes, profile.notes);
    let roles: Vec<ThreadRole> = again.threads.iter().map(|it| it.role).collect();
    assert_eq!(roles, [ThreadRole::Main, ThreadRole::Pool]);
}

#[test]
fn runs_of_samples_in_the_collector_become_markers() {
    let mut profile = small();
    profile.events[0].sampling = nodespy_model::Sampling::Rate(1000);
    for sample in &mut profile.samples {
        sample.weight = 1;
    }
    // The fourth sample is the only one in the collector; the fifth now is its continuation.
    let collector = profile.samples[3];
    profile.samples[4] = nodespy_model::Sample {
        time: collector.time + 1_000_000,
        ..collector
    };
    let file: Value = serde_json::from_slice(&unpacked(&profile)).unwrap();
    let markers = &file["threads"][0]["markers"];
    assert_eq!(markers["length"], 1);
    assert_eq!(markers["data"][0]["samples"], 2);
    let length =
        markers["endTime"][0].as_f64().unwrap() - markers["startTime"][0].as_f64().unwrap();
    assert!((length - 2.0).abs() < 1e-6, "{length}");
    assert_eq!(file["shared"]["stringArray"][0], "GC");
    assert_eq!(file["threads"][1]["markers"]["length"], 0);
}

/// As samply 0.12 writes it: strings in each thread, no weights but ones, names not resolved.
#[test]
fn a_profile_of_samply_is_read() {
    let text = r#"{"meta": {"categories": [
          {"name": "Other", "color": "grey", "subcategories": ["Other"]},
          {"name": "Kernel", "color": "lightred", "subcategories": ["Other"]},
          {"name": "JavaScript", "color": "green", "subcategories": ["Other", "Interpreter"]}],
        "interval": 1, "preprocessedProfileVersion": 49, "product": "node", "startTime": 1700000000000.5,
        "importedFrom": "samply", "version": 24},
      "libs": [{"name": "node", "path": "/usr/bin/node", "debugName": "node"}],
      "threads": [{
        "frameTable": {"length": 4, "address": [-1, 5, 6, 7], "inlineDepth": [0, 0, 1, 0],
          "category": [2, 0, 0, 1], "subcategory": [1, 0, 0, 0], "func": [0, 1, 2, 3],
          "line": [7, null, null, null], "column": [null, null, null, null]},
        "funcTable": {"length": 4, "name": [0, 1, 2, 3], "isJS": [true, false, false, false],
          "resource": [-1, 0, 0, -1], "fileName": [4, null, null, null],
          "lineNumber": [3, null, null, null], "columnNumber": [null, null, null, null]},
        "resourceTable": {"length": 1, "lib": [0], "name": [5], "host": [null], "type": [1]},
        "name": "node", "isMainThread": true, "pid": "77", "tid": 77, "processName": "node",
        "samples": {"length": 3, "weightType": "samples", "stack": [2, 3, null],
          "timeDeltas": [1.5, 1, 1], "weight": [1, 2, -1]},
        "stackTable": {"length": 4, "prefix": [null, 0, 1, 0], "frame": [0, 1, 2, 3]},
        "stringArray": ["turn", "0x1f20", "uv_run", "do_syscall_64", "/app/mix.js", "node"]}]}"#;
    let profile = read(text.as_bytes()).unwrap();
    assert_eq!(profile.total_weight(), 3);
    assert_eq!(profile.event().rate_hz(), 1000);
    assert_eq!(profile.about.started_unix, 1_700_000_000_000_500_000);
    assert_eq!(
        profile.notes.remarks,
        ["1 samples weigh less than nothing and were left out"]
    );
    let threads = &profile.threads[0];
    assert_eq!((threads.tid, threads.role), (77, ThreadRole::Main));
    let path = |row: usize| -> Vec<(&str, &str, Category, Tier, bool)> {
        let frames = profile.frames_of(profile.samples[row].stack.unwrap());
        let rows = frames.map(|frame| {
            let frame = profile.frame(frame);
            (
                profile.name_of(frame.function),
                profile.file_of(frame.function),
                profile.function(frame.function).category,
                frame.tier,
                frame.kind.is_inlined(),
            )
        });
        rows.collect()
    };
    let turn = (
        "turn",
        "/app/mix.js",
        Category::App,
        Tier::Interpreted,
        false,
    );
    assert_eq!(
        path(0),
        [
            (
                "uv_run",
                "/usr/bin/node",
                Category::Native,
                Tier::None,
                true
            ),
            (
                "[node+0x1f20]",
                "/usr/bin/node",
                Category::Native,
                Tier::None,
                false
            ),
            turn
        ]
    );
    assert_eq!(
        path(1),
        [
            ("do_syscall_64", "", Category::Kernel, Tier::None, false),
            turn
        ]
    );
    let times: Vec<u64> = profile.samples.iter().map(|it| it.time).collect();
    assert_eq!(times, [1_500_000, 2_500_000]);
}

/// The names of a stack of samply's tables, leaf first.
fn stack_names<'a>(thread: &'a Value, strings: &'a Value, mut stack: &'a Value) -> Vec<&'a str> {
    let cell = |table: &str, column: &str, row: &Value| -> &'a Value {
        &thread[table][column][row.as_u64().unwrap() as usize]
    };
    let mut names = Vec::new();
    while !stack.is_null() {
        let function = cell("frameTable", "func", cell("stackTable", "frame", stack));
        let name = cell("funcTable", "name", function).as_u64().unwrap();
        names.push(strings[name as usize].as_str().unwrap());
        stack = cell("stackTable", "prefix", stack);
    }
    names
}

#[test]
fn every_sample_of_samply_has_its_thread_and_stack() {
    for name in ["node16", "node20"] {
        let bytes = fixture(&format!("firefox/{name}.json.gz"));
        let file: Value = serde_json::from_slice(&bytes).unwrap();
        let mut expected: BTreeMap<String, Vec<Vec<&str>>> = BTreeMap::new();
        for thread in file["threads"].as_array().unwrap() {
            let strings = match thread.get("stringArray") {
                Some(own) => own,
                None => &file["shared"]["stringArray"],
            };
            for stack in thread["samples"]["stack"].as_array().unwrap() {
                let key = format!("{} {}", thread["pid"], thread["tid"]).replace('"', "");
                let names = stack_names(thread, strings, stack);
                expected.entry(key).or_default().push(names);
            }
        }
        let profile = read(&bytes).unwrap();
        let mut found: BTreeMap<String, Vec<Vec<&str>>> = BTreeMap::new();
        for sample in &profile.samples {
            let thread = &profile.threads[sample.thread.at()];
            let pid = profile.processes[thread.process.at()].pid;
            let frames = sample
                .stack
                .into_iter()
                .flat_map(|it| profile.frames_of(it));
            let names = frames.map(|frame| profile.name_of(profile.frame(frame).function));
            let row = found.entry(format!("{pid} {}", thread.tid)).or_default();
            row.push(names.collect());
        }
        assert_eq!(
            found
                .iter()
                .map(|(key, rows)| (key, rows.len()))
                .collect::<Vec<_>>(),
            expected
                .iter()
                .map(|(key, rows)| (key, rows.len()))
                .collect::<Vec<_>>(),
            "{name}"
        );
        let pairs = found.values().flatten().zip(expected.values().flatten());
        for (ours, theirs) in pairs {
            assert_eq!(ours.len(), theirs.len(), "{ours:?} {theirs:?}");
            for (ours, theirs) in ours.iter().zip(theirs) {
                // What samply left to its symbol server is named by its place in the file.
                let is_address = theirs.starts_with("0x") && ours.contains(&format!("+{theirs}]"));
                assert!(ours == theirs || is_address, "{ours} {theirs}");
            }
        }
        let perf = fixture_text(&format!("perf_data/{name}.perf-script.txt.gz"));
        let printed = perf
            .lines()
            .filter(|line| line.contains(" cpu-clock: "))
            .count();
        assert_eq!(profile.samples.len(), printed, "{name}");
    }
}

/// As Firefox 140 and later write it: every table once, for all threads; sources in their own.
#[test]
fn tables_that_threads_share_are_read() {
    let text = r#"{"meta": {"preprocessedProfileVersion": 60, "interval": 1, "version": 32},
      "threads": [
        {"name": "a", "pid": "1", "tid": 1, "samples": {"length": 1, "stack": [1], "time": [5], "weight": null, "weightType": "samples"}},
        {"name": "b", "pid": "1", "tid": 2, "samples": {"length": 2, "stack": [0, 9], "time": [6, 7], "weight": null, "weightType": "samples"}}],
      "shared": {"stringArray": ["f", "/x/f.js"],
        "sources": {"length": 1, "id": [null], "filename": [1]},
        "funcTable": {"length": 1, "name": [0], "source": [0], "resource": [-1], "lineNumber": [4], "columnNumber": [2]},
        "frameTable": {"length": 1, "func": [0], "line": [5], "column": [6]},
        "stackTable": {"length": 2, "prefix": [null, 0], "frame": [0, 0]}}}"#;
    let profile = read(text.as_bytes()).unwrap();
    assert_eq!((profile.total_weight(), profile.stacks.len()), (3, 2));
    assert_eq!(
        profile.location_of(nodespy_model::FunctionIndex(0)),
        "/x/f.js:4:2"
    );
    assert_eq!(
        profile.notes.remarks,
        ["1 samples have a stack that is not in the file"]
    );
}

#[test]
fn parents_that_come_later_and_circles_are_cut() {
    let text = r#"{"meta": {"preprocessedProfileVersion": 57}, "threads": [{
        "samples": {"stack": [0, 1, 2, 3], "time": [-5, 1e300, null, 3], "weightType": "bytes", "weight": [1.5, 2, 3, 4]},
        "stackTable": {"prefix": [1, 0, 2, 77], "frame": [0, 0, 0, 8]},
        "frameTable": {"func": [0]}, "funcTable": {"name": [0]}, "stringArray": ["f"]}]}"#;
    let profile = read(text.as_bytes()).unwrap();
    assert_eq!(profile.unit(), WeightUnit::Bytes);
    assert_eq!(profile.total_weight(), 11);
    assert_eq!(
        profile.notes.remarks,
        [
            "1 stacks have a frame that is not in the file",
            "3 stacks come before their callers, which were left out",
            "1 weights were rounded"
        ]
    );
}

#[test]
fn the_raw_format_of_firefox_is_refused_with_what_to_do() {
    let text = r#"{"meta": {"version": 31, "stackwalk": 1, "interval": 1}, "libs": [],
        "threads": [{"name": "GeckoMain", "samples": {"schema": {"stack": 0}, "data": []}}]}"#;
    let error = read(text.as_bytes()).unwrap_err();
    assert!(matches!(error, ImportError::NotRead { .. }));
    assert!(error.to_string().contains("profiler.firefox.com"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_profile_comes_back_as_far_as_the_format_can_hold_it(mut profile in any_profile()) {
        // Milliseconds are exact as long as a double holds their millionths.
        for sample in &mut profile.samples {
            sample.time >>= 14;
            sample.weight >>= 8;
        }
        profile.notes.remarks.retain(|remark| !remark.is_empty());
        prop_assume!(profile.samples.iter().any(|sample| sample.weight > 0));
        check_tables(&unpacked(&profile));
        let again = read(&written(&profile, "firefox")).unwrap();
        prop_assert_eq!(held(&again), held(&profile));
        prop_assert_eq!(again.unit(), profile.unit());
        prop_assert_eq!(&again.about, &profile.about);
        prop_assert_eq!(&again.notes, &profile.notes);
    }
}
