//! What stands out, in sentences. Each rule is a function; one that has nothing to say is silent.

use nodespy_model::{
    Category, FunctionIndex, FunctionWeights, PackageKind, Tier, busy_main_threads,
    collected_under, tier_weights,
};

use super::Report;
use crate::columns::short_name;
use crate::wording::{percent, percent_of, place};

/// Shares of the whole, in percent, from which something is worth a sentence.
const HOT_FUNCTION: f64 = 10.0;
const NEARLY_ALL: f64 = 90.0;
const HOT_PACKAGE: f64 = 10.0;
const MUCH_GC: f64 = 5.0;
const MUCH_KERNEL: f64 = 25.0;
const MUCH_UNKNOWN: f64 = 10.0;
const MUCH_INTERPRETED: f64 = 25.0;
const WORTH_A_DEOPT: f64 = 1.0;
const MOST_DEOPTS: usize = 3;

/// Everything that stands out, what matters most first.
pub(super) fn of(report: &Report<'_>) -> Vec<String> {
    if report.total == 0 {
        return vec!["no samples were recorded".to_owned()];
    }
    let rules = [
        main_thread,
        hottest_function,
        widest_function,
        heaviest_dependency,
        garbage,
        kernel,
        interpreted,
        unknown,
    ];
    let mut findings: Vec<String> = rules.iter().filter_map(|rule| rule(report)).collect();
    findings.extend(deoptimized(report));
    findings
}

fn named(report: &Report<'_>, function: FunctionIndex) -> String {
    let name = short_name(report.profile.name_of(function));
    format!("{name} ({})", place(report.profile, function))
}

fn share(report: &Report<'_>, weight: u64) -> f64 {
    percent_of(weight, report.total)
}

fn main_thread(report: &Report<'_>) -> Option<String> {
    let busiest = *busy_main_threads(report.profile).first()?;
    let busy = format!("{:.0} %", busiest.share * 100.0);
    match busiest.share {
        0.9.. => Some(format!(
            "the main thread of process {} was busy {busy} of the time: requests wait for the CPU",
            busiest.pid
        )),
        ..0.1 => Some(format!(
            "the main threads were busy at most {busy} of the time: what is slow waits for something else than the CPU"
        )),
        _ => None,
    }
}

fn hottest_function(report: &Report<'_>) -> Option<String> {
    let is_work = |entry: &&FunctionWeights| {
        report.profile.function(entry.function).category != Category::Idle
    };
    let hottest = report.by_self.iter().find(is_work)?;
    let own = share(report, hottest.self_weight);
    (own >= HOT_FUNCTION).then(|| {
        format!(
            "{} of the time is spent in {} itself",
            percent(own),
            named(report, hottest.function)
        )
    })
}

/// The function of the application that most happens under. One that nearly everything happens
/// under only leads to the others.
fn widest_function(report: &Report<'_>) -> Option<String> {
    let mut own = report.by_total.iter().filter(|entry| {
        report.profile.function(entry.function).category == Category::App
            && share(report, entry.total_weight) <= NEARLY_ALL
    });
    let widest = own.next()?;
    let total = share(report, widest.total_weight);
    let is_hottest = report
        .by_self
        .first()
        .is_some_and(|hottest| hottest.function == widest.function);
    (total >= HOT_FUNCTION && !is_hottest).then(|| {
        format!(
            "{} of the time is spent in {} and what it calls",
            percent(total),
            named(report, widest.function)
        )
    })
}

fn heaviest_dependency(report: &Report<'_>) -> Option<String> {
    let mut dependencies: Vec<_> = report
        .packages
        .iter()
        .filter(|entry| entry.package.kind == PackageKind::Dependency)
        .collect();
    dependencies.sort_by_key(|entry| std::cmp::Reverse(entry.self_weight));
    let heaviest = dependencies.first()?;
    let own = share(report, heaviest.self_weight);
    (own >= HOT_PACKAGE).then(|| {
        format!(
            "the package {} takes {} of the time in its own code",
            heaviest.package.name,
            percent(own)
        )
    })
}

fn garbage(report: &Report<'_>) -> Option<String> {
    let gc = share(report, report.shares.gc);
    if gc < MUCH_GC {
        return None;
    }
    let collected = collected_under(report.profile);
    let under = match collected.first() {
        Some((function, _)) => format!(", most of it under {}", named(report, *function)),
        None => String::new(),
    };
    Some(format!(
        "garbage collection takes {} of the time{under}",
        percent(gc)
    ))
}

fn kernel(report: &Report<'_>) -> Option<String> {
    let kernel = share(report, report.shares.kernel);
    (kernel >= MUCH_KERNEL).then(|| format!("the kernel takes {} of the time", percent(kernel)))
}

fn interpreted(report: &Report<'_>) -> Option<String> {
    let tiers = tier_weights(report.profile);
    let whole = tiers
        .iter()
        .fold(0u64, |sum, weight| sum.saturating_add(*weight));
    let interpreted = percent_of(tiers[Tier::Interpreted as usize], whole);
    let of_all = share(report, tiers[Tier::Interpreted as usize]);
    (interpreted >= MUCH_INTERPRETED && of_all >= HOT_FUNCTION).then(|| {
        format!(
            "{} of JavaScript ran in the interpreter: it is still warming up, or too varied to be compiled",
            percent(interpreted)
        )
    })
}

fn unknown(report: &Report<'_>) -> Option<String> {
    let unknown = share(report, report.shares.unknown);
    (unknown >= MUCH_UNKNOWN).then(|| {
        format!(
            "{} of the time is in code nobody could name",
            percent(unknown)
        )
    })
}

fn deoptimized(report: &Report<'_>) -> Vec<String> {
    let profile = report.profile;
    let mut reasons: Vec<(u64, FunctionIndex, &str)> = profile
        .deopt_reasons
        .iter()
        .filter_map(|(function, reason)| {
            let entry = report
                .by_self
                .iter()
                .find(|entry| entry.function == *function)?;
            let reason = profile.strings.get(*reason);
            let is_worth_it = share(report, entry.self_weight) >= WORTH_A_DEOPT;
            is_worth_it.then_some((entry.self_weight, *function, reason))
        })
        .collect();
    reasons.sort_by_key(|(weight, function, _)| (std::cmp::Reverse(*weight), *function));
    reasons.truncate(MOST_DEOPTS);
    let sentence = |(_, function, reason): (u64, FunctionIndex, &str)| {
        format!(
            "V8 dropped optimized code of {}: {reason}",
            named(report, function)
        )
    };
    reasons.into_iter().map(sentence).collect()
}
