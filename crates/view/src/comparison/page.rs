//! What the HTML page has to know of a comparison: its colours are verdicts, and verdicts take all runs.

use nodespy_analysis::{Basis, Comparison, FunctionChange};
use serde_json::{Value, json};

use super::{Standing, change_words, headline};

/// A page shows a picture: beyond so many functions it would be a list.
const MAX_FUNCTIONS: usize = 5000;

/// The comparison as the page's script reads it (`ui/src/model/verdicts.ts`). What is left out may be noise.
pub(crate) fn comparison_for_page(comparison: &Comparison) -> String {
    let is_change = |function: &&FunctionChange| Standing::of(function) != Standing::Noise;
    let functions = comparison.functions.iter().filter(is_change);
    let functions: Vec<Value> = functions.take(MAX_FUNCTIONS).map(row).collect();
    let ratio = match comparison.basis {
        Basis::Share => 1.0,
        Basis::Run | Basis::Work => comparison.total.before / comparison.total.after,
    };
    let whole = json!({
        "headline": headline(comparison),
        "before": if ratio.is_finite() && ratio > 0.0 { ratio } else { 1.0 },
        "functions": functions,
    });
    // The element it is in must not be ended by a name.
    whole.to_string().replace('<', "\\u003c")
}

fn row(function: &FunctionChange) -> Value {
    let mut row = vec![
        function.id.name.as_str().into(),
        function.location.file.as_str().into(),
        function.location.line.into(),
        Standing::of(function).key().into(),
        change_words(function).into(),
    ];
    if let Some(was) = &function.was {
        row.push(was.name.as_str().into());
        row.push(was.file.as_str().into());
    }
    Value::Array(row)
}
