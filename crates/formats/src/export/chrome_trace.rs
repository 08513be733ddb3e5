//! Chrome's trace events with V8's CPU profile inside, one per thread: what the Performance panel
//! of DevTools opens.
//!
//! Each thread gets its name, an event as long as the recording (the panel shows only what some
//! event covers), a `Profile` event, and its nodes and samples in `ProfileChunk` events, as V8
//! itself writes them. Labels of processes stand beside their names (`process_labels`), and in
//! `otherData` for reading them back.

use std::io::Write;

use nodespy_model::{FastSet, Profile};

use super::by_thread::samples_by_thread;

use super::cpuprofile::{
    Schedule, Scheduled, Tree, idle_code, start_of, time_only, write_call_frame, write_deltas,
    write_place, write_samples,
};
use super::{Detail, ExportError, Exporter};
use crate::json::Writer;

/// The event around everything of a thread.
pub(crate) const ROOT_EVENT: &str = "JSRoot";

/// The category of V8's profiler.
const PROFILER: &str = "disabled-by-default-v8.cpu_profiler";
/// Samples in one event.
const SAMPLES_PER_CHUNK: usize = 10_000;

/// The exporter of trace events.
pub(crate) struct ChromeTrace;

impl Exporter for ChromeTrace {
    fn name(&self) -> &'static str {
        "chrome-trace"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["trace"]
    }

    fn leaves_out(&self) -> &'static [Detail] {
        &[
            Detail::CallerLines,
            Detail::Processors,
            Detail::Tiers,
            Detail::Inlining,
            Detail::AsyncFrames,
            Detail::ThreadRoles,
            Detail::ProcessDetails,
            Detail::DeoptReasons,
            Detail::Notes,
            Detail::Sources,
            Detail::GeneratedPlaces,
            Detail::Contexts,
        ]
    }

    fn export(&self, profile: &Profile, output: &mut dyn Write) -> Result<(), ExportError> {
        time_only(profile, self.name())?;
        let start = start_of(profile);
        let mut writer = Writer::new(output);
        writer.begin_object();
        writer.key("traceEvents");
        writer.begin_array();
        let tids = distinct_tids(profile);
        let mut main_tids: Vec<Option<u32>> = vec![None; profile.processes.len()];
        for (thread, tid) in profile.threads.iter().zip(&tids) {
            let main = &mut main_tids[thread.process.at()];
            *main = Some(main.map_or(*tid, |main| main.min(*tid)));
        }
        for (process, main) in profile.processes.iter().zip(main_tids) {
            let place = Place {
                pid: process.pid,
                tid: main.unwrap_or(process.pid),
            };
            write_name(&mut writer, "process_name", ("name", &process.name), place);
            let labels: Vec<String> = process
                .labels
                .iter()
                .map(|(key, value)| format!("{key} {value}"))
                .collect();
            let labels = labels.join(", ");
            write_name(&mut writer, "process_labels", ("labels", &labels), place);
        }
        let idle = idle_code(profile);
        let samples = samples_by_thread(profile);
        for (position, thread) in profile.threads.iter().enumerate() {
            let place = Place {
                pid: profile.processes[thread.process.at()].pid,
                tid: tids[position],
            };
            write_name(&mut writer, "thread_name", ("name", &thread.name), place);
            let mut tree = Tree::of(profile, &samples[position], idle);
            let schedule = Schedule::of(profile, &samples[position], &mut tree);
            let id = format!("0x{:x}", position + 1);
            write_thread(&mut writer, profile, (&tree, &schedule), &id, place, start);
        }
        writer.end_array();
        writer.key("otherData");
        writer.begin_object();
        write_place(&mut writer, profile, profile.processes.iter());
        writer.end_object();
        writer.end_object();
        Ok(writer.finish()?)
    }
}

/// Which thread an event belongs to.
#[derive(Clone, Copy)]
struct Place {
    pid: u32,
    tid: u32,
}

/// The number of each thread: its own, unless another thread of its process has it.
fn distinct_tids(profile: &Profile) -> Vec<u32> {
    let mut taken = FastSet::default();
    let mut next = 1;
    let pid_of = |position: usize| {
        let process = profile.threads[position].process;
        profile.processes[process.at()].pid
    };
    let mut tids = vec![None; profile.threads.len()];
    for (position, thread) in profile.threads.iter().enumerate() {
        if taken.insert((pid_of(position), thread.tid)) {
            tids[position] = Some(thread.tid);
        }
    }
    for (position, tid) in tids.iter_mut().enumerate() {
        while tid.is_none() {
            *tid = Some(next).filter(|tid| taken.insert((pid_of(position), *tid)));
            next += 1;
        }
    }
    tids.into_iter().flatten().collect()
}

/// Starts an event; its `args` follow.
fn begin_event(
    writer: &mut Writer<'_>,
    (name, phase, category): (&str, &str, &str),
    place: Place,
    time: u64,
) {
    writer.begin_object();
    writer.string_field("name", name);
    writer.string_field("ph", phase);
    writer.string_field("cat", category);
    writer.number_field("pid", place.pid);
    writer.number_field("tid", place.tid);
    writer.number_field("ts", time);
}

fn write_name(writer: &mut Writer<'_>, event: &str, (key, name): (&str, &str), place: Place) {
    if name.is_empty() {
        return;
    }
    begin_event(writer, (event, "M", "__metadata"), place, 0);
    writer.key("args");
    writer.begin_object();
    writer.string_field(key, name);
    writer.end_object();
    writer.end_object();
}

fn write_thread(
    writer: &mut Writer<'_>,
    profile: &Profile,
    (tree, schedule): (&Tree, &Schedule),
    id: &str,
    place: Place,
    start: u64,
) {
    if schedule.samples.is_empty() {
        return;
    }
    let end = start.saturating_add(schedule.end);
    begin_event(writer, (ROOT_EVENT, "X", "toplevel"), place, start);
    // An event that ends with the last sample takes that sample's time away (Chromium 156).
    writer.number_field("dur", schedule.end.saturating_add(1));
    writer.end_object();
    let begin_data = |writer: &mut Writer<'_>, event: &str, time: u64| {
        begin_event(writer, (event, "P", PROFILER), place, time);
        writer.string_field("id", id);
        writer.key("args");
        writer.begin_object();
        writer.key("data");
        writer.begin_object();
    };
    let end_data = |writer: &mut Writer<'_>| {
        writer.end_object();
        writer.end_object();
        writer.end_object();
    };
    begin_data(writer, "Profile", start);
    writer.number_field("startTime", start);
    end_data(writer);
    let mut last = 0;
    for (position, samples) in schedule.samples.chunks(SAMPLES_PER_CHUNK).enumerate() {
        let time = samples.last().map_or(0, |sample| sample.start);
        begin_data(writer, "ProfileChunk", start.saturating_add(time));
        writer.key("cpuProfile");
        writer.begin_object();
        if position == 0 {
            write_nodes(writer, profile, tree);
        }
        write_samples(writer, samples);
        writer.end_object();
        write_deltas(writer, samples, last);
        write_lines(writer, samples);
        end_data(writer);
        last = time;
    }
    begin_data(writer, "ProfileChunk", end);
    writer.number_field("endTime", end);
    end_data(writer);
}

fn write_nodes(writer: &mut Writer<'_>, profile: &Profile, tree: &Tree) {
    writer.key("nodes");
    writer.begin_array();
    for (position, node) in tree.nodes.iter().enumerate() {
        writer.begin_object();
        writer.number_field("id", position as u64 + 1);
        if let Some(parent) = node.parent {
            writer.number_field("parent", parent + 1);
        }
        write_call_frame(writer, profile, node.code);
        writer.end_object();
    }
    writer.end_array();
}

/// Writes the line of each sample. A chunk without would shift those that follow.
fn write_lines(writer: &mut Writer<'_>, samples: &[Scheduled]) {
    writer.key("lines");
    writer.begin_array();
    for sample in samples {
        writer.number(i128::from(sample.line));
    }
    writer.end_array();
}
