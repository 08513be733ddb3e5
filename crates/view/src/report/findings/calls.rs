//! Calls that keep the main thread from everything else while they last: synchronous file system,
//! child processes, crypto, zlib, JSON, and the loading of modules.

use nodespy_model::{Category, FastMap, FunctionIndex, Profile};

use super::{Finding, Scene, heaviest_first, part_of_it, rounded_share};
use crate::columns::short_name;
use crate::wording::percent_of;

/// Share of the main threads' work, in percent, from which a kind of call is worth a sentence.
const WORTH_SAYING: f64 = 5.0;
/// Part of it, in percent, from which one function stands for all.
const MOSTLY: f64 = 50.0;

/// A kind of call.
struct Kind {
    word: &'static str,
    /// The subject of the sentence and its verb.
    subject: &'static str,
    is_it: fn(&Profile, FunctionIndex) -> bool,
}

/// Every kind. A call inside another counts for the outer one: loading a module reads files.
const KINDS: [Kind; 6] = [
    Kind {
        word: "module_loading",
        subject: "Loading modules (finding, reading and compiling them) takes",
        is_it: |profile, function| core_file(profile, function, "internal/modules/").is_some(),
    },
    Kind {
        word: "sync_fs",
        subject: "Synchronous file system calls take",
        is_it: |profile, function| {
            let is_fs = core_file(profile, function, "fs").is_some_and(|rest| rest.is_empty())
                || core_file(profile, function, "internal/fs/").is_some();
            is_fs && is_synchronous(profile, function)
        },
    },
    Kind {
        word: "sync_child_process",
        subject: "Synchronous child processes take",
        is_it: |profile, function| {
            core_file(profile, function, "child_process").is_some_and(str::is_empty)
                && is_synchronous(profile, function)
        },
    },
    Kind {
        word: "sync_zlib",
        subject: "Synchronous zlib calls take",
        is_it: |profile, function| {
            core_file(profile, function, "zlib").is_some_and(str::is_empty)
                && is_synchronous(profile, function)
        },
    },
    Kind {
        word: "sync_crypto",
        subject: "Crypto takes",
        is_it: |profile, function| {
            core_file(profile, function, "crypto").is_some_and(str::is_empty)
                || core_file(profile, function, "internal/crypto/").is_some()
        },
    },
    Kind {
        word: "json",
        subject: "JSON takes",
        is_it: |profile, function| {
            let parts = ["JsonParse", "JsonStringif", "JSON.parse", "JSON.stringify"];
            let is_v8s = matches!(
                profile.function(function).category,
                Category::Native | Category::Builtin
            );
            let name = profile.name_of(function);
            is_v8s && parts.iter().any(|part| name.contains(part))
        },
    },
];

/// What follows `start` in the name of Node's own file that a function is in, `.js` apart.
fn core_file<'a>(profile: &'a Profile, function: FunctionIndex, start: &str) -> Option<&'a str> {
    let is_core = profile.function(function).category == Category::NodeCore;
    let file = profile.file_of(function);
    let file = file.strip_prefix("node:").unwrap_or(file);
    let rest = file.strip_prefix(start).filter(|_| is_core)?;
    Some(rest.strip_suffix(".js").unwrap_or(rest))
}

fn is_synchronous(profile: &Profile, function: FunctionIndex) -> bool {
    profile.name_of(function).ends_with("Sync")
}

/// A call that a stack is in.
#[derive(Clone, Copy)]
struct Call {
    /// Its position in [`KINDS`].
    kind: usize,
    function: FunctionIndex,
}

/// The call that each stack is in: the outermost above the nearest function of the application or
/// a package. What that function does in a callback is its own.
fn calls(profile: &Profile) -> Vec<Option<Call>> {
    let kind_of: Vec<Option<usize>> = (0..profile.functions.len() as u32)
        .map(FunctionIndex)
        .map(|function| {
            KINDS
                .iter()
                .position(|kind| (kind.is_it)(profile, function))
        })
        .collect();
    // Parents come first, so one pass is enough.
    let mut calls: Vec<Option<Call>> = Vec::with_capacity(profile.stacks.len());
    for stack in &profile.stacks {
        let function = profile.frame(stack.frame).function;
        let below = stack.parent.and_then(|parent| calls[parent.at()]);
        let is_written = matches!(
            profile.function(function).category,
            Category::App | Category::Dependency | Category::Wasm
        );
        let own = kind_of[function.at()].map(|kind| Call { kind, function });
        calls.push(if is_written { None } else { below.or(own) });
    }
    calls
}

pub(super) fn on_the_main_thread(scene: &Scene<'_>) -> Vec<Finding> {
    let profile = scene.profile();
    let calls = calls(profile);
    let kinds = KINDS.iter().enumerate();
    let findings = kinds.filter_map(|(position, kind)| {
        let mut functions: FastMap<FunctionIndex, u64> = FastMap::default();
        for sample in &profile.samples {
            let call = sample.stack.and_then(|stack| calls[stack.at()]);
            let call = call.filter(|call| call.kind == position);
            if let Some(call) = call.filter(|_| scene.is_main[sample.thread.at()]) {
                let weight = functions.entry(call.function).or_default();
                *weight = weight.saturating_add(sample.weight);
            }
        }
        let functions = heaviest_first(functions);
        let whole = functions
            .iter()
            .fold(0u64, |sum, (_, weight)| sum.saturating_add(*weight));
        let share = percent_of(whole, scene.busy_of_main);
        (share >= WORTH_SAYING).then(|| {
            let callers = scene.callers(|sample, stack| {
                scene.is_main[sample.thread.at()]
                    && calls[stack.at()].is_some_and(|call| call.kind == position)
            });
            Finding {
                kind: kind.word,
                percent: scene.share_of_all(whole),
                sentence: format!(
                    "{} {} of {}{}{}",
                    kind.subject,
                    rounded_share(share),
                    scene.words.of_main_threads(),
                    most_called(profile, kind, &functions, whole),
                    scene.under(&callers, whole)
                ),
                function: callers.first().map(|(function, _)| *function),
            }
        })
    });
    findings.collect()
}

/// ", all of it `readFileSync`", where one function stands for a kind.
fn most_called(
    profile: &Profile,
    kind: &Kind,
    functions: &[(FunctionIndex, u64)],
    whole: u64,
) -> String {
    let Some((function, weight)) = functions.first() else {
        return String::new();
    };
    let share = percent_of(*weight, whole);
    if share < MOSTLY || kind.word == "module_loading" {
        return String::new();
    }
    let name = match profile.name_of(*function) {
        name if kind.word != "json" => short_name(name).replace('`', "'"),
        name if name.contains("JsonParse") => "JSON.parse".to_owned(),
        _ => "JSON.stringify".to_owned(),
    };
    format!(", {} `{name}`", part_of_it(share))
}
