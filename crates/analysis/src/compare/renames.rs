//! Functions that only one side has, and that are one function under two names.
//!
//! A made-up pair of recordings can have as many of them as samples, so candidates are found by keys: the time
//! grows with the number of functions, not with that of pairs.

use std::collections::{BTreeSet, HashMap};

use super::identity::FunctionId;
use super::table::{AFTER, BEFORE, RowSide, Table};

/// Below this many samples a run, a function's cost is too unsure to know it by.
const MIN_SAMPLES: f64 = 20.0;
/// How much the costs of one function may differ under its two names.
const MAX_RATIO: f64 = 1.5;

/// Joins functions that were renamed, or moved to another file, and returns what each row was before. Evidence is
/// the same caller and a cost that is nearly the same; and the same file, or the same name.
pub(super) fn pair(table: &mut Table) -> Vec<(usize, FunctionId)> {
    let new = only_in(table, AFTER);
    let mut candidates = Candidates::of(table, &only_in(table, BEFORE));
    let mut callees: HashMap<usize, Vec<usize>> = HashMap::new();
    for &row in &new {
        if let Some(caller) = table.main_callers[row] {
            callees.entry(caller).or_default().push(row);
        }
    }
    let mut renamed = Vec::new();
    let mut now: HashMap<usize, usize> = HashMap::new();
    let mut is_paired = vec![false; table.rows.len()];
    // What a function calls is looked at again once it is known what the function was called.
    let mut waiting: Vec<usize> = new.into_iter().rev().collect();
    while let Some(row) = waiting.pop() {
        if is_paired[row] {
            continue;
        }
        let Some(old) = candidates.only_one(table, row) else {
            continue;
        };
        is_paired[row] = true;
        candidates.take(table, old, row);
        renamed.push((row, table.rows[old].id.clone()));
        now.insert(old, row);
        table.rows[row].sides[BEFORE] = std::mem::take(&mut table.rows[old].sides[BEFORE]);
        let runs = table.runs[BEFORE].len();
        let emptied = &mut table.rows[old].sides[BEFORE].costs;
        emptied.resize(runs, Default::default());
        waiting.extend(callees.get(&row).into_iter().flatten());
    }
    let callers = table.main_callers.iter_mut();
    for caller in callers.chain(&mut table.gaining_callers).flatten() {
        *caller = now.get(caller).copied().unwrap_or(*caller);
    }
    renamed
}

/// The rows that cost enough on one side and nothing on the other.
fn only_in(table: &Table, side: usize) -> Vec<usize> {
    let per_sample = |runs: &[super::table::Run]| runs.first().map_or(1.0, |run| run.per_sample);
    let sample = per_sample(&table.runs[BEFORE]).max(per_sample(&table.runs[AFTER]));
    let rows = table.rows.iter().enumerate();
    rows.filter(|(_, row)| {
        !row.sides[1 - side].has_cost() && mean_own(&row.sides[side]) / sample >= MIN_SAMPLES
    })
    .map(|(index, _)| index)
    .collect()
}

/// What a function and its candidates have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// The file, and the name of the caller.
    File(String, Option<String>),
    /// The name, and that of the caller.
    Name(String, Option<String>),
}

/// The functions that only the earlier side has, by key, in the order of their costs.
struct Candidates {
    by_key: HashMap<Key, BTreeSet<(u64, usize)>>,
    /// By caller.
    callees: HashMap<usize, Vec<usize>>,
    /// What the callers of those that are left are called now.
    callers: HashMap<usize, Option<String>>,
}

impl Candidates {
    fn of(table: &Table, rows: &[usize]) -> Self {
        let mut candidates = Self {
            by_key: HashMap::new(),
            callees: HashMap::new(),
            callers: HashMap::new(),
        };
        for &row in rows {
            candidates.add(table, row, caller_name(table, row));
            if let Some(caller) = table.main_callers[row] {
                candidates.callees.entry(caller).or_default().push(row);
            }
        }
        candidates
    }

    fn add(&mut self, table: &Table, row: usize, caller: Option<String>) {
        let cost = order(mean_own(&table.rows[row].sides[BEFORE]));
        for key in keys(table, row, caller.clone()) {
            self.by_key.entry(key).or_default().insert((cost, row));
        }
        self.callers.insert(row, caller);
    }

    /// The row that `row` was, if one fits. Two that fit equally well are no evidence for either.
    fn only_one(&self, table: &Table, row: usize) -> Option<usize> {
        let cost = mean_own(&table.rows[row].sides[AFTER]);
        let range = (order(cost / MAX_RATIO), 0)..(order(cost * MAX_RATIO), 0);
        let mut found = None;
        for key in keys(table, row, caller_name(table, row)) {
            let of_key = self.by_key.get(&key).into_iter();
            for &(_, old) in of_key.flat_map(|rows| rows.range(range.clone())).take(2) {
                if found.is_some_and(|found| found != old) {
                    return None;
                }
                found = Some(old);
            }
        }
        found
    }

    /// `old` is `row`: it is no candidate any more, and what it calls is called by a function of the new name.
    fn take(&mut self, table: &Table, old: usize, row: usize) {
        self.remove(table, old);
        for callee in self.callees.remove(&old).unwrap_or_default() {
            if self.remove(table, callee) {
                self.add(table, callee, Some(table.rows[row].id.name.clone()));
            }
        }
    }

    /// Whether it was there.
    fn remove(&mut self, table: &Table, row: usize) -> bool {
        let Some(caller) = self.callers.remove(&row) else {
            return false;
        };
        let entry = (order(mean_own(&table.rows[row].sides[BEFORE])), row);
        for key in keys(table, row, caller) {
            if let Some(rows) = self.by_key.get_mut(&key) {
                rows.remove(&entry);
            }
        }
        true
    }
}

fn keys(table: &Table, row: usize, caller: Option<String>) -> [Key; 2] {
    let id = &table.rows[row].id;
    [
        Key::File(id.file.clone(), caller.clone()),
        Key::Name(id.name.clone(), caller),
    ]
}

/// A caller that moved with a function has another row too: its name is enough.
fn caller_name(table: &Table, row: usize) -> Option<String> {
    table.main_callers[row].map(|caller| table.rows[caller].id.name.clone())
}

/// A cost as a number of the same order: those of floats that are not negative are in the order of their bits.
fn order(cost: f64) -> u64 {
    cost.max(0.0).to_bits()
}

fn mean_own(side: &RowSide) -> f64 {
    side.costs.iter().map(|cost| cost.own).sum::<f64>() / side.costs.len().max(1) as f64
}
