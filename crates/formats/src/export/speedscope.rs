//! speedscope's own format: a sampled profile for each thread and event, all of them with the same
//! frames.
//!
//! A frame is a function: speedscope shows and sums up by frame, and its users look for functions.
//! Where samples have times and stand for time, empty stacks fill the gaps between them, so that
//! the time axis is the recording's, for every thread; that is how speedscope shows idle time of
//! Chrome's profiles. A gap shorter than a sample is no gap, only jitter. Otherwise weights are
//! what the profile counts. The last key, `nodespy`, is for reading the file back.

use std::borrow::Cow;
use std::io::Write;

use nodespy_model::{EventIndex, NO_STACK, Profile, Sample, SmallSort, ThreadIndex, WeightUnit};

use super::by_thread::samples_by_thread;
use super::cpuprofile::busy_weights;
use super::{Detail, ExportError, Exporter};
use crate::json::Writer;
use crate::recorded;

const SCHEMA: &str = "https://www.speedscope.app/file-format-schema.json";

/// The exporter of speedscope's format.
pub(crate) struct Speedscope;

impl Exporter for Speedscope {
    fn name(&self) -> &'static str {
        "speedscope"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["speedscope.json", "speedscope"]
    }

    fn leaves_out(&self) -> &'static [Detail] {
        &[
            Detail::Processors,
            Detail::CurrentLines,
            Detail::Tiers,
            Detail::Inlining,
            Detail::AsyncFrames,
            Detail::ProcessDetails,
            Detail::DeoptReasons,
            Detail::Sources,
            Detail::GeneratedPlaces,
        ]
    }

    fn holds_events(&self) -> bool {
        true
    }

    fn export(&self, profile: &Profile, output: &mut dyn Write) -> Result<(), ExportError> {
        let mut json = Writer::new(output);
        json.begin_object();
        json.string_field("$schema", SCHEMA);
        let version = env!("CARGO_PKG_VERSION");
        json.string_field("exporter", &format!("nodespy@{version}"));
        json.string_field("name", title(profile));
        json.number_field("activeProfileIndex", 0);
        write_frames(profile, &mut json);
        json.key("profiles");
        json.begin_array();
        let mut written = Vec::new();
        for position in 0..profile.events.len().max(1) {
            let event = EventIndex(position as u16);
            let of_event = match profile.events.len() {
                0 | 1 => Cow::Borrowed(profile),
                _ => Cow::Owned(profile.clone().select(event)),
            };
            let scale = Scale::of(&of_event);
            let samples = samples_by_thread(&of_event);
            for thread in threads_by_weight(&of_event) {
                let title = title_of(&of_event, thread, event);
                let samples = &samples[thread.at()];
                write_thread(&of_event, (&title, samples), &scale, &mut json);
                written.push((thread, event));
            }
        }
        json.end_array();
        write_recorded(profile, &written, &mut json);
        json.end_object();
        json.finish()?;
        Ok(())
    }
}

fn title(profile: &Profile) -> &str {
    match &*profile.about.app {
        "" => "nodespy",
        app => app,
    }
}

/// Threads that have samples, the heaviest first: that is the one speedscope opens.
fn threads_by_weight(profile: &Profile) -> Vec<ThreadIndex> {
    let mut has_samples = vec![false; profile.threads.len()];
    for sample in &profile.samples {
        has_samples[sample.thread.at()] = true;
    }
    let weights = busy_weights(profile);
    let mut threads: Vec<usize> = (0..weights.len()).filter(|at| has_samples[*at]).collect();
    threads.small_sort_by_key(|at| std::cmp::Reverse(weights[*at]));
    let indexes = threads.into_iter().map(|at| ThreadIndex(at as u32));
    indexes.collect()
}

/// The functions, and one for samples that have no stack.
fn write_frames(profile: &Profile, json: &mut Writer<'_>) {
    json.key("shared");
    json.begin_object();
    json.key("frames");
    json.begin_array();
    for function in &profile.functions {
        json.begin_object();
        json.string_field("name", profile.strings.get(function.name));
        if let Some(file) = function.file {
            json.string_field("file", profile.strings.get(file));
        }
        if function.line > 0 {
            json.number_field("line", function.line);
        }
        if function.column > 0 {
            json.number_field("col", function.column);
        }
        json.end_object();
    }
    json.begin_object();
    json.string_field("name", NO_STACK);
    json.end_object();
    json.end_array();
    json.end_object();
}

/// What the numbers of the file are.
struct Scale {
    unit: &'static str,
    /// How many of the file's one of the profile's is.
    factor: u64,
    /// Whether samples are where their times say.
    is_timeline: bool,
}

impl Scale {
    fn of(profile: &Profile) -> Self {
        let event = profile.event();
        let (unit, factor) = match (event.unit, event.interval()) {
            (WeightUnit::Samples, Some(period)) => ("nanoseconds", period),
            (WeightUnit::Samples, None) => ("none", 1),
            (WeightUnit::Nanoseconds, _) => ("nanoseconds", 1),
            (WeightUnit::Bytes, _) => ("bytes", 1),
            (WeightUnit::Events, _) => ("none", 1),
        };
        let has_times = profile.samples.iter().any(|sample| sample.time > 0);
        Self {
            unit,
            factor,
            is_timeline: has_times && unit == "nanoseconds",
        }
    }

    fn weight(&self, sample: &Sample) -> u64 {
        sample.weight.saturating_mul(self.factor)
    }
}

fn write_thread(
    profile: &Profile,
    (title, samples): (&str, &[&Sample]),
    scale: &Scale,
    json: &mut Writer<'_>,
) {
    json.begin_object();
    json.string_field("type", "sampled");
    json.string_field("name", title);
    json.string_field("unit", scale.unit);
    let mut weights: Vec<u64> = Vec::new();
    let mut end = 0u64;
    json.key("samples");
    json.begin_array();
    for sample in samples {
        let weight = scale.weight(sample);
        let gap = sample.time.saturating_sub(end);
        if scale.is_timeline && gap > weight {
            json.begin_array();
            json.end_array();
            weights.push(gap);
            end = end.saturating_add(gap);
        }
        write_stack(profile, sample, json);
        weights.push(weight);
        end = end.saturating_add(weight);
    }
    json.end_array();
    json.key("weights");
    json.begin_array();
    for weight in weights {
        json.number(weight.into());
    }
    json.end_array();
    json.number_field("startValue", 0);
    json.number_field("endValue", end);
    json.end_object();
}

/// The frames of a sample, root first.
fn write_stack(profile: &Profile, sample: &Sample, json: &mut Writer<'_>) {
    json.begin_array();
    match sample.stack {
        Some(stack) => {
            let frames: Vec<_> = profile.frames_of(stack).collect();
            for frame in frames.into_iter().rev() {
                json.number(profile.frame(frame).function.0.into());
            }
        }
        None => json.number(profile.functions.len() as i128),
    }
    json.end_array();
}

/// What the samples of an event go by in speedscope's list.
fn title_of(profile: &Profile, thread: ThreadIndex, event: EventIndex) -> String {
    let title = thread_title(profile, thread);
    match event.0 {
        0 => title,
        _ => format!("{title} ({})", profile.event().label()),
    }
}

/// What the thread goes by in speedscope's list.
fn thread_title(profile: &Profile, thread: ThreadIndex) -> String {
    let thread = &profile.threads[thread.at()];
    let process = &profile.processes[thread.process.at()];
    let mut title = process.name.clone();
    for (text, id) in [("", process.pid), (&*thread.name, thread.tid)] {
        if !text.is_empty() && text != process.name {
            title = format!("{title} {text}");
        }
        if id > 0 && !(id == process.pid && title.ends_with(']')) {
            title = format!("{title} [{id}]");
        }
    }
    match title.trim() {
        "" => "samples".to_owned(),
        title => title.to_owned(),
    }
}

/// What speedscope has no place for, for our own importer.
fn write_recorded(profile: &Profile, written: &[(ThreadIndex, EventIndex)], json: &mut Writer<'_>) {
    let samples = samples_by_thread(profile);
    json.key("nodespy");
    json.begin_object();
    json.key("recorded");
    json.begin_array();
    for line in recorded::lines(profile) {
        json.string(&line);
    }
    json.end_array();
    json.key("threads");
    json.begin_array();
    for (index, event) in written {
        let thread = &profile.threads[index.at()];
        let process = &profile.processes[thread.process.at()];
        json.begin_object();
        json.number_field("pid", process.pid);
        json.string_field("process", &process.name);
        json.number_field("tid", thread.tid);
        json.string_field("name", &thread.name);
        json.string_field("role", thread.role.label());
        if event.0 > 0 {
            json.number_field("event", event.0);
        }
        if !profile.contexts.is_empty() {
            json.key("contexts");
            json.begin_array();
            let samples = samples[index.at()].iter();
            for sample in samples.filter(|sample| sample.event == *event) {
                json.number(sample.context.0.into());
            }
            json.end_array();
        }
        json.end_object();
    }
    json.end_array();
    if !profile.contexts.is_empty() {
        json.key("contexts");
        crate::contexts::write(&profile.contexts, json);
    }
    json.key("kinds");
    json.begin_array();
    for function in &profile.functions {
        json.string(function.category.label());
    }
    json.end_array();
    json.end_object();
}
