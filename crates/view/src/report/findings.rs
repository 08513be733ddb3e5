//! What stands out, in sentences. Each rule is a function; one that has nothing to say is silent.

use std::cmp::Reverse;

use nodespy_analysis::{
    FunctionWeights, Package, PackageKind, Shares, app_callers, busy_main_threads, busy_threads,
    collected_under, function_weights, main_threads, shares, tier_weights,
};
use nodespy_model::{Category, FunctionIndex, Profile, Sample, Tier, WeightUnit};
use nodespy_model::{ThreadIndex, ThreadRole};

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
const MAX_DEOPTS: usize = 3;
/// Parts of the garbage collection, in percent, from which where it ran is worth saying.
const WORTH_A_CALLER: f64 = 10.0;
const MUCH_ON_V8S_THREADS: f64 = 25.0;
/// Parts of a CPU: below the first a main thread does next to nothing, from the second on a thread
/// is one that computes.
const IDLE_MAIN_THREAD: f64 = 0.1;
const BUSY_THREAD: f64 = 0.5;

/// Part of a function's own time from which its callers are one.
const MAX_CALLS: f64 = 50.0;
const NEARLY_ALL_CALLS: f64 = 95.0;

/// Everything that stands out, what matters most first. Names stand between backticks.
pub(super) fn of(report: &Report<'_>) -> Vec<String> {
    if report.total == 0 {
        return vec!["No samples were recorded".to_owned()];
    }
    let scene = Scene::of(report);
    let rules = [
        idle_main_thread,
        odd_process,
        hottest_function,
        widest_function,
        garbage,
        busy_main_thread,
        heaviest_dependency,
        kernel,
        interpreted,
        unknown,
    ];
    let mut findings: Vec<String> = rules.iter().filter_map(|rule| rule(&scene)).collect();
    findings.extend(deoptimized(&scene));
    findings
}

/// What sentences are about: the main threads where most of the work is theirs, else all.
struct Scene<'a> {
    report: &'a Report<'a>,
    /// Which threads count for functions.
    threads: Vec<bool>,
    by_self: Vec<FunctionWeights>,
    by_total: Vec<FunctionWeights>,
    /// The weight of those threads, idle time apart.
    busy: u64,
    /// The weight of all threads, idle time apart.
    busy_of_all: u64,
    /// The words for what is shared out.
    whole: &'static str,
    /// What the files of the application have in common.
    root: &'a str,
}

impl<'a> Scene<'a> {
    fn of(report: &'a Report<'a>) -> Self {
        let profile = report.profile;
        let is_main = main_threads(profile);
        let busy_in = |shares: &Shares| shares.total() - shares.idle;
        let busy_of_all = busy_in(&report.shares);
        let on_main = shares(profile, |sample| is_main[sample.thread.at()]);
        let is_mains_work = busy_in(&on_main) >= busy_of_all.div_ceil(2) && busy_of_all > 0;
        let threads = match is_mains_work {
            true => is_main,
            false => vec![true; profile.threads.len()],
        };
        let weights = function_weights(profile, |sample| threads[sample.thread.at()]);
        let mut by_total = weights.clone();
        by_total.sort_by_key(|entry| (Reverse(entry.total_weight), entry.function));
        Self {
            report,
            by_self: weights,
            by_total,
            busy: if is_mains_work {
                busy_in(&on_main)
            } else {
                busy_of_all
            },
            busy_of_all,
            whole: match is_mains_work && profile.event().is_time() {
                true => "main-thread CPU time",
                false => whole_of(profile),
            },
            threads,
            root: app_root(profile),
        }
    }

    fn profile(&self) -> &'a Profile {
        self.report.profile
    }

    /// A part of the work of the threads that count.
    fn share(&self, weight: u64) -> f64 {
        percent_of(weight, self.busy)
    }

    /// A part of the work of all threads.
    fn share_of_all(&self, weight: u64) -> f64 {
        percent_of(weight, self.busy_of_all)
    }

    /// The words for the work of all threads.
    fn whole_of_all(&self) -> &'static str {
        whole_of(self.profile())
    }

    /// A function and where it is: the package of a dependency, the file and line of the rest.
    fn named(&self, function: FunctionIndex) -> String {
        let profile = self.profile();
        let name = short_name(profile.name_of(function)).replace('`', "'");
        let category = profile.function(function).category;
        let place = match category {
            Category::Dependency => {
                let package = Package::of(profile, function);
                format!("(dependency {})", package.name)
            }
            Category::App | Category::NodeCore => {
                let place = place(profile, function);
                place.strip_prefix(self.root).unwrap_or(&place).to_owned()
            }
            Category::Native => format!("(native, {})", place(profile, function)),
            category => format!("({})", category.label()),
        };
        format!("`{name}` {}", place.replace('`', "'"))
    }
}

/// The folder that all files of the application are in, with the slash at its end.
fn app_root(profile: &Profile) -> &str {
    let functions = profile.functions.iter();
    let files = functions
        .filter(|function| function.category == Category::App)
        .filter_map(|function| function.file)
        .map(|file| profile.strings.get(file))
        .filter(|file| file.starts_with('/') || file.starts_with("file://"));
    let common = files.reduce(|common, file| {
        let same = common.bytes().zip(file.bytes());
        let length = same.take_while(|(left, right)| left == right).count();
        // Both are text and the same that far, so only the end can be inside a character.
        let length = (0..=length)
            .rev()
            .find(|length| common.is_char_boundary(*length));
        &common[..length.unwrap_or(0)]
    });
    let common = common.unwrap_or("");
    let end = common.rfind('/').map_or(0, |slash| slash + 1);
    &common[..end]
}

/// A share in a sentence: no digit that nobody reads.
fn rounded_share(value: f64) -> String {
    match value {
        10.0..=99.0 => format!("{value:.0} %"),
        value => percent(value),
    }
}

/// Which of several processes of an application does something else than the others.
fn odd_process(scene: &Scene<'_>) -> Option<String> {
    let odd = nodespy_analysis::odd_process(scene.profile())?;
    let process = &scene.profile().processes[odd.process.at()];
    Some(format!(
        "`{}` (pid {}) differs most from its {}: {} is {} of its time and {} of theirs",
        process.name.replace('`', "'"),
        process.pid,
        crate::wording::counted(odd.siblings as u64, "sibling"),
        scene.named(odd.function),
        percent(odd.share * 100.0),
        percent(odd.share_of_siblings * 100.0),
    ))
}

/// A main thread that has little to do: either others do the work, or the process waits.
fn idle_main_thread(scene: &Scene<'_>) -> Option<String> {
    let profile = scene.profile();
    let busiest = *busy_main_threads(profile).first()?;
    if busiest.share >= IDLE_MAIN_THREAD {
        return None;
    }
    let threads = busy_threads(profile);
    let all: f64 = threads.iter().map(|entry| entry.share).sum();
    let idle = format!(
        "The main thread was busy at most {:.0} % of the time",
        busiest.share * 100.0
    );
    let other = threads.first()?;
    Some(match all {
        all if all < IDLE_MAIN_THREAD => {
            format!("{idle}: what is slow waits for something else than the CPU")
        }
        _ if other.share >= BUSY_THREAD => format!(
            "{idle}, {} {:.0} %",
            thread_words(profile, other.thread),
            other.share * 100.0
        ),
        all => format!(
            "{idle}; all threads together used {:.0} % of a CPU",
            all * 100.0
        ),
    })
}

/// The words for a thread: what it is for, and its name.
fn thread_words(profile: &Profile, thread: ThreadIndex) -> String {
    let thread = &profile.threads[thread.at()];
    let name = thread.name.replace('`', "'");
    match thread.role {
        ThreadRole::Worker if name.starts_with("worker") => format!("`{name}`"),
        ThreadRole::Worker => format!("worker `{name}`"),
        ThreadRole::Pool => format!("a thread of libuv's pool (`{name}`)"),
        ThreadRole::Platform => format!("a thread of V8's own (`{name}`)"),
        ThreadRole::Main | ThreadRole::Other => format!("thread `{name}`"),
    }
}

fn busy_main_thread(scene: &Scene<'_>) -> Option<String> {
    let busiest = *busy_main_threads(scene.profile()).first()?;
    let whose = match scene.profile().processes.len() {
        0 | 1 => String::new(),
        _ => format!(" of process {}", busiest.pid),
    };
    (busiest.share >= 0.9).then(|| {
        format!(
            "The main thread{whose} was busy {:.0} % of the time: requests wait for the CPU",
            busiest.share * 100.0
        )
    })
}

fn hottest<'a>(scene: &'a Scene<'_>) -> Option<&'a FunctionWeights> {
    let is_work = |entry: &&FunctionWeights| {
        scene.profile().function(entry.function).category != Category::Idle
    };
    let hottest = scene.by_self.iter().find(is_work)?;
    (scene.share(hottest.self_weight) >= HOT_FUNCTION).then_some(hottest)
}

/// The function of the application that the hottest one is mostly run under, if it is not of the
/// application itself, and how much of it.
fn caller_of_hottest(scene: &Scene<'_>) -> Option<(FunctionIndex, u64)> {
    let hottest = hottest(scene)?.function;
    let is_app = scene.profile().function(hottest).category == Category::App;
    let callers = app_callers(scene.profile(), hottest, |sample| {
        scene.threads[sample.thread.at()]
    });
    callers.first().filter(|_| !is_app).copied()
}

fn hottest_function(scene: &Scene<'_>) -> Option<String> {
    let hottest = hottest(scene)?;
    let called = caller_of_hottest(scene).map(|(caller, weight)| {
        let caller = scene.named(caller);
        match percent_of(weight, hottest.self_weight) {
            NEARLY_ALL_CALLS.. => format!(", called from {caller}"),
            MAX_CALLS.. => format!(", mostly called from {caller}"),
            _ => format!(", called from {caller} and others"),
        }
    });
    Some(format!(
        "{} of {} is in {}{}",
        rounded_share(scene.share(hottest.self_weight)),
        scene.whole,
        scene.named(hottest.function),
        called.unwrap_or_else(|| " itself".to_owned())
    ))
}

/// The function of the application that most happens under. One that nearly everything happens
/// under only leads to the others; one that was named already has had its sentence.
fn widest_function(scene: &Scene<'_>) -> Option<String> {
    let mut own = scene.by_total.iter().filter(|entry| {
        scene.profile().function(entry.function).category == Category::App
            && scene.share(entry.total_weight) <= NEARLY_ALL
    });
    let widest = own.next()?;
    let total = scene.share(widest.total_weight);
    let named = [
        hottest(scene).map(|hottest| hottest.function),
        caller_of_hottest(scene).map(|(caller, _)| caller),
    ];
    (total >= HOT_FUNCTION && !named.contains(&Some(widest.function))).then(|| {
        format!(
            "{} of {} is in {} and what it calls",
            rounded_share(total),
            scene.whole,
            scene.named(widest.function)
        )
    })
}

fn heaviest_dependency(scene: &Scene<'_>) -> Option<String> {
    let mut dependencies: Vec<_> = scene
        .report
        .packages
        .iter()
        .filter(|entry| entry.package.kind == PackageKind::Dependency)
        .collect();
    dependencies.sort_by_key(|entry| Reverse(entry.self_weight));
    let heaviest = dependencies.first()?;
    let own = scene.share_of_all(heaviest.self_weight);
    (own >= HOT_PACKAGE).then(|| {
        format!(
            "The dependency {} takes {} of {} in its own code",
            heaviest.package.name,
            rounded_share(own),
            scene.whole_of_all()
        )
    })
}

fn garbage(scene: &Scene<'_>) -> Option<String> {
    let gc = scene.share_of_all(scene.report.shares.gc);
    if gc < MUCH_GC {
        return None;
    }
    let whole = scene.report.shares.gc;
    let collected = collected_under(scene.profile());
    let mut where_it_ran: Vec<String> = Vec::new();
    if let Some((function, weight)) = collected.first()
        && percent_of(*weight, whole) >= WORTH_A_CALLER
    {
        let share = percent_of(*weight, whole);
        let part = match share {
            99.5.. => "all".to_owned(),
            share => rounded_share(share),
        };
        where_it_ran.push(format!("{part} of it under {}", scene.named(*function)));
    }
    let profile = scene.profile();
    let is_v8s = |sample: &Sample| profile.threads[sample.thread.at()].role == ThreadRole::Platform;
    let own_threads = percent_of(shares(profile, is_v8s).gc, whole);
    if own_threads >= MUCH_ON_V8S_THREADS {
        where_it_ran.push(format!(
            "{} of it on V8's own threads",
            rounded_share(own_threads)
        ));
    }
    let details: String = where_it_ran
        .iter()
        .flat_map(|detail| [", ", detail])
        .collect();
    Some(format!(
        "Garbage collection takes {} of {}{details}",
        rounded_share(gc),
        scene.whole_of_all()
    ))
}

fn kernel(scene: &Scene<'_>) -> Option<String> {
    let kernel = scene.share_of_all(scene.report.shares.kernel);
    (kernel >= MUCH_KERNEL).then(|| {
        format!(
            "The kernel takes {} of {}",
            rounded_share(kernel),
            scene.whole_of_all()
        )
    })
}

fn interpreted(scene: &Scene<'_>) -> Option<String> {
    let tiers = tier_weights(scene.profile());
    let whole = tiers
        .iter()
        .fold(0u64, |sum, weight| sum.saturating_add(*weight));
    let interpreted = percent_of(tiers[Tier::Interpreted as usize], whole);
    let of_all = scene.share_of_all(tiers[Tier::Interpreted as usize]);
    (interpreted >= MUCH_INTERPRETED && of_all >= HOT_FUNCTION).then(|| {
        format!(
            "{} of JavaScript ran in the interpreter: it is still warming up, or too varied to be compiled",
            rounded_share(interpreted)
        )
    })
}

fn unknown(scene: &Scene<'_>) -> Option<String> {
    let unknown = scene.share_of_all(scene.report.shares.unknown);
    (unknown >= MUCH_UNKNOWN).then(|| {
        format!(
            "{} of {} is in code without a name",
            rounded_share(unknown),
            scene.whole_of_all()
        )
    })
}

fn deoptimized(scene: &Scene<'_>) -> Vec<String> {
    let profile = scene.profile();
    let mut reasons: Vec<(u64, FunctionIndex, &str)> = profile
        .deopt_reasons
        .iter()
        .filter_map(|(function, reason)| {
            let entry = scene
                .by_self
                .iter()
                .find(|entry| entry.function == *function)?;
            let reason = profile.strings.get(*reason);
            let is_worth_it = scene.share(entry.self_weight) >= WORTH_A_DEOPT;
            is_worth_it.then_some((entry.self_weight, *function, reason))
        })
        .collect();
    reasons.sort_by_key(|(weight, function, _)| (Reverse(*weight), *function));
    reasons.truncate(MAX_DEOPTS);
    let sentence = |(_, function, reason): (u64, FunctionIndex, &str)| {
        format!(
            "V8 dropped optimized code of {}: {reason}",
            scene.named(function)
        )
    };
    reasons.into_iter().map(sentence).collect()
}
/// The words for all that the weights of an event count.
fn whole_of(profile: &Profile) -> &'static str {
    match profile.unit() {
        WeightUnit::Bytes => "all bytes",
        _ if profile.event().is_time() => "CPU time",
        WeightUnit::Samples => "all samples",
        _ => "all events",
    }
}
