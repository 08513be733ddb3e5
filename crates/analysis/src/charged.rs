//! The weight of code that has no source, charged to the JavaScript it runs for.
//!
//! Half of a busy program's samples end in inline caches, builtins, native code or the garbage
//! collector. Whom to ask for them is the nearest function below that was written by the
//! application or a package; only where there is none, the nearest one of Node's own.

use std::cmp::Reverse;

use nodespy_model::{Category, FastMap, FunctionIndex, Profile, Sample, SmallSort, StackIndex};

use crate::weights::{function_weights, group_weights, stack_weights};

/// Part of a function's total that one callee takes when the function only passes on.
const PASSED_ON: f64 = 0.95;

/// How much of the profile a function with source is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChargedWeights {
    /// The function.
    pub function: FunctionIndex,
    /// Weight of samples that end in it.
    pub self_weight: u64,
    /// That, and the weight of the code without source that it runs.
    pub charged_weight: u64,
    /// Weight of samples with the function anywhere in the stack, counted once each.
    pub total_weight: u64,
}

/// Whether a category is code of the application or of a package.
fn is_written(category: Category) -> bool {
    matches!(
        category,
        Category::App | Category::Dependency | Category::Wasm
    )
}

/// The stack that the weight of each stack is charged to: the nearest one, itself included, that
/// ends in a function of the application or a package, else in one of Node's. None where no
/// JavaScript is below.
pub fn charged_stacks(profile: &Profile) -> Vec<Option<StackIndex>> {
    // Parents come first, so one pass is enough.
    let mut charged: Vec<Option<StackIndex>> = Vec::with_capacity(profile.stacks.len());
    for (position, stack) in profile.stacks.iter().enumerate() {
        let function = profile.frame(stack.frame).function;
        let below = stack.parent.and_then(|parent| charged[parent.at()]);
        let is_below_written =
            |below: StackIndex| is_written(profile.function(profile.function_of(below)).category);
        let own = Some(StackIndex::new(position as u32));
        charged.push(match profile.function(function).category {
            category if is_written(category) => own,
            Category::NodeCore if !below.is_some_and(is_below_written) => own,
            _ => below,
        });
    }
    charged
}

/// The functions with source of the samples that `keep` accepts, with what is charged to them,
/// most charged first.
pub fn charged_weights(profile: &Profile, keep: impl Fn(&Sample) -> bool) -> Vec<ChargedWeights> {
    let charged_to = charged_stacks(profile);
    let (own, _) = stack_weights(profile, &keep);
    let mut charged = vec![0u64; profile.functions.len()];
    for (weight, stack) in own.iter().zip(&charged_to) {
        if let Some(stack) = stack {
            let of_function = &mut charged[profile.function_of(*stack).at()];
            *of_function = of_function.saturating_add(*weight);
        }
    }
    let is_shown = |function: FunctionIndex| {
        let category = profile.function(function).category;
        is_written(category) || charged[function.at()] > 0
    };
    let mut weights: Vec<ChargedWeights> = function_weights(profile, keep)
        .into_iter()
        .filter(|entry| is_shown(entry.function))
        .map(|entry| ChargedWeights {
            function: entry.function,
            self_weight: entry.self_weight,
            charged_weight: charged[entry.function.at()],
            total_weight: entry.total_weight,
        })
        .collect();
    weights.small_sort_by_key(|entry| {
        let ChargedWeights {
            function,
            self_weight,
            charged_weight,
            total_weight,
        } = *entry;
        Reverse((charged_weight, self_weight, total_weight, function))
    });
    weights
}

/// Which functions of the application and of packages only pass on: for each the last one of the
/// chain that nearly all of its weight goes through, one callee after the other. None for those
/// that do something themselves or call several.
pub fn passing_on(
    profile: &Profile,
    keep: impl Fn(&Sample) -> bool,
) -> FastMap<FunctionIndex, FunctionIndex> {
    let (own, _) = stack_weights(profile, keep);
    let calls = Calls::of(profile);
    let of_calls = group_weights(profile, &own, calls.pairs.len(), |stack| {
        calls.pair_of[stack.at()]
    });
    let of_functions = group_weights(profile, &own, profile.functions.len(), |stack| {
        Some(profile.function_of(stack).at())
    });
    let mut next: FastMap<FunctionIndex, FunctionIndex> = FastMap::default();
    for ((caller, callee), (_, weight)) in calls.pairs.iter().zip(of_calls) {
        let (_, total) = of_functions[caller.at()];
        if total > 0 && weight as f64 >= PASSED_ON * total as f64 {
            next.insert(*caller, *callee);
        }
    }
    let chains = next
        .keys()
        .map(|caller| (*caller, chain_end(&next, *caller)));
    chains.filter(|(caller, end)| caller != end).collect()
}

/// Where a chain ends. A cycle ends at its lowest index, wherever it is entered.
fn chain_end(next: &FastMap<FunctionIndex, FunctionIndex>, start: FunctionIndex) -> FunctionIndex {
    let mut path = vec![start];
    let mut seen = FastMap::default();
    seen.insert(start, 0usize);
    loop {
        let last = path[path.len() - 1];
        let Some(following) = next.get(&last) else {
            return last;
        };
        if let Some(position) = seen.insert(*following, path.len()) {
            return path[position..].iter().copied().min().unwrap_or(last);
        }
        path.push(*following);
    }
}

/// Who calls whom among the functions of the application and of packages, what is between them
/// left out. A function that calls itself is none of it.
struct Calls {
    pairs: Vec<(FunctionIndex, FunctionIndex)>,
    /// The pair that a stack adds.
    pair_of: Vec<Option<usize>>,
}

impl Calls {
    fn of(profile: &Profile) -> Self {
        let mut positions: FastMap<(FunctionIndex, FunctionIndex), usize> = FastMap::default();
        let mut pairs = Vec::new();
        let mut pair_of = Vec::with_capacity(profile.stacks.len());
        let mut nearest: Vec<Option<FunctionIndex>> = Vec::with_capacity(profile.stacks.len());
        for stack in &profile.stacks {
            let function = profile.frame(stack.frame).function;
            let caller = stack.parent.and_then(|parent| nearest[parent.at()]);
            let is_written = is_written(profile.function(function).category);
            nearest.push(if is_written { Some(function) } else { caller });
            let caller = caller.filter(|caller| is_written && *caller != function);
            pair_of.push(caller.map(|caller| {
                *positions.entry((caller, function)).or_insert_with(|| {
                    pairs.push((caller, function));
                    pairs.len() - 1
                })
            }));
        }
        Self { pairs, pair_of }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::profile_of;

    #[test]
    fn what_has_no_source_is_charged_to_the_nearest_that_has() {
        let profile = profile_of(
            "n:main;a;d:f;n:LoadIC 3\nn:main;a;d:f 2\nn:main;a;n:parse;gc:Scavenge 4\nn:main 1",
        );
        let charged: Vec<(&str, u64, u64, u64)> = charged_weights(&profile, |_| true)
            .iter()
            .map(|entry| {
                let name = profile.name_of(entry.function);
                let weights = (entry.self_weight, entry.charged_weight, entry.total_weight);
                (name, weights.0, weights.1, weights.2)
            })
            .collect();
        assert_eq!(charged, [("f", 2, 5, 5), ("a", 0, 4, 9)]);
    }

    #[test]
    fn nodes_own_javascript_is_charged_to_who_called_it_if_there_is_one() {
        let profile = profile_of("c:listOnTimeout;a;c:readFileSync;k:read 3\nc:processTicks;n:x 2");
        let charged: Vec<(&str, u64)> = charged_weights(&profile, |_| true)
            .iter()
            .map(|entry| (profile.name_of(entry.function), entry.charged_weight))
            .collect();
        assert_eq!(charged, [("a", 3), ("processTicks", 2)]);
    }

    #[test]
    fn wrappers_pass_on_to_where_the_weight_branches() {
        let profile = profile_of("a;b;n:call;c;d 60\na;b;c;e 40\na;b 1\na;b;c;e;f 1");
        let ends = passing_on(&profile, |_| true);
        let index = |name: &str| {
            let mut functions = (0..profile.functions.len() as u32).map(FunctionIndex);
            functions
                .find(|each| profile.name_of(*each) == name)
                .unwrap()
        };
        assert_eq!(ends.get(&index("a")), Some(&index("c")));
        assert_eq!(ends.get(&index("b")), Some(&index("c")));
        for last in ["c", "d", "e", "f"] {
            assert_eq!(ends.get(&index(last)), None, "{last}");
        }
    }

    #[test]
    fn of_functions_that_call_each_other_one_is_left() {
        let profile = profile_of("a;visit;each;visit;each;visit 100\na;visit;each;visit;each 2");
        let ends = passing_on(&profile, |_| true);
        let left: Vec<&str> = charged_weights(&profile, |_| true)
            .iter()
            .filter(|entry| !ends.contains_key(&entry.function))
            .map(|entry| profile.name_of(entry.function))
            .collect();
        assert_eq!(left, ["visit"]);
    }
}
