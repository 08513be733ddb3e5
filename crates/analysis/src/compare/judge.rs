//! From costs per run to verdicts.

use std::collections::HashMap;

use super::identity::FunctionId;
use super::statistics::{Contrast, adjusted, mean, median};
use super::table::{Cost, Row, RowSide, Run, Table};
use super::{
    Basis, Change, CompareError, CompareOptions, Comparison, CostUnit, FunctionChange, MIN_RUNS,
    SideSummary, Verdict,
};

/// A function with fewer samples a run, over both sides, is not tested.
const MIN_SAMPLES: f64 = 20.0;
/// What all functions have in common is taken from those with more.
const MIN_SAMPLES_FOR_COMMON: f64 = 60.0;
/// Below so many functions the median of their changes is one function's change.
const MIN_FUNCTIONS_FOR_COMMON: usize = 5;
const LEVEL: f64 = 0.05;
/// A change of less than this part of the whole is no regression of the program.
const MIN_SHARE_OF_TOTAL: f64 = 0.005;
/// A median above this, as a ratio, is too noisy for the usual questions.
const NOISY: f64 = 1.10;
const MAX_RUNS_NEEDED: usize = 200;
/// What the interval of a single run is widened by.
const SINGLE_RUN_FACTOR: f64 = 2.0;

/// What is asked.
pub(super) struct Terms<'a> {
    pub(super) unit: CostUnit,
    pub(super) basis: Basis,
    pub(super) options: &'a CompareOptions,
}

impl Terms<'_> {
    /// What a run's costs are divided by.
    fn divisor(&self, run: &Run, is_after: bool) -> f64 {
        let work = self.options.work.as_ref();
        match self.basis {
            Basis::Run => 1.0,
            Basis::Work => work.map_or(1.0, |work| if is_after { work.after } else { work.before }),
            Basis::Share => run.cost,
        }
    }

    fn margin(&self) -> f64 {
        self.options.min_change.ln_1p()
    }
}

/// One figure of every run, as logarithms and as means.
struct Figures {
    before: Vec<f64>,
    after: Vec<f64>,
    mean_before: f64,
    mean_after: f64,
}

impl Figures {
    fn of(table: &Table, terms: &Terms<'_>, cost: impl Fn(usize, bool) -> f64) -> Self {
        let side = |runs: &[Run], is_after: bool| -> (Vec<f64>, f64) {
            let each = || runs.iter().enumerate();
            let logs = each().map(|(index, run)| {
                ((cost(index, is_after) + run.per_sample / 2.0) / terms.divisor(run, is_after)).ln()
            });
            let costs: Vec<f64> = each()
                .map(|(index, run)| cost(index, is_after) / terms.divisor(run, is_after))
                .collect();
            (logs.collect(), mean(&costs))
        };
        let (before, mean_before) = side(&table.before, false);
        let (after, mean_after) = side(&table.after, true);
        Self {
            before,
            after,
            mean_before,
            mean_after,
        }
    }

    fn of_row(table: &Table, terms: &Terms<'_>, row: &Row, part: fn(&Cost) -> f64) -> Self {
        let cost = |run: usize, is_after: bool| {
            let side = if is_after { &row.after } else { &row.before };
            part(&side.costs[run])
        };
        Self::of(table, terms, cost)
    }

    fn difference(&self) -> f64 {
        mean(&self.after) - mean(&self.before)
    }

    fn change(&self, verdict: Verdict) -> Change {
        Change {
            before: self.mean_before,
            after: self.mean_after,
            ratio: self.difference().exp(),
            interval: None,
            smallest_seen: None,
            verdict,
        }
    }
}

pub(super) fn judge(
    table: &Table,
    renamed: &[(usize, FunctionId)],
    terms: &Terms<'_>,
    remarks: Vec<String>,
) -> Result<Comparison, CompareError> {
    let is_in = |side: &RowSide| side.costs.iter().any(|cost| cost.own > 0.0);
    let is_shared = |row: &Row| is_in(&row.before) && is_in(&row.after);
    if !table.rows.iter().any(is_shared) {
        return Err(CompareError::OtherProgram);
    }
    let has_test = table.before.len() >= MIN_RUNS && table.after.len() >= MIN_RUNS;
    let common = has_test.then(|| Common::of(table, terms)).flatten();
    let (mut own, total) = match has_test {
        true => (
            tested(table, terms, common.as_ref(), |cost| cost.own),
            tested(table, terms, common.as_ref(), |cost| cost.total),
        ),
        false => (
            single(table, terms),
            untested(table, terms, |cost| cost.total),
        ),
    };
    let moves = find_moves(table, &mut own, &total);
    let smallest: Vec<f64> = own
        .iter()
        .filter_map(|change| change.smallest_seen)
        .collect();
    let smallest_seen = (!smallest.is_empty()).then(|| median(smallest));
    Ok(Comparison {
        unit: terms.unit,
        basis: terms.basis,
        work: terms.options.work.as_ref().map(|work| work.name.clone()),
        before: side_summary(&table.before),
        after: side_summary(&table.after),
        total: whole(table, terms, has_test),
        common: common.map(|common| common.change),
        functions: rows_in_order(table, renamed, &own, &total, &moves),
        smallest_seen,
        runs_needed: smallest_seen.and_then(|seen| runs_needed(table, terms, seen)),
        remarks,
    })
}

fn side_summary(runs: &[Run]) -> SideSummary {
    SideSummary {
        runs: runs.len(),
        samples: runs.iter().map(|run| run.samples).sum(),
    }
}

/// Samples a run over both sides: which of them has more is no reason to test.
fn samples(table: &Table, row: &Row, part: fn(&Cost) -> f64) -> f64 {
    let count = |runs: &[Run], side: &RowSide| -> f64 {
        let costs = runs.iter().zip(&side.costs);
        costs.map(|(run, cost)| part(cost) / run.per_sample).sum()
    };
    let all = count(&table.before, &row.before) + count(&table.after, &row.after);
    all / (table.before.len() + table.after.len()) as f64
}

/// What every function changed by alike: another machine, another load, or a change everywhere.
struct Common {
    before: Vec<f64>,
    after: Vec<f64>,
    change: Change,
}

impl Common {
    /// None when the sides do not differ in it.
    fn of(table: &Table, terms: &Terms<'_>) -> Option<Self> {
        if terms.basis == Basis::Share {
            return None;
        }
        let heavy = table
            .rows
            .iter()
            .filter(|row| samples(table, row, |cost| cost.own) >= MIN_SAMPLES_FOR_COMMON);
        let centred: Vec<Figures> = heavy
            .map(|row| centred(Figures::of_row(table, terms, row, |cost| cost.own)))
            .collect();
        if centred.len() < MIN_FUNCTIONS_FOR_COMMON {
            return None;
        }
        let of_run =
            |values: &dyn Fn(&Figures) -> f64| median(centred.iter().map(values).collect());
        let before: Vec<f64> = (0..table.before.len())
            .map(|run| of_run(&|figures| figures.before[run]))
            .collect();
        let after: Vec<f64> = (0..table.after.len())
            .map(|run| of_run(&|figures| figures.after[run]))
            .collect();
        let contrast = Contrast::of(&before, &after);
        if contrast.p_beyond(0.0) >= LEVEL {
            return None;
        }
        let figures = Figures {
            mean_before: mean(&before).exp(),
            mean_after: mean(&after).exp(),
            before,
            after,
        };
        let change = with_interval(figures.change(Verdict::NoChange), &contrast, 1);
        Some(Self {
            before: figures.before,
            after: figures.after,
            change,
        })
    }

    fn take_out_of(&self, figures: &mut Figures) {
        let subtract = |values: &mut Vec<f64>, common: &[f64]| {
            for (value, common) in values.iter_mut().zip(common) {
                *value -= common;
            }
        };
        subtract(&mut figures.before, &self.before);
        subtract(&mut figures.after, &self.after);
    }
}

fn centred(mut figures: Figures) -> Figures {
    let runs = (figures.before.len() + figures.after.len()) as f64;
    let mean = (figures.before.iter().sum::<f64>() + figures.after.iter().sum::<f64>()) / runs;
    for value in figures.before.iter_mut().chain(&mut figures.after) {
        *value -= mean;
    }
    figures
}

/// The change of every row, tested as one family.
fn tested(
    table: &Table,
    terms: &Terms<'_>,
    common: Option<&Common>,
    part: fn(&Cost) -> f64,
) -> Vec<Change> {
    let figures: Vec<Figures> = table
        .rows
        .iter()
        .map(|row| {
            let mut figures = Figures::of_row(table, terms, row, part);
            if let Some(common) = common {
                common.take_out_of(&mut figures);
            }
            figures
        })
        .collect();
    let mut changes = untested_of(&figures);
    let family: Vec<usize> = (0..table.rows.len())
        .filter(|&row| {
            changes[row].verdict == Verdict::Untested
                && samples(table, &table.rows[row], part) >= MIN_SAMPLES
        })
        .collect();
    let contrasts: Vec<Contrast> = family
        .iter()
        .map(|&row| Contrast::of(&figures[row].before, &figures[row].after))
        .collect();
    let p_beyond = |margin: f64| {
        adjusted(
            &contrasts
                .iter()
                .map(|contrast| contrast.p_beyond(margin))
                .collect::<Vec<_>>(),
        )
    };
    let least = MIN_SHARE_OF_TOTAL * of_runs(table, terms).mean_before;
    let (beyond_margin, beyond_nothing) = (p_beyond(terms.margin()), p_beyond(0.0));
    for (place, &row) in family.iter().enumerate() {
        let evidence = Evidence {
            beyond_margin: beyond_margin[place],
            beyond_nothing: beyond_nothing[place],
            difference: contrasts[place].difference,
            is_large: (figures[row].mean_after - figures[row].mean_before).abs() >= least,
        };
        let change = Change {
            verdict: evidence.verdict(terms),
            ..changes[row]
        };
        changes[row] = with_interval(change, &contrasts[place], family.len());
    }
    changes
}

/// What speaks for a change.
struct Evidence {
    beyond_margin: f64,
    beyond_nothing: f64,
    difference: f64,
    is_large: bool,
}

impl Evidence {
    fn verdict(&self, terms: &Terms<'_>) -> Verdict {
        let is_sure = self.beyond_margin < LEVEL && self.is_large && terms.basis != Basis::Share;
        let is_likely = self.beyond_nothing < LEVEL && self.difference.abs() >= terms.margin();
        match (is_sure, is_likely, self.difference > 0.0) {
            (true, _, true) => Verdict::Regression,
            (true, _, false) => Verdict::Improvement,
            (false, true, true) => Verdict::LikelySlower,
            (false, true, false) => Verdict::LikelyFaster,
            (false, false, _) => Verdict::NoChange,
        }
    }
}

/// The cost of whole runs.
fn of_runs(table: &Table, terms: &Terms<'_>) -> Figures {
    Figures::of(table, terms, |run, is_after| {
        let runs = if is_after {
            &table.after
        } else {
            &table.before
        };
        runs[run].cost
    })
}

fn untested(table: &Table, terms: &Terms<'_>, part: fn(&Cost) -> f64) -> Vec<Change> {
    let figures = table
        .rows
        .iter()
        .map(|row| Figures::of_row(table, terms, row, part));
    untested_of(&figures.collect::<Vec<_>>())
}

fn untested_of(figures: &[Figures]) -> Vec<Change> {
    let verdict = |figures: &Figures| match (figures.mean_before > 0.0, figures.mean_after > 0.0) {
        (false, true) => Verdict::New,
        (true, false) => Verdict::Gone,
        _ => Verdict::Untested,
    };
    figures
        .iter()
        .map(|figures| figures.change(verdict(figures)))
        .collect()
}

/// The change of every row where there are too few runs for a test: an interval from blocks of time, widened.
fn single(table: &Table, terms: &Terms<'_>) -> Vec<Change> {
    let spread = |runs: &[Run]| -> Vec<f64> {
        let rows = table.rows.len();
        let mut squares = vec![0.0; rows];
        for run in runs {
            let Some(blocks) = &run.blocks else { continue };
            for (square, spread) in squares.iter_mut().zip(blocks.spread(rows, run.per_sample)) {
                *square += spread * spread;
            }
        }
        squares
            .into_iter()
            .map(|square| square / (runs.len() * runs.len()) as f64)
            .collect()
    };
    let (before, after) = (spread(&table.before), spread(&table.after));
    let mut changes = untested(table, terms, |cost| cost.own);
    for (row, change) in changes.iter_mut().enumerate() {
        if change.verdict == Verdict::Untested
            && samples(table, &table.rows[row], |cost| cost.own) >= MIN_SAMPLES
        {
            let half = SINGLE_RUN_FACTOR * 1.96 * (before[row] + after[row]).sqrt();
            change.interval = Some((change.ratio * (-half).exp(), change.ratio * half.exp()));
        }
    }
    changes
}

fn with_interval(change: Change, contrast: &Contrast, tests: usize) -> Change {
    let half = contrast.half_width();
    Change {
        interval: Some((
            (contrast.difference - half).exp(),
            (contrast.difference + half).exp(),
        )),
        smallest_seen: Some(contrast.smallest_seen(tests).exp()),
        ..change
    }
}

/// The change of whole runs.
fn whole(table: &Table, terms: &Terms<'_>, has_test: bool) -> Change {
    let figures = of_runs(table, terms);
    let change = figures.change(Verdict::Untested);
    if !has_test || terms.basis == Basis::Share {
        return change;
    }
    let contrast = Contrast::of(&figures.before, &figures.after);
    let evidence = Evidence {
        beyond_margin: contrast.p_beyond(terms.margin()),
        beyond_nothing: contrast.p_beyond(0.0),
        difference: contrast.difference,
        is_large: true,
    };
    with_interval(
        Change {
            verdict: evidence.verdict(terms),
            ..change
        },
        &contrast,
        1,
    )
}

/// Finds costs that only went from one function to another: what one gained another lost, and a caller of both, or
/// one of them as the caller of the other, costs the same with what it calls.
fn find_moves(table: &Table, own: &mut [Change], total: &[Change]) -> Vec<Option<usize>> {
    let mut moves = vec![None; own.len()];
    let is_rise = |change: &Change| {
        matches!(
            change.verdict,
            Verdict::Regression | Verdict::LikelySlower | Verdict::New
        )
    };
    let is_fall = |change: &Change| {
        matches!(
            change.verdict,
            Verdict::Improvement | Verdict::LikelyFaster | Verdict::Gone
        )
    };
    let mut rises: Vec<usize> = (0..own.len()).filter(|&row| is_rise(&own[row])).collect();
    rises.retain(|&row| samples(table, &table.rows[row], |cost| cost.own) >= MIN_SAMPLES);
    let falls: Vec<usize> = (0..own.len()).filter(|&row| is_fall(&own[row])).collect();
    for rise in rises {
        let anchors = [Some(rise), table.main_callers[rise]];
        let is_steady = |anchor: &usize| total[*anchor].verdict == Verdict::NoChange;
        let gain = own[rise].after - own[rise].before;
        let found = anchors
            .into_iter()
            .flatten()
            .filter(is_steady)
            .find_map(|anchor| {
                let is_below =
                    |row: usize| row == anchor || table.main_callers[row] == Some(anchor);
                falls.iter().copied().find(|&fall| {
                    let loss = own[fall].before - own[fall].after;
                    moves[fall].is_none() && is_below(fall) && (0.5..2.0).contains(&(loss / gain))
                })
            });
        if let Some(fall) = found {
            (moves[rise], moves[fall]) = (Some(fall), Some(rise));
            own[rise].verdict = Verdict::Moved;
            own[fall].verdict = Verdict::Moved;
        }
    }
    moves
}

/// How many runs a side would show a change of 10 %, where the median function needs more than there are.
fn runs_needed(table: &Table, terms: &Terms<'_>, smallest_seen: f64) -> Option<usize> {
    if smallest_seen <= NOISY || terms.basis == Basis::Share {
        return None;
    }
    let runs = table.before.len().min(table.after.len()) as f64;
    // The error falls with the root of the number of runs; that of Student's t falls a little faster.
    let needed = runs * (smallest_seen.ln() / NOISY.ln()).powi(2);
    Some((needed.ceil() as usize).min(MAX_RUNS_NEEDED))
}

fn rows_in_order(
    table: &Table,
    renamed: &[(usize, FunctionId)],
    own: &[Change],
    total: &[Change],
    moves: &[Option<usize>],
) -> Vec<FunctionChange> {
    let was_of: HashMap<usize, &FunctionId> =
        renamed.iter().map(|(row, old)| (*row, old)).collect();
    let is_seen = |row: usize| own[row].before > 0.0 || own[row].after > 0.0;
    let mut functions: Vec<FunctionChange> = (0..table.rows.len())
        .filter(|&row| is_seen(row))
        .map(|row| {
            let Row {
                id,
                before,
                after,
                is_merged,
            } = &table.rows[row];
            let location = if own[row].after > 0.0 || after.location.line > 0 {
                &after.location
            } else {
                &before.location
            };
            FunctionChange {
                id: id.clone(),
                was: was_of.get(&row).map(|&old| old.clone()),
                location: location.clone(),
                own: own[row],
                total: (!is_merged).then_some(total[row]),
                moved_with: moves[row].map(|other| table.rows[other].id.clone()),
            }
        })
        .collect();
    let size = |function: &FunctionChange| (function.own.after - function.own.before).abs();
    functions.sort_by(|a, b| {
        a.own
            .verdict
            .cmp(&b.own.verdict)
            .then(size(b).total_cmp(&size(a)))
            .then_with(|| a.id.cmp(&b.id))
    });
    functions
}
