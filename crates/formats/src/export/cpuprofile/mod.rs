//! V8's CPU profile, `.cpuprofile`, as Chrome's DevTools and VS Code open it.
//!
//! The format holds one thread: the busiest one is written. Each sample's weight becomes the time
//! until the next sample ([`schedule`]). The line of a sample goes into `positionTicks`, in the
//! order of the samples, so that our importer gives each its own line back; readers that sum them
//! up see the same totals. The last key, `nodespy`, holds where the process ran, with its labels.

mod schedule;
mod tree;

use std::io::Write;

use nodespy_model::{
    Category, FastMap, FunctionIndex, Process, Profile, Sample, ThreadIndex, WeightUnit,
};

pub(crate) use self::schedule::{Schedule, Scheduled};
pub(crate) use self::tree::{Code, ROOT, Row, Tree, idle_code};

use super::{Detail, ExportError, Exporter};
use crate::call_frame;
use crate::json::Writer;
use crate::recorded::{self, PLACE_KEY};

/// The exporter of `.cpuprofile`.
pub(crate) struct CpuProfile;

impl Exporter for CpuProfile {
    fn name(&self) -> &'static str {
        "cpuprofile"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["cpuprofile"]
    }

    fn leaves_out(&self) -> &'static [Detail] {
        &[
            Detail::Threads,
            Detail::CallerLines,
            Detail::Processors,
            Detail::Tiers,
            Detail::Inlining,
            Detail::AsyncFrames,
            Detail::ThreadRoles,
            Detail::ProcessDetails,
            Detail::Notes,
            Detail::Sources,
            Detail::GeneratedPlaces,
            Detail::Contexts,
        ]
    }

    fn export(&self, profile: &Profile, output: &mut dyn Write) -> Result<(), ExportError> {
        let thread = time_only(profile, self.name()).map(|()| busiest_thread(profile))?;
        let of_thread = samples_of(profile, thread);
        let mut tree = Tree::of(profile, &of_thread, idle_code(profile));
        let schedule = Schedule::of(profile, &of_thread, &mut tree);
        let mut writer = Writer::new(output);
        writer.begin_object();
        write_nodes(&mut writer, profile, &tree, &schedule.samples);
        let start = start_of(profile);
        writer.number_field("startTime", start);
        writer.number_field("endTime", start.saturating_add(schedule.end));
        write_samples(&mut writer, &schedule.samples);
        write_deltas(&mut writer, &schedule.samples, 0);
        let thread = profile.threads.get(thread.at());
        let process = thread.map(|thread| &profile.processes[thread.process.at()]);
        write_place(&mut writer, profile, process.into_iter());
        writer.end_object();
        Ok(writer.finish()?)
    }
}

/// The samples of one thread in order of time.
pub(crate) fn samples_of(profile: &Profile, thread: ThreadIndex) -> Vec<&Sample> {
    let samples = profile.samples.iter();
    samples.filter(|sample| sample.thread == thread).collect()
}

/// Writes where and as what processes ran, for our own importers: other readers pass it over.
pub(crate) fn write_place<'p>(
    writer: &mut Writer<'_>,
    profile: &'p Profile,
    processes: impl Iterator<Item = &'p Process>,
) {
    let lines = recorded::lines_of_place(profile, processes);
    if lines.is_empty() {
        return;
    }
    writer.key(PLACE_KEY);
    writer.begin_array();
    lines.iter().for_each(|line| writer.string(line));
    writer.end_array();
}

/// When the recording began, in microseconds, and never zero: DevTools (Chromium 156) take an event
/// at zero for one without a time, and a recording that starts there is shown empty.
pub(crate) fn start_of(profile: &Profile) -> u64 {
    (profile.about.started_unix / 1000).max(1)
}

/// Refuses a profile whose weights are no time.
pub(crate) fn time_only(profile: &Profile, format: &'static str) -> Result<(), ExportError> {
    match profile.unit() {
        WeightUnit::Bytes => Err(ExportError::WrongUnit {
            format,
            unit: profile.unit().label(),
            instead: "heapprofile",
        }),
        WeightUnit::Samples | WeightUnit::Nanoseconds | WeightUnit::Events => Ok(()),
    }
}

/// The thread with the most weight in code.
pub(crate) fn busiest_thread(profile: &Profile) -> ThreadIndex {
    // The first of those that are equal.
    let weights = busy_weights(profile);
    let heaviest = weights
        .iter()
        .enumerate()
        .rev()
        .max_by_key(|(_, weight)| **weight);
    ThreadIndex(heaviest.map_or(0, |(position, _)| position as u32))
}

/// The weight of each thread in code: without what it waited.
pub(crate) fn busy_weights(profile: &Profile) -> Vec<u64> {
    let mut weights = vec![0u64; profile.threads.len()];
    for sample in &profile.samples {
        let is_idle = sample.stack.is_some_and(|stack| {
            profile.function(profile.function_of(stack)).category == Category::Idle
        });
        if !is_idle {
            let weight = &mut weights[sample.thread.at()];
            *weight = weight.saturating_add(sample.weight);
        }
    }
    weights
}

fn write_nodes(writer: &mut Writer<'_>, profile: &Profile, tree: &Tree, samples: &[Scheduled]) {
    let mut of_node: Vec<(Row, u32)> = samples
        .iter()
        .map(|sample| (sample.row, sample.line))
        .collect();
    of_node.sort_by_key(|(row, _)| *row);
    let mut of_node = &of_node[..];
    let (starts, children) = tree.children();
    let mut deopts = deopt_reasons(profile);
    writer.key("nodes");
    writer.begin_array();
    for (position, node) in tree.nodes.iter().enumerate() {
        let here = of_node.partition_point(|(row, _)| *row as usize <= position);
        let (lines, later) = of_node.split_at(here);
        of_node = later;
        writer.begin_object();
        writer.number_field("id", position as u64 + 1);
        write_call_frame(writer, profile, node.code);
        writer.number_field("hitCount", lines.len() as u64);
        let children = &children[starts[position]..starts[position + 1]];
        if !children.is_empty() {
            writer.key("children");
            writer.begin_array();
            for child in children {
                writer.number(i128::from(*child) + 1);
            }
            writer.end_array();
        }
        write_ticks(writer, lines);
        if let Code::Function(function) = node.code
            && let Some(reason) = deopts.get_mut(&function).and_then(Vec::pop)
        {
            writer.string_field("deoptReason", reason);
        }
        writer.end_object();
    }
    writer.end_array();
}

/// Why functions lost their optimized code, the first reason last: each goes to another node.
fn deopt_reasons(profile: &Profile) -> FastMap<FunctionIndex, Vec<&str>> {
    let mut reasons: FastMap<FunctionIndex, Vec<&str>> = FastMap::default();
    for (function, reason) in profile.deopt_reasons.iter().rev() {
        let reason = profile.strings.get(*reason);
        reasons.entry(*function).or_default().push(reason);
    }
    reasons
}

/// Writes the `callFrame` of a node.
pub(crate) fn write_call_frame(writer: &mut Writer<'_>, profile: &Profile, code: Code) {
    writer.key("callFrame");
    match code {
        Code::Root => call_frame::write_meta(writer, "(root)"),
        Code::Idle => call_frame::write_meta(writer, "(idle)"),
        Code::Function(function) => call_frame::write(writer, profile, function),
    }
}

/// Writes the lines of the samples of a node, in their order.
fn write_ticks(writer: &mut Writer<'_>, samples: &[(Row, u32)]) {
    if samples.iter().all(|(_, line)| *line == 0) {
        return;
    }
    writer.key("positionTicks");
    writer.begin_array();
    for run in samples.chunk_by(|one, next| one.1 == next.1) {
        writer.begin_object();
        writer.number_field("line", run[0].1);
        writer.number_field("ticks", run.len() as u64);
        writer.end_object();
    }
    writer.end_array();
}

/// Writes the nodes of samples.
pub(crate) fn write_samples(writer: &mut Writer<'_>, samples: &[Scheduled]) {
    writer.key("samples");
    writer.begin_array();
    for sample in samples {
        writer.number(i128::from(sample.row) + 1);
    }
    writer.end_array();
}

/// Writes the gap before each sample, the first since `last`.
pub(crate) fn write_deltas(writer: &mut Writer<'_>, samples: &[Scheduled], mut last: u64) {
    writer.key("timeDeltas");
    writer.begin_array();
    for sample in samples {
        writer.number(i128::from(sample.start) - i128::from(last));
        last = sample.start;
    }
    writer.end_array();
}
