//! The runs of both sides as one table: a row a function, a column a run.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::MIN_RUNS;
use super::callers::Calls;
use super::identity::{FunctionId, program_root, stable_file};
use super::run::{FunctionCost, RunCosts};
use super::unit::{per_sample, per_weight};
use crate::package::Package;

/// The position of the earlier side wherever there are two.
pub(super) const BEFORE: usize = 0;
/// The position of the later side.
pub(super) const AFTER: usize = 1;

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

impl RowSide {
    /// Whether the function itself was seen there.
    pub(super) fn has_cost(&self) -> bool {
        self.costs.iter().any(|cost| cost.own > 0.0)
    }
}

/// A function of either side or both.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) id: FunctionId,
    /// Whose code it is.
    pub(super) package: Package,
    /// The earlier and the later side.
    pub(super) sides: [RowSide; 2],
    /// Several functions of one name that can't be told apart: only their own cost adds up.
    pub(super) is_merged: bool,
}

impl Row {
    /// Whether both sides have it.
    pub(super) fn is_shared(&self) -> bool {
        self.sides.iter().all(RowSide::has_cost)
    }
}

/// One run.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// What all of it cost.
    pub(super) cost: f64,
    /// What one sample stands for.
    pub(super) per_sample: f64,
    pub(super) samples: usize,
    /// How many units of work it did, where a label counts them.
    pub(super) units_of_work: Option<usize>,
    /// By row, how much its cost may be off: only where there are too few runs to see how they differ.
    pub(super) spread: Vec<f64>,
}

/// Everything that is compared.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) rows: Vec<Row>,
    /// The runs of the earlier and of the later side.
    pub(super) runs: [Vec<Run>; 2],
    /// By row: the function that most of its cost was spent for, over all runs of both sides.
    pub(super) main_callers: Vec<Option<usize>>,
    /// By row: the function that spends more in it than before, the most.
    pub(super) gaining_callers: Vec<Option<usize>>,
}

impl Table {
    pub(super) fn of(sides: [&[RunCosts]; 2]) -> Self {
        let roots = sides.map(program_root);
        let lines = [BEFORE, AFTER].map(|side| lines_of(sides[side], &roots[side]));
        let ordinals = Ordinals::align(&lines);
        let mut table = Self {
            rows: Vec::new(),
            runs: Default::default(),
            main_callers: Vec::new(),
            gaining_callers: Vec::new(),
        };
        let mut calls = Calls::default();
        let mut known = HashMap::new();
        let mut rows_of_runs = [Vec::new(), Vec::new()];
        for (side, runs) in sides.into_iter().enumerate() {
            let ids = Ids {
                root: &roots[side],
                ordinals: &ordinals,
                side,
            };
            for run in runs {
                let row_of = table.add_run(run, &ids, &mut known);
                calls.add(run, &row_of, (side, runs.len()));
                rows_of_runs[side].push(row_of);
            }
        }
        for row in &mut table.rows {
            for (side, runs) in row.sides.iter_mut().zip(sides) {
                side.costs.resize(runs.len(), Cost::default());
            }
        }
        table.main_callers = calls.main_callers(table.rows.len());
        table.gaining_callers = calls.gaining_callers(table.rows.len());
        if sides.iter().any(|runs| runs.len() < MIN_RUNS) {
            table.add_spreads(sides, &rows_of_runs);
        }
        table
    }

    /// Adds a run and returns the rows of its functions.
    fn add_run(
        &mut self,
        run: &RunCosts,
        ids: &Ids<'_>,
        known: &mut HashMap<FunctionId, usize>,
    ) -> Vec<usize> {
        let factor = per_weight(&run.event);
        let column = self.runs[ids.side].len();
        let mut row_of = Vec::with_capacity(run.functions.len());
        for function in &run.functions {
            let row = self.row(ids, function, known);
            row_of.push(row);
            let side = &mut self.rows[row].sides[ids.side];
            side.costs.resize(column + 1, Cost::default());
            side.costs[column].own += function.own as f64 * factor;
            side.costs[column].total += function.total as f64 * factor;
            if side.location.line == 0 {
                side.location = Location {
                    file: function.file.clone(),
                    line: function.line,
                };
            }
        }
        let cost = run.weight as f64 * factor;
        self.runs[ids.side].push(Run {
            cost,
            per_sample: per_sample(&run.event)
                .unwrap_or(cost / run.samples.max(1) as f64)
                .max(f64::MIN_POSITIVE),
            samples: run.samples,
            units_of_work: run.units_of_work,
            spread: Vec::new(),
        });
        row_of
    }

    /// The row of a function, a new one where it is not known.
    fn row(
        &mut self,
        ids: &Ids<'_>,
        function: &FunctionCost,
        known: &mut HashMap<FunctionId, usize>,
    ) -> usize {
        let (id, is_merged) = ids.of(function);
        *known.entry(id).or_insert_with_key(|id| {
            self.rows.push(Row {
                id: id.clone(),
                package: function.package.clone(),
                sides: Default::default(),
                is_merged,
            });
            self.rows.len() - 1
        })
    }

    fn add_spreads(&mut self, sides: [&[RunCosts]; 2], rows_of_runs: &[Vec<Vec<usize>>; 2]) {
        let rows = self.rows.len();
        for (side, runs) in self.runs.iter_mut().enumerate() {
            for (column, run) in runs.iter_mut().enumerate() {
                let costs = &sides[side][column];
                let sample = run.per_sample / per_weight(&costs.event);
                let row_of = &rows_of_runs[side][column];
                run.spread = costs.blocks.spread(row_of, rows, sample);
            }
        }
    }

    /// Samples a run over both sides: which of them has more is no reason to test.
    pub(super) fn samples(&self, row: &Row, part: fn(&Cost) -> f64) -> f64 {
        let count = |side: usize| -> f64 {
            let costs = self.runs[side].iter().zip(&row.sides[side].costs);
            costs.map(|(run, cost)| part(cost) / run.per_sample).sum()
        };
        let runs = self.runs.iter().map(Vec::len).sum::<usize>();
        (count(BEFORE) + count(AFTER)) / runs as f64
    }
}

/// Name and file to the lines that functions of that name start at.
type Lines = BTreeMap<(String, String), BTreeSet<u32>>;

fn lines_of(runs: &[RunCosts], root: &str) -> Lines {
    let mut lines = Lines::new();
    for function in runs.iter().flat_map(|run| &run.functions) {
        let key = (function.name.clone(), stable_file(function, root));
        lines.entry(key).or_default().insert(function.line);
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
    fn align(sides: &[Lines; 2]) -> Self {
        let mut ordinals = Self {
            lines: Default::default(),
            merged: BTreeSet::new(),
        };
        let keys: BTreeSet<_> = sides.iter().flat_map(BTreeMap::keys).collect();
        for key in keys {
            let lines = [BEFORE, AFTER].map(|side| sides[side].get(key));
            let counts = lines.map(|lines| lines.map_or(0, BTreeSet::len));
            let is_single = counts.iter().all(|&count| count <= 1);
            let is_aligned = counts[BEFORE] == counts[AFTER] || counts.contains(&0);
            if is_single {
                continue;
            }
            if !is_aligned {
                ordinals.merged.insert(key.clone());
                continue;
            }
            for (known, lines) in ordinals.lines.iter_mut().zip(lines) {
                let lines = lines.map(|lines| lines.iter().copied().collect());
                known.insert(key.clone(), lines.unwrap_or_default());
            }
        }
        ordinals
    }
}

/// The identities of the functions of one side.
struct Ids<'a> {
    root: &'a str,
    ordinals: &'a Ordinals,
    side: usize,
}

impl Ids<'_> {
    /// The identity, and whether it stands for several functions.
    fn of(&self, function: &FunctionCost) -> (FunctionId, bool) {
        let key = (function.name.clone(), stable_file(function, self.root));
        let lines = self.ordinals.lines[self.side].get(&key);
        let ordinal = lines.and_then(|lines| lines.binary_search(&function.line).ok());
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
}
