//! How honest `nodespy diff` is on recordings of one machine: how often equal runs are called different, how often a
//! planted change is found, and what changes that are none are called.
//!
//!   honesty FOLDER     the recordings that run.sh made: VARIANT-NUMBER.nspy
//!
//! A comparison draws its runs at random from the recordings, without putting them back.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a report on the terminal is what this program is for"
)]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use nodespy_analysis::{
    CompareOptions, Comparison, Filters, Holding, RunCosts, Verdict, compare, filtered,
    shown_event, without_idle,
};
use nodespy_model::Contents;

/// The function that does more in some variants.
const PLANTED: &str = "hashInts";
const EQUAL_DRAWS: usize = 200;
const PLANTED_DRAWS: usize = 100;

fn main() -> Result<(), String> {
    let folder = std::env::args().nth(1).ok_or("usage: honesty FOLDER")?;
    let variants = read(Path::new(&folder))?;
    println!("Recordings:");
    for (name, runs) in &variants {
        println!("- {name}: {}", runs.len());
    }
    let equal = variants.get("equal").ok_or("there are no equal-*.nspy")?;
    println!(
        "\n| comparison | runs a side | comparisons | with any regression | of which {PLANTED} | another | smallest seen, median | ratio of {PLANTED}, median |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    let mut random = Random(1);
    for count in [3, 5, 10] {
        row("equal", equal, None, count, EQUAL_DRAWS, &mut random);
    }
    for (name, runs) in variants.iter().filter(|(name, _)| name.as_str() != "equal") {
        for count in [5, 10] {
            row(name, equal, Some(runs), count, PLANTED_DRAWS, &mut random);
        }
    }
    Ok(())
}

fn read(folder: &Path) -> Result<BTreeMap<String, Vec<RunCosts>>, String> {
    let mut variants: BTreeMap<String, Vec<RunCosts>> = BTreeMap::new();
    let entries = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for file in files {
        let stem = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let Some((variant, _)) = stem.rsplit_once('-') else {
            continue;
        };
        if file.extension().is_none_or(|extension| extension != "nspy") {
            continue;
        }
        let recording = nodespy_formats::import_file(&file, &Default::default())
            .map_err(|error| format!("{}: {error}", file.display()))?;
        let Contents::Named(profile) = recording.contents else {
            return Err(format!("{} has no names", file.display()));
        };
        let shown = filtered(
            shown_event(Cow::Owned(*profile)),
            &Filters::default(),
            Holding::WhatIsShown,
        )
        .map_err(|error| error.to_string())?;
        let shown = without_idle(shown.into_owned());
        let run = RunCosts::of(&stem, &shown, None);
        variants.entry(variant.to_owned()).or_default().push(run);
    }
    Ok(variants)
}

/// Compares runs drawn at random, again and again, and prints what came out.
fn row(
    name: &str,
    equal: &[RunCosts],
    other: Option<&Vec<RunCosts>>,
    count: usize,
    draws: usize,
    random: &mut Random,
) {
    let needed = if other.is_none() { 2 * count } else { count };
    if equal.len() < needed || other.is_some_and(|other| other.len() < count) {
        return;
    }
    let (mut any, mut planted, mut another) = (0, 0, 0);
    let (mut seen, mut ratios) = (Vec::new(), Vec::new());
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..draws {
        let mut before = random.drawn(equal, needed);
        let after = match other {
            Some(other) => random.drawn(other, count),
            None => before.split_off(count),
        };
        let Ok(comparison) = compare(before, after, &CompareOptions::default()) else {
            continue;
        };
        let found = regressions(&comparison);
        any += usize::from(!found.is_empty());
        planted += usize::from(found.iter().any(|name| name == PLANTED));
        another += usize::from(found.iter().any(|name| name != PLANTED));
        for name in found {
            *names.entry(name).or_default() += 1;
        }
        seen.extend(comparison.smallest_seen);
        let mut functions = comparison.functions.iter();
        let function = functions.find(|function| function.id.name == PLANTED);
        ratios.extend(function.map(|function| function.own.ratio));
    }
    let percent = |ratio: f64| format!("{:+.1} %", 100.0 * (ratio - 1.0));
    println!(
        "| {name} | {count} | {draws} | {any} | {planted} | {another} | {} | {} |",
        percent(median(seen)),
        percent(median(ratios))
    );
    if another > 0 {
        names.remove(PLANTED);
        eprintln!("{name}, {count} a side, called a regression beside {PLANTED}: {names:?}");
    }
}

/// What is called a regression: functions, and families of small ones.
fn regressions(comparison: &Comparison) -> Vec<String> {
    let functions = comparison.functions.iter();
    let functions = functions.map(|function| (function.own.verdict, function.id.name.clone()));
    let families = comparison.families.iter();
    let families = families.map(|family| {
        (
            family.own.verdict,
            format!("small of {}", family.package.name),
        )
    });
    functions
        .chain(families)
        .filter(|(verdict, _)| *verdict == Verdict::Regression)
        .map(|(_, name)| name)
        .collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The same numbers each time.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }

    fn drawn(&mut self, runs: &[RunCosts], count: usize) -> Vec<RunCosts> {
        let mut order: Vec<usize> = (0..runs.len()).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, self.below(last + 1));
        }
        order[..count]
            .iter()
            .map(|&run| runs[run].clone())
            .collect()
    }
}
