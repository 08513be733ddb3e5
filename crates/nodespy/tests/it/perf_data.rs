//! perf.data against what perf itself says of it: every sample, thread and frame.

use std::fs;
use std::path::PathBuf;

use nodespy_formats::{ImportOptions, import_file};
use nodespy_model::{EventIndex, Function, Profile};
use nodespy_symbolize::{DiskOptions, DiskOrigin, ResolveOptions, resolve};

use crate::fixture::{fixture, fixture_text};
use crate::installed_node::node;
use crate::perf_text::{
    expect_another_version_refused, expect_names_of_perf, expect_no_names_of_unproven, frames,
    has_v8_names, printed, read,
};
use crate::run::run_nodespy;
use crate::scratch::Scratch;

/// The recordings, and what they are of.
const RECORDED: [(&str, &str); 3] = [
    ("node16", "16.20.2"),
    ("node20", "20.20.2"),
    ("node26", "26.10.0"),
];

fn recording(name: &str) -> PathBuf {
    fixture(&format!("perf_data/{name}.perf.data"))
}

/// What `perf script` prints of a recording.
fn perf_script(name: &str) -> String {
    fixture_text(&format!("perf_data/{name}.perf-script.txt.gz"))
}

/// The perf map of the process that was recorded: its name ends in the pid.
fn perf_map(name: &str) -> PathBuf {
    let files = fs::read_dir(fixture("perf_data")).unwrap();
    let mut names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let start = format!("{name}.perf-");
    let found = names.find(|file| file.starts_with(&start) && file.ends_with(".map"));
    fixture("perf_data").join(found.unwrap())
}

#[test]
fn every_sample_thread_and_name_agrees_with_perf() {
    for (name, version) in RECORDED {
        expect_names_of_perf(&recording(name), version, &perf_script(name));
    }
}

#[test]
fn a_binary_that_can_not_be_proven_names_nothing() {
    expect_no_names_of_unproven(&recording("node20"));
}

#[test]
fn another_version_of_the_binary_is_refused() {
    expect_another_version_refused(&recording("node20"));
}

#[test]
fn a_map_is_taken_by_its_number_or_for_the_only_process() {
    let scratch = Scratch::new();
    let map = perf_map("node20");
    let unnamed = scratch.path().join("names.map");
    fs::copy(&map, &unnamed).unwrap();
    for map in [map, unnamed] {
        let profile = read(
            &recording("node20"),
            DiskOptions {
                maps: vec![map],
                ..DiskOptions::default()
            },
        );
        assert!(profile.notes.confidence().jit_named > 0.9);
        let until = profile
            .functions
            .iter()
            .find(|function| profile.strings.get(function.name) == "until");
        assert_eq!(until.unwrap().line, 11);
    }
    let profile = read(&recording("node20"), DiskOptions::default());
    assert_eq!(profile.notes.confidence().jit_named, 0.0);
}

#[test]
fn the_command_converts_a_file_or_standard_input() {
    let scratch = Scratch::new();
    let path = recording("node26");
    let map = perf_map("node26");
    let map = map.to_str().unwrap();
    let plain = scratch.file("plain.folded");
    run_nodespy(&["convert", path.to_str().unwrap(), &plain, "--map", map]).expect_code(0);
    let plain = fs::read_to_string(plain).unwrap();
    let total: u64 = plain
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(total as usize, printed(&perf_script("node26")).len());
    assert!(plain.contains("until /tmp/nodespy-fixtures/app/mix.js:11:15_[j]"));
    // The same through standard input.
    let command = format!(
        "{} convert - - --map {map} < {}",
        env!("CARGO_BIN_EXE_nodespy"),
        path.display()
    );
    let piped = std::process::Command::new("sh")
        .args(["-c", &command])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), plain);
}

fn read_fixture(name: &str, event: Option<&str>, symbols: Option<PathBuf>) -> Profile {
    let options = ImportOptions {
        event: event.map(str::to_owned),
        ..ImportOptions::default()
    };
    let recording = import_file(&fixture(&format!("perf_data/{name}")), &options).unwrap();
    let disk = DiskOptions {
        symbols: symbols.into_iter().collect(),
        ..DiskOptions::default()
    };
    let origin = DiskOrigin::new(disk, &recording.about);
    resolve(recording, Box::new(origin), &ResolveOptions::default())
}

#[test]
fn pipes_compressed_records_and_mapped_build_ids_give_what_perf_says() {
    for name in ["pipe.perf.data", "zstd.perf.data", "buildid.perf.data"] {
        let samples = printed(&perf_script(name.strip_suffix(".perf.data").unwrap())).len();
        let node = node("20.20.2");
        let folder = node.as_ref().map(|node| node.parent().unwrap().to_owned());
        let profile = read_fixture(name, None, folder);
        assert_eq!(profile.samples.len(), samples, "{name}");
        assert_eq!(profile.samples[0].time, 0, "{name}");
        assert_eq!(profile.event().name, "cpu-clock", "{name}");
        let has_start = |function: &Function| profile.strings.get(function.name) == "node::Start";
        // Neither a pipe nor, with perf 6.1, a compressed file holds build-ids: nothing proves a
        // binary that is found, and only one given by itself is taken at its giver's word.
        let is_proven = name == "buildid.perf.data" && node.is_some();
        assert_eq!(profile.functions.iter().any(has_start), is_proven, "{name}");
        let given = read_fixture(name, None, node.clone());
        let has_start = |function: &Function| given.strings.get(function.name) == "node::Start";
        assert_eq!(
            given.functions.iter().any(has_start),
            node.is_some(),
            "{name}"
        );
    }
}

/// How many samples of an event `perf script` prints.
fn printed_samples(name: &str, event: &str) -> usize {
    let text = perf_script(name);
    let ending = format!(" {event}: ");
    text.lines().filter(|line| line.ends_with(&ending)).count()
}

#[test]
fn several_events_are_kept_apart() {
    let clock = printed_samples("events", "cpu-clock");
    let switches = printed_samples("events", "context-switches");
    assert!(clock > 20 && switches > 20, "{clock} {switches}");
    let whole = read_fixture("events.perf.data.gz", None, None);
    let names: Vec<&str> = whole.events.iter().map(|event| &*event.name).collect();
    assert_eq!(names, ["cpu-clock", "context-switches"]);
    assert_eq!(whole.event_counts(), [clock as u64, switches as u64]);
    let shown = whole.select(EventIndex(0));
    assert_eq!(shown.total_weight(), clock as u64);
    let other = read_fixture("events.perf.data.gz", Some("context-switches"), None);
    assert_eq!(other.samples.len(), switches);
    assert_eq!(other.event().name, "context-switches");
}

#[test]
fn a_report_says_which_other_events_there_are_and_shows_the_one_that_is_asked_for() {
    let file = fixture("perf_data/events.perf.data.gz");
    let file = file.to_str().unwrap();
    let switches = printed_samples("events", "context-switches");
    let report = run_nodespy(&["report", file]);
    let others = format!("also recorded: context-switches ({switches} samples): --event");
    assert!(report.stdout.contains(&others), "{}", report.stdout);
    let report = run_nodespy(&["report", file, "--event", "context-switches"]);
    assert!(
        !report.stdout.contains("also recorded"),
        "{}",
        report.stdout
    );
    let refused = run_nodespy(&["report", file, "--event", "cycles"]);
    let known = "it holds context-switches, cpu-clock";
    assert!(refused.stderr.contains(known), "{}", refused.stderr);
    let folded = run_nodespy(&["convert", file, "-", "--to", "folded"]);
    let left_out = "further events: context-switches";
    assert!(folded.stderr.contains(left_out), "{}", folded.stderr);
}

#[test]
fn stack_copies_are_unwound_through_javascript_to_the_root() {
    let Some(node) = node("20.20.2") else {
        return;
    };
    // perf itself ends at the first frame of JavaScript.
    let profile = read_fixture("dwarf.perf.data.gz", None, Some(node));
    let samples = printed(&perf_script("dwarf")).len();
    assert!(samples > 4, "{samples}");
    assert_eq!(profile.samples.len(), samples);
    assert_eq!(profile.notes.unwound_stacks, samples as u64);
    for sample in &profile.samples {
        let frames = frames(&profile, sample);
        assert!(
            frames.iter().any(|name| name == "node::Start"),
            "{frames:?}"
        );
        let is_entry = |name: &String| name == "Builtins_JSEntry";
        assert!(frames.iter().any(is_entry), "{frames:?}");
    }
}

#[test]
fn a_root_does_not_lead_outside_itself() {
    let scratch = Scratch::new();
    let Some(node) = node("20.20.2") else {
        return;
    };
    let node = node.canonicalize().unwrap();
    let inside = scratch.path().join("tmp/nodespy-fixtures/node20/bin");
    fs::create_dir_all(&inside).unwrap();
    let read_in_root = || {
        let path = recording("node20");
        let profile = read(
            &path,
            DiskOptions {
                root: Some(scratch.path().to_owned()),
                ..DiskOptions::default()
            },
        );
        has_v8_names(&profile)
    };
    // The right binary, but outside the root.
    std::os::unix::fs::symlink(&node, inside.join("node")).unwrap();
    assert!(!read_in_root());
    fs::remove_file(inside.join("node")).unwrap();
    fs::copy(&node, inside.join("node")).unwrap();
    assert!(read_in_root());
}
