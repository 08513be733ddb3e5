//! A comparison as JSON: stable and versioned, see `docs/json.md`.

use nodespy_analysis::{
    Basis, Change, Comparison, CostUnit, FamilyChange, FunctionChange, FunctionId,
};
use serde_json::{Value, json};

/// Goes up when a field changes its meaning or goes; new fields may come without.
const VERSION: u64 = 1;

/// A comparison as JSON.
pub fn comparison_json(comparison: &Comparison) -> String {
    let whole = comparison_value(comparison);
    let mut text = serde_json::to_string_pretty(&whole).unwrap_or_default();
    text.push('\n');
    text
}

/// The same as part of another object.
pub(crate) fn comparison_value(comparison: &Comparison) -> Value {
    let functions: Vec<Value> = comparison.functions.iter().map(function).collect();
    json!({
        "schema": "nodespy.diff",
        "version": VERSION,
        "unit": match comparison.unit {
            CostUnit::Seconds => "seconds",
            CostUnit::Samples => "samples",
            CostUnit::Bytes => "bytes",
            CostUnit::Events => "events",
        },
        "basis": match comparison.basis {
            Basis::Run => "run",
            Basis::Work => "work",
            Basis::Share => "share",
        },
        "work": comparison.work,
        "by": comparison.rows.noun(),
        "before": { "runs": comparison.before.runs, "samples": comparison.before.samples },
        "after": { "runs": comparison.after.runs, "samples": comparison.after.samples },
        "total": change(&comparison.total),
        "common": comparison.common.as_ref().map(change),
        "smallest_seen": comparison.smallest_seen,
        "runs_needed": comparison.runs_needed,
        "remarks": comparison.remarks,
        "functions": functions,
        "families": comparison.families.iter().map(family).collect::<Vec<Value>>(),
    })
}

fn change(change: &Change) -> Value {
    let (low, high) = change.interval.unzip();
    json!({
        "before": change.before,
        "after": change.after,
        "ratio": change.ratio,
        "low": low,
        "high": high,
        "smallest_seen": change.smallest_seen,
        "verdict": change.verdict.label().replace(' ', "_"),
    })
}

fn function(function: &FunctionChange) -> Value {
    let id = |id: &FunctionId| json!({ "name": id.name, "file": id.file });
    json!({
        "name": function.id.name,
        "file": function.id.file,
        "path": function.location.file,
        "line": function.location.line,
        "was": function.was.as_ref().map(id),
        "moved_with": function.moved_with.as_ref().map(id),
        "self": change(&function.own),
        "total": function.total.as_ref().map(change),
    })
}

fn family(family: &FamilyChange) -> Value {
    json!({
        "package": family.package.name,
        "kind": family.package.kind.label(),
        "functions": family.functions,
        "self": change(&family.own),
    })
}
