//! Whether what a call costs grows faster than its input. Shared by the tests of several crates.

use crate::counting::Cost;

/// How much more may be allocated, and held at once, when the input doubles.
const MAX_GROWTH: f64 = 2.5;
/// The same of the time. Tables outgrow the caches, which other programs want too: where five of these ran for each CPU,
/// linear reading took 18 times as long after three doublings, 2.6 for each. That is of the processor time, the least of several
/// runs: 2.5 fails again and again.
const MAX_TIME_GROWTH: f64 = 2.8;
/// How often the input doubles.
pub(crate) const DOUBLINGS: usize = 3;
/// Shorter times are noise on a busy machine. Those from here to 20 ms took at most 2.4 times as long for each doubling where
/// eight programs ran for each CPU.
const LEAST_SECONDS: f64 = 0.005;

/// What grows faster than the input in `costs`, each of an input twice as large as the one before.
///
/// Only over all doublings: what a quadratic loop needs is 64 times as much, vectors double at
/// times of their own, and a busy machine does not make one run ten times as long as another.
pub(crate) fn faults(what: &str, costs: &[(usize, Cost)]) -> Vec<String> {
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

pub(crate) fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
