//! Input that doubles may cost twice as much, not four times: every importer and exporter, on
//! shapes that were made to hurt.

// The counting allocator and a clock of the thread.
#![allow(unsafe_code)]

mod comparison;
#[path = "../support/counting.rs"]
mod counting;
mod foreign;
#[path = "../support/growth.rs"]
mod growth;
mod long_strings;
mod perf_data;
mod shapes;

use std::io::{self, Write};

use counting::{Cost, cost_of};
use growth::{DOUBLINGS, assert_none, faults};
use nodespy_formats::{
    EXPORTERS, IMPORTERS, ImportError, ImportOptions, Importer, JournalWriter, Limits, detect,
    export, import, importer_called,
};
use nodespy_model::{Contents, Profile};

/// What reading `bytes` costs.
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
fn a_long_string_with_many_references_costs_what_it_is() {
    type Shape = (&'static str, &'static str, fn(usize) -> Vec<u8>);
    let shapes: [Shape; 7] = [
        (
            "functions of one long name",
            "pprof",
            long_strings::pprof_functions,
        ),
        (
            "labels of one long key",
            "pprof",
            long_strings::pprof_labels,
        ),
        (
            "threads of one long name",
            "pprof",
            long_strings::pprof_threads,
        ),
        (
            "addresses of one long module",
            "pprof",
            long_strings::pprof_addresses,
        ),
        (
            "addresses of one long library",
            "firefox",
            long_strings::firefox,
        ),
        (
            "addresses of one long library",
            "v8-log",
            long_strings::v8_log,
        ),
        (
            "addresses of one long library",
            "v8-preprocessed",
            long_strings::v8_preprocessed,
        ),
    ];
    for (what, from, generate) in shapes {
        assert_import_is_linear(what, from, 1_000, generate);
    }
}

/// Inferno writes the name out for each reference: hundreds of megabytes for these.
#[test]
fn a_long_name_that_a_collapser_would_repeat_is_refused_before_it_does() {
    type Shape = (&'static str, fn(usize) -> Vec<u8>);
    let shapes: [Shape; 3] = [
        ("sample", long_strings::macos_sample),
        ("vtune", long_strings::vtune),
        ("xctrace", long_strings::xctrace),
    ];
    for (from, generate) in shapes {
        let bytes = generate(8_000);
        assert_eq!(detect(&bytes).map(Importer::name), Some(from));
        let cost = cost_of(|| {
            let read = import(bytes.clone().into(), &ImportOptions::default());
            let is_refused = matches!(read, Err(ImportError::TooLarge { .. }));
            assert!(is_refused, "{from}: {:?}", read.map(|read| read.about));
        });
        let peak = cost.peak_bytes;
        assert!(peak < 4 * bytes.len() as u64, "{from}: {peak} bytes");
        import(generate(1_000).into(), &ImportOptions::default())
            .unwrap_or_else(|error| panic!("{from}: {error}"));
    }
}

#[test]
fn heap_profiles_cost_what_they_are() {
    assert_import_is_linear("a deep tree", "heapprofile", 1_000, foreign::heap_chain);
    assert_import_is_linear("allocations", "heapprofile", 2_000, foreign::heap_samples);
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

/// Each reads what comes before and says the number, or refuses the file with it.
#[test]
fn every_importer_stops_where_its_budget_ends() {
    let profile = shapes::functions(4_000);
    let written = EXPORTERS.iter().filter_map(|exporter| {
        let mut bytes = Vec::new();
        export(&profile, exporter.name(), &mut bytes).ok()?;
        importer_called(exporter.name())?;
        Some((exporter.name(), bytes))
    });
    let mut journal = JournalWriter::header();
    journal.extend(JournalWriter::default().block(&profile));
    let foreign: [(&str, Vec<u8>); 12] = [
        ("html", foreign::html_page(&profile)),
        ("journal", journal),
        ("sample", foreign::macos_sample(4_000)),
        ("xctrace", foreign::xctrace(4_000)),
        ("vtune", foreign::vtune(4_000)),
        ("perf-script", foreign::perf_script(4_000)),
        ("heapprofile", foreign::heap_samples(8_000)),
        ("bpftrace", foreign::bpftrace(4_000)),
        ("dtrace", foreign::dtrace(4_000)),
        ("v8-log", foreign::v8_log_new_code(4_000)),
        ("v8-preprocessed", long_strings::v8_preprocessed(4_000)),
        ("perf.data", perf_data::forks(4_000)),
    ];
    let limits = Limits {
        rows: 500,
        ..Limits::default()
    };
    let mut read = Vec::new();
    for (from, bytes) in written.chain(foreign) {
        let options = ImportOptions {
            limits,
            ..ImportOptions::from(Some(from))
        };
        let said = match import(bytes.into(), &options) {
            Ok(recording) => match recording.contents {
                Contents::Events(events) => events.replay(&mut |_| {}).remarks,
                _ => recording.notes.remarks,
            },
            Err(error) => vec![error.to_string()],
        };
        let has_number = |remark: &String| remark.contains("more than 500 rows");
        assert!(said.iter().any(has_number), "{from}: {said:?}");
        read.push(from);
    }
    for importer in IMPORTERS {
        assert!(read.contains(&importer.name()), "{}", importer.name());
    }
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
