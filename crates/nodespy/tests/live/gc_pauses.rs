//! The pauses of the garbage collector: are they those that V8 itself reports?

use std::path::Path;

use nodespy_model::{GcKind, GcPause, GcPauses};

use super::recorded::{Recorded, record};
use super::versions::on_every_node;
use super::workload::Workload;
use super::{is_root, live};
use crate::scratch::Scratch;
use crate::skip::skip;

/// Each pause has its moment: as many and as long as the sums say, one after the other, within the recording.
#[track_caller]
fn expect_timeline(recorded: &Recorded, tid: u32, sums: &[&GcPauses]) -> Vec<GcPause> {
    let mut threads = recorded.profile.threads.iter();
    let main = threads.find(|thread| thread.tid == tid).unwrap();
    let pauses = main.gc_timeline.pauses();
    for pair in pauses.windows(2) {
        assert!(
            pair[0].start + pair[0].lasted <= pair[1].start,
            "{pauses:?}"
        );
    }
    let last = pauses.last().unwrap();
    assert!(last.start + last.lasted <= recorded.profile.about.duration);
    // More than are kept are not among so few rounds.
    for of_kind in sums {
        let kept = pauses.iter().filter(|it| it.kind == of_kind.kind);
        let (count, total) = kept.fold((0, 0), |(count, total), it| (count + 1, total + it.lasted));
        assert_eq!((count, total), (of_kind.count, of_kind.total), "{pauses:?}");
    }
    pauses.to_vec()
}

/// Each pause is about as long as Node says, in milliseconds of each kind. The two don't start and stop at the same
/// instruction: on Node 16 the breakpoints are around Node's callbacks, from 22 on within them. Whoever takes the CPU
/// between the two makes a single pause much longer than Node's, or much shorter.
#[track_caller]
fn expect_lengths(pauses: &[GcPause], seen: &serde_json::Value) {
    let mut ratios = Vec::new();
    for kind in [GcKind::Scavenge, GcKind::MarkCompact] {
        let found: Vec<u64> = (pauses.iter().filter(|it| it.kind == kind))
            .map(|it| it.lasted)
            .collect();
        let known = seen[kind.label()].as_array().unwrap();
        assert!(!known.is_empty(), "{seen}");
        // V8 may collect before the work starts.
        let more = found.len().checked_sub(known.len());
        let more = more.filter(|more| *more <= 2);
        let more = more.unwrap_or_else(|| panic!("{kind:?}: {found:?}, {seen}"));
        let pairs = found[more..].iter().zip(known);
        ratios.extend(pairs.map(|(found, known)| *found as f64 / 1e6 / known.as_f64().unwrap()));
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    assert!(
        ratios[1] > 0.9 && median < 1.3,
        "{ratios:?} {pauses:?} {seen}"
    );
}

fn expect_pauses(major: &str) {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root may set breakpoints");
        return;
    }
    let scratch = Scratch::new();
    let seen = scratch.file("seen.json");
    let target = Workload::new("pauses.js")
        .on(major)
        .env("OUT", &seen)
        .start();
    let recorded = record(&target, &["-d", "120", "--gc-pauses"]);
    assert!(
        Path::new(&seen).exists(),
        "the program has not finished its work"
    );
    let seen: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&seen).unwrap()).unwrap();
    let threads = recorded.profile.threads.iter();
    let main: Vec<&GcPauses> = threads
        .filter(|thread| thread.tid == target.pid())
        .flat_map(|thread| &thread.gc_pauses)
        .collect();
    for kind in [GcKind::Scavenge, GcKind::MarkCompact] {
        let found = main.iter().find(|pauses| pauses.kind == kind);
        let found = found.unwrap_or_else(|| panic!("no {kind:?} among {main:?}, {seen}"));
        assert!(found.p99 <= found.longest && found.longest <= found.total);
    }
    let pauses = expect_timeline(&recorded, target.pid(), &main);
    expect_lengths(&pauses, &seen);
    let said = &recorded.outcome.stdout;
    assert!(said.contains("GC pauses: "), "{said}");
    let note = "where V8 collects garbage (--gc-pauses)";
    assert!(
        recorded.outcome.stderr.contains(note),
        "{}",
        recorded.outcome
    );
}

on_every_node! {{
    pauses_are_those_that_v8_reports(expect_pauses);
}}
