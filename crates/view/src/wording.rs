//! The words and numbers that every view shows the same way; the HTML page has them from here
//! through `cargo run -p xtask -- viewer-tables`.

use nodespy_analysis::{Shares, SubsystemWeights, is_evaluated, process_weights};
use nodespy_model::{
    Category, EventType, ExitReason, FunctionIndex, NameSource, Nanoseconds, Process, Profile,
    SmallSort, WeightUnit, file_of_url, label_key, printable,
};

/// A whole number with thousands set apart.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number with its noun, in the plural unless it is one.
pub fn counted(value: u64, noun: &str) -> String {
    let ending = if value == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", count(value))
}

/// A length of time as a person would say it.
pub fn duration(length: Nanoseconds) -> String {
    let seconds = length as f64 / 1e9;
    match seconds {
        ..0.001 => format!("{:.0} µs", seconds * 1e6),
        ..0.01 => format!("{:.1} ms", seconds * 1e3),
        ..1.0 => format!("{:.0} ms", seconds * 1e3),
        ..120.0 => format!("{seconds:.1} s"),
        ..7200.0 => format!("{:.0} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

/// An amount in a profile's unit.
pub fn weight(value: u64, event: &EventType) -> String {
    match event.unit {
        WeightUnit::Samples => counted(value, "sample"),
        WeightUnit::Nanoseconds => duration(value),
        WeightUnit::Bytes => match value {
            0..10_000 => counted(value, "byte"),
            10_000..10_000_000 => format!("{:.0} kB", value as f64 / 1e3),
            _ => format!("{:.1} MB", value as f64 / 1e6),
        },
        WeightUnit::Events => format!("{} {}", count(value), event.noun_for(value)),
    }
}

/// `part` of `whole`, from 0 to 100; 0 when there is no whole.
pub fn percent_of(part: u64, whole: u64) -> f64 {
    match whole {
        0 => 0.0,
        whole => part as f64 / whole as f64 * 100.0,
    }
}

/// A share in words: a part that is there never shows as 0, nor one that is not whole as 100.
pub fn percent(value: f64) -> String {
    match value {
        0.0 => "0 %".to_owned(),
        ..0.1 => "<0.1 %".to_owned(),
        value if value > 99.9 && value < 100.0 => ">99.9 %".to_owned(),
        100.0 => "100 %".to_owned(),
        value => format!("{value:.1} %"),
    }
}

/// One part of what the samples were doing.
#[derive(Debug, Clone, Copy)]
pub struct SharePart {
    /// Its name in data.
    pub key: &'static str,
    /// Its name in pictures and on terminals.
    pub label: &'static str,
    /// The category whose colour it has.
    pub category: Category,
    /// Its weight.
    pub weight: fn(&Shares) -> u64,
}

/// The parts of [`Shares`], in the order they are shown.
pub const SHARE_PARTS: [SharePart; 6] = [
    SharePart {
        key: "javascript",
        label: "JS",
        category: Category::App,
        weight: |shares| shares.javascript,
    },
    SharePart {
        key: "native",
        label: "native",
        category: Category::Native,
        weight: |shares| shares.native,
    },
    SharePart {
        key: "kernel",
        label: "kernel",
        category: Category::Kernel,
        weight: |shares| shares.kernel,
    },
    SharePart {
        key: "gc",
        label: "GC",
        category: Category::Gc,
        weight: |shares| shares.gc,
    },
    SharePart {
        key: "idle",
        label: "idle",
        category: Category::Idle,
        weight: |shares| shares.idle,
    },
    SharePart {
        key: "unknown",
        label: "unknown",
        category: Category::Unknown,
        weight: |shares| shares.unknown,
    },
];

/// How many packages or modules of a subsystem are named, and from which share of the whole on.
const MAX_MEMBERS: usize = 2;
const WORTH_A_NAME: f64 = 1.0;

/// The packages or modules that are most of a subsystem.
pub(crate) fn named_members(
    entry: &SubsystemWeights,
    total: u64,
) -> impl Iterator<Item = &(String, u64)> {
    let members = entry.members.iter();
    members
        .filter(move |(_, weight)| percent_of(*weight, total) >= WORTH_A_NAME)
        .take(MAX_MEMBERS)
}

/// Where a function is: file and line of JavaScript, the module of native code.
pub(crate) fn place(profile: &Profile, function: FunctionIndex) -> String {
    let entry = profile.function(function);
    let file = profile.file_of(function);
    let label = entry.category.label();
    match entry.category {
        Category::App if is_evaluated(profile, function) => match entry.column {
            0 => format!("eval'd code:{}", entry.line),
            column => format!("eval'd code:{}:{column}", entry.line),
        },
        Category::App | Category::Dependency | Category::NodeCore => {
            let file = file_of_url(file);
            match (file.as_ref(), entry.line, entry.column) {
                ("", ..) => label.to_owned(),
                (file, 0, _) => file.to_owned(),
                (file, line, column) if is_minified(file, line, column) => {
                    format!("{file}:{line}:{column}")
                }
                (file, line, _) => format!("{file}:{line}"),
            }
        }
        Category::Native | Category::Unknown if !file.is_empty() => {
            let (_, module) = file.rsplit_once('/').unwrap_or(("", file));
            module.to_owned()
        }
        _ => label.to_owned(),
    }
}

/// Whether a line holds many functions, so that only the column says which one it is.
fn is_minified(file: &str, line: u32, column: u32) -> bool {
    column > LONGEST_LINE || (column > 0 && line <= FEW_LINES && file.contains(".min."))
}

/// A minified file has no more.
const FEW_LINES: u32 = 100;

/// No function that a person wrote starts behind this column.
const LONGEST_LINE: u32 = 200;

/// How a process ended.
pub(crate) fn exit(exit: ExitReason) -> String {
    match exit {
        ExitReason::Ended => "ended".to_owned(),
        ExitReason::Status(status) => format!("exit status {status}"),
        ExitReason::Signal(signal) => format!("killed by signal {signal}"),
    }
}

/// One of several processes.
pub(crate) struct ProcessRow<'a> {
    pub(crate) weight: u64,
    pub(crate) process: &'a Process,
    /// Its title, pid, runtime and end.
    pub(crate) details: String,
}

/// The processes that have samples or ended badly, heaviest first.
pub(crate) fn processes(profile: &Profile) -> Vec<ProcessRow<'_>> {
    let weights = process_weights(profile);
    let titles = process_titles(profile);
    let processes = profile.processes.iter().zip(weights).zip(titles);
    let mut rows: Vec<ProcessRow<'_>> = processes
        .filter(|((process, weight), _)| *weight > 0 || ended_badly(process))
        .map(|((process, weight), title)| ProcessRow {
            weight,
            process,
            details: process_details(process, title),
        })
        .collect();
    rows.small_sort_by_key(|row| (std::cmp::Reverse(row.weight), row.process.pid));
    rows
}

fn ended_badly(process: &Process) -> bool {
    matches!(process.exit, Some(ExitReason::Status(status)) if status != 0)
        || matches!(process.exit, Some(ExitReason::Signal(_)))
}

/// What the processes call themselves (`process.title`), where that is another name.
fn process_titles(profile: &Profile) -> Vec<&str> {
    let mut titles = vec![""; profile.processes.len()];
    for thread in &profile.threads {
        let process = &profile.processes[thread.process.at()];
        let is_usual = thread.name.ends_with("MainThread") || thread.name == "node";
        if thread.tid == process.pid && !is_usual && thread.name != process.name {
            titles[thread.process.at()] = &thread.name;
        }
    }
    titles
}

fn process_details(process: &Process, title: &str) -> String {
    let mut pid = format!("pid {}", process.pid);
    if let Some(inner) = process.labels.get(label_key::INNER_PID) {
        pid.push_str(&format!(" ({inner} inside)"));
    }
    let title = (!title.is_empty()).then(|| printable(title).into_owned());
    let mut parts: Vec<String> = title.into_iter().chain([pid]).collect();
    if let Some(version) = &process.node_version {
        parts.push(format!("node {}", printable(version)));
    }
    parts.extend(process.exit.map(exit));
    parts.join(", ")
}

/// What was recorded: the application's name, or the first process's.
pub(crate) fn title(profile: &Profile) -> String {
    let about = std::iter::once(&profile.about.app);
    let processes = profile.processes.iter().map(|process| &process.name);
    let name = about.chain(processes).find(|name| !name.is_empty());
    name.map_or_else(|| kind(profile), |name| printable(name).into_owned())
}

/// What kind of profile it is: of time, of memory, or of whatever made the samples.
pub(crate) fn kind(profile: &Profile) -> String {
    let event = profile.event();
    match event.unit {
        WeightUnit::Bytes => "Allocation profile".to_owned(),
        _ if event.is_time() => "CPU profile".to_owned(),
        _ => format!("Profile of {}", printable(event.label())),
    }
}

/// Which processes were recorded: version of Node or what else runs JavaScript, and process numbers;
/// empty when not known.
pub(crate) fn who(profile: &Profile) -> String {
    let mut parts = Vec::new();
    let mut versions: Vec<String> = profile
        .processes
        .iter()
        .filter_map(|process| process.node_version.as_deref())
        .map(|version| printable(version).into_owned())
        .collect();
    versions.small_sort();
    versions.dedup();
    if !versions.is_empty() {
        parts.push(format!("node {}", versions.join(" and ")));
    }
    let mut others: Vec<String> = profile
        .processes
        .iter()
        .filter_map(|process| process.labels.get(label_key::RUNTIME))
        .map(|runtime| printable(runtime).into_owned())
        .collect();
    others.small_sort();
    others.dedup();
    parts.append(&mut others);
    let sampled = sampled_processes(profile);
    let pids: Vec<String> = sampled
        .iter()
        .filter(|process| process.pid != 0)
        .map(|process| process.pid.to_string())
        .collect();
    match pids.as_slice() {
        [] => {}
        [pid] => {
            parts.push(format!("pid {pid}"));
            let exits = sampled.iter().filter_map(|process| process.exit);
            parts.extend(exits.map(exit));
        }
        [first @ .., last] if pids.len() <= 4 => {
            parts.push(format!("pids {} and {last}", first.join(", ")));
        }
        [first, ..] => parts.push(format!("{} processes from pid {first}", pids.len())),
    }
    parts.join(", ")
}

/// The processes that have samples; all where none has any. Many a child only starts another program.
fn sampled_processes(profile: &Profile) -> Vec<&Process> {
    let weights = process_weights(profile);
    let is_idle = weights.iter().all(|weight| *weight == 0);
    let all = profile.processes.iter().zip(weights);
    all.filter(|(_, weight)| is_idle || *weight > 0)
        .map(|(process, _)| process)
        .collect()
}

/// How it was recorded: length, samples, rate, engine and event; and what filters left of it, so
/// that no picture of a part is taken for the whole.
pub(crate) fn how(profile: &Profile) -> String {
    let about = &profile.about;
    let mut parts = Vec::new();
    if about.duration > 0 {
        parts.push(duration(about.duration));
    }
    let total = profile.total_weight();
    let event = profile.event();
    let mut samples = match event.unit {
        // An imported line of stacks may stand for many samples.
        WeightUnit::Samples => counted(total, "sample"),
        _ => counted(profile.samples.len() as u64, "sample"),
    };
    if event.rate_hz() > 0 {
        samples.push_str(&format!(" at {} Hz", event.rate_hz()));
    }
    parts.push(samples);
    if event.unit != WeightUnit::Samples {
        let weight = weight(total, event);
        // Samples that fill the recording add up to its length.
        if !parts.contains(&weight) {
            parts.push(weight);
        }
    }
    let made_by: Vec<&str> = [about.engine.as_str(), event.name.as_str()]
        .into_iter()
        .filter(|text| !text.is_empty())
        .collect();
    if !made_by.is_empty() {
        parts.push(printable(&made_by.join(" ")).into_owned());
    }
    let mut text = parts.join(", ");
    for filter in &profile.notes.filters {
        text.push_str("; ");
        text.push_str(&printable(filter));
    }
    text
}

/// How much of the profile is sure, as short clauses. A clean profile gets one clause saying so;
/// one that came without such knowledge gets none.
pub(crate) fn confidence(profile: &Profile) -> Vec<String> {
    let notes = &profile.notes;
    let shares = notes.confidence();
    let mut clauses = Vec::new();
    if notes.jit_frames > 0 {
        let sources: Vec<String> = NameSource::ALL
            .iter()
            .zip(notes.jit_named)
            .filter(|(_, named)| *named > 0)
            .map(|(source, named)| {
                let share = percent(percent_of(named, notes.jit_frames).min(100.0));
                format!("{} {share}", source.label())
            })
            .collect();
        let named = percent(shares.jit_named * 100.0);
        clauses.push(match sources.len() {
            0 => format!("JIT frames named {named}"),
            1 => format!(
                "JIT frames named {named} by {}",
                single_source(&notes.jit_named)
            ),
            _ => format!("JIT frames named {named} ({})", sources.join(", ")),
        });
    }
    if notes.incomplete_stacks > 0 {
        clauses.push(format!(
            "stacks complete {}",
            percent(shares.complete * 100.0)
        ));
    }
    if notes.cut_stacks > 0 {
        let share = match notes.unwound_stacks {
            0 => String::new(),
            whole => format!(
                " ({})",
                percent(percent_of(notes.cut_stacks, whole).min(100.0))
            ),
        };
        clauses.push(format!("{} cut{share}", counted(notes.cut_stacks, "stack")));
    }
    let continuations = notes.async_callers.continuations();
    if continuations > 0 {
        clauses.push(format!(
            "async callers whole for {} of {}",
            percent(percent_of(notes.async_callers.whole, continuations)),
            counted(continuations, "continuation")
        ));
    }
    if notes.async_callers.callbacks > 0 {
        clauses.push(format!(
            "found for {} in callbacks that resolve what is awaited",
            counted(notes.async_callers.callbacks, "sample")
        ));
    }
    if notes.lost_samples > 0 {
        let taken = (profile.samples.len() as u64).saturating_add(notes.lost_samples);
        clauses.push(format!(
            "{} lost ({})",
            counted(notes.lost_samples, "sample"),
            percent(percent_of(notes.lost_samples, taken))
        ));
    }
    if notes.lost_records > 0 {
        clauses.push(format!(
            "{} about threads or mappings lost",
            counted(notes.lost_records, "record")
        ));
    }
    if notes.throttled > 0 {
        clauses.push(format!(
            "sampling throttled {}",
            counted(notes.throttled, "time")
        ));
    }
    for clause in &notes.cross_checks {
        clauses.push(printable(clause).into_owned());
    }
    let is_clean = shares.jit_named == 1.0
        && shares.complete == 1.0
        && [
            notes.cut_stacks,
            notes.lost_samples,
            notes.lost_records,
            notes.throttled,
        ] == [0; 4];
    if is_clean && notes.unwound_stacks > 0 {
        clauses.push("all stacks complete, nothing lost".to_owned());
    }
    clauses
}

fn single_source(named: &[u64; 5]) -> &'static str {
    let position = named.iter().position(|count| *count > 0);
    position.map_or("", |position| NameSource::ALL[position].label())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::Sample;

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(999), "999");
        assert_eq!(counted(1, "sample"), "1 sample");
        assert_eq!(duration(10_040_000_000), "10.0 s");
        assert_eq!(duration(250_000_000), "250 ms");
        assert_eq!(percent(0.04), "<0.1 %");
        assert_eq!(percent(99.96), ">99.9 %");
        assert_eq!(percent(100.0), "100 %");
    }

    #[test]
    fn the_headline_counts_processes_that_were_sampled() {
        let mut builder = nodespy_model::ProfileBuilder::new(WeightUnit::Samples);
        let threads: Vec<_> = (1..=60)
            .map(|pid| {
                let process = builder.process(Process {
                    pid,
                    ..Process::default()
                });
                builder.thread(nodespy_model::Thread {
                    process,
                    tid: pid,
                    ..nodespy_model::Thread::default()
                })
            })
            .collect();
        assert_eq!(who(builder.so_far()), "60 processes from pid 1");
        for thread in [threads[6], threads[9]] {
            builder.sample(0, thread, None, 1);
        }
        assert_eq!(who(builder.so_far()), "pids 7 and 10");
    }

    #[test]
    fn places_are_paths_with_a_column_where_a_line_is_not_enough() {
        let place_of = |file: &str, line: u32, column: u32| {
            let mut builder = nodespy_model::ProfileBuilder::new(WeightUnit::Samples);
            let function = builder.function(nodespy_model::FunctionSpec {
                name: "f",
                file,
                line,
                column,
                category: Category::App,
            });
            place(builder.so_far(), function)
        };
        assert_eq!(place_of("/app/a.js", 7, 12), "/app/a.js:7");
        assert_eq!(place_of("file:///app/a%20b.mjs", 7, 12), "/app/a b.mjs:7");
        assert_eq!(
            place_of("/app/bundle.js", 1, 48_211),
            "/app/bundle.js:1:48211"
        );
        assert_eq!(place_of("/app/x.min.js", 1, 40), "/app/x.min.js:1:40");
        assert_eq!(place_of("/app/x.min.js", 7718, 9), "/app/x.min.js:7718");
        assert_eq!(place_of("", 1, 20), "eval'd code:1:20");
        assert_eq!(place_of("", 0, 0), "app");
    }

    #[test]
    fn a_length_is_told_once_and_memory_is_no_cpu_profile() {
        let mut profile = Profile {
            events: vec![WeightUnit::Nanoseconds.into()],
            samples: vec![Sample {
                time: 0,
                weight: 4_000_000_000,
                ..Sample::default()
            }],
            ..Profile::default()
        };
        profile.about.duration = 4_000_000_000;
        assert_eq!(how(&profile), "4.0 s, 1 sample");
        profile.about.duration = 5_000_000_000;
        assert_eq!(how(&profile), "5.0 s, 1 sample, 4.0 s");
        assert_eq!(title(&profile), "CPU profile");
        profile.events[0].unit = WeightUnit::Bytes;
        assert_eq!(title(&profile), "Allocation profile");
    }

    #[test]
    fn a_clean_profile_says_so_and_a_lossy_one_says_how_lossy() {
        let mut profile = Profile::default();
        assert!(confidence(&profile).is_empty());
        profile.notes.unwound_stacks = 10;
        profile.notes.jit_frames = 4;
        profile.notes.jit_named = [4, 0, 0, 0, 0];
        assert_eq!(
            confidence(&profile),
            [
                "JIT frames named 100 % by heap walk",
                "all stacks complete, nothing lost"
            ]
        );
        profile.notes.incomplete_stacks = 1;
        profile.notes.cut_stacks = 1;
        profile.notes.jit_named = [2, 0, 1, 0, 0];
        assert_eq!(
            confidence(&profile),
            [
                "JIT frames named 75.0 % (heap walk 50.0 %, perf map 25.0 %)",
                "stacks complete 90.0 %",
                "1 stack cut (10.0 %)"
            ]
        );
    }
}
