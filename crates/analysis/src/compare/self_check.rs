//! How often runs of one program are called different from each other.

use super::blocks::SplitMix;
use super::judge::{Terms, judge};
use super::run::RunCosts;
use super::table::{BEFORE, Row, RowSide, Table};
use super::{CompareError, CompareOptions, MIN_RUNS, Verdict, quality};

const SPLITS: usize = 200;

/// The outcome of splitting one side at random, again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SelfCheck {
    /// How often it was split.
    pub splits: usize,
    /// How many of the splits had a regression or an improvement in any function.
    pub alarms: usize,
    /// How many runs each half has.
    pub runs: usize,
}

/// Splits the runs of one program at random into two halves and compares them: what is found is a false alarm.
pub fn self_check(
    runs: Vec<RunCosts>,
    options: &CompareOptions,
) -> Result<SelfCheck, CompareError> {
    let runs = quality::kept(runs, &mut Vec::new())?;
    let half = runs.len() / 2;
    if half < MIN_RUNS {
        return Err(CompareError::TooFewRuns {
            needed: 2 * MIN_RUNS,
            given: runs.len(),
        });
    }
    let sides = [runs.as_slice(), &[]];
    let terms = Terms::of(sides, options)?;
    let all = Table::of(sides);
    let mut random = SplitMix(1);
    let mut alarms = 0;
    for _ in 0..SPLITS {
        let order = shuffled(runs.len(), &mut random);
        let comparison = judge(
            &split(&all, &order[..half], &order[half..2 * half]),
            &[],
            &terms,
            Vec::new(),
        );
        let is_alarm = |verdict| matches!(verdict, Verdict::Regression | Verdict::Improvement);
        alarms += usize::from(
            comparison
                .functions
                .iter()
                .any(|function| is_alarm(function.own.verdict)),
        );
    }
    Ok(SelfCheck {
        splits: SPLITS,
        alarms,
        runs: half,
    })
}

fn shuffled(length: usize, random: &mut SplitMix) -> Vec<usize> {
    let mut order: Vec<usize> = (0..length).collect();
    for last in (1..length).rev() {
        order.swap(last, random.below(last + 1));
    }
    order
}

/// The table with some runs before and others after.
fn split(all: &Table, before: &[usize], after: &[usize]) -> Table {
    let sides = [before, after];
    let side = |row: &Row, which: &[usize]| RowSide {
        costs: which
            .iter()
            .map(|&run| row.sides[BEFORE].costs[run])
            .collect(),
        location: row.sides[BEFORE].location.clone(),
    };
    let rows = all.rows.iter().map(|row| Row {
        id: row.id.clone(),
        package: row.package.clone(),
        sides: sides.map(|which| side(row, which)),
        is_merged: row.is_merged,
    });
    let runs = |which: &[usize]| {
        which
            .iter()
            .map(|&run| all.runs[BEFORE][run].clone())
            .collect()
    };
    Table {
        rows: rows.collect(),
        runs: sides.map(runs),
        main_callers: all.main_callers.clone(),
        gaining_callers: all.gaining_callers.clone(),
    }
}
