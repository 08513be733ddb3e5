//! Hot JavaScript that V8 does not run optimized: still interpreted, or dropped from optimized code.

use std::cmp::Reverse;

use nodespy_analysis::tier_weights;
use nodespy_model::{FastMap, FunctionIndex, Nanoseconds, SmallSort, ThreadIndex, Tier};

use super::{Finding, Scene, rounded_share};
use crate::wording::{duration, percent_of};

/// Shares of the whole, in percent.
const HOT: f64 = 10.0;
const WARM: f64 = 5.0;
const WORTH_A_DEOPT: f64 = 1.0;
/// Parts of JavaScript or of a function's time, in percent.
const MUCH_INTERPRETED: f64 = 25.0;
const MOSTLY: f64 = 80.0;
const MUCH_UNOPTIMIZED: f64 = 20.0;
/// How long V8 has had to compile what is hot.
const WARMED_UP: Nanoseconds = 3_000_000_000;
/// Fewer samples say nothing of a function.
const FEWEST_SAMPLES: u64 = 20;
/// How often a function fell back before that is no accident.
const FEWEST_FALLS: u64 = 3;
const MAX_FINDINGS: usize = 3;

/// Much of all JavaScript in the interpreter.
pub(super) fn interpreted(scene: &Scene<'_>) -> Option<Finding> {
    let tiers = tier_weights(scene.profile());
    let whole = tiers
        .iter()
        .fold(0u64, |sum, weight| sum.saturating_add(*weight));
    let interpreted = percent_of(tiers[Tier::Interpreted as usize], whole);
    let of_all = scene.share_of_all(tiers[Tier::Interpreted as usize]);
    (interpreted >= MUCH_INTERPRETED && of_all >= HOT).then(|| Finding {
        kind: "interpreted",
        percent: of_all,
        sentence: format!(
            "{} of JavaScript ran in the interpreter: it is still warming up, or too varied to be compiled",
            rounded_share(interpreted)
        ),
        function: None,
    })
}

/// What samples that end in a function say of its compilers.
#[derive(Default)]
struct Tiers {
    samples: u64,
    weight: u64,
    /// After V8 has had its time.
    late_samples: u64,
    late_weight: u64,
    late_interpreted: u64,
    last_interpreted: Nanoseconds,
    /// In the interpreter or baseline code after the function had been optimized.
    unoptimized: u64,
    falls: u64,
    was_optimized: bool,
}

/// The tiers of each function, inlined copies apart: those are compiled with their callers.
fn tiers_by_function(scene: &Scene<'_>) -> FastMap<FunctionIndex, Tiers> {
    let profile = scene.profile();
    let mut functions: FastMap<FunctionIndex, Tiers> = FastMap::default();
    // Whether the last sample of a function on a thread was in optimized code.
    let mut last: FastMap<(ThreadIndex, FunctionIndex), bool> = FastMap::default();
    for sample in &profile.samples {
        let Some(stack) = sample.stack else { continue };
        let frame = profile.frame(profile.stacks[stack.at()].frame);
        if frame.tier == Tier::None || frame.kind.is_inlined() {
            continue;
        }
        let tiers = functions.entry(frame.function).or_default();
        tiers.samples += 1;
        tiers.weight = tiers.weight.saturating_add(sample.weight);
        let process = profile.threads[sample.thread.at()].process;
        let age = sample
            .time
            .saturating_sub(profile.processes[process.at()].started);
        if age >= WARMED_UP {
            tiers.late_samples += 1;
            tiers.late_weight = tiers.late_weight.saturating_add(sample.weight);
            if frame.tier == Tier::Interpreted {
                tiers.late_interpreted = tiers.late_interpreted.saturating_add(sample.weight);
                tiers.last_interpreted = age;
            }
        }
        let is_optimized = matches!(frame.tier, Tier::Optimized | Tier::Maglev);
        let key = (sample.thread, frame.function);
        let was_optimized = last.insert(key, is_optimized).unwrap_or(false);
        tiers.falls += u64::from(was_optimized && !is_optimized);
        tiers.was_optimized |= is_optimized;
        if tiers.was_optimized && !is_optimized {
            tiers.unoptimized = tiers.unoptimized.saturating_add(sample.weight);
        }
    }
    functions
}

/// The findings of the heaviest functions that `sentence` has something to say of.
fn of_functions(
    scene: &Scene<'_>,
    kind: &'static str,
    sentence: impl Fn(FunctionIndex, &Tiers) -> Option<(f64, String)>,
) -> Vec<Finding> {
    let functions = tiers_by_function(scene);
    let mut findings: Vec<Finding> = functions
        .iter()
        .filter(|(_, tiers)| tiers.samples >= FEWEST_SAMPLES)
        .filter_map(|(function, tiers)| {
            let (percent, sentence) = sentence(*function, tiers)?;
            Some(Finding {
                kind,
                percent,
                sentence,
                function: Some(*function),
            })
        })
        .collect();
    findings.small_sort_by(|one, other| {
        let strongest = other.percent.total_cmp(&one.percent);
        strongest.then(one.function.cmp(&other.function))
    });
    findings.truncate(MAX_FINDINGS);
    findings
}

/// Hot functions that are interpreted long after V8 should have compiled them.
pub(super) fn still_interpreted(scene: &Scene<'_>) -> Vec<Finding> {
    of_functions(scene, "still_interpreted", |function, tiers| {
        let share = scene.share_of_all(tiers.late_interpreted);
        let is_it = share >= WARM
            && tiers.late_samples >= FEWEST_SAMPLES
            && percent_of(tiers.late_interpreted, tiers.late_weight) >= MOSTLY;
        is_it.then(|| {
            let sentence = format!(
                "{} of {} is in {}, interpreted still after {}",
                rounded_share(share),
                scene.whole_of_all(),
                scene.named(function),
                duration(tiers.last_interpreted)
            );
            (share, sentence)
        })
    })
}

/// Hot functions that keep falling out of optimized code.
pub(super) fn falling_back(scene: &Scene<'_>) -> Vec<Finding> {
    of_functions(scene, "deoptimized", |function, tiers| {
        let unoptimized = percent_of(tiers.unoptimized, tiers.weight);
        let share = scene.share_of_all(tiers.weight);
        let is_it = share >= WARM && tiers.falls >= FEWEST_FALLS && unoptimized >= MUCH_UNOPTIMIZED;
        is_it.then(|| {
            let sentence = format!(
                "{} fell back from optimized code at least {} times: {} of its time ran without",
                scene.named(function),
                tiers.falls,
                rounded_share(unoptimized)
            );
            (scene.share_of_all(tiers.unoptimized), sentence)
        })
    })
}

/// Hot functions whose optimized code V8 says it dropped, and why.
pub(super) fn deoptimized(scene: &Scene<'_>) -> Vec<Finding> {
    let profile = scene.profile();
    let mut reasons: Vec<(u64, FunctionIndex, &str)> = profile
        .deopt_reasons
        .iter()
        .filter_map(|(function, reason)| {
            let mut by_self = scene.by_self.iter();
            let entry = by_self.find(|entry| entry.function == *function)?;
            let reason = profile.strings.get(*reason);
            let is_worth_it = scene.share(entry.self_weight) >= WORTH_A_DEOPT;
            is_worth_it.then_some((entry.self_weight, *function, reason))
        })
        .collect();
    reasons.small_sort_by_key(|(weight, function, _)| (Reverse(*weight), *function));
    reasons.truncate(MAX_FINDINGS);
    let finding = |(weight, function, reason): (u64, FunctionIndex, &str)| Finding {
        kind: "deoptimized",
        percent: scene.share(weight),
        sentence: format!(
            "V8 dropped optimized code of {}: {reason}",
            scene.named(function)
        ),
        function: Some(function),
    };
    reasons.into_iter().map(finding).collect()
}
