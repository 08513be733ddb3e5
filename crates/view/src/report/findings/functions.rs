//! Whose code it is: functions, packages, native modules.

use std::cmp::Reverse;

use nodespy_analysis::{
    ChargedWeights, FunctionWeights, Package, PackageKind, Subsystem, SubsystemWeights, passing_on,
    subsystem_of,
};
use nodespy_model::{Category, FastMap, FunctionIndex};

use super::{Finding, Scene, heaviest_first, part_of_it, rounded_share};
use crate::wording::percent_of;

/// Shares of the whole, in percent, from which something is worth a sentence.
const HOT_FUNCTION: f64 = 10.0;
const NEARLY_ALL: f64 = 90.0;
const HOT_PACKAGE: f64 = 10.0;
const HOT_MODULE: f64 = 10.0;
const MUCH_UNKNOWN: f64 = 5.0;

/// Parts of a function's weight, in percent: from the first on it is its own, from the second on
/// one of its lines or callees is the one to look at.
const NEARLY_ITSELF: f64 = 90.0;
const MOSTLY: f64 = 50.0;
const NEARLY_ALL_CALLS: f64 = 95.0;

/// The function with a source that most is charged to, if it is much.
fn hottest<'a>(scene: &'a Scene<'_>) -> Option<&'a ChargedWeights> {
    let hottest = scene.charged.first()?;
    (scene.share(hottest.charged_weight) >= HOT_FUNCTION).then_some(hottest)
}

pub(super) fn hottest_function(scene: &Scene<'_>) -> Option<Finding> {
    let Some(hottest) = hottest(scene) else {
        return hottest_native(scene);
    };
    let own = percent_of(hottest.self_weight, hottest.charged_weight);
    let mut sentence = format!(
        "{} of {} {} {}",
        rounded_share(scene.share(hottest.charged_weight)),
        scene.whole,
        scene.words.is_in(),
        scene.named(hottest.function)
    );
    let is_app = scene.profile().function(hottest.function).category == Category::App;
    match heaviest_leaf(scene, hottest.function) {
        _ if own >= NEARLY_ITSELF && is_app => sentence.push_str(" itself"),
        _ if own >= NEARLY_ITSELF => {}
        Some((leaf, weight)) if percent_of(weight, hottest.charged_weight) >= MOSTLY => {
            let share = percent_of(weight, hottest.charged_weight);
            sentence.push_str(&format!(", {} in {}", part_of_it(share), scene.named(leaf)));
        }
        _ => sentence.push_str(&format!(" and {}", scene.words.run_beside())),
    }
    if let Some(line) = hottest_line(scene, hottest) {
        sentence.push_str(&format!(", most at line {line}"));
    }
    sentence.push_str(&called_from(scene, hottest));
    Some(Finding {
        kind: "function",
        percent: scene.share(hottest.charged_weight),
        sentence,
        function: Some(hottest.function),
    })
}

/// Who of the application calls a hot function of another, where that is one.
fn called_from(scene: &Scene<'_>, hottest: &ChargedWeights) -> String {
    let profile = scene.profile();
    let is_app = |function: FunctionIndex| profile.function(function).category == Category::App;
    if is_app(hottest.function) {
        return String::new();
    }
    // Parents come first, so one pass tells for every stack who of the application called it.
    let mut nearest: Vec<Option<FunctionIndex>> = Vec::with_capacity(profile.stacks.len());
    for stack in &profile.stacks {
        let own = profile.frame(stack.frame).function;
        let below = stack.parent.and_then(|parent| nearest[parent.at()]);
        nearest.push(if is_app(own) { Some(own) } else { below });
    }
    let mut weights: FastMap<FunctionIndex, u64> = FastMap::default();
    for sample in profile.samples.iter().filter(|sample| scene.counts(sample)) {
        let Some(stack) = sample.stack else { continue };
        let is_its = scene.charged_function(stack) == Some(hottest.function);
        if let Some(caller) = nearest[stack.at()].filter(|_| is_its) {
            let weight = weights.entry(caller).or_default();
            *weight = weight.saturating_add(sample.weight);
        }
    }
    let callers = heaviest_first(weights);
    let Some((caller, weight)) = callers.first() else {
        return String::new();
    };
    let caller = scene.named(*caller);
    match percent_of(*weight, hottest.charged_weight) {
        NEARLY_ALL_CALLS.. => format!(", called from {caller}"),
        MOSTLY.. => format!(", mostly called from {caller}"),
        _ => format!(", called from {caller} and others"),
    }
}

/// The function without a source that most of what is charged to `function` is in.
fn heaviest_leaf(scene: &Scene<'_>, function: FunctionIndex) -> Option<(FunctionIndex, u64)> {
    let profile = scene.profile();
    let mut weights: FastMap<FunctionIndex, u64> = FastMap::default();
    for sample in profile.samples.iter().filter(|sample| scene.counts(sample)) {
        let Some(stack) = sample.stack else { continue };
        let leaf = profile.function_of(stack);
        if leaf != function && scene.charged_function(stack) == Some(function) {
            let weight = weights.entry(leaf).or_default();
            *weight = weight.saturating_add(sample.weight);
        }
    }
    heaviest_first(weights).first().copied()
}

/// The line that most of what is charged to a function runs at, unless it is where it starts.
fn hottest_line(scene: &Scene<'_>, hottest: &ChargedWeights) -> Option<u32> {
    let profile = scene.profile();
    let mut weights: FastMap<u32, u64> = FastMap::default();
    for sample in profile.samples.iter().filter(|sample| scene.counts(sample)) {
        let charged = sample.stack.and_then(|stack| scene.charged_to[stack.at()]);
        let Some(stack) = charged else { continue };
        if profile.function_of(stack) == hottest.function {
            let line = profile.frame(profile.stacks[stack.at()].frame).line;
            let weight = weights.entry(line).or_default();
            *weight = weight.saturating_add(sample.weight);
        }
    }
    let (line, weight) = weights
        .into_iter()
        .max_by_key(|(line, weight)| (*weight, Reverse(*line)))?;
    let is_news = line > 0 && line != profile.function(hottest.function).line;
    (is_news && percent_of(weight, hottest.charged_weight) >= MOSTLY).then_some(line)
}

/// The hottest function of all, where none with a source is hot, and who runs it.
fn hottest_native(scene: &Scene<'_>) -> Option<Finding> {
    let profile = scene.profile();
    let is_work = |entry: &&FunctionWeights| {
        let function = profile.function(entry.function);
        let has_its_own_rule = super::runtime::is_megamorphic(profile, entry.function);
        !has_its_own_rule && !matches!(function.category, Category::Idle | Category::Unknown)
    };
    let hottest = scene.by_self.iter().find(is_work)?;
    let share = scene.share(hottest.self_weight);
    // What threads wait for has rules of its own: `__poll` is where they do, and no work.
    if share < HOT_FUNCTION || super::waits::is_mostly_waiting(scene, hottest) {
        return None;
    }
    let callers = scene.callers(|sample, stack| {
        scene.counts(sample) && profile.function_of(stack) == hottest.function
    });
    Some(Finding {
        kind: "function",
        percent: share,
        sentence: format!(
            "{} of {} {} {} itself{}",
            rounded_share(share),
            scene.whole,
            scene.words.is_in(),
            scene.named(hottest.function),
            scene.under(&callers, hottest.self_weight)
        ),
        function: Some(hottest.function),
    })
}

/// The function of the application that most happens under. One that nearly everything happens
/// under or that only passes on leads to the others; one that was named already has had its
/// sentence.
pub(super) fn widest_function(scene: &Scene<'_>) -> Option<Finding> {
    let passes_on = passing_on(scene.profile(), |sample| scene.counts(sample));
    let mut own = scene.by_total.iter().filter(|entry| {
        scene.profile().function(entry.function).category == Category::App
            && scene.share(entry.total_weight) <= NEARLY_ALL
            && !passes_on.contains_key(&entry.function)
    });
    let widest = own.next()?;
    let total = scene.share(widest.total_weight);
    let is_named = hottest(scene).is_some_and(|hottest| hottest.function == widest.function);
    (total >= HOT_FUNCTION && !is_named).then(|| Finding {
        kind: "function_total",
        percent: total,
        sentence: format!(
            "{} of {} {} {} and what it calls",
            rounded_share(total),
            scene.whole,
            scene.words.is_in(),
            scene.named(widest.function)
        ),
        function: Some(widest.function),
    })
}

/// The package of dependencies that most is charged to, and its hottest function.
pub(super) fn heaviest_dependency(scene: &Scene<'_>) -> Option<Finding> {
    let profile = scene.profile();
    let callers = scene.callers(|_, _| true);
    let mut packages: FastMap<String, (u64, FunctionIndex, u64)> = FastMap::default();
    for (function, weight) in callers {
        let package = Package::of(profile, function);
        if package.kind == PackageKind::Dependency {
            // The first one that comes is the heaviest.
            let entry = packages
                .entry(package.name)
                .or_insert((0, function, weight));
            entry.0 = entry.0.saturating_add(weight);
        }
    }
    let (name, (weight, function, of_function)) = packages
        .into_iter()
        .max_by_key(|(name, (weight, ..))| (*weight, Reverse(name.clone())))?;
    let share = scene.share_of_all(weight);
    let is_that_function = hottest(scene).is_some_and(|hottest| hottest.function == function)
        && percent_of(of_function, weight) >= NEARLY_ITSELF;
    if share < HOT_PACKAGE || is_that_function {
        return None;
    }
    let packages = scene.report.packages.iter();
    let own = packages
        .filter(|entry| entry.package.kind == PackageKind::Dependency)
        .find(|entry| entry.package.name == name)
        .map_or(0, |entry| entry.self_weight);
    Some(Finding {
        kind: "package",
        percent: share,
        sentence: format!(
            "The dependency {name} {} {} of {} with what it runs ({} in its own code), {} in {}",
            scene.words.takes(),
            rounded_share(share),
            scene.whole_of_all(),
            rounded_share(scene.share_of_all(own)),
            rounded_share(scene.share_of_all(of_function)),
            scene.named(function)
        ),
        function: Some(function),
    })
}

/// The heaviest native module beside Node's own.
pub(super) fn heaviest_module(scene: &Scene<'_>) -> Option<Finding> {
    let is_foreign = |entry: &&SubsystemWeights| {
        matches!(
            entry.subsystem,
            Subsystem::Addons | Subsystem::OtherNative | Subsystem::Libraries
        )
    };
    let foreign = scene.report.subsystems.iter().filter(is_foreign);
    let members =
        foreign.flat_map(|entry| entry.members.iter().map(|each| (entry.subsystem, each)));
    let (subsystem, (module, weight)) =
        members.max_by_key(|(_, (name, weight))| (*weight, Reverse(name)))?;
    let share = scene.share_of_all(*weight);
    if share < HOT_MODULE {
        return None;
    }
    let profile = scene.profile();
    let is_in = |function: FunctionIndex| subsystem_of(profile, function) == (subsystem, module);
    let callers = scene.callers(|_, stack| is_in(profile.function_of(stack)));
    let unnamed = scene.report.by_self.iter().filter(|entry| {
        is_in(entry.function) && profile.function(entry.function).category == Category::Unknown
    });
    let unnamed = unnamed.fold(0u64, |sum, entry| sum.saturating_add(entry.self_weight));
    let what = match subsystem {
        Subsystem::Addons => "The native module",
        Subsystem::Libraries => "The library",
        _ => "Native code of",
    };
    let symbols = match percent_of(unnamed, *weight) {
        MOSTLY.. => " (no symbols)",
        _ => "",
    };
    Some(Finding {
        kind: "module",
        percent: share,
        sentence: format!(
            "{what} `{}`{symbols} {} {} of {}{}",
            module.replace('`', "'"),
            scene.words.takes(),
            rounded_share(share),
            scene.whole_of_all(),
            scene.under(&callers, *weight)
        ),
        function: callers.first().map(|(function, _)| *function),
    })
}

/// Code without a name that no addon explains.
pub(super) fn without_name(scene: &Scene<'_>) -> Option<Finding> {
    let mut all = scene.report.subsystems.iter();
    let unknown = all.find(|entry| entry.subsystem == Subsystem::Unknown)?;
    let share = scene.share_of_all(unknown.weight);
    let most = unknown
        .members
        .first()
        .filter(|(_, weight)| percent_of(*weight, unknown.weight) >= MOSTLY)
        .map(|(module, weight)| {
            let part = part_of_it(percent_of(*weight, unknown.weight));
            format!(", {part} in `{}`", module.replace('`', "'"))
        });
    (share >= MUCH_UNKNOWN).then(|| Finding {
        kind: "unnamed",
        percent: share,
        sentence: format!(
            "{} of {} {} code without a name{}",
            rounded_share(share),
            scene.whole_of_all(),
            scene.words.is_in(),
            most.unwrap_or_default()
        ),
        function: None,
    })
}
