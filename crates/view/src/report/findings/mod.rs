//! What stands out, in sentences. Each rule is a function; one that has nothing to say is silent.
//!
//! A sentence holds the share it claims and leads somewhere: to a function with its line, a package,
//! a module, a thread. Names stand between backticks.

mod calls;
mod functions;
mod regexp;
mod runtime;
mod threads;
mod tiers;
mod waits;

use std::cmp::Reverse;

use nodespy_analysis::{
    ChargedWeights, FunctionWeights, Shares, charged_stacks, charged_weights, function_weights,
    main_threads, package_in, shares,
};
use nodespy_model::{
    Category, FastMap, FunctionIndex, Profile, Sample, SmallSort, StackIndex, ThreadIndex,
};

use super::Report;
use crate::columns::{keep_last_parts, short_name};
use crate::event_words::EventWords;
use crate::wording::{percent, percent_of, place};

/// Something that stands out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    /// What it is about, as a word for scripts.
    pub(crate) kind: &'static str,
    /// How much of the weight it is about, from 0 to 100: what makes it strong.
    pub(crate) percent: f64,
    /// The sentence.
    pub(crate) sentence: String,
    /// The function it leads to.
    pub(crate) function: Option<FunctionIndex>,
}

impl Finding {
    /// What it is sorted by: its share, but what decides how the others are read comes first, and
    /// where to look comes before what leads there.
    fn strength(&self) -> f64 {
        match self.kind {
            "trigger" => 3.0 * WHOLE,
            "cpu_quota" | "idle_main_thread" => 2.0 * WHOLE,
            "function_total" => self.percent / 2.0,
            "busy_main_thread" => self.percent / 10.0,
            _ => self.percent,
        }
    }
}

/// All of the time, in percent.
const WHOLE: f64 = 100.0;
/// Names in sentences are cut to as many columns: tables have them whole.
const WIDEST_NAME: usize = 60;
/// Part of something from which its caller is worth naming, in percent.
const WORTH_A_CALLER: f64 = 10.0;

/// The events that a rule makes sense of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Where anything comes from can be said.
    Any,
    /// What is slow and who waits, of time alone.
    Time,
}

type Rule = fn(&Scene<'_>) -> Option<Finding>;
type ListRule = fn(&Scene<'_>) -> Vec<Finding>;

/// Every rule that says one thing.
const RULES: [(Of, Rule); 17] = [
    (Of::Time, threads::full_pool),
    (Of::Time, threads::idle_main_thread),
    (Of::Time, threads::waits_for_cpu),
    (Of::Time, threads::busy_server),
    (Of::Any, threads::odd_process),
    (Of::Any, threads::busiest_worker),
    (Of::Any, functions::hottest_function),
    (Of::Any, functions::widest_function),
    (Of::Any, functions::heaviest_dependency),
    (Of::Any, functions::heaviest_module),
    (Of::Any, functions::without_name),
    (Of::Any, runtime::garbage),
    (Of::Any, runtime::compilation),
    (Of::Time, runtime::megamorphic),
    (Of::Time, runtime::kernel),
    (Of::Time, regexp::regular_expressions),
    (Of::Time, tiers::interpreted),
];
/// Every rule that may say several, all of them of time.
const LIST_RULES: [ListRule; 5] = [
    waits::of_main_threads,
    calls::on_the_main_thread,
    tiers::still_interpreted,
    tiers::falling_back,
    tiers::deoptimized,
];

/// Everything that stands out, the strongest first.
pub(super) fn of(report: &Report<'_>) -> Vec<Finding> {
    let profile = report.profile;
    let is_time = profile.event().is_time();
    let mut findings = threads::triggered(profile);
    if is_time {
        findings.extend(threads::limited_by_quota(profile));
    }
    if report.total == 0 {
        findings.push(Finding {
            kind: "no_samples",
            percent: 0.0,
            sentence: "No samples were recorded".to_owned(),
            function: None,
        });
        return findings;
    }
    let scene = Scene::of(report);
    let rules = RULES.iter().filter(|(of, _)| is_time || *of == Of::Any);
    findings.extend(rules.filter_map(|(_, rule)| rule(&scene)));
    if is_time {
        findings.extend(LIST_RULES.iter().flat_map(|rule| rule(&scene)));
    }
    findings.small_sort_by(|one, other| other.strength().total_cmp(&one.strength()));
    findings
}

/// What sentences are about: the main threads where most of the work is theirs, else all.
struct Scene<'a> {
    report: &'a Report<'a>,
    /// Which threads count for functions.
    threads: Vec<bool>,
    is_main: Vec<bool>,
    by_self: Vec<FunctionWeights>,
    by_total: Vec<FunctionWeights>,
    charged: Vec<ChargedWeights>,
    /// The stack that the weight of each stack is charged to.
    charged_to: Vec<Option<StackIndex>>,
    /// The weight of those threads, idle time apart.
    busy: u64,
    /// The weight of the main threads, idle time apart.
    busy_of_main: u64,
    /// The weight of all threads, idle time apart.
    busy_of_all: u64,
    /// The words for the event.
    words: EventWords,
    /// The words for what is shared out.
    whole: String,
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
        let busy_of_main = busy_in(&on_main);
        let is_mains_work = busy_of_main >= busy_of_all.div_ceil(2) && busy_of_all > 0;
        let threads = match is_mains_work {
            true => is_main.clone(),
            false => vec![true; profile.threads.len()],
        };
        let words = EventWords::of(profile);
        let counts = |sample: &Sample| threads[sample.thread.at()];
        let weights = function_weights(profile, counts);
        let mut by_total = weights.clone();
        by_total.small_sort_by_key(|entry| (Reverse(entry.total_weight), entry.function));
        Self {
            report,
            by_self: weights,
            by_total,
            charged: charged_weights(profile, counts),
            charged_to: charged_stacks(profile),
            busy: match is_mains_work {
                true => busy_of_main,
                false => busy_of_all,
            },
            busy_of_main,
            busy_of_all,
            whole: match is_mains_work && (words.is_time() || busy_of_main < busy_of_all) {
                true => words.of_main_threads(),
                false => words.whole.clone(),
            },
            words,
            threads,
            is_main,
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

    /// The weight of each thread, idle time apart: V8's own profiler samples that too.
    fn busy_threads(&self) -> Vec<(ThreadIndex, u64)> {
        let profile = self.profile();
        let is_idle =
            |stack| profile.function(profile.function_of(stack)).category == Category::Idle;
        let mut weights = vec![0u64; profile.threads.len()];
        for sample in &profile.samples {
            if !sample.stack.is_some_and(is_idle) {
                weights[sample.thread.at()] += sample.weight;
            }
        }
        let numbered = (0..).map(ThreadIndex).zip(weights);
        numbered.filter(|(_, weight)| *weight > 0).collect()
    }

    /// A part of the work of all threads.
    fn share_of_all(&self, weight: u64) -> f64 {
        percent_of(weight, self.busy_of_all)
    }

    /// The words for the work of all threads.
    fn whole_of_all(&self) -> &str {
        &self.words.whole
    }

    /// Whether a sample counts for functions.
    fn counts(&self, sample: &Sample) -> bool {
        self.threads[sample.thread.at()]
    }

    /// The function with a source that a stack is charged to.
    fn charged_function(&self, stack: StackIndex) -> Option<FunctionIndex> {
        self.charged_to[stack.at()].map(|stack| self.profile().function_of(stack))
    }

    /// The functions that the samples accepted by `is_in` are charged to, heaviest first.
    fn callers(&self, is_in: impl Fn(&Sample, StackIndex) -> bool) -> Vec<(FunctionIndex, u64)> {
        let mut weights: FastMap<FunctionIndex, u64> = FastMap::default();
        for sample in &self.profile().samples {
            let stack = sample.stack.filter(|stack| is_in(sample, *stack));
            if let Some(function) = stack.and_then(|stack| self.charged_function(stack)) {
                let weight = weights.entry(function).or_default();
                *weight = weight.saturating_add(sample.weight);
            }
        }
        heaviest_first(weights)
    }

    /// ", 30 % of it under `parse` work.js:7", where one caller has a part worth naming.
    fn under(&self, callers: &[(FunctionIndex, u64)], whole: u64) -> String {
        match callers.first() {
            Some((function, weight)) if percent_of(*weight, whole) >= WORTH_A_CALLER => {
                let part = part_of_it(percent_of(*weight, whole));
                format!(", {part} under {}", self.named(*function))
            }
            _ => String::new(),
        }
    }

    /// A function and where it is: package, file and line.
    fn named(&self, function: FunctionIndex) -> String {
        let profile = self.profile();
        let name = short_name(profile.name_of(function)).replace('`', "'");
        let name = keep_last_parts(&name, "::", WIDEST_NAME);
        let category = profile.function(function).category;
        let place = match category {
            Category::Dependency => {
                let place = place(profile, function);
                let package = package_in(profile.file_of(function)).unwrap_or("node_modules");
                let (_, file) = place.rsplit_once('/').unwrap_or(("", &place));
                format!("({package}, {file})")
            }
            Category::App | Category::NodeCore => {
                let place = place(profile, function);
                place.strip_prefix(self.root).unwrap_or(&place).to_owned()
            }
            Category::Native if !profile.file_of(function).is_empty() => {
                format!("(native, {})", place(profile, function))
            }
            category => format!("({})", category.label()),
        };
        format!("`{name}` {}", place.replace('`', "'"))
    }
}

/// The functions of a table, heaviest first.
fn heaviest_first(weights: FastMap<FunctionIndex, u64>) -> Vec<(FunctionIndex, u64)> {
    let mut list: Vec<(FunctionIndex, u64)> = weights.into_iter().collect();
    list.small_sort_by_key(|(function, weight)| (Reverse(*weight), *function));
    list
}

/// The folder that all files of the application are in, with the slash at its end.
fn app_root(profile: &Profile) -> &str {
    let functions = profile.functions.iter();
    let files = functions
        .filter(|function| function.category == Category::App)
        .filter_map(|function| function.file)
        .map(|file| profile.strings.get(file))
        .map(|file| file.strip_prefix("file://").unwrap_or(file))
        .filter(|file| file.starts_with('/'));
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
    // A path without its first slash alone would look like another one.
    let end = common.rfind('/').filter(|slash| *slash > 0);
    &common[..end.map_or(0, |slash| slash + 1)]
}

/// A share in a sentence: no digit that nobody reads.
fn rounded_share(value: f64) -> String {
    match value {
        10.0..=99.0 => format!("{value:.0} %"),
        value => percent(value),
    }
}

/// A part of what a sentence is about.
fn part_of_it(share: f64) -> String {
    match share {
        99.5.. => "all of it".to_owned(),
        share => format!("{} of it", rounded_share(share)),
    }
}
