//! The pauses of the garbage collector: are they those that V8 itself reports?

use std::path::Path;

use nodespy_model::{GcKind, GcPauses};

use super::recorded::record;
use super::versions::on_every_node;
use super::workload::Workload;
use super::{is_root, live};
use crate::scratch::Scratch;
use crate::skip::skip;

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
        let known = &seen[kind.label()];
        let (count, total) = (known[0].as_f64().unwrap(), known[1].as_f64().unwrap());
        assert!(count > 0.0, "{seen}");
        // V8 may collect before the work starts.
        let more = found.count as f64 - count;
        assert!((0.0..=2.0).contains(&more), "{found:?} {seen}");
        let ratio = found.total as f64 / 1e6 / total;
        assert!(
            (0.9..1.3 + more).contains(&ratio),
            "{ratio} {found:?} {seen}"
        );
        assert!(found.p99 <= found.longest && found.longest <= found.total);
    }
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
