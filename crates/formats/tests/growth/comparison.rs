//! Runs that were made to give a comparison as many pairs as they have functions.

use std::fmt::Write;

use nodespy_analysis::{CompareOptions, RunCosts, compare};
use nodespy_formats::{ImportOptions, import};
use nodespy_model::Contents;

use crate::counting::{Cost, cost_of};
use crate::growth::{DOUBLINGS, assert_none, faults};

/// A run with `count` functions called `name` beside one that every run has.
fn run(count: usize, stack: impl Fn(usize) -> String) -> RunCosts {
    let mut text = "main;known 5000\n".to_owned();
    for number in 0..count {
        writeln!(text, "main;{}", stack(number)).unwrap();
    }
    let options = ImportOptions::from(Some("folded"));
    let recording = import(text.into_bytes().into(), &options).unwrap();
    let Contents::Named(profile) = recording.contents else {
        panic!("folded stacks are named");
    };
    RunCosts::of("run.folded", &profile, None)
}

fn assert_is_linear(
    what: &str,
    before: impl Fn(usize) -> String + Copy,
    after: impl Fn(usize) -> String + Copy,
) {
    let costs: Vec<(usize, Cost)> = (0..=DOUBLINGS)
        .map(|doubling| {
            let count = 500 << doubling;
            let runs = || (vec![run(count, before); 3], vec![run(count, after); 3]);
            let cost = cost_of(|| {
                let (before, after) = runs();
                compare(before, after, &CompareOptions::default()).unwrap();
            });
            (count, cost)
        })
        .collect();
    assert_none(&faults(what, &costs));
}

#[test]
fn functions_that_one_side_has_cost_what_they_are() {
    assert_is_linear(
        "renamed functions of one cost",
        |number| format!("old{number} 40"),
        |number| format!("new{number} 40"),
    );
    assert_is_linear(
        "renamed functions of different costs",
        |number| format!("old{number} {}", 40 + 2 * number),
        |number| format!("new{number} {}", 41 + 2 * number),
    );
    assert_is_linear(
        "renamed functions that call one another",
        |number| format!("old{};old{number} 40", number / 2),
        |number| format!("new{};new{number} 40", number / 2),
    );
}

#[test]
fn rises_and_falls_cost_what_they_are() {
    let weight = |number: usize, is_after: bool| match (number % 2 == 1) == is_after {
        true => 100,
        false => 50,
    };
    assert_is_linear(
        "rises and falls under one caller",
        |number| format!("f{number} {}", weight(number, false)),
        |number| format!("f{number} {}", weight(number, true)),
    );
}
