//! Input that doubles may cost twice as much, not four times: the files that name code, and processes.

// The counting allocator and a clock of the thread.
#![allow(unsafe_code)]

#[path = "../../../formats/tests/support/counting.rs"]
mod counting;
mod files;
#[path = "../../../formats/tests/support/growth.rs"]
mod growth;
mod processes;

use counting::{Cost, cost_of};
use growth::{DOUBLINGS, assert_none, faults};
use nodespy_symbolize::fuzzing;

fn assert_is_linear(
    what: &str,
    count: usize,
    generate: impl Fn(usize) -> Vec<u8>,
    read: impl Fn(&[u8]),
) {
    let costs: Vec<(usize, Cost)> = (0..=DOUBLINGS)
        .map(|doubling| {
            let bytes = generate(count << doubling);
            (bytes.len(), cost_of(|| read(&bytes)))
        })
        .collect();
    assert_none(&faults(what, &costs));
}

#[test]
fn perf_maps_cost_what_they_are() {
    assert_is_linear("new code", 4_000, files::perf_map, fuzzing::perf_map);
    let same = files::perf_map_of_one_place;
    assert_is_linear("code over code", 4_000, same, fuzzing::perf_map);
    let nested = files::perf_map_nested;
    assert_is_linear("code in code", 4_000, nested, fuzzing::perf_map);
}

#[test]
fn jitdumps_cost_what_they_are() {
    assert_is_linear("loads", 4_000, files::jitdump_loads, fuzzing::jitdump);
    assert_is_linear("moves", 4_000, files::jitdump_moves, fuzzing::jitdump);
    let long = files::jitdump_moves_of_a_long_name;
    assert_is_linear("moves of a long name", 250, long, fuzzing::jitdump);
}

#[test]
fn elf_symbols_cost_what_they_are() {
    assert_is_linear("symbols", 4_000, files::elf_symbols, fuzzing::elf);
    let endless = files::elf_one_endless_name;
    assert_is_linear("symbols of one endless name", 700, endless, fuzzing::elf);
}

#[test]
fn source_maps_cost_what_they_are() {
    assert_is_linear("mappings", 4_000, files::source_map, fuzzing::source_map);
    let sections = files::source_map_sections;
    assert_is_linear("sections", 500, sections, fuzzing::source_map);
}

#[test]
fn tables_of_kernels_wasm_and_go_cost_what_they_are() {
    assert_is_linear("kernel symbols", 4_000, files::kallsyms, fuzzing::kallsyms);
    assert_is_linear("wasm names", 4_000, files::wasm_names, fuzzing::wasm_names);
    assert_is_linear(
        "go functions",
        4_000,
        files::go_functions,
        fuzzing::go_functions,
    );
}

/// 8,000 mappings and 8,000 forks were 5 GB.
#[test]
fn mappings_and_forks_cost_what_they_are() {
    let costs: Vec<(usize, Cost)> = (0..=DOUBLINGS)
        .map(|doubling| {
            let count = 250 << doubling;
            (count, cost_of(|| processes::map_and_fork(count)))
        })
        .collect();
    assert_none(&faults("mappings and forks", &costs));
}
