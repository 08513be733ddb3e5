//! Questions about a profile that are answered by adding up weights: of functions, packages, tiers and
//! kinds of code.

use nodespy_model::{
    Category, FastMap, FunctionIndex, Profile, Sample, SmallSort, StackIndex, Tier,
};

use crate::package::Package;

const NONE: u32 = u32::MAX;

/// How much of the profile a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FunctionWeights {
    /// The function.
    pub function: FunctionIndex,
    /// Weight of samples in the function itself.
    pub self_weight: u64,
    /// Weight of samples with the function anywhere in the stack, counted once each.
    pub total_weight: u64,
}

/// Self and total weight of every function of the samples that `keep` accepts, heaviest self
/// weight first. Recursion counts once.
pub fn function_weights(profile: &Profile, keep: impl Fn(&Sample) -> bool) -> Vec<FunctionWeights> {
    let (self_weights, _) = stack_weights(profile, keep);
    let group_of = |stack: StackIndex| Some(profile.function_of(stack).at());
    let weights = group_weights(profile, &self_weights, profile.functions.len(), group_of);
    let mut weights: Vec<FunctionWeights> = weights
        .into_iter()
        .enumerate()
        .filter(|(_, (_, total_weight))| *total_weight > 0)
        .map(|(position, (self_weight, total_weight))| FunctionWeights {
            function: FunctionIndex(position as u32),
            self_weight,
            total_weight,
        })
        .collect();
    weights.small_sort_by_key(|entry| {
        std::cmp::Reverse((entry.self_weight, entry.total_weight, entry.function))
    });
    weights
}

/// How much of the profile a package is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackageWeights {
    /// The package.
    pub package: Package,
    /// Weight of samples in its own code.
    pub self_weight: u64,
    /// Weight of samples with its code anywhere in the stack, counted once each.
    pub total_weight: u64,
}

/// Self and total weight of every package, heaviest self weight first.
pub fn package_weights(profile: &Profile) -> Vec<PackageWeights> {
    let mut positions: FastMap<Package, usize> = FastMap::default();
    let position_of: Vec<usize> = (0..profile.functions.len())
        .map(|position| {
            let next = positions.len();
            let package = Package::of(profile, FunctionIndex(position as u32));
            *positions.entry(package).or_insert(next)
        })
        .collect();
    let (self_weights, _) = stack_weights(profile, |_| true);
    let group_of = |stack: StackIndex| Some(position_of[profile.function_of(stack).at()]);
    let weights = group_weights(profile, &self_weights, positions.len(), group_of);
    let mut weights: Vec<PackageWeights> = positions
        .into_iter()
        .map(|(package, position)| PackageWeights {
            package,
            self_weight: weights[position].0,
            total_weight: weights[position].1,
        })
        .filter(|entry| entry.total_weight > 0)
        .collect();
    weights.small_sort_by(|left, right| {
        let heaviest = (right.self_weight, right.total_weight);
        heaviest
            .cmp(&(left.self_weight, left.total_weight))
            .then_with(|| left.package.cmp(&right.package))
    });
    weights
}

/// Self and total weight of groups of frames; a group counts once in a stack.
pub(crate) fn group_weights(
    profile: &Profile,
    self_weights: &[u64],
    groups: usize,
    group_of: impl Fn(StackIndex) -> Option<usize>,
) -> Vec<(u64, u64)> {
    let totals = with_descendants(profile, self_weights);
    let mut weights = vec![(0u64, 0u64); groups];
    let mut is_active = vec![0u32; groups];
    walk_stacks(profile, &totals, |position, is_entered| {
        let Some(group) = group_of(StackIndex::new(position as u32)) else {
            return;
        };
        if !is_entered {
            is_active[group] -= 1;
            return;
        }
        let (self_weight, total_weight) = &mut weights[group];
        *self_weight = self_weight.saturating_add(self_weights[position]);
        if is_active[group] == 0 {
            *total_weight = total_weight.saturating_add(totals[position]);
        }
        is_active[group] += 1;
    });
    weights
}

/// How much JavaScript ran in code of each compiler, in the order of [`Tier::ALL`]. Code whose
/// compiler is not known is left out.
pub fn tier_weights(profile: &Profile) -> [u64; Tier::ALL.len()] {
    profile.assert_one_event();
    let mut weights = [0u64; Tier::ALL.len()];
    for sample in &profile.samples {
        let Some(stack) = sample.stack else { continue };
        let tier = profile.frame(profile.stacks[stack.at()].frame).tier;
        if tier != Tier::None {
            let weight = &mut weights[tier as usize];
            *weight = weight.saturating_add(sample.weight);
        }
    }
    weights
}

/// The functions with source that garbage was collected under, each with the weight of it,
/// heaviest first: who was running when memory ran out.
pub fn collected_under(profile: &Profile) -> Vec<(FunctionIndex, u64)> {
    profile.assert_one_event();
    // Parents come first, so one pass tells for every stack the nearest function with source.
    let mut nearest: Vec<Option<FunctionIndex>> = Vec::with_capacity(profile.stacks.len());
    let mut in_gc: Vec<bool> = Vec::with_capacity(profile.stacks.len());
    for stack in &profile.stacks {
        let function = profile.frame(stack.frame).function;
        let category = profile.function(function).category;
        let has_source = matches!(
            category,
            Category::App | Category::Dependency | Category::NodeCore
        );
        let above = stack.parent.and_then(|parent| nearest[parent.at()]);
        nearest.push(if has_source { Some(function) } else { above });
        let is_above = stack.parent.is_some_and(|parent| in_gc[parent.at()]);
        in_gc.push(is_above || category == Category::Gc);
    }
    let mut weights = vec![0u64; profile.functions.len()];
    for sample in &profile.samples {
        let stack = sample.stack.filter(|stack| in_gc[stack.at()]);
        if let Some(function) = stack.and_then(|stack| nearest[stack.at()]) {
            let weight = &mut weights[function.at()];
            *weight = weight.saturating_add(sample.weight);
        }
    }
    let mut list: Vec<(FunctionIndex, u64)> = weights
        .into_iter()
        .enumerate()
        .filter(|(_, weight)| *weight > 0)
        .map(|(position, weight)| (FunctionIndex(position as u32), weight))
        .collect();
    list.small_sort_by_key(|(function, weight)| (std::cmp::Reverse(*weight), *function));
    list
}

/// What the samples were doing, by weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shares {
    /// In JavaScript, builtins, regular expressions or WebAssembly.
    pub javascript: u64,
    /// In C or C++ outside the garbage collector.
    pub native: u64,
    /// In the kernel outside the garbage collector.
    pub kernel: u64,
    /// Collecting garbage, wherever it ran.
    pub gc: u64,
    /// Doing nothing, where the source records it.
    pub idle: u64,
    /// In code without a name.
    pub unknown: u64,
}

impl Shares {
    /// The sum.
    pub fn total(&self) -> u64 {
        [
            self.javascript,
            self.native,
            self.kernel,
            self.gc,
            self.idle,
            self.unknown,
        ]
        .iter()
        .fold(0, |sum, weight| sum.saturating_add(*weight))
    }
}

/// The shares of the samples that `keep` accepts. A sample is garbage collection when any frame
/// is; else its leaf decides.
pub fn shares(profile: &Profile, keep: impl Fn(&Sample) -> bool) -> Shares {
    profile.assert_one_event();
    // Parents come first, so one pass tells for every stack whether it is inside the collector.
    let mut in_gc = vec![false; profile.stacks.len()];
    for (position, stack) in profile.stacks.iter().enumerate() {
        let category = profile
            .function(profile.frame(stack.frame).function)
            .category;
        in_gc[position] =
            category == Category::Gc || stack.parent.is_some_and(|parent| in_gc[parent.at()]);
    }
    let mut shares = Shares::default();
    for sample in profile.samples.iter().filter(|sample| keep(sample)) {
        let part = match sample.stack {
            None => &mut shares.unknown,
            Some(stack) if in_gc[stack.at()] => &mut shares.gc,
            Some(stack) => match profile.function(profile.function_of(stack)).category {
                Category::Kernel => &mut shares.kernel,
                Category::Idle => &mut shares.idle,
                Category::Unknown => &mut shares.unknown,
                category if category.is_javascript() => &mut shares.javascript,
                _ => &mut shares.native,
            },
        };
        *part = part.saturating_add(sample.weight);
    }
    shares
}

/// Goes through the stacks that weigh something as a tree, telling when one is entered and when
/// it is left. Does not recurse: stacks can be deeper than our own.
fn walk_stacks(profile: &Profile, totals: &[u64], mut visit: impl FnMut(usize, bool)) {
    let count = profile.stacks.len();
    let mut first_child = vec![NONE; count];
    let mut next_sibling = vec![NONE; count];
    let mut first_root = NONE;
    for (position, stack) in profile.stacks.iter().enumerate().rev() {
        if totals[position] == 0 {
            continue;
        }
        let head = match stack.parent {
            Some(parent) => &mut first_child[parent.at()],
            None => &mut first_root,
        };
        next_sibling[position] = *head;
        *head = position as u32;
    }
    let mut path: Vec<u32> = Vec::new();
    let mut next = first_root;
    loop {
        if next != NONE {
            visit(next as usize, true);
            path.push(next);
            next = first_child[next as usize];
        } else if let Some(done) = path.pop() {
            visit(done as usize, false);
            next = next_sibling[done as usize];
        } else {
            return;
        }
    }
}

/// Self weight of every stack, and the weight of samples without one.
pub(crate) fn stack_weights(profile: &Profile, keep: impl Fn(&Sample) -> bool) -> (Vec<u64>, u64) {
    profile.assert_one_event();
    let mut weights = vec![0u64; profile.stacks.len()];
    let mut without_stack = 0u64;
    for sample in profile.samples.iter().filter(|sample| keep(sample)) {
        let slot = match sample.stack {
            Some(stack) => &mut weights[stack.at()],
            None => &mut without_stack,
        };
        *slot = slot.saturating_add(sample.weight);
    }
    (weights, without_stack)
}

/// Adds to each stack the weight of everything below it.
fn with_descendants(profile: &Profile, self_weights: &[u64]) -> Vec<u64> {
    let mut totals = self_weights.to_vec();
    for position in (0..totals.len()).rev() {
        if let Some(parent) = profile.stacks[position].parent {
            totals[parent.at()] = totals[parent.at()].saturating_add(totals[position]);
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::profile_of;

    #[test]
    fn recursion_counts_once_in_the_total() {
        let profile = profile_of("main;f;f;f 3\nmain;g;f 2\nmain 1");
        let weights = function_weights(&profile, |_| true);
        let of = |name: &str| {
            *weights
                .iter()
                .find(|entry| profile.name_of(entry.function) == name)
                .unwrap()
        };
        assert_eq!((of("f").self_weight, of("f").total_weight), (5, 5));
        assert_eq!((of("main").self_weight, of("main").total_weight), (1, 6));
        assert_eq!((of("g").self_weight, of("g").total_weight), (0, 2));
    }

    #[test]
    fn packages_count_once_in_a_stack() {
        let express = "d:f@/node_modules/express/a.js";
        let other = "d:g@/node_modules/express/b.js";
        let profile = profile_of(&format!("a;{express};b;{other} 3\na;{other} 2\na 1"));
        let weights: Vec<(String, u64, u64)> = package_weights(&profile)
            .into_iter()
            .map(|entry| (entry.package.name, entry.self_weight, entry.total_weight))
            .collect();
        let entry = |name: &str, own, total| (name.to_owned(), own, total);
        assert_eq!(weights, [entry("express", 5, 5), entry("app", 1, 6)]);
    }

    #[test]
    fn garbage_is_collected_under_the_nearest_function_with_source() {
        let profile =
            profile_of("a;b;n:alloc;gc:Scavenge;n:memcpy 3\na;gc:Mark 2\ngc:Sweep 9\na 1");
        let names: Vec<(&str, u64)> = collected_under(&profile)
            .into_iter()
            .map(|(function, weight)| (profile.name_of(function), weight))
            .collect();
        assert_eq!(names, [("b", 3), ("a", 2)]);
    }
}
