//! perf.data against what perf itself says of it: every sample, thread and frame.

use std::fs;
use std::path::PathBuf;

use nodespy_symbolize::DiskOptions;

use crate::installed_node::node;
use crate::perf_text::{
    expect_another_version_refused, expect_names_of_perf, expect_no_names_of_unproven,
    has_v8_names, read,
};
use crate::run::run_nodespy;
use crate::scratch::Scratch;

fn corpus() -> PathBuf {
    crate::corpus("perf-data")
}

/// The recordings, and what they are of.
const RECORDED: [(&str, &str); 3] = [
    ("node18", "18.20.8"),
    ("node20", "20.20.2"),
    ("node24", "24.21.0"),
];

fn recording(name: &str) -> PathBuf {
    corpus().join(format!("{name}.perf.data"))
}

fn perf_script(name: &str) -> String {
    fs::read_to_string(corpus().join(format!("expected/{name}.perf-script.txt"))).unwrap()
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
    let map = corpus().join("node20.perf-5891.map");
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
        let turn = profile
            .functions
            .iter()
            .find(|function| profile.strings.get(function.name) == "turn");
        assert_eq!(turn.unwrap().line, 19);
    }
    let profile = read(&recording("node20"), DiskOptions::default());
    assert_eq!(profile.notes.confidence().jit_named, 0.0);
}

#[test]
fn the_command_converts_a_file_or_standard_input() {
    let scratch = Scratch::new();
    let path = recording("node24");
    let map = corpus().join("node24.perf-6235.map");
    let map = map.to_str().unwrap();
    let plain = scratch.file("plain.folded");
    run_nodespy(&["convert", path.to_str().unwrap(), &plain, "--map", map]).expect_code(0);
    let plain = fs::read_to_string(plain).unwrap();
    let total: u64 = plain
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(total, 354);
    assert!(plain.contains("turn /app/mix.js:19:15_[j]"));
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

#[test]
fn a_root_does_not_lead_outside_itself() {
    let scratch = Scratch::new();
    let Some(node) = node("20.20.2") else {
        return;
    };
    let node = node.canonicalize().unwrap();
    let inside = scratch.path().join("opt/node20/bin");
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
