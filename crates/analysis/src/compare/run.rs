//! What a comparison needs of one recording. A recording can have a gigabyte; this is as large as its functions and
//! calls are many, so that recordings are read one after the other.

use std::collections::BTreeSet;

use nodespy_model::{Category, EventType, FastMap, FunctionIndex, Profile};

use super::blocks::Blocks;
use super::quality;
use crate::package::Package;
use crate::tree::CallTree;
use crate::weights::function_weights;

/// The costs of one run, by function and by call.
#[derive(Debug, Clone)]
pub struct RunCosts {
    /// What messages call it: its file.
    pub(super) name: String,
    pub(super) event: EventType,
    /// Whether it is of a whole run of a program, so that two of them did the same work.
    pub(super) is_whole: bool,
    /// Why its figures are not those of the program.
    pub(super) damage: Option<String>,
    pub(super) versions: quality::Versions,
    pub(super) weight: u64,
    pub(super) samples: usize,
    /// How many values the label that counts work has, where one was asked for.
    pub(super) units_of_work: Option<usize>,
    pub(super) functions: Vec<FunctionCost>,
    pub(super) calls: Vec<CallCost>,
    pub(super) blocks: Blocks,
}

/// A function and what it weighs.
#[derive(Debug, Clone)]
pub(super) struct FunctionCost {
    pub(super) name: String,
    pub(super) file: String,
    pub(super) line: u32,
    pub(super) category: Category,
    pub(super) package: Package,
    pub(super) own: u64,
    pub(super) total: u64,
}

/// What a caller spends in a callee; both are positions in the list of functions.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallCost {
    pub(super) caller: u32,
    pub(super) callee: u32,
    pub(super) weight: u64,
}

impl RunCosts {
    /// The costs of one event of a recording; `name` is what messages call it. `label` is the key of the label whose
    /// values are units of work.
    pub fn of(name: &str, profile: &Profile, label: Option<&str>) -> Self {
        let tree = CallTree::of(profile, |_| true);
        let weights = function_weights(profile, |_| true);
        let positions: FastMap<FunctionIndex, u32> = weights
            .iter()
            .enumerate()
            .map(|(position, weights)| (weights.function, position as u32))
            .collect();
        let functions = weights.iter().map(|weights| {
            let function = weights.function;
            FunctionCost {
                name: profile.name_of(function).to_owned(),
                file: profile.file_of(function).to_owned(),
                line: profile.function(function).line,
                category: profile.function(function).category,
                package: Package::of(profile, function),
                own: weights.self_weight,
                total: weights.total_weight,
            }
        });
        Self {
            name: name.to_owned(),
            event: profile.event().clone(),
            is_whole: quality::is_whole_run(profile),
            damage: quality::damage(profile),
            versions: quality::Versions::of(profile),
            weight: tree.total_weight(),
            samples: profile.samples.len(),
            units_of_work: label.map(|label| values_of(profile, label)),
            functions: functions.collect(),
            calls: calls(&tree, &positions),
            blocks: Blocks::of(profile, &positions),
        }
    }

    /// The weight of all samples.
    pub fn weight(&self) -> u64 {
        self.weight
    }
}

fn calls(tree: &CallTree, positions: &FastMap<FunctionIndex, u32>) -> Vec<CallCost> {
    let mut weights: FastMap<(u32, u32), u64> = FastMap::default();
    for node in &tree.nodes {
        let Some(parent) = node.parent.map(|parent| tree.node(parent).function) else {
            continue;
        };
        let call = (positions[&parent], positions[&node.function]);
        let weight = weights.entry(call).or_default();
        *weight = weight.saturating_add(node.total_weight);
    }
    let calls = weights.into_iter();
    calls
        .map(|((caller, callee), weight)| CallCost {
            caller,
            callee,
            weight,
        })
        .collect()
}

/// How many values a label has among the samples.
fn values_of(profile: &Profile, label: &str) -> usize {
    let contexts: BTreeSet<_> = profile
        .samples
        .iter()
        .map(|sample| sample.context)
        .collect();
    let values: BTreeSet<&str> = contexts
        .into_iter()
        .filter_map(|context| profile.contexts.get(context).get(label))
        .collect();
    values.len()
}
