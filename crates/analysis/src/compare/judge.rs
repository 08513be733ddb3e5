//! From costs per run to verdicts.

use std::collections::HashMap;

use nodespy_model::SmallSort;

use super::figures::Figures;
use super::identity::FunctionId;
use super::run::RunCosts;
use super::statistics::{Contrast, adjusted, mean, median};
use super::table::{AFTER, BEFORE, Cost, Row, Run, Table};
use super::{
    Basis, Change, CompareError, CompareOptions, Comparison, CostUnit, FunctionChange, MIN_RUNS,
    SideSummary, Verdict, Work, callers, causes, family, moves, quality,
};

/// A function with fewer samples a run, over both sides, is not tested.
pub(super) const MIN_SAMPLES: f64 = 20.0;
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
    unit: CostUnit,
    basis: Basis,
    options: &'a CompareOptions,
    /// Whether each side has its own version of Node.
    has_other_node: bool,
}

impl<'a> Terms<'a> {
    /// Finds out what the runs can be compared in. An error says why they can't.
    pub(super) fn of(
        sides: [&[RunCosts]; 2],
        options: &'a CompareOptions,
    ) -> Result<Self, CompareError> {
        let runs = || sides.into_iter().flatten();
        if let Some(Work::Label(label)) = &options.work
            && let Some(run) = runs().find(|run| run.units_of_work.unwrap_or(0) == 0)
        {
            return Err(CompareError::NoLabel {
                run: run.name.clone(),
                label: label.clone(),
            });
        }
        let basis = options.basis.unwrap_or_else(|| match &options.work {
            Some(_) => Basis::Work,
            None if runs().all(|run| run.is_whole) => Basis::Run,
            None => Basis::Share,
        });
        Ok(Self {
            unit: CostUnit::common(runs(), options.basis)?,
            basis,
            options,
            has_other_node: quality::has_other_node(sides),
        })
    }

    /// What the costs of a run of a side are divided by.
    pub(super) fn divisor(&self, run: &Run, side: usize) -> f64 {
        match (self.basis, &self.options.work) {
            (Basis::Run, _) | (Basis::Work, None) => 1.0,
            (Basis::Work, Some(Work::Known { before, after, .. })) => [*before, *after][side],
            (Basis::Work, Some(Work::Label(_))) => run.units_of_work.unwrap_or(1).max(1) as f64,
            (Basis::Share, _) => run.cost,
        }
    }

    fn margin(&self) -> f64 {
        self.options.min_change.ln_1p()
    }
}

pub(super) fn judge(
    table: &Table,
    renamed: &[(usize, FunctionId)],
    terms: &Terms<'_>,
    remarks: Vec<String>,
) -> Comparison {
    let has_test = table.runs.iter().all(|runs| runs.len() >= MIN_RUNS);
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
    let moves = moves::find(table, &mut own, &total);
    causes::cap(table, &mut own, &total, terms.has_other_node);
    let smallest: Vec<f64> = own
        .iter()
        .filter_map(|change| change.smallest_seen)
        .collect();
    let smallest_seen = (!smallest.is_empty()).then(|| median(smallest));
    let [before, after] = table.runs.each_ref().map(|runs| side_summary(runs));
    Comparison {
        rows: super::Rows::default(),
        unit: terms.unit,
        basis: terms.basis,
        work: terms
            .options
            .work
            .as_ref()
            .map(|work| work.name().to_owned()),
        before,
        after,
        total: whole(table, terms, has_test),
        families: match has_test {
            true => family::families(table, terms, common.as_ref()),
            false => Vec::new(),
        },
        common: common.map(|common| common.change),
        functions: rows_in_order(table, renamed, &own, &total, &moves),
        smallest_seen,
        runs_needed: smallest_seen.and_then(|seen| runs_needed(table, terms, seen)),
        remarks,
    }
}

fn side_summary(runs: &[Run]) -> SideSummary {
    SideSummary {
        runs: runs.len(),
        samples: runs.iter().map(|run| run.samples).sum(),
    }
}

/// What every function changed by alike: another machine, another load, or a change everywhere.
pub(super) struct Common {
    logs: [Vec<f64>; 2],
    change: Change,
}

impl Common {
    /// None when the sides do not differ in it, or it is a change like any other.
    fn of(table: &Table, terms: &Terms<'_>) -> Option<Self> {
        if terms.basis == Basis::Share || terms.options.keeps_common {
            return None;
        }
        let heavy = table
            .rows
            .iter()
            .filter(|row| table.samples(row, |cost| cost.own) >= MIN_SAMPLES_FOR_COMMON);
        let centred: Vec<Figures> = heavy
            .map(|row| Figures::of_row(table, terms, row, |cost| cost.own).centred())
            .collect();
        if centred.len() < MIN_FUNCTIONS_FOR_COMMON {
            return None;
        }
        let logs = [BEFORE, AFTER].map(|side| -> Vec<f64> {
            let of_run = |run: usize| centred.iter().map(move |figures| figures.logs[side][run]);
            let runs = 0..table.runs[side].len();
            runs.map(|run| median(of_run(run).collect())).collect()
        });
        let contrast = Contrast::of(&logs[BEFORE], &logs[AFTER]);
        if contrast.p_beyond(0.0) >= LEVEL {
            return None;
        }
        let means = logs.each_ref().map(|logs| mean(logs).exp());
        let figures = Figures { logs, means };
        let change = with_interval(figures.change(Verdict::NoChange), &contrast, 1);
        Some(Self {
            logs: figures.logs,
            change,
        })
    }

    pub(super) fn take_out_of(&self, figures: &mut Figures) {
        for (values, common) in figures.logs.iter_mut().zip(&self.logs) {
            for (value, common) in values.iter_mut().zip(common) {
                *value -= common;
            }
        }
    }
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
    test(table, terms, &figures, |row| {
        table.samples(&table.rows[row], part)
    })
}

/// Tests figures as one family. Those of one side only, or of too few samples, get no verdict.
pub(super) fn test(
    table: &Table,
    terms: &Terms<'_>,
    figures: &[Figures],
    samples: impl Fn(usize) -> f64,
) -> Vec<Change> {
    let mut changes: Vec<Change> = figures.iter().map(Figures::untested).collect();
    let family: Vec<usize> = (0..figures.len())
        .filter(|&row| changes[row].verdict == Verdict::Untested && samples(row) >= MIN_SAMPLES)
        .collect();
    let contrasts: Vec<Contrast> = family
        .iter()
        .map(|&row| Contrast::of(&figures[row].logs[BEFORE], &figures[row].logs[AFTER]))
        .collect();
    let p_beyond = |margin: f64| {
        let p_values = contrasts.iter().map(|contrast| contrast.p_beyond(margin));
        adjusted(&p_values.collect::<Vec<_>>())
    };
    let least = MIN_SHARE_OF_TOTAL * Figures::of_runs(table, terms).means[BEFORE];
    let (beyond_margin, beyond_nothing) = (p_beyond(terms.margin()), p_beyond(0.0));
    for (place, &row) in family.iter().enumerate() {
        let [before, after] = figures[row].means;
        let evidence = Evidence {
            beyond_margin: beyond_margin[place],
            beyond_nothing: beyond_nothing[place],
            difference: contrasts[place].difference,
            is_large: (after - before).abs() >= least,
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

fn untested(table: &Table, terms: &Terms<'_>, part: fn(&Cost) -> f64) -> Vec<Change> {
    let rows = table.rows.iter();
    rows.map(|row| Figures::of_row(table, terms, row, part).untested())
        .collect()
}

/// The change of every row where there are too few runs for a test: an interval from blocks of time, widened.
fn single(table: &Table, terms: &Terms<'_>) -> Vec<Change> {
    // The variance of the mean over the runs of a side.
    let variance = |row: usize, runs: &[Run]| -> f64 {
        let squares: f64 = runs.iter().map(|run| run.spread[row].powi(2)).sum();
        squares / (runs.len() * runs.len()) as f64
    };
    let mut changes = untested(table, terms, |cost| cost.own);
    for (row, change) in changes.iter_mut().enumerate() {
        if change.verdict == Verdict::Untested
            && table.samples(&table.rows[row], |cost| cost.own) >= MIN_SAMPLES
        {
            let variances = table.runs.iter().map(|runs| variance(row, runs));
            let half = SINGLE_RUN_FACTOR * 1.96 * variances.sum::<f64>().sqrt();
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
    let figures = Figures::of_runs(table, terms);
    let change = figures.change(Verdict::Untested);
    if !has_test || terms.basis == Basis::Share {
        return change;
    }
    let contrast = Contrast::of(&figures.logs[BEFORE], &figures.logs[AFTER]);
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

/// How many runs a side would show a change of 10 %, where the median function needs more than there are.
fn runs_needed(table: &Table, terms: &Terms<'_>, smallest_seen: f64) -> Option<usize> {
    if smallest_seen <= NOISY || terms.basis == Basis::Share {
        return None;
    }
    let runs = table.runs.iter().map(Vec::len).min().unwrap_or(0) as f64;
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
                sides,
                is_merged,
                ..
            } = &table.rows[row];
            let is_after = own[row].after > 0.0 || sides[AFTER].location.line > 0;
            FunctionChange {
                id: id.clone(),
                was: was_of.get(&row).map(|&old| old.clone()),
                location: sides[usize::from(is_after)].location.clone(),
                own: own[row],
                total: (!is_merged).then_some(total[row]),
                moved_with: moves[row].map(|other| table.rows[other].id.clone()),
                callers: callers::path_to(table, row),
            }
        })
        .collect();
    let size = |function: &FunctionChange| (function.own.after - function.own.before).abs();
    functions.small_sort_by(|a, b| {
        a.own
            .verdict
            .cmp(&b.own.verdict)
            .then(size(b).total_cmp(&size(a)))
            .then_with(|| a.id.cmp(&b.id))
    });
    functions
}
