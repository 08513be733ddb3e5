//! A comparison for the terminal.

use nodespy_analysis::{Comparison, FunctionChange, Verdict};

use super::{
    closing, common, cost, headline, interval, percent_change, place, shown, sides, verdict,
};
use crate::Terminal;
use crate::columns::{keep_end, short_name, width_of};
use crate::text::Paint;

const MAX_FUNCTIONS: usize = 20;

/// A comparison as a table.
pub fn comparison_text(comparison: &Comparison, terminal: Terminal) -> String {
    let paint = Paint {
        is_on: terminal.has_color,
    };
    let mut lines = vec![sides(comparison), paint.bold(&headline(comparison))];
    lines.extend(common(comparison));
    let functions = shown(comparison, MAX_FUNCTIONS);
    if functions.is_empty() {
        lines.push(String::new());
        let noun = comparison.rows.noun();
        lines.push(format!("No {noun} changed that could be told from noise."));
    } else {
        lines.push(String::new());
        lines.extend(table(comparison, &functions, terminal.width_columns, paint));
    }
    lines.push(String::new());
    lines.extend(closing(comparison));
    lines.extend(
        comparison
            .remarks
            .iter()
            .map(|remark| format!("note: {remark}")),
    );
    let mut text = String::new();
    for line in lines {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// One row of text cells and what colour it has.
struct Line {
    cells: [String; 5],
    verdict: Verdict,
}

fn table(
    comparison: &Comparison,
    functions: &[&FunctionChange],
    width: usize,
    paint: Paint,
) -> Vec<String> {
    let headings = [
        "change",
        "95 % interval",
        "self, before → after",
        comparison.rows.noun(),
        "",
    ]
    .map(str::to_owned);
    let mut rows = vec![Line {
        cells: headings,
        verdict: Verdict::NoChange,
    }];
    rows.extend(functions.iter().map(|function| line(comparison, function)));
    let widest = |column: usize| {
        rows.iter()
            .map(|row| width_of(&row.cells[column]))
            .max()
            .unwrap_or(0)
    };
    let widths = [widest(0), widest(1), widest(2), widest(3)];
    let left: usize = widths[..3].iter().map(|width| width + 2).sum();
    let verdicts = widest(4);
    // Verdicts are short and matter most; the name gives way.
    let names = widths[3].min(width.saturating_sub(left + verdicts + 2).max(16));
    let padded = |text: &str, width: usize| {
        format!("{}{text}", " ".repeat(width.saturating_sub(width_of(text))))
    };
    let draw = |row: &Line| {
        let name = keep_end(&row.cells[3], names);
        let filled = format!(
            "{name}{}",
            " ".repeat(names.saturating_sub(width_of(&name)))
        );
        let change = padded(&row.cells[0], widths[0]);
        let verdict = match row.verdict {
            Verdict::Regression => paint.red(&row.cells[4]),
            Verdict::Improvement => paint.green(&row.cells[4]),
            _ => row.cells[4].clone(),
        };
        let figures = format!(
            "{}  {}",
            padded(&row.cells[1], widths[1]),
            padded(&row.cells[2], widths[2])
        );
        format!("{change}  {figures}  {filled}  {verdict}")
    };
    rows.iter().map(draw).collect()
}

fn line(comparison: &Comparison, function: &FunctionChange) -> Line {
    let own = &function.own;
    let change = match own.verdict {
        Verdict::New => "new".to_owned(),
        Verdict::Gone => "gone".to_owned(),
        _ if own.before == 0.0 => "new".to_owned(),
        _ if own.after == 0.0 => "gone".to_owned(),
        _ => percent_change(own.ratio),
    };
    let costs = format!(
        "{} → {}",
        cost(own.before, comparison),
        cost(own.after, comparison)
    );
    let name = format!("{}  {}", short_name(&function.id.name), place(function));
    let said = match own.verdict {
        Verdict::New | Verdict::Gone => String::new(),
        _ => verdict(function),
    };
    Line {
        cells: [
            change,
            interval(own),
            costs,
            name.trim_end().to_owned(),
            said,
        ],
        verdict: own.verdict,
    }
}
