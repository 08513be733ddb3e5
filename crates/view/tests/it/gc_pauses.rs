//! What a recording says of the pauses of V8's garbage collector.

use nodespy_model::{GcKind, GcPauses};

use crate::sample::{drawn, shop};

#[test]
fn pauses_are_told_by_kind() {
    assert!(!drawn(&shop(), "text").contains("GC pauses"));
    let mut profile = shop();
    let pauses = |kind: GcKind, count: u64, total: u64| GcPauses {
        kind,
        count,
        total,
        longest: 3_140_000,
        p99: 2_000_000,
    };
    profile.threads[0].gc_pauses = vec![
        pauses(GcKind::Scavenge, 212, 148_000_000),
        pauses(GcKind::MarkCompact, 1, 3_140_000),
    ];
    let text = drawn(&profile, "text");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = "GC pauses: 212 scavenges took 148.0 ms, max 3.1 ms, p99 2.0 ms; 1 mark-compact \
                took 3.1 ms,";
    assert!(text.contains(line), "{text}");
    let json = drawn(&profile, "json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let first = &json["gc_pauses"][0];
    assert_eq!(
        (&first["kind"], &first["count"]),
        (&"scavenge".into(), &212.into())
    );
    assert_eq!(first["total_ns"], 148_000_000);
}
