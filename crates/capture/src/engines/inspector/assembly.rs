//! What the profilers of all threads send, slice by slice, as events.

use std::collections::HashSet;

use nodespy_model::{
    Contents, EventType, LoadedScript, Nanoseconds, Notes, Process, Profile, ThreadRole,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::event::InspectorEvent;
use super::options::{InspectorOptions, ProfileReader};
use crate::engine::NamedEvent;
use crate::target::proc;

/// Clocks further apart than this are not the same clock.
const A_DAY: Nanoseconds = 86_400_000_000_000;

#[derive(Deserialize)]
struct Stopped<'a> {
    #[serde(borrow)]
    profile: &'a RawValue,
}

/// When a profile started: microseconds of the monotonic clock, the same for all threads.
#[derive(Deserialize)]
struct Started {
    #[serde(rename = "startTime", default)]
    start_us: f64,
}

/// One slice of one thread, whose times are from its own start.
#[derive(Debug)]
struct Slice {
    started: Nanoseconds,
    profile: Profile,
}

/// One thread, and its newest slice: where that ends is known when the next one comes.
#[derive(Debug)]
struct Row {
    number: u32,
    /// Its position among all threads of the session.
    thread: usize,
    newest: Option<Slice>,
}

/// The slices of all threads as they become events: none overlaps the one before.
#[derive(Debug)]
pub(super) struct Assembly {
    event: InspectorEvent,
    event_type: EventType,
    read_profile: ProfileReader,
    pid: u32,
    /// The monotonic time that the times of the recording count from.
    zero: Option<Nanoseconds>,
    rows: Vec<Row>,
    /// How many threads were seen.
    threads: usize,
    /// Whether a thread was forgotten that had sent something.
    has_ended_rows: bool,
    /// The files of functions in slices that were handed on.
    files: HashSet<String>,
    /// What is to be handed on.
    events: Vec<NamedEvent>,
}

impl Assembly {
    /// The start of a session with a process.
    pub(super) fn new(options: &InspectorOptions, process: Process) -> Self {
        let event_type = options.event_type();
        Self {
            event: options.event,
            event_type: event_type.clone(),
            read_profile: options.read_profile,
            pid: process.pid,
            // Where the process has another clock, its first slice decides.
            zero: options.started,
            rows: Vec::new(),
            threads: 0,
            has_ended_rows: false,
            files: HashSet::new(),
            events: vec![NamedEvent::Process(Box::new(process), event_type)],
        }
    }

    /// What has come since the last call.
    pub(super) fn take_events(&mut self) -> Vec<NamedEvent> {
        std::mem::take(&mut self.events)
    }

    /// Adds what the reader should know.
    pub(super) fn remark(&mut self, remark: String) {
        self.events.push(NamedEvent::Remark(remark));
    }

    /// Whether nothing has come yet.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && !self.has_ended_rows
    }

    /// Takes in what a profiler sent. What can't be read is a remark.
    pub(super) fn take(&mut self, number: u32, name: &str, json: &str) {
        match self.read(json) {
            Ok((slice, notes)) => {
                for remark in notes.remarks {
                    self.remark(remark);
                }
                self.add(number, name, slice);
            }
            Err(what) => self.remark(format!("what V8 sent of {name} can't be read: {what}")),
        }
    }

    fn read(&self, json: &str) -> Result<(Slice, Notes), String> {
        let stopped: Stopped<'_> = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let text = stopped.profile.get();
        let started = match self.event {
            InspectorEvent::Cpu => {
                let started: Started =
                    serde_json::from_str(text).map_err(|error| error.to_string())?;
                (started.start_us.max(0.0) * 1e3) as Nanoseconds
            }
            InspectorEvent::Allocations => 0,
        };
        let recording = (self.read_profile)(self.event, text).map_err(|error| error.to_string())?;
        match recording.contents {
            Contents::Named(mut profile) => {
                // The format of a slice has its own name for what made its samples.
                profile.events = vec![self.event_type.clone()];
                let slice = Slice {
                    started,
                    profile: *profile,
                };
                Ok((slice, recording.notes))
            }
            _ => Err("it holds no names".to_owned()),
        }
    }

    /// Keeps what a thread that has ended sent, and forgets the thread.
    pub(super) fn end_thread(&mut self, number: u32) {
        if let Some(position) = self.rows.iter().position(|row| row.number == number) {
            let row = self.rows.swap_remove(position);
            if let Some(slice) = row.newest {
                self.flush(slice, row.thread);
            }
            self.has_ended_rows = true;
        }
    }

    /// The files of all functions that were seen.
    pub(super) fn files(&self) -> HashSet<String> {
        let newest = self.rows.iter().filter_map(|row| row.newest.as_ref());
        let unsent = newest.flat_map(|slice| files_of(&slice.profile));
        unsent.chain(self.files.iter().cloned()).collect()
    }

    /// Adds the text of a file.
    pub(super) fn add_text(&mut self, file: &str, text: String) {
        self.events.push(NamedEvent::Text {
            file: file.to_owned(),
            text,
        });
    }

    /// Adds what V8 reports of scripts.
    pub(super) fn add_scripts(&mut self, scripts: Vec<LoadedScript>) {
        self.events.push(NamedEvent::Scripts(scripts));
    }

    fn add(&mut self, number: u32, name: &str, slice: Slice) {
        let started = slice.started;
        let zero = self.zero.filter(|zero| zero.abs_diff(started) < A_DAY);
        self.zero = Some(zero.unwrap_or(started));
        let position = self.row_of(number, name);
        let row = &mut self.rows[position];
        let before = row.newest.replace(slice);
        // Allocations are reported from the start each time: the newest answer holds them all.
        if let (Some(mut before), InspectorEvent::Cpu) = (before, self.event) {
            let row = &self.rows[position];
            let first = row.newest.as_ref().and_then(Slice::first_sample);
            before.end_at(first);
            let thread = row.thread;
            self.flush(before, thread);
        }
    }

    fn row_of(&mut self, number: u32, name: &str) -> usize {
        if let Some(position) = self.rows.iter().position(|row| row.number == number) {
            return position;
        }
        let is_main = number == 0;
        self.events.push(NamedEvent::Thread {
            tid: match is_main {
                true => self.pid,
                false => thread_called(self.pid, name),
            },
            name: name.to_owned(),
            role: match is_main {
                true => ThreadRole::Main,
                false => ThreadRole::Worker,
            },
        });
        self.rows.push(Row {
            number,
            thread: self.threads,
            newest: None,
        });
        self.threads += 1;
        self.rows.len() - 1
    }

    /// Hands a slice on.
    fn flush(&mut self, slice: Slice, thread: usize) {
        let zero = self.zero.unwrap_or(slice.started);
        self.files.extend(files_of(&slice.profile));
        self.events.push(NamedEvent::Samples {
            thread,
            start: slice.started.saturating_sub(zero),
            profile: Box::new(slice.profile),
        });
    }

    /// Hands on the newest slices: none follows.
    pub(super) fn finish(&mut self) {
        for row in std::mem::take(&mut self.rows) {
            if let Some(slice) = row.newest {
                self.flush(slice, row.thread);
            }
        }
    }
}

/// The files of the functions of a profile.
fn files_of(profile: &Profile) -> impl Iterator<Item = String> {
    let functions = profile.functions.iter();
    functions
        .filter_map(|function| function.file)
        .map(|file| profile.strings.get(file).to_owned())
}

impl Slice {
    /// When its first sample was taken; what comes before is the profiler's own start.
    fn first_sample(&self) -> Option<Nanoseconds> {
        let first = self.profile.samples.first()?;
        Some(self.started.saturating_add(first.time))
    }

    /// Leaves what comes later to the next slice.
    fn end_at(&mut self, end: Option<Nanoseconds>) {
        let Some(end) = end else { return };
        let end = end.saturating_sub(self.started);
        let samples = &mut self.profile.samples;
        samples.retain(|sample| sample.time < end);
        for sample in samples {
            sample.weight = sample.weight.min(end - sample.time);
        }
        let duration = &mut self.profile.about.duration;
        *duration = (*duration).min(end);
    }
}

/// The thread that carries a worker's name (Node 24 and later give it to the kernel); 0 when none
/// or several do.
fn thread_called(pid: u32, name: &str) -> u32 {
    // The kernel keeps fifteen bytes of a name.
    let kept: String = name.chars().take(15).collect();
    let mut found = proc::threads(pid)
        .into_iter()
        .filter(|&tid| tid != pid && proc::thread_name(pid, tid).as_deref() == Some(&kept));
    match (found.next(), found.next()) {
        (Some(tid), None) => tid,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use nodespy_model::{
        About, FrameSpec, FunctionSpec, ProcessIndex, ProfileBuilder, Recording, Thread,
        WeightUnit, add_samples,
    };

    use super::*;

    /// What V8 would send: when the profile starts and ends, and its samples, one every millisecond.
    fn slice(start_us: u64, samples: u64) -> String {
        let end_us = start_us + 1000 * (samples + 1);
        format!(
            r#"{{"profile":{{"startTime":{start_us},"endTime":{end_us},"samples":{samples}}}}}"#
        )
    }

    /// Reads what `slice` writes. Each sample lasts until the next one.
    fn read_slice(
        _: InspectorEvent,
        json: &str,
    ) -> Result<Recording, Box<dyn std::error::Error + Send + Sync>> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Sent {
            start_time: u64,
            end_time: u64,
            samples: u64,
        }
        let sent: Sent = serde_json::from_str(json)?;
        let mut builder = ProfileBuilder::new(WeightUnit::Nanoseconds);
        let process = builder.process(Process::default());
        let thread = builder.thread(Thread {
            process,
            tid: 1,
            name: String::new(),
            role: ThreadRole::Main,
            ..Thread::default()
        });
        let busy = builder.frame(FrameSpec {
            function: FunctionSpec {
                name: "busy",
                file: "/a.js",
                ..FunctionSpec::default()
            },
            ..FrameSpec::default()
        });
        let stack = builder.stack(None, busy);
        for number in 1..=sent.samples {
            builder.sample(number * 1_000_000, thread, Some(stack), 1_000_000);
        }
        let about = About {
            duration: (sent.end_time - sent.start_time) * 1000,
            ..About::default()
        };
        let profile = builder.finish(about, Notes::default());
        Ok(Recording {
            contents: Contents::Named(Box::new(profile)),
            ..Recording::default()
        })
    }

    fn assembly(zero_us: u64) -> Assembly {
        let process = Process {
            pid: u32::MAX,
            ..Process::default()
        };
        let options = InspectorOptions {
            started: Some(zero_us * 1000),
            ..InspectorOptions::new(read_slice)
        };
        Assembly::new(&options, process)
    }

    /// What the events of a session say, as one profile.
    fn collected(mut assembly: Assembly) -> Profile {
        assembly.finish();
        let mut builder = ProfileBuilder::new(WeightUnit::Nanoseconds);
        let mut notes = Notes::default();
        let (mut threads, mut about) = (Vec::new(), About::default());
        for event in assembly.take_events() {
            match event {
                NamedEvent::Process(process, _) => {
                    builder.process(*process);
                }
                NamedEvent::Thread { tid, name, role } => {
                    let process = ProcessIndex(0);
                    threads.push(builder.thread(Thread {
                        process,
                        tid,
                        name,
                        role,
                        ..Thread::default()
                    }));
                }
                NamedEvent::Samples {
                    thread,
                    start,
                    profile,
                } => {
                    add_samples(&mut builder, &profile, start, |_| threads[thread]);
                    about.duration = about.duration.max(start + profile.about.duration);
                }
                NamedEvent::Remark(remark) => notes.remark(remark),
                NamedEvent::Text { .. } | NamedEvent::Scripts(_) => {}
            }
        }
        builder.finish(about, notes)
    }

    #[test]
    fn where_slices_overlap_time_is_counted_once() {
        let mut assembly = assembly(1_000_000);
        // The first lasts from 1.000 to 1.101 s, the second starts at 1.080 s.
        assembly.take(0, "main", &slice(1_000_000, 100));
        assembly.take(0, "main", &slice(1_080_000, 100));
        let profile = collected(assembly);
        let last = profile.samples.last().unwrap();
        assert_eq!(profile.samples[0].time, 1_000_000);
        assert_eq!(last.time + last.weight, 181_000_000);
        assert_eq!(profile.total_weight(), 180_000_000);
        assert_eq!(profile.about.duration, 181_000_000);
        assert_eq!(profile.threads.len(), 1);
        let is_ordered = |pair: &[nodespy_model::Sample]| pair[0].time < pair[1].time;
        assert!(profile.samples.windows(2).all(is_ordered));
    }

    #[test]
    fn threads_are_on_one_clock_and_a_foreign_clock_starts_at_zero() {
        let mut local = assembly(1_000_000);
        local.take(0, "main", &slice(1_000_000, 10));
        local.take(3, "worker 3", &slice(1_500_000, 10));
        let profile = collected(local);
        let first_of = |thread: u32| {
            let mut samples = profile.samples.iter();
            samples
                .find(|sample| sample.thread.0 == thread)
                .unwrap()
                .time
        };
        assert_eq!(first_of(1) - first_of(0), 500_000_000);
        let mut far = assembly(u64::from(u32::MAX) * 1000);
        far.take(0, "main", &slice(1_000_000, 10));
        assert_eq!(collected(far).samples[0].time, 1_000_000);
    }

    #[test]
    fn a_thread_that_ended_keeps_what_it_sent_and_is_forgotten() {
        let mut assembly = assembly(1_000_000);
        assert!(assembly.is_empty());
        for number in 1..=100 {
            assembly.take(number, "worker", &slice(1_000_000, 10));
            assembly.end_thread(number);
            assembly.end_thread(number);
        }
        assert!(assembly.rows.is_empty() && !assembly.is_empty());
        let profile = collected(assembly);
        assert_eq!(profile.threads.len(), 100);
        assert_eq!(profile.total_weight(), 100 * 10_000_000);
    }

    #[test]
    fn a_slice_within_the_one_before_takes_its_place_from_its_first_sample_on() {
        let mut assembly = assembly(1_000_000);
        assembly.take(0, "main", &slice(1_000_000, 100));
        assembly.take(0, "main", &slice(1_010_000, 10));
        let profile = collected(assembly);
        let mut end = 0;
        for sample in &profile.samples {
            assert!(sample.time >= end, "{sample:?} overlaps");
            end = sample.time + sample.weight;
        }
        assert_eq!(end, 21_000_000);
    }

    #[test]
    fn nonsense_is_a_remark() {
        let mut assembly = assembly(0);
        for json in [
            "",
            "{}",
            r#"{"profile":7}"#,
            r#"{"profile":{"startTime":-1e300}}"#,
        ] {
            assembly.take(0, "main", json);
        }
        let profile = collected(assembly);
        assert!(profile.samples.is_empty());
        assert!(profile.notes.remarks[0].contains("can't be read"));
    }
}
