//! A comparison for a pull request: short, the details folded.

use nodespy_analysis::{Comparison, FunctionChange, Verdict};

use super::{
    closing, common, cost, headline, interval, percent_change, place, shown, sides, verdict,
};
use crate::columns::short_name;
use crate::report::{code, escaped};

/// A comment is read between two others: so many functions, the rest folded.
const MAX_OPEN: usize = 8;
const MAX_FOLDED: usize = 25;

/// A comparison as Markdown, below sixty lines.
pub fn comparison_markdown(comparison: &Comparison) -> String {
    let functions = shown(comparison, MAX_OPEN + MAX_FOLDED);
    let is_change = |function: &&FunctionChange| {
        matches!(
            function.own.verdict,
            Verdict::Regression | Verdict::Improvement
        )
    };
    let sure = functions
        .iter()
        .copied()
        .filter(is_change)
        .take(MAX_OPEN)
        .collect::<Vec<_>>();
    let rest: Vec<&FunctionChange> = functions
        .into_iter()
        .filter(|function| !sure.iter().any(|other| std::ptr::eq(*other, *function)))
        .take(MAX_FOLDED)
        .collect();
    let mut text = format!("### nodespy: {}\n\n", escaped(&verdict_of_all(comparison)));
    text.push_str(&format!("{}\n", escaped(&headline(comparison))));
    if let Some(common) = common(comparison) {
        text.push_str(&format!("\n{}\n", escaped(&common)));
    }
    if !sure.is_empty() {
        text.push_str(&table(comparison, &sure));
    }
    if !rest.is_empty() {
        text.push_str("\n<details><summary>What else differs</summary>\n");
        text.push_str(&table(comparison, &rest));
        text.push_str("\n</details>\n");
    }
    text.push('\n');
    for line in closing(comparison) {
        text.push_str(&format!("{}\n", escaped(&line)));
    }
    text.push_str(&format!("{}\n", escaped(&sides(comparison))));
    for remark in &comparison.remarks {
        text.push_str(&format!("- {}\n", escaped(remark)));
    }
    text
}

fn verdict_of_all(comparison: &Comparison) -> String {
    let of = |verdict: Verdict| {
        let functions = comparison.functions.iter().map(|function| &function.own);
        let families = comparison.families.iter().map(|family| &family.own);
        functions
            .chain(families)
            .filter(|change| change.verdict == verdict)
            .count()
    };
    let counted = |count: usize, noun: &str| match count {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    };
    match (of(Verdict::Regression), of(Verdict::Improvement)) {
        (0, 0) if comparison.smallest_seen.is_none() => "no verdict, too few runs".to_owned(),
        (0, 0) => "no change seen".to_owned(),
        (slower, 0) => counted(slower, "regression"),
        (0, faster) => counted(faster, "improvement"),
        (slower, faster) => format!(
            "{}, {}",
            counted(slower, "regression"),
            counted(faster, "improvement")
        ),
    }
}

fn table(comparison: &Comparison, functions: &[&FunctionChange]) -> String {
    let mut text = format!(
        "\n| change | 95 % interval | self | {} | |\n|--:|--:|--:|---|---|\n",
        comparison.rows.noun()
    );
    for function in functions {
        let own = &function.own;
        let change = match (own.before == 0.0, own.after == 0.0) {
            (true, _) => "new".to_owned(),
            (_, true) => "gone".to_owned(),
            _ => percent_change(own.ratio),
        };
        text.push_str(&format!(
            "| {change} | {} | {} → {} | {} {} | {} |\n",
            interval(own).trim_matches(['[', ']']),
            cost(own.before, comparison),
            cost(own.after, comparison),
            code(&short_name(&function.id.name)),
            escaped(&place(function)),
            escaped(&verdict(function)),
        ));
    }
    text
}
