//! Whether one set of runs is slower than another, function by function, and how sure that is.
//!
//! The procedure and what it was tried on are in docs/decisions/0012: the run is the unit, the cost of a function
//! in a run is its own CPU time, Student's t works on logarithms, Benjamini and Hochberg's rule bounds false alarms
//! over all functions, and a change below a margin is none. One run a side gets an interval, never a verdict.

mod blocks;
mod callers;
mod causes;
mod family;
mod figures;
mod identity;
mod judge;
mod moves;
mod quality;
mod renames;
mod run;
mod self_check;
mod statistics;
mod table;
#[cfg(test)]
mod tests;
mod unit;

use crate::package::Package;

pub use identity::{FunctionId, own_weights};
pub use run::RunCosts;
pub use self_check::{SelfCheck, self_check};
pub use table::Location;
pub use unit::CostUnit;

/// Fewer runs than this on a side are no test.
pub const MIN_RUNS: usize = 3;

/// How to compare.
#[derive(Debug, Clone)]
pub struct CompareOptions {
    /// The least relative change that matters; 0.02 is 2 %.
    pub min_change: f64,
    /// What costs are divided by; chosen by how the runs were recorded when not given.
    pub basis: Option<Basis>,
    /// The work done in each run of the two sides, such as requests.
    pub work: Option<Work>,
    /// What rows are.
    pub rows: Rows,
    /// Whether what all functions changed by alike stays in their changes: runs are known to have done the same work.
    pub keeps_common: bool,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            min_change: 0.02,
            basis: None,
            work: None,
            rows: Rows::Functions,
            keeps_common: false,
        }
    }
}

/// What is compared, one row each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rows {
    /// Functions.
    #[default]
    Functions,
    /// Routes of requests, which runs of [`crate::as_routes`] have in place of functions. Nothing tells a renamed one
    /// from another.
    Routes,
}

impl Rows {
    /// The word for one.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Functions => "function",
            Self::Routes => "route",
        }
    }
}

/// Work that runs did.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    /// So much in each run of a side.
    Known {
        /// What is counted, such as `requests`.
        name: String,
        /// How much each run before did.
        before: f64,
        /// How much each run after did.
        after: f64,
    },
    /// As many units as a label of the samples has values in the run.
    Label(String),
}

impl Work {
    /// What is counted.
    pub fn name(&self) -> &str {
        match self {
            Self::Known { name, .. } | Self::Label(name) => name,
        }
    }
}

/// What a function's cost is taken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The whole run: each did the same work.
    Run,
    /// A unit of work.
    Work,
    /// All cost of the run: the work is not known to be the same.
    Share,
}

/// Why runs can't be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareError {
    /// There are none on a side.
    #[error("nothing to compare: each side needs a recording")]
    NoRuns,
    /// A recording is empty.
    #[error("{0} has no samples: there is nothing to compare")]
    Empty(String),
    /// Every run of a side is too damaged.
    #[error("every recording of one side was left out: {0}")]
    AllDropped(String),
    /// Weights that mean different things.
    #[error(
        "the recordings count different things: {one}, and {other}; choose one event with --event NAME"
    )]
    OtherEvent {
        /// What one counts.
        one: String,
        /// What another counts.
        other: String,
    },
    /// Two halves need more.
    #[error(
        "{given} recordings can't be split into halves that are a test: give at least {needed}"
    )]
    TooFewRuns {
        /// How many are needed.
        needed: usize,
        /// How many there are.
        given: usize,
    },
    /// Samples of one run are CPU time, those of another only a count.
    #[error(
        "{unknown} does not say how often it was sampled, {known} does: compare shares of them with --share"
    )]
    UnknownRate {
        /// A recording with a rate.
        known: String,
        /// A recording without.
        unknown: String,
    },
    /// No sample of a run has the label that counts work.
    #[error("no sample of {run} has the label {label}: there is no work to divide by")]
    NoLabel {
        /// The recording.
        run: String,
        /// The label.
        label: String,
    },
    /// The recordings have no function in common.
    #[error(
        "the two sides have no function{of_application} in common ({before} and {after}): are they recordings of the same program?"
    )]
    OtherProgram {
        /// ` of the application` where they have others in common.
        of_application: &'static str,
        /// A function of the earlier side.
        before: String,
        /// A function of the later side.
        after: String,
    },
}

/// What can be said of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// Slower beyond the margin, and enough of the program to matter.
    Regression,
    /// Faster beyond the margin.
    Improvement,
    /// Slower, but perhaps by less than the margin, or by too little of the program to matter.
    LikelySlower,
    /// Faster, but perhaps by less than the margin.
    LikelyFaster,
    /// The cost is another function's on the other side, under a caller that costs the same.
    Moved,
    /// Only the later side has it.
    New,
    /// Only the earlier side has it.
    Gone,
    /// What is seen may be noise.
    NoChange,
    /// Too few runs or samples for a verdict.
    Untested,
}

impl Verdict {
    /// The word shown for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Regression => "regression",
            Self::Improvement => "improvement",
            Self::LikelySlower => "likely slower",
            Self::LikelyFaster => "likely faster",
            Self::Moved => "moved",
            Self::New => "new",
            Self::Gone => "gone",
            Self::NoChange => "no change seen",
            Self::Untested => "not tested",
        }
    }
}

/// A cost on both sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The mean cost of a run before.
    pub before: f64,
    /// The mean cost of a run after.
    pub after: f64,
    /// After to before; 1.25 is 25 % more.
    pub ratio: f64,
    /// The 95 % interval of the ratio, where there is one.
    pub interval: Option<(f64, f64)>,
    /// The smallest ratio above 1 that would have been seen four times in five.
    pub smallest_seen: Option<f64>,
    /// What can be said of it.
    pub verdict: Verdict,
}

/// One function on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionChange {
    /// The function, as the later side has it if it does.
    pub id: FunctionId,
    /// What it was called or where it was before, where that is believed to have changed.
    pub was: Option<FunctionId>,
    /// Where it is, on the later side if it is there.
    pub location: Location,
    /// Its own cost.
    pub own: Change,
    /// Its cost with everything it calls; none where functions of one name can't be told apart.
    pub total: Option<Change>,
    /// Where the cost went, or came from.
    pub moved_with: Option<FunctionId>,
    /// The callers through which it gained most, the nearest first.
    pub callers: Vec<FunctionCaller>,
}

/// A function that another runs for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionCaller {
    /// The caller.
    pub id: FunctionId,
    /// Where it is, on the later side if it is there.
    pub location: Location,
}

/// The functions of one package that are too small to be tested one by one.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilyChange {
    /// Whose code they are.
    pub package: Package,
    /// How many they are.
    pub functions: usize,
    /// Their own cost, together.
    pub own: Change,
}

/// One side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SideSummary {
    /// How many runs are compared.
    pub runs: usize,
    /// How many samples they have.
    pub samples: usize,
}

/// Everything that can be said of two sets of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What rows are.
    pub rows: Rows,
    /// What costs are counted in.
    pub unit: CostUnit,
    /// What they are taken of.
    pub basis: Basis,
    /// What a unit of work is called, where costs are taken of one.
    pub work: Option<String>,
    /// The earlier side.
    pub before: SideSummary,
    /// The later side.
    pub after: SideSummary,
    /// The whole cost of a run.
    pub total: Change,
    /// What every function changed by alike, taken out of the functions' changes: ratio and interval.
    pub common: Option<Change>,
    /// Every function that was tested or is only on one side, what is surest and largest first.
    pub functions: Vec<FunctionChange>,
    /// Functions too small to be tested one by one, by package, what is surest and largest first.
    pub families: Vec<FamilyChange>,
    /// The median over functions of the smallest change that could have been seen.
    pub smallest_seen: Option<f64>,
    /// How many runs a side would show a change of 10 %, where so many are not there.
    pub runs_needed: Option<usize>,
    /// What a reader must know: runs left out, other versions, too few runs.
    pub remarks: Vec<String>,
}

/// Compares two sets of runs of one program.
pub fn compare(
    before: Vec<RunCosts>,
    after: Vec<RunCosts>,
    options: &CompareOptions,
) -> Result<Comparison, CompareError> {
    let mut remarks = Vec::new();
    let before = quality::kept(before, &mut remarks)?;
    let after = quality::kept(after, &mut remarks)?;
    let sides = [before.as_slice(), after.as_slice()];
    let terms = judge::Terms::of(sides, options)?;
    quality::compare_sides(sides, &mut remarks);
    let mut table = table::Table::of(sides);
    let renamed = match options.rows {
        Rows::Functions => renames::pair(&mut table),
        Rows::Routes => Vec::new(),
    };
    quality::check_program(&table)?;
    let comparison = judge::judge(&table, &renamed, &terms, remarks);
    Ok(Comparison {
        rows: options.rows,
        ..comparison
    })
}
