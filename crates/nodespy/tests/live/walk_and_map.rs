//! The heap walk and the perf map that Node writes itself, on the same process at the same time: two
//! sources of the same names. A perf map knows no inlined functions, so there those count for the
//! function they are inlined into.

use super::live;
use super::recorded::record;
use super::truth::{Comparison, Inlined, own_samples, start};
use super::versions::on_every_node;
use super::workload::{PERF_MAP_FLAGS, Running};
use crate::run::{Started, nodespy};
use crate::scratch::Scratch;

/// How far the two may be apart, in points, beyond what the number of samples can't tell.
const POINTS: f64 = 5.0;

fn compare_sources(target: &Running) -> Comparison {
    let scratch = Scratch::new();
    let output = scratch.file("map.nspy");
    let pid = target.pid_text();
    let map = [
        "record", "-p", &pid, "--names", "map", "-d", "3", "-F", "499",
    ];
    let mut command = nodespy(&map);
    command.args(["-o", &output]);
    let by_map = Started::new(command, "");
    let by_walk = record(target, &["-d", "3", "-F", "499"]);
    let outcome = by_map.finish();
    outcome.expect_code(0);
    let by_map = super::recorded::Recorded {
        profile: super::recorded::read(std::path::Path::new(&output)),
        outcome,
    };
    // Until V8 10 a perf map has no columns.
    let samples = |recorded| own_samples(recorded, target.pid(), Inlined::Hidden).without_columns();
    Comparison {
        theirs: samples(&by_map),
        ours: samples(&by_walk),
    }
}

fn expect_same_names(version: &str, workload: &str) {
    let Some(_live) = live() else { return };
    let target = start(version, &PERF_MAP_FLAGS, workload, &[("POOL", "0")]);
    let comparison = compare_sources(&target);
    eprintln!("{workload} on node {version}: {}", comparison.table());
    comparison.expect_agreement(POINTS);
}

on_every_node! {{
    perf_map_and_heap_walk_agree(|version| {
        expect_same_names(version, "mix.js");
        expect_same_names(version, "async.js");
    });
}}
