//! Functions that only one side has, and that are one function under two names.

use super::identity::FunctionId;
use super::table::{Row, RowSide, Run, Table};

/// Below this many samples a run, a function's cost is too unsure to know it by.
const MIN_SAMPLES: f64 = 20.0;
/// How much the costs of one function may differ under its two names.
const MAX_RATIO: f64 = 1.5;

/// Joins functions that were renamed, or moved to another file, and returns what each row was before. Evidence is
/// the same caller and a cost that is nearly the same; and the same file, or the same name.
pub(super) fn pair(table: &mut Table) -> Vec<(usize, FunctionId)> {
    let gone: Vec<usize> = only_in(table, |row| (&row.before, &row.after));
    let new: Vec<usize> = only_in(table, |row| (&row.after, &row.before));
    let mut paired = Vec::new();
    for &row in &new {
        let mut candidates = gone
            .iter()
            .filter(|&&old| is_same(table, old, row, &paired));
        // Two that fit equally well are no evidence for either.
        if let (Some(&old), None) = (candidates.next(), candidates.next()) {
            paired.push((row, old));
        }
    }
    let mut renamed = Vec::new();
    for (row, old) in paired {
        let before = std::mem::take(&mut table.rows[old].before);
        renamed.push((row, table.rows[old].id.clone()));
        let runs = before.costs.len();
        table.rows[row].before = before;
        table.rows[old]
            .before
            .costs
            .resize(runs, Default::default());
    }
    renamed
}

fn only_in(table: &Table, sides: impl Fn(&Row) -> (&RowSide, &RowSide)) -> Vec<usize> {
    let runs = |row: &Row| -> (f64, f64) {
        let (here, there) = sides(row);
        let per_sample = |runs: &[Run]| {
            runs.first()
                .map_or(1.0, |run| run.per_sample.max(f64::MIN_POSITIVE))
        };
        let sample = per_sample(&table.before).max(per_sample(&table.after));
        let own = |side: &RowSide| side.costs.iter().map(|cost| cost.own).sum::<f64>();
        (
            own(here) / sample / here.costs.len().max(1) as f64,
            own(there),
        )
    };
    let is_only_here = |row: &Row| {
        let (samples, elsewhere) = runs(row);
        samples >= MIN_SAMPLES && elsewhere == 0.0
    };
    let rows = table.rows.iter().enumerate();
    rows.filter(|(_, row)| is_only_here(row))
        .map(|(index, _)| index)
        .collect()
}

fn is_same(table: &Table, old: usize, new: usize, paired: &[(usize, usize)]) -> bool {
    let (before, after) = (&table.rows[old], &table.rows[new]);
    if paired.iter().any(|&(_, taken)| taken == old) {
        return false;
    }
    let is_alike = before.id.file == after.id.file || before.id.name == after.id.name;
    let ratio = mean_own(&after.after) / mean_own(&before.before);
    let renamed = |row: usize| {
        paired
            .iter()
            .find(|&&(_, old)| old == row)
            .map_or(row, |&(new, _)| new)
    };
    let callers = [
        table.main_callers[old].map(renamed),
        table.main_callers[new],
    ];
    // A caller that moved with it has another row too: its name is enough.
    let names = callers.map(|caller| caller.map(|row| &table.rows[row].id.name));
    is_alike && names[0] == names[1] && ratio < MAX_RATIO && ratio > 1.0 / MAX_RATIO
}

fn mean_own(side: &RowSide) -> f64 {
    side.costs.iter().map(|cost| cost.own).sum::<f64>() / side.costs.len().max(1) as f64
}
