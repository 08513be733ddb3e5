//! Which callers functions run for, and through which of them a change came.

use nodespy_model::FastMap;

use super::FunctionCaller;
use super::run::RunCosts;
use super::table::{AFTER, BEFORE, Table};
use super::unit::per_weight;

/// The longest way up that is told.
const MAX_CALLERS: usize = 32;

/// What callers spend in a callee, as rows: caller, callee, cost of a run before and after.
#[derive(Default)]
pub(super) struct Calls {
    costs: FastMap<(usize, usize), [f64; 2]>,
}

impl Calls {
    /// Adds what a run of a side with `runs` of them spends. `row_of` is the row of each function of the run.
    pub(super) fn add(&mut self, run: &RunCosts, row_of: &[usize], (side, runs): (usize, usize)) {
        let factor = per_weight(&run.event) / runs.max(1) as f64;
        for call in &run.calls {
            let rows = (row_of[call.caller as usize], row_of[call.callee as usize]);
            self.costs.entry(rows).or_default()[side] += call.weight as f64 * factor;
        }
    }

    /// By row: the function that most of its cost was spent for, on both sides.
    pub(super) fn main_callers(&self, rows: usize) -> Vec<Option<usize>> {
        self.heaviest(rows, |[before, after]| before + after)
    }

    /// By row: the function that spends more in it than before, the most.
    pub(super) fn gaining_callers(&self, rows: usize) -> Vec<Option<usize>> {
        self.heaviest(rows, |[before, after]| after - before)
    }

    fn heaviest(&self, rows: usize, weight: fn([f64; 2]) -> f64) -> Vec<Option<usize>> {
        let mut heaviest: Vec<Option<(f64, usize)>> = vec![None; rows];
        for (&(caller, callee), &costs) in &self.costs {
            let cost = weight(costs);
            let is_heavier = |&(known, other): &(f64, usize)| {
                cost.total_cmp(&known).then(other.cmp(&caller)).is_gt()
            };
            if caller != callee && heaviest[callee].as_ref().is_none_or(is_heavier) {
                heaviest[callee] = Some((cost, caller));
            }
        }
        let callers = heaviest.into_iter();
        callers
            .map(|entry| entry.map(|(_, caller)| caller))
            .collect()
    }
}

/// The callers through which a row gained most, the nearest first.
pub(super) fn path_to(table: &Table, row: usize) -> Vec<FunctionCaller> {
    let mut rows = vec![row];
    while let Some(caller) = table.gaining_callers[rows[rows.len() - 1]] {
        // What calls itself over others ends where it was.
        if rows.len() > MAX_CALLERS || rows.contains(&caller) {
            break;
        }
        rows.push(caller);
    }
    let callers = rows[1..].iter().map(|&caller| {
        let row = &table.rows[caller];
        let side = match row.sides[AFTER].location.line > 0 {
            true => AFTER,
            false => BEFORE,
        };
        FunctionCaller {
            id: row.id.clone(),
            location: row.sides[side].location.clone(),
        }
    });
    callers.collect()
}
