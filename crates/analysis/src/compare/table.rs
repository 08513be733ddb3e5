//! The runs of both sides as one table: a row a function, a column a run.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use nodespy_model::{FunctionIndex, Profile};

use super::MIN_RUNS;
use super::blocks::Blocks;
use super::identity::{FunctionId, program_root, stable_file};
use super::unit::CostUnit;
use crate::tree::CallTree;
use crate::weights::function_weights;

/// What a function cost in one run.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Cost {
    pub(super) own: f64,
    pub(super) total: f64,
}

/// Where a function is in the runs of one side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Location {
    /// Its file as recorded.
    pub file: String,
    /// The line it starts at; 0 when not known.
    pub line: u32,
}

/// One side of a row.
#[derive(Debug, Clone, Default)]
pub(super) struct RowSide {
    /// By run.
    pub(super) costs: Vec<Cost>,
    pub(super) location: Location,
}

/// A function of either side or both.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) id: FunctionId,
    pub(super) before: RowSide,
    pub(super) after: RowSide,
    /// Several functions of one name that can't be told apart: only their own cost adds up.
    pub(super) is_merged: bool,
}

/// One run.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// What all of it cost.
    pub(super) cost: f64,
    /// What one sample stands for.
    pub(super) per_sample: f64,
    pub(super) samples: usize,
    /// Its time in blocks, where there are too few runs to see how they differ.
    pub(super) blocks: Option<Blocks>,
}

/// Everything that is compared.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    pub(super) before: Vec<Run>,
    pub(super) after: Vec<Run>,
    /// By row: the function that most of its cost was spent for, over all runs of both sides.
    pub(super) main_callers: Vec<Option<usize>>,
}

impl Table {
    pub(super) fn of(before: &[Profile], after: &[Profile], unit: CostUnit) -> Self {
        let roots = [program_root(before), program_root(after)];
        let lines = [lines_of(before, &roots[0]), lines_of(after, &roots[1])];
        let ordinals = Ordinals::align(&lines[0], &lines[1]);
        let mut table = Self {
            rows: Vec::new(),
            before: Vec::new(),
            after: Vec::new(),
            main_callers: Vec::new(),
        };
        let mut calls = Calls::new();
        let mut known = HashMap::new();
        for (side, profiles) in [before, after].into_iter().enumerate() {
            for profile in profiles {
                let ids = Ids {
                    profile,
                    root: &roots[side],
                    ordinals: &ordinals,
                    side,
                    is_few: before.len().min(after.len()) < MIN_RUNS,
                };
                table.add_run(&ids, &mut known, &mut calls, unit);
            }
        }
        for row in &mut table.rows {
            row.before.costs.resize(before.len(), Cost::default());
            row.after.costs.resize(after.len(), Cost::default());
        }
        table.main_callers = main_callers(table.rows.len(), &calls);
        table
    }

    fn add_run(
        &mut self,
        ids: &Ids<'_>,
        known: &mut HashMap<FunctionId, usize>,
        calls: &mut Calls,
        unit: CostUnit,
    ) {
        let profile = ids.profile;
        let factor = unit.per_weight(profile);
        let tree = CallTree::of(profile, |_| true);
        let weight = tree.total_weight();
        let samples = profile.samples.len();
        let cost = weight as f64 * factor;
        let run = if ids.side == 0 {
            self.before.len()
        } else {
            self.after.len()
        };
        let mut row_of: HashMap<FunctionIndex, usize> = HashMap::new();
        for weights in function_weights(profile, |_| true) {
            let row = self.row(ids, weights.function, known);
            row_of.insert(weights.function, row);
            let row = &mut self.rows[row];
            let side = if ids.side == 0 {
                &mut row.before
            } else {
                &mut row.after
            };
            side.costs.resize(run + 1, Cost::default());
            side.costs[run].own += weights.self_weight as f64 * factor;
            side.costs[run].total += weights.total_weight as f64 * factor;
            if side.location.line == 0 {
                side.location = ids.location(weights.function);
            }
        }
        for node in &tree.nodes {
            let Some(parent) = node.parent.map(|parent| tree.node(parent).function) else {
                continue;
            };
            let call = (row_of[&parent], row_of[&node.function]);
            *calls.entry(call).or_default() += node.total_weight as f64 * factor;
        }
        let runs = if ids.side == 0 {
            &mut self.before
        } else {
            &mut self.after
        };
        runs.push(Run {
            cost,
            per_sample: unit
                .per_sample(profile)
                .unwrap_or(cost / samples.max(1) as f64),
            samples,
            blocks: ids.is_few.then(|| Blocks::of(profile, &row_of, factor)),
        });
    }

    /// The row of a function, a new one where it is not known.
    fn row(
        &mut self,
        ids: &Ids<'_>,
        function: FunctionIndex,
        known: &mut HashMap<FunctionId, usize>,
    ) -> usize {
        let (id, is_merged) = ids.of(function);
        *known.entry(id).or_insert_with_key(|id| {
            self.rows.push(Row {
                id: id.clone(),
                before: RowSide::default(),
                after: RowSide::default(),
                is_merged,
            });
            self.rows.len() - 1
        })
    }
}

/// What callers spend in a callee: caller, callee, cost.
type Calls = HashMap<(usize, usize), f64>;

fn main_callers(rows: usize, calls: &Calls) -> Vec<Option<usize>> {
    let mut heaviest: Vec<Option<(f64, usize)>> = vec![None; rows];
    for (&(caller, callee), &cost) in calls {
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

/// Name and file to the lines that functions of that name start at.
type Lines = BTreeMap<(String, String), BTreeSet<u32>>;

fn lines_of(profiles: &[Profile], root: &str) -> Lines {
    let mut lines = Lines::new();
    for profile in profiles {
        for index in 0..profile.functions.len() {
            let function = FunctionIndex(index as u32);
            let key = (
                profile.name_of(function).to_owned(),
                stable_file(profile, function, root),
            );
            let of_name = lines.entry(key).or_default();
            of_name.insert(profile.function(function).line);
        }
    }
    // A recording that lost a line has it as 0: it is the function's only line where there is one.
    for of_name in lines.values_mut() {
        if of_name.len() == 2 {
            of_name.remove(&0);
        }
    }
    lines
}

/// Which of several functions of one name and file a line means.
struct Ordinals {
    /// By side: name and file to the lines in order, where there are several that match one by one.
    lines: [HashMap<(String, String), Vec<u32>>; 2],
    merged: BTreeSet<(String, String)>,
}

impl Ordinals {
    fn align(before: &Lines, after: &Lines) -> Self {
        let mut ordinals = Self {
            lines: Default::default(),
            merged: BTreeSet::new(),
        };
        let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
        for key in keys {
            let sides = [before.get(key), after.get(key)];
            let counts = sides.map(|lines| lines.map_or(0, BTreeSet::len));
            let is_single = counts[0] <= 1 && counts[1] <= 1;
            let is_aligned = counts[0] == counts[1] || counts[0] == 0 || counts[1] == 0;
            if is_single {
                continue;
            }
            if !is_aligned {
                ordinals.merged.insert(key.clone());
                continue;
            }
            for (side, lines) in sides.into_iter().enumerate() {
                let lines = lines.map(|lines| lines.iter().copied().collect());
                ordinals.lines[side].insert(key.clone(), lines.unwrap_or_default());
            }
        }
        ordinals
    }
}

/// The identities of one profile's functions.
struct Ids<'a> {
    profile: &'a Profile,
    root: &'a str,
    ordinals: &'a Ordinals,
    /// 0 before, 1 after.
    side: usize,
    /// Whether there are too few runs for a test.
    is_few: bool,
}

impl Ids<'_> {
    /// The identity, and whether it stands for several functions.
    fn of(&self, function: FunctionIndex) -> (FunctionId, bool) {
        let name = self.profile.name_of(function).to_owned();
        let key = (name, stable_file(self.profile, function, self.root));
        let line = self.profile.function(function).line;
        let lines = self.ordinals.lines[self.side].get(&key);
        let ordinal = lines.and_then(|lines| lines.iter().position(|&other| other == line));
        let is_merged = self.ordinals.merged.contains(&key);
        let (name, file) = key;
        (
            FunctionId {
                name,
                file,
                ordinal: ordinal.unwrap_or(0) as u32,
            },
            is_merged,
        )
    }

    fn location(&self, function: FunctionIndex) -> Location {
        Location {
            file: self.profile.file_of(function).to_owned(),
            line: self.profile.function(function).line,
        }
    }
}
