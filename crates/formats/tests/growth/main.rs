//! Input that doubles may cost twice as much, not four times: every importer and exporter, on
//! shapes that were made to hurt.

// The counting allocator and a clock of the thread.
#![allow(unsafe_code)]

mod comparison;
mod counting;
mod foreign;
mod perf_data;
mod shapes;

use std::io::{self, Write};

use counting::{Cost, cost_of};
use nodespy_formats::{EXPORTERS, ImportOptions, JournalWriter, export, import};
use nodespy_model::{Contents, Profile};

/// How much more may be allocated, and held at once, when the input doubles.
const MAX_GROWTH: f64 = 2.5;
/// The same of the time: larger tables miss more caches, and other programs run beside.
const MAX_TIME_GROWTH: f64 = 3.0;
/// How often the input doubles.
const DOUBLINGS: usize = 3;
/// Shorter times are noise on a busy machine.
const LEAST_SECONDS: f64 = 0.05;

/// What grows faster than the input in `costs`, each of an input twice as large as the one before.
///
/// Only over all doublings: what a quadratic loop needs is 64 times as much, vectors double at
/// times of their own, and a busy machine does not make one run ten times as long as another.
fn faults(what: &str, costs: &[(usize, Cost)]) -> Vec<String> {
    let (first, last) = (costs[0].1, costs[costs.len() - 1].1);
    let growth = |value: fn(&Cost) -> f64, least: f64| value(&last) / value(&first).max(least);
    let ratios = [
        (
            "allocates",
            growth(|cost| cost.allocated_bytes as f64, 10_000.0),
        ),
        ("holds", growth(|cost| cost.peak_bytes as f64, 10_000.0)),
        (
            "takes",
            match last.seconds < LEAST_SECONDS {
                true => 1.0,
                false => growth(|cost| cost.seconds, 1e-4),
            },
        ),
    ];
    let most = |growth: f64| growth.powi(DOUBLINGS as i32);
    let too_fast = ratios.iter().filter(|(verb, ratio)| match *verb {
        "takes" => *ratio > most(MAX_TIME_GROWTH),
        _ => *ratio > most(MAX_GROWTH),
    });
    too_fast
        .map(|(verb, ratio)| format!("{what} {verb} {ratio:.0} times as much: {costs:#?}"))
        .collect()
}

fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// What reading `bytes` costs: the least of three times, as other programs only ever add.
fn import_cost(from: &str, bytes: &[u8]) -> (usize, Cost) {
    let read = || {
        let recording = import(bytes.to_vec().into(), &ImportOptions::from(Some(from)));
        let recording = recording.unwrap_or_else(|error| panic!("{from}: {error}"));
        if let Contents::Events(events) = recording.contents {
            events.replay(&mut |_| {});
        }
    };
    (bytes.len(), cost_of(read))
}

fn assert_import_is_linear(
    what: &str,
    from: &str,
    count: usize,
    generate: impl Fn(usize) -> Vec<u8>,
) {
    let costs: Vec<(usize, Cost)> = (0..=DOUBLINGS)
        .map(|doubling| import_cost(from, &generate(count << doubling)))
        .collect();
    assert_none(&faults(&format!("reading {what} as {from}"), &costs));
}

/// Every format that can be written, written and read.
fn assert_formats_are_linear(shape: &str, count: usize, generate: fn(usize) -> Profile) {
    let profiles: Vec<Profile> = (0..=DOUBLINGS)
        .map(|doubling| generate(count << doubling))
        .collect();
    let mut found = Vec::new();
    for exporter in EXPORTERS {
        let to = exporter.name();
        let write = |profile: &Profile| {
            let mut bytes = Vec::new();
            export(profile, to, &mut bytes).map(|()| bytes)
        };
        let Ok(files) = profiles.iter().map(write).collect::<Result<Vec<_>, _>>() else {
            // It has no room for what the profile counts.
            continue;
        };
        let written: Vec<(usize, Cost)> = profiles
            .iter()
            .zip(&files)
            .map(|(profile, file)| {
                let cost = cost_of(|| export(profile, to, &mut io::sink()).unwrap());
                (file.len(), cost)
            })
            .collect();
        found.extend(faults(&format!("writing {shape} as {to}"), &written));
        let read: Vec<(usize, Cost)> = files.iter().map(|file| import_cost(to, file)).collect();
        found.extend(faults(&format!("reading {shape} as {to}"), &read));
    }
    assert_none(&found);
}

#[test]
fn many_samples_cost_what_they_are() {
    assert_formats_are_linear("many samples", 2_000, shapes::samples);
}

#[test]
fn many_threads_cost_what_they_are() {
    assert_formats_are_linear("many threads", 1_000, shapes::threads);
}

#[test]
fn many_processes_cost_what_they_are() {
    assert_formats_are_linear("many processes", 1_000, shapes::processes);
}

#[test]
fn deep_stacks_cost_what_they_are() {
    assert_formats_are_linear("a deep stack", 2_000, shapes::deep);
}

#[test]
fn many_functions_cost_what_they_are() {
    assert_formats_are_linear("many functions", 1_000, shapes::functions);
}

#[test]
fn many_siblings_cost_what_they_are() {
    assert_formats_are_linear("many callees of one function", 1_000, shapes::siblings);
}

#[test]
fn folded_stacks_of_every_depth_are_never_held_together() {
    /// Counts the lines and drops them.
    struct Sink(usize);
    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let costs: Vec<(usize, Cost)> = (0..=DOUBLINGS)
        .map(|doubling| {
            let profile = shapes::every_depth(1_000 << doubling);
            let mut sink = Sink(0);
            let mut cost = cost_of(|| export(&profile, "folded", &mut sink).unwrap());
            // The text itself grows with the square of the depth.
            cost.seconds = 0.0;
            (sink.0, cost)
        })
        .collect();
    assert!(costs[DOUBLINGS].0 > 30 * costs[0].0);
    assert_none(&faults("writing stacks of every depth as folded", &costs));
}

#[test]
fn many_remarks_cost_what_they_are() {
    assert_import_is_linear("remarks", "folded", 4_000, foreign::folded_remarks);
    assert_import_is_linear("remarks", "pprof", 4_000, foreign::pprof_remarks);
}

#[test]
fn text_of_other_profilers_costs_what_it_is() {
    assert_import_is_linear("different lines", "folded", 4_000, foreign::folded_lines);
    assert_import_is_linear("bad lines", "folded", 4_000, foreign::folded_bad_lines);
    assert_import_is_linear("stacks", "bpftrace", 2_000, foreign::bpftrace);
    assert_import_is_linear("stacks", "dtrace", 2_000, foreign::dtrace);
    assert_import_is_linear("stacks", "vtune", 2_000, foreign::vtune);
    assert_import_is_linear("stacks", "sample", 2_000, foreign::macos_sample);
    assert_import_is_linear("stacks", "xctrace", 2_000, foreign::xctrace);
    assert_import_is_linear("threads", "perf-script", 2_000, foreign::perf_script);
}

#[test]
fn v8_logs_cost_what_they_are() {
    assert_import_is_linear(
        "code at new places",
        "v8-log",
        4_000,
        foreign::v8_log_new_code,
    );
    assert_import_is_linear("code that moves", "v8-log", 4_000, foreign::v8_log_moves);
    assert_import_is_linear(
        "code that covers all",
        "v8-log",
        4_000,
        foreign::v8_log_overlaps,
    );
}

#[test]
fn traces_cost_what_they_are() {
    assert_import_is_linear("nested spans", "chrome-trace", 2_000, foreign::trace_nested);
    assert_import_is_linear("threads", "chrome-trace", 2_000, foreign::trace_threads);
    assert_import_is_linear(
        "nested events",
        "speedscope",
        2_000,
        foreign::speedscope_evented,
    );
    assert_import_is_linear("a page in parts", "html", 500, foreign::html_chunks);
}

#[test]
fn perf_data_costs_what_it_is() {
    assert_import_is_linear(
        "rounds",
        "perf.data",
        2_000,
        perf_data::rounds_of_the_future,
    );
    assert_import_is_linear("deferred stacks", "perf.data", 2_000, perf_data::deferred);
    assert_import_is_linear("forks", "perf.data", 2_000, perf_data::forks);
    assert_import_is_linear("jitdumps", "perf.data", 2_000, perf_data::jitdumps);
}

#[test]
fn journals_cost_what_they_are() {
    let of = |slice: Profile| {
        move |count: usize| {
            let mut writer = JournalWriter::default();
            let mut journal = JournalWriter::header();
            for _ in 0..count {
                journal.extend(writer.block(&slice));
            }
            journal
        }
    };
    assert_import_is_linear("slices", "journal", 500, of(shapes::samples(20)));
    assert_import_is_linear("threads", "journal", 200, of(shapes::threads(50)));
}
