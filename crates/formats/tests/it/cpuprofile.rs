//! V8's CPU profiles.

use nodespy_formats::{ImportOptions, import};
use nodespy_model::{Category, Profile, ThreadIndex, ThreadRole, WeightUnit};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cpuprofile_claims::{
    comes_back_as_it_was, cut_off_it_gives_what_comes_before,
    functions_have_the_time_of_their_samples, numbers, stack_names, weights,
    weights_are_the_time_after_the_first_gap, without_its_last_gaps,
};
use crate::fixture::fixture;
use crate::in_words::{json, path, samples, self_weight};
use crate::sample::{any_profile, read, small, written};

const FILES: [&str; 4] = [
    "cpuprofile/node16.cpuprofile",
    "cpuprofile/node20.cpuprofile",
    "cpuprofile/node26.cpuprofile",
    "cpuprofile/node20-nested.cpuprofile",
];

/// A profile with these nodes, times in microseconds.
fn file(nodes: Value, samples: &[u32], deltas: &[i64]) -> Vec<u8> {
    let end: i64 = deltas.iter().sum::<i64>() + 100;
    let file = json!({"nodes": nodes, "startTime": 0, "endTime": end,
        "samples": samples, "timeDeltas": deltas});
    file.to_string().into_bytes()
}

fn node(id: u32, name: &str, children: &[u32]) -> Value {
    let url = if name.starts_with('(') {
        ""
    } else {
        "file:///app/a.js"
    };
    let script = if url.is_empty() { "0" } else { "7" };
    json!({"id": id, "hitCount": 0, "children": children, "callFrame": {"functionName": name,
        "scriptId": script, "url": url, "lineNumber": 4, "columnNumber": 2}})
}

#[test]
fn the_weights_of_recorded_files_are_the_time_after_the_first_gap() {
    for name in FILES {
        weights_are_the_time_after_the_first_gap(name, &fixture(name));
    }
}

#[test]
fn every_node_has_the_time_of_its_samples() {
    for name in &FILES[..3] {
        functions_have_the_time_of_their_samples(name, &fixture(name));
    }
}

#[test]
fn recorded_files_come_back_as_they_were() {
    for name in FILES {
        comes_back_as_it_was(name, &fixture(name));
    }
}

#[test]
fn a_file_that_is_cut_off_gives_what_comes_before() {
    let bytes = fixture("cpuprofile/node20.cpuprofile");
    cut_off_it_gives_what_comes_before(&bytes, 150);
    // Lines are shared out among the samples of a function, which are fewer now.
    let [cut, whole] = without_its_last_gaps(&bytes).map(|samples| {
        let samples = samples.into_iter();
        let without_line = samples.map(|(time, weight, path)| {
            let function = path.rsplit_once(" at ").unwrap().0.to_owned();
            (time, weight, function)
        });
        without_line.collect::<Vec<_>>()
    });
    assert_eq!(cut, whole);
}

#[test]
fn names_places_and_kinds_are_those_of_the_workload() {
    for name in FILES {
        let profile = read(&fixture(name)).unwrap();
        let paths: Vec<String> = (profile.samples.iter())
            .map(|sample| path(&profile, sample))
            .collect();
        let has = |part: &str| paths.iter().any(|path| path.contains(part));
        let script = "/tmp/nodespy-fixtures/app/mix.js";
        assert!(has(
            "(anonymous) node:internal/main/run_main_module:1:1 (node core);"
        ));
        assert!(has(&format!("(anonymous) {script}:1:1 (app);")));
        assert!(has(&format!("work {script}:38:14 (app);until {script}:")));
        assert!(has(&format!("sortRecords {script}:31:21 (app) at 33")));
        assert!(has(&format!("parseJson {script}:36:19 (app) at 36")));
        assert!(has("(program)  (native) at 0"));
        assert!(!has("(root)"));
        assert!(
            paths
                .iter()
                .all(|path| !path.contains(";(garbage") || path.ends_with("(GC) at 0"))
        );
        assert_eq!(profile.threads[0].role, ThreadRole::Main);
        assert_eq!(profile.about.engine, "V8 CPU profiler");
    }
}

/// `workloads/mix.js` turns by the clock: 30, 20 and 10 ms.
#[test]
fn the_shares_are_those_of_the_workload() {
    for name in &FILES[..3] {
        let profile = read(&fixture(name)).unwrap();
        let under = |function: &str| {
            let names = stack_names(&profile).into_iter().zip(weights(&profile));
            let own = names.filter(|(names, _)| names.split(';').any(|one| one == function));
            own.map(|(_, weight)| weight).sum::<u64>() as f64
        };
        let work = under("work");
        for (function, share) in [
            ("sortRecords", 0.5),
            ("parseJson", 1.0 / 3.0),
            ("matchRoutes", 1.0 / 6.0),
        ] {
            let found = under(function) / work;
            assert!((found - share).abs() < 0.12, "{name} {function}: {found}");
        }
    }
}

#[test]
fn the_nested_form_of_old_says_the_same_as_the_flat_one() {
    let old = read(&fixture("cpuprofile/node20-nested.cpuprofile")).unwrap();
    let new = read(&fixture("cpuprofile/node20.cpuprofile")).unwrap();
    let places = |profile: &Profile| -> Vec<String> {
        let samples = profile.samples.iter();
        samples.map(|sample| path(profile, sample)).collect()
    };
    assert_eq!(places(&old), places(&new));
    assert_eq!(weights(&old), weights(&new));
}

#[test]
fn garbage_collection_goes_on_top_of_what_it_interrupted() {
    let nodes = json!([
        node(1, "(root)", &[2, 3, 4, 5]),
        node(2, "work", &[6]),
        node(3, "(garbage collector)", &[]),
        node(4, "(idle)", &[]),
        node(5, "(program)", &[]),
        node(6, "deep", &[])
    ]);
    let profile = read(&file(nodes, &[6, 3, 3, 4, 3, 5, 3], &[1; 7])).unwrap();
    let paths: Vec<String> = profile
        .samples
        .iter()
        .map(|sample| path(&profile, sample))
        .collect();
    let gc = "(garbage collector) :5:3 (GC) at 0";
    let work = "work /app/a.js:5:3 (app);deep /app/a.js:5:3 (app)";
    assert_eq!(
        paths,
        [
            format!("{work} at 0"),
            format!("{work};{gc}"),
            format!("{work};{gc}"),
            "(idle) :5:3 (idle) at 0".to_owned(),
            gc.to_owned(),
            "(program) :5:3 (native) at 0".to_owned(),
            gc.to_owned(),
        ]
    );
}

#[test]
fn lines_get_the_share_of_their_ticks_and_equal_ones_are_summed() {
    let mut work = node(9, "work", &[]);
    work["positionTicks"] =
        json!([{"line": 7, "ticks": 1}, {"line": 8, "ticks": 2}, {"line": 7, "ticks": 1}]);
    work["deoptReason"] = json!("not a Smi");
    let nodes = json!([node(4, "(root)", &[9]), work]);
    let lines = |count: usize| -> Vec<u32> {
        let profile = read(&file(nodes.clone(), &vec![9; count], &vec![10; count])).unwrap();
        let stacks = profile.samples.iter().map(|sample| sample.stack.unwrap());
        stacks
            .map(|stack| profile.frame(profile.stacks[stack.at()].frame).line)
            .collect()
    };
    assert_eq!(lines(4), [7, 8, 8, 7]);
    // More samples than ticks, as node 24 has it, and fewer: the share is kept.
    assert_eq!(lines(8), [7, 7, 8, 8, 8, 8, 7, 7]);
    assert_eq!(lines(2), [7, 8]);
    let profile = read(&file(nodes.clone(), &[9], &[10])).unwrap();
    let (function, reason) = profile.deopt_reasons[0];
    assert_eq!(profile.name_of(function), "work");
    assert_eq!(profile.strings.get(reason), "not a Smi");
}

#[test]
fn ids_are_no_positions_and_keys_come_in_any_order() {
    let text = br#" {"timeDeltas":[5,10,-2],"$vscode":{"x":[{}]},"samples":[70,4000000000,12],
        "endTime":1013,"startTime":1000.0,"nodes":[
        {"children":[],"id":70,"callFrame":{"url":"","functionName":"c","scriptId":3}},
        {"id":12,"callFrame":{"functionName":"(root)","url":""},"children":[4000000000]},
        {"hitCount":3,"children":[70],"callFrame":{"functionName":"b","url":"x.js"},"id":4000000000}]}"#;
    let profile = read(text).unwrap();
    assert_eq!(
        samples(&profile),
        [
            (5000, 8000, "b x.js (app);c  (app) at 0".to_owned()),
            (13000, 2000, "[no stack]".to_owned()),
            (15000, 8000, "b x.js (app) at 0".to_owned()),
        ]
    );
    assert!(profile.notes.remarks[0].contains("put in order of time"));
}

#[test]
fn a_tree_that_is_none_is_remarked_with_its_place() {
    let nodes = json!([
        node(1, "(root)", &[2, 77]),
        node(2, "a", &[3]),
        node(3, "b", &[2]),
        node(3, "again", &[]),
        node(5, "x", &[6]),
        node(6, "y", &[5])
    ]);
    let bytes = file(nodes, &[2, 3, 5, 6, 99], &[10; 5]);
    let profile = read(&bytes).unwrap();
    assert_eq!(profile.samples.len(), 4);
    let remarks = profile.notes.remarks.join("\n");
    for expected in [
        "1 samples name a node that is not there",
        "1 nodes have the id of another",
        "1 nodes name a child or parent that is not there, the first at byte",
        "1 nodes have a second parent",
        "1 nodes are their own ancestors",
    ] {
        assert!(remarks.contains(expected), "{expected}: {remarks}");
    }
}

#[test]
fn a_file_without_samples_goes_by_the_counts() {
    let mut bytes = json!({"nodes": [node(1, "(root)", &[2, 3]), node(2, "a", &[]), node(3, "b", &[])],
        "startTime": 0, "endTime": 1000});
    bytes["nodes"][1]["hitCount"] = json!(3);
    bytes["nodes"][2]["hitCount"] = json!(1);
    let profile = read(bytes.to_string().as_bytes()).unwrap();
    assert_eq!(self_weight(&profile, "a"), 750_000);
    assert_eq!(profile.total_weight(), 1_000_000);
    assert!(profile.notes.remarks[0].contains("V8's own counts"));
}

/// DevTools show nothing of a recording that starts at zero, and guess how long the last sample of
/// any lasts.
#[test]
fn what_is_written_without_times_says_when_it_starts_and_ends() {
    let profile = read(b"a;b 3\na;c 40\n").unwrap();
    let bytes = written(&profile, "cpuprofile");
    let file: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(
        (&file["startTime"], &file["endTime"]),
        (&json!(1), &json!(43_001))
    );
    assert_eq!(file["timeDeltas"], json!([0, 3000, 40_000]));
    let last = file["samples"][2].as_u64().unwrap() as usize;
    assert_eq!(
        file["nodes"][last - 1]["callFrame"]["functionName"],
        "(idle)"
    );
    let again = read(&bytes).unwrap();
    let weights: Vec<u64> = again.samples.iter().map(|sample| sample.weight).collect();
    assert_eq!(weights, [3_000_000, 40_000_000]);
}

#[test]
fn a_million_levels_need_no_stack() {
    assert_eq!(nested(1_000_000).stacks.len(), 1_000_000);
    let profile = nested(50_000);
    let again = read(&written(&profile, "cpuprofile")).unwrap();
    assert_eq!(again.stacks.len(), 50_000);
}

/// A file in the nested form whose tree is this deep.
fn nested(levels: usize) -> Profile {
    let mut text = r#"{"head":"#.to_owned();
    for level in 0..levels {
        text.push_str(&format!(
            r#"{{"functionName":"f","id":{level},"hitCount":1,"children":["#
        ));
    }
    text.push_str(&"]}".repeat(levels));
    text.push_str(r#","startTime":1,"endTime":2}"#);
    read(text.as_bytes()).unwrap()
}

#[test]
fn what_is_no_profile_is_refused_with_its_place() {
    let options = ImportOptions::from(Some("cpuprofile"));
    let error = |text: &str| {
        import(text.as_bytes().to_vec().into(), &options)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        error("[1]"),
        "byte 0: the file is damaged: expected an object"
    );
    assert_eq!(error(r#"{"nodes": 5}"#), "the input holds no stacks");
    assert_eq!(
        error(r#"{"nodes": [7]}"#),
        "byte 11: the file is damaged: expected an object"
    );
}

#[test]
fn what_is_written_has_the_shape_of_what_v8_writes() {
    let file = json(&written(&small(), "cpuprofile"));
    let nodes = file["nodes"].as_array().unwrap();
    assert_eq!(nodes[0]["callFrame"]["functionName"], "(root)");
    let ids: Vec<i64> = nodes
        .iter()
        .map(|node| node["id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids, (1..=ids.len() as i64).collect::<Vec<_>>());
    let mut children: Vec<i64> = nodes
        .iter()
        .flat_map(|node| numbers(&node["children"]))
        .collect();
    children.sort_unstable();
    assert_eq!(children, ids[1..]);
    let deltas = numbers(&file["timeDeltas"]);
    assert_eq!(deltas.len(), numbers(&file["samples"]).len());
    let total: i64 = nodes
        .iter()
        .map(|node| node["hitCount"].as_i64().unwrap())
        .sum();
    assert_eq!(total, deltas.len() as i64);
    let native = nodes
        .iter()
        .find(|node| node["callFrame"]["functionName"] == "uv_run")
        .unwrap();
    assert_eq!(native["callFrame"]["url"], "native:/usr/bin/node");
    let error = {
        let mut profile = small();
        profile.events[0].unit = WeightUnit::Bytes;
        nodespy_formats::export(&profile, "cpuprofile", &mut Vec::new()).unwrap_err()
    };
    assert_eq!(
        error.to_string(),
        "cpuprofile can't hold a profile that counts bytes; use heapprofile"
    );
}

#[test]
fn the_busiest_thread_is_written_and_its_weights_are_kept() {
    let profile = read(&written(&small(), "cpuprofile")).unwrap();
    // 90 samples of the main thread at 99 Hz, rounded to the microsecond.
    let weight: u64 = profile
        .samples
        .iter()
        .filter(|sample| !path(&profile, sample).starts_with("(idle)"))
        .map(|sample| sample.weight)
        .sum();
    assert_eq!(weight / 1_000_000, 909);
    assert!(self_weight(&profile, "do_syscall_64") == 0);
}

/// The profile with times and weights that are whole microseconds and add up.
fn in_microseconds(mut profile: Profile) -> Profile {
    profile.events[0].unit = WeightUnit::Nanoseconds;
    profile.about.started_unix = 0;
    for sample in &mut profile.samples {
        sample.time = sample.time % 1_000_000_000 * 1000;
        sample.weight = sample.weight % 1_000_000 * 1000;
        sample.thread = ThreadIndex(0);
    }
    profile.samples.sort_by_key(|sample| sample.time);
    profile
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_stack_keeps_its_weight_and_its_order(profile in any_profile()) {
        let profile = in_microseconds(profile);
        prop_assume!(!profile.samples.is_empty());
        let first = read(&written(&profile, "cpuprofile")).unwrap();
        let places = |profile: &Profile| -> Vec<(u64, String)> {
            let samples = profile.samples.iter();
            samples
                .map(|sample| (sample.weight, path(profile, sample)))
                .filter(|(_, path)| path != "(idle)  (idle) at 0")
                .collect()
        };
        prop_assert_eq!(places(&first), places(&profile));
        let again = read(&written(&first, "cpuprofile")).unwrap();
        prop_assert_eq!(samples(&again), samples(&first));
    }
}

#[test]
fn idle_time_is_told_apart() {
    let nodes = json!([
        node(1, "(root)", &[2, 3]),
        node(2, "(idle)", &[]),
        node(3, "a", &[])
    ]);
    let profile = read(&file(nodes, &[2, 3], &[1, 50])).unwrap();
    let categories: Vec<Category> = profile
        .samples
        .iter()
        .map(|sample| {
            profile
                .function(profile.function_of(sample.stack.unwrap()))
                .category
        })
        .collect();
    assert_eq!(categories, [Category::Idle, Category::App]);
}
