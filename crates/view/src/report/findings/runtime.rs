//! What V8 and the kernel do for the program: collecting garbage, compiling, system calls.

use nodespy_analysis::{Division, Subsystem, collected_under, shares};
use nodespy_model::{Category, FunctionIndex, Profile, Sample, ThreadRole};

use super::{Finding, Scene, part_of_it, rounded_share};
use crate::wording::percent_of;

/// Shares of the whole, in percent, from which something is worth a sentence.
const MUCH_GC: f64 = 5.0;
const MUCH_COMPILATION: f64 = 5.0;
const MUCH_MEGAMORPHIC: f64 = 5.0;
const MUCH_KERNEL: f64 = 25.0;
/// Parts, in percent, from which where it ran or what it did is worth saying.
const MUCH_ON_V8S_THREADS: f64 = 25.0;
const MOSTLY: f64 = 60.0;

pub(super) fn garbage(scene: &Scene<'_>) -> Option<Finding> {
    let whole = scene.report.shares.gc;
    let share = scene.share_of_all(whole);
    if share < MUCH_GC {
        return None;
    }
    let profile = scene.profile();
    let collected = collected_under(profile);
    let own_threads = shares(profile, |sample| is_v8s(scene, sample)).gc;
    Some(Finding {
        kind: "gc",
        percent: share,
        sentence: format!(
            "Garbage collection {} {} of {}{}{}{}",
            scene.words.takes(),
            rounded_share(share),
            scene.whole_of_all(),
            generation(scene),
            scene.under(&collected, whole),
            on_v8s_threads(own_threads, whole)
        ),
        function: collected.first().map(|(function, _)| *function),
    })
}

fn is_v8s(scene: &Scene<'_>, sample: &Sample) -> bool {
    scene.profile().threads[sample.thread.at()].role == ThreadRole::Platform
}

fn on_v8s_threads(weight: u64, whole: u64) -> String {
    match percent_of(weight, whole) {
        share if share >= MUCH_ON_V8S_THREADS => {
            format!(", {} on V8's own threads", part_of_it(share))
        }
        _ => String::new(),
    }
}

/// Parts of the names of functions that collect the young generation only.
const YOUNG: [&str; 3] = ["Scaveng", "MinorMarkSweep", "MinorMarkCompact"];
/// Parts of the names of functions that collect the old one.
const OLD: [&str; 6] = [
    "MarkCompact",
    "ConcurrentMarking",
    "IncrementalMarking",
    "Sweeper",
    "Evacuat",
    "MarkingVisitor",
];

/// Which generation was collected mostly: short-lived objects cost scavenges, those that stay cost
/// marking.
fn generation(scene: &Scene<'_>) -> &'static str {
    let profile = scene.profile();
    let has = |name: &str, parts: &[&str]| parts.iter().any(|part| name.contains(part));
    // What a function says: 1 young, 2 old, 0 neither. Parents come first, so one pass is enough.
    let says: Vec<u8> = (0..profile.functions.len() as u32)
        .map(FunctionIndex)
        .map(|function| match profile.name_of(function) {
            _ if profile.function(function).category != Category::Gc => 0,
            name if has(name, &YOUNG) => 1,
            name if has(name, &OLD) => 2,
            _ => 0,
        })
        .collect();
    let mut of_stack: Vec<u8> = Vec::with_capacity(profile.stacks.len());
    for stack in &profile.stacks {
        let below = stack.parent.map_or(0, |parent| of_stack[parent.at()]);
        let own = says[profile.frame(stack.frame).function.at()];
        of_stack.push(if below == 0 { own } else { below });
    }
    let mut weights = [0u64; 3];
    for sample in &profile.samples {
        let generation = sample.stack.map_or(0, |stack| of_stack[stack.at()]);
        let weight = &mut weights[usize::from(generation)];
        *weight = weight.saturating_add(sample.weight);
    }
    let whole = scene.report.shares.gc;
    match weights {
        [_, young, _] if percent_of(young, whole) >= MOSTLY => {
            " (mostly scavenges of young objects)"
        }
        [_, _, old] if percent_of(old, whole) >= MOSTLY => " (mostly marking of old objects)",
        _ => "",
    }
}

/// Whether a function looks up properties at a place that has seen too many shapes of objects.
pub(super) fn is_megamorphic(profile: &Profile, function: FunctionIndex) -> bool {
    profile.function(function).category == Category::Builtin
        && profile.name_of(function).contains("Megamorphic")
}

/// Property accesses that V8 can't cache.
pub(super) fn megamorphic(scene: &Scene<'_>) -> Option<Finding> {
    let profile = scene.profile();
    let accesses = scene.report.by_self.iter();
    let accesses = accesses.filter(|entry| is_megamorphic(profile, entry.function));
    let whole = accesses.fold(0u64, |sum, entry| sum.saturating_add(entry.self_weight));
    let share = scene.share_of_all(whole);
    if share < MUCH_MEGAMORPHIC {
        return None;
    }
    let callers = scene.callers(|_, stack| is_megamorphic(profile, profile.function_of(stack)));
    Some(Finding {
        kind: "megamorphic",
        percent: share,
        sentence: format!(
            "Megamorphic property accesses (objects of many shapes at one place) take {} of {}{}",
            rounded_share(share),
            scene.whole_of_all(),
            scene.under(&callers, whole)
        ),
        function: callers.first().map(|(function, _)| *function),
    })
}

/// V8's parser and compilers, which native code would hide.
pub(super) fn compilation(scene: &Scene<'_>) -> Option<Finding> {
    let profile = scene.profile();
    let division = Division::of(profile);
    let is_compiling = |sample: &Sample| division.of_sample(sample).0 == Subsystem::Compilation;
    let weight_of = |keep: &dyn Fn(&Sample) -> bool| {
        let samples = profile.samples.iter();
        let compiling = samples.filter(|sample| keep(sample) && is_compiling(sample));
        compiling.fold(0u64, |sum, sample| sum.saturating_add(sample.weight))
    };
    let whole = weight_of(&|_| true);
    let share = scene.share_of_all(whole);
    (share >= MUCH_COMPILATION).then(|| Finding {
        kind: "jit_compilation",
        percent: share,
        sentence: format!(
            "JIT compilation {} {} of {}{}",
            scene.words.takes(),
            rounded_share(share),
            scene.whole_of_all(),
            on_v8s_threads(weight_of(&|sample| is_v8s(scene, sample)), whole)
        ),
        function: None,
    })
}

pub(super) fn kernel(scene: &Scene<'_>) -> Option<Finding> {
    let whole = scene.report.shares.kernel;
    let share = scene.share_of_all(whole);
    if share < MUCH_KERNEL {
        return None;
    }
    let profile = scene.profile();
    let callers = scene.callers(|_, stack| {
        profile.function(profile.function_of(stack)).category == Category::Kernel
    });
    Some(Finding {
        kind: "kernel",
        percent: share,
        sentence: format!(
            "The kernel takes {} of {}{}",
            rounded_share(share),
            scene.whole_of_all(),
            scene.under(&callers, whole)
        ),
        function: callers.first().map(|(function, _)| *function),
    })
}
