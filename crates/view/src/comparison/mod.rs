//! What two sets of runs differ by, in words.

mod json;
mod markdown;
mod matching;
mod page;
mod text;

pub use json::comparison_json;
pub(crate) use json::comparison_value;
pub use markdown::comparison_markdown;
pub(crate) use matching::{Matching, Standing, change_words};
pub(crate) use page::comparison_for_page;
pub use text::comparison_text;

use nodespy_analysis::{
    Basis, Change, Comparison, CostUnit, FamilyChange, FunctionChange, Verdict,
};

use crate::wording::count;

/// A ratio as a change: `+25.1 %`.
fn percent_change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    match percent.abs() {
        // Beyond this a factor is easier to read.
        size if size >= 1000.0 => format!("×{ratio:.0}"),
        size if size >= 99.95 => format!("{percent:+.0} %"),
        _ => format!("{percent:+.1} %"),
    }
}

/// The interval of a change, in percent; empty where there is none.
fn interval(change: &Change) -> String {
    let Some((low, high)) = change.interval else {
        return String::new();
    };
    let bound = |ratio: f64| {
        let percent = (ratio - 1.0) * 100.0;
        match percent.abs() {
            size if size >= 1000.0 => format!("×{ratio:.0}"),
            size if size >= 9.95 => format!("{percent:+.0}"),
            _ => format!("{percent:+.1}"),
        }
    };
    format!("[{}, {}]", bound(low), bound(high))
}

/// A cost in its unit.
fn cost(value: f64, comparison: &Comparison) -> String {
    if comparison.basis == Basis::Share {
        return format!("{:.1} %", value * 100.0);
    }
    match comparison.unit {
        CostUnit::Seconds if value == 0.0 => "0".to_owned(),
        CostUnit::Seconds if value < 1e-3 => format!("{:.1} us", value * 1e6),
        CostUnit::Seconds if value < 1.0 => format!("{:.1} ms", value * 1e3),
        CostUnit::Seconds => format!("{value:.2} s"),
        CostUnit::Samples | CostUnit::Events => count(value.round() as u64),
        CostUnit::Bytes => format!("{:.2} MB", value / 1e6),
    }
}

/// What costs are and what they are taken of.
fn basis(comparison: &Comparison) -> String {
    let what = match comparison.unit {
        CostUnit::Seconds => "CPU time",
        CostUnit::Samples => "samples",
        CostUnit::Bytes => "bytes",
        CostUnit::Events => "events",
    };
    match (comparison.basis, &comparison.work) {
        (Basis::Run, _) => format!("{what} per run"),
        (Basis::Work, Some(work)) => {
            format!("{what} per {}", work.strip_suffix('s').unwrap_or(work))
        }
        (Basis::Work, None) => what.to_owned(),
        (Basis::Share, _) => format!(
            "share of all {what}: the work of the runs is not known to be the same, so nothing is more than likely"
        ),
    }
}

/// The functions worth a line: those that changed, or where nothing can be tested those that differ most.
fn shown(comparison: &Comparison, most: usize) -> Vec<&FunctionChange> {
    let total = comparison.total.before.max(comparison.total.after);
    let is_worth_it = |function: &&FunctionChange| match function.own.verdict {
        Verdict::NoChange => false,
        Verdict::Untested => function.own.interval.is_some(),
        Verdict::New | Verdict::Gone => {
            function.own.before.max(function.own.after) >= 0.005 * total
        }
        _ => true,
    };
    comparison
        .functions
        .iter()
        .filter(is_worth_it)
        .take(most)
        .collect()
}

/// So many packages get a line for their small functions.
const MAX_FAMILIES: usize = 5;

/// What the functions of a package changed by that are too small to be judged one by one.
fn sentence_of(family: &FamilyChange, comparison: &Comparison) -> String {
    let own = &family.own;
    format!(
        "{} {}s of {} too small to judge alone, together: {} → {}, {} {}   {}",
        family.functions,
        comparison.rows.noun(),
        family.package.name,
        cost(own.before, comparison),
        cost(own.after, comparison),
        percent_change(own.ratio),
        interval(own),
        own.verdict.label()
    )
}

/// The sentences below the table.
fn closing(comparison: &Comparison) -> Vec<String> {
    let mut lines: Vec<String> = comparison
        .families
        .iter()
        .filter(|family| !matches!(family.own.verdict, Verdict::NoChange | Verdict::Untested))
        .take(MAX_FAMILIES)
        .map(|family| sentence_of(family, comparison))
        .collect();
    let unchanged = comparison
        .functions
        .iter()
        .filter(|function| function.own.verdict == Verdict::NoChange)
        .count();
    if let Some(seen) = comparison.smallest_seen {
        lines.push(format!(
            "No change seen in {unchanged} {}s; the smallest that could have been seen is {} (median).",
            comparison.rows.noun(),
            percent_change(seen)
        ));
    }
    if let Some(runs) = comparison.runs_needed {
        lines.push(format!("Too noisy for a change of 10 %: that takes about {runs} runs a side, or a quieter machine."));
    }
    lines
}

/// What every function has in common, where the sides differ in it.
fn common(comparison: &Comparison) -> Option<String> {
    let change = comparison.common?;
    let word = if change.ratio > 1.0 {
        "slower"
    } else {
        "faster"
    };
    Some(format!(
        "Everything is {} {word} {}: another machine or load, or a change everywhere. Functions below are relative to that.",
        percent_change(change.ratio).trim_start_matches(['+', '-']),
        interval(&change)
    ))
}

/// Where a function is, and what it was.
fn place(function: &FunctionChange) -> String {
    let file = match function.id.file.is_empty() {
        true => "",
        false => function.id.file.as_str(),
    };
    match function.location.line {
        0 => file.to_owned(),
        line => format!("{file}:{line}"),
    }
}

/// What else is to be known of a function's change.
fn remark(function: &FunctionChange) -> Option<String> {
    if let Some(other) = &function.moved_with {
        let direction = if function.own.after > function.own.before {
            "from"
        } else {
            "to"
        };
        return Some(format!("{direction} {}", other.name));
    }
    let was = function.was.as_ref()?;
    Some(match was.name == function.id.name {
        true => format!("was in {}", was.file),
        false => format!("was {}", was.name),
    })
}

/// The verdict of a function with its remark.
fn verdict(function: &FunctionChange) -> String {
    let label = match function.own.verdict {
        Verdict::Untested => "",
        verdict => verdict.label(),
    };
    match (label, remark(function)) {
        (label, None) => label.to_owned(),
        ("", Some(remark)) => remark,
        (label, Some(remark)) => format!("{label}, {remark}"),
    }
}

/// One line about the whole.
pub(crate) fn headline(comparison: &Comparison) -> String {
    let total = &comparison.total;
    if comparison.basis == Basis::Share {
        return basis(comparison);
    }
    let verdict = match total.verdict {
        Verdict::Untested => String::new(),
        verdict => format!("   {}", verdict.label()),
    };
    let interval = match interval(total) {
        interval if interval.is_empty() => interval,
        interval => format!(" {interval}"),
    };
    format!(
        "{}: {} → {}, {}{interval}{verdict}",
        basis(comparison),
        cost(total.before, comparison),
        cost(total.after, comparison),
        percent_change(total.ratio)
    )
}

/// How many runs and samples a side has.
fn sides(comparison: &Comparison) -> String {
    let side = |name: &str, side: nodespy_analysis::SideSummary| {
        let runs = if side.runs == 1 {
            "1 run".to_owned()
        } else {
            format!("{} runs", side.runs)
        };
        format!("{name}: {runs}, {} samples", count(side.samples as u64))
    };
    format!(
        "{}; {}",
        side("before", comparison.before),
        side("after", comparison.after)
    )
}
