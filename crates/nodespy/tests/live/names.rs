//! Are the names right: functions of every kind, compared label by label with what V8's own
//! profiler says of the same process at the same time.

use super::live;
use super::recorded::record;
use super::truth::{compare, start};
use super::versions::on_every_node;

/// How far the two may be apart, in points, beyond what the number of samples can't tell.
const POINTS: f64 = 5.0;

fn expect_same(version: &str, workload: &str, seconds: &str) {
    let Some(_live) = live() else { return };
    let comparison = compare(version, workload, seconds);
    eprintln!("{workload} on node {version}: {}", comparison.table());
    comparison.expect_agreement(POINTS);
}

/// Records `frameless.js`: a builtin without a frame counts for the function that called it. V8's own
/// profiler has it wrong (docs/decisions/0005-who-is-right.md).
fn expect_callers_of_frameless(version: &str) {
    let Some(_live) = live() else { return };
    let target = start(version, &[], "frameless.js", &[]);
    let recorded = record(&target, &["-d", "2", "-F", "999"]);
    let (inner, outer) = (recorded.total_share("inner"), recorded.total_share("outer"));
    assert!(
        inner > 0.85 && inner / outer > 0.98,
        "inner {inner:.3}, outer {outer:.3}\n{}",
        recorded.describe()
    );
}

on_every_node! {{
    every_kind_of_function_has_the_label_v8_gives_it(|version| expect_same(version, "names.js", "4"));
    frameless_builtins_count_for_the_function_that_called_them(expect_callers_of_frameless);
    inlined_functions_have_the_time_v8_gives_them(|version| expect_same(version, "inline.js", "2"));
    sorting_json_and_regular_expressions_have_the_time_v8_gives_them(|version| {
        expect_same(version, "mix.js", "3");
    });
    async_functions_have_the_time_v8_gives_them(|version| expect_same(version, "async.js", "2"));
    young_closures_have_the_time_v8_gives_them(|version| expect_same(version, "gc.js", "3"));
}}
