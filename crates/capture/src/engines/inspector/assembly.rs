//! What the profilers of all threads send, slice by slice, as events.

use std::collections::{BTreeMap, HashSet};

use nodespy_model::{
    Category, Contents, EventType, LoadedScript, Nanoseconds, Notes, Process, Profile, ThreadRole,
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

/// One thread.
#[derive(Debug)]
struct Row {
    number: u32,
    /// Its position among all threads of the session.
    thread: usize,
    /// When its newest slice of time ends, on the clock of the process.
    end: Nanoseconds,
    /// Its newest slice of allocations: each holds those before it.
    newest: Option<Slice>,
}

/// The slices of all threads as they become events: none overlaps the one before.
#[derive(Debug)]
pub(super) struct Assembly {
    event: InspectorEvent,
    event_type: EventType,
    read_profile: ProfileReader,
    pid: u32,
    /// What the times of the recording count from, on the clock of the process, which may have started later.
    zero: Option<i128>,
    /// When the session began, until the clock of the process is known.
    begun: Option<Nanoseconds>,
    rows: Vec<Row>,
    /// Until when each thread has reported all, since the start of the recording.
    complete: BTreeMap<u32, Nanoseconds>,
    busy_only: bool,
    keeps_files: bool,
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
    /// The start of a session with a process, at this time.
    pub(super) fn new(options: &InspectorOptions, process: Process, begun: Nanoseconds) -> Self {
        let event_type = options.event_type();
        Self {
            event: options.event,
            event_type: event_type.clone(),
            read_profile: options.read_profile,
            pid: process.pid,
            zero: options.started.map(i128::from),
            begun: Some(begun),
            rows: Vec::new(),
            complete: BTreeMap::new(),
            busy_only: options.busy_only,
            keeps_files: options.embed_sources || options.wants_source_maps,
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

    /// The profiler of a thread starts now.
    pub(super) fn begin_thread(&mut self, number: u32, now: Nanoseconds) {
        self.complete.insert(number, self.since_zero(now));
        self.report_complete();
    }

    /// Reports until when all threads have reported.
    fn report_complete(&mut self) {
        if let Some(&until) = self.complete.values().min() {
            self.events.push(NamedEvent::Complete(until));
        }
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
                if self.busy_only {
                    leave_out_idle(&mut profile);
                }
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
            self.events
                .push(NamedEvent::ThreadEnded { thread: row.thread });
            self.has_ended_rows = true;
        }
        self.complete.remove(&number);
        self.report_complete();
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

    fn add(&mut self, number: u32, name: &str, mut slice: Slice) {
        self.settle_clock(slice.started);
        let position = self.row_of(number, name);
        let row = &mut self.rows[position];
        if self.event == InspectorEvent::Allocations {
            // They are reported from the start each time: the newest answer holds them all.
            row.newest = Some(slice);
            return;
        }
        slice.start_at(row.end);
        row.end = row.end.max(slice.end());
        let (thread, end) = (row.thread, row.end);
        self.flush(slice, thread);
        self.complete.insert(number, self.since_zero(end));
        self.report_complete();
    }

    /// Decides by its first slice what the clock of the process counts from. Where that is another clock than nodespy's, the
    /// slice started when the session began.
    fn settle_clock(&mut self, started: Nanoseconds) {
        let first = i128::from(started);
        let zero = self.zero.unwrap_or(first);
        self.zero = Some(match self.begun.take() {
            Some(begun) if begun.abs_diff(started) >= A_DAY => first - (i128::from(begun) - zero),
            _ => zero,
        });
    }

    /// A time on the clock of the process, since the start of the recording.
    fn since_zero(&self, time: Nanoseconds) -> Nanoseconds {
        let time = i128::from(time);
        Nanoseconds::try_from(time - self.zero.unwrap_or(time)).unwrap_or(0)
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
            end: 0,
            newest: None,
        });
        self.threads += 1;
        self.rows.len() - 1
    }

    /// Hands a slice on.
    fn flush(&mut self, slice: Slice, thread: usize) {
        if self.keeps_files {
            self.files.extend(files_of(&slice.profile));
        }
        self.events.push(NamedEvent::Samples {
            thread,
            start: self.since_zero(slice.started),
            profile: Box::new(slice.profile),
        });
    }

    /// Hands on what was kept: nothing follows.
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
    fn end(&self) -> Nanoseconds {
        self.started.saturating_add(self.profile.about.duration)
    }

    /// Leaves what comes earlier to the slice before.
    fn start_at(&mut self, start: Nanoseconds) {
        let start = start.saturating_sub(self.started);
        let samples = &mut self.profile.samples;
        let is_over = |time: Nanoseconds, weight: u64| time.saturating_add(weight) <= start;
        samples.retain(|sample| sample.time >= start || !is_over(sample.time, sample.weight));
        for sample in samples {
            let cut = start.saturating_sub(sample.time);
            sample.time += cut;
            sample.weight -= cut;
        }
    }
}

/// Drops samples of threads that waited for events.
fn leave_out_idle(profile: &mut Profile) {
    let is_idle: Vec<bool> = profile
        .stacks
        .iter()
        .map(|stack| {
            let function = profile.frame(stack.frame).function;
            profile.function(function).category == Category::Idle
        })
        .collect();
    profile
        .samples
        .retain(|sample| !sample.stack.is_some_and(|stack| is_idle[stack.at()]));
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
        Assembly::new(&options, process, zero_us * 1000)
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
                _ => {}
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
    fn a_slice_within_the_one_before_adds_nothing() {
        let mut assembly = assembly(1_000_000);
        assembly.take(0, "main", &slice(1_000_000, 100));
        assembly.take(0, "main", &slice(1_010_000, 10));
        let profile = collected(assembly);
        let mut end = 0;
        for sample in &profile.samples {
            assert!(sample.time >= end, "{sample:?} overlaps");
            end = sample.time + sample.weight;
        }
        assert_eq!(end, 101_000_000);
        assert_eq!(profile.total_weight(), 100_000_000);
    }

    /// Until when everything was reported, in milliseconds, by the last event that says so.
    fn complete_until(assembly: &mut Assembly) -> Option<u64> {
        let events = assembly.take_events().into_iter();
        let mut complete = events.filter_map(|event| match event {
            NamedEvent::Complete(until) => Some(until / 1_000_000),
            _ => None,
        });
        complete.next_back()
    }

    #[test]
    fn what_is_complete_is_what_every_thread_has_reported() {
        let mut assembly = assembly(1_000_000);
        assembly.begin_thread(0, 1_002_000_000);
        assembly.begin_thread(3, 1_050_000_000);
        assert_eq!(complete_until(&mut assembly), Some(2));
        assembly.take(0, "main", &slice(1_002_000, 99));
        assert_eq!(complete_until(&mut assembly), Some(50));
        assembly.take(3, "worker 3", &slice(1_050_000, 9));
        assert_eq!(complete_until(&mut assembly), Some(60));
        // One that has ended holds up nothing.
        assembly.end_thread(3);
        assert_eq!(complete_until(&mut assembly), Some(102));
    }

    #[test]
    fn sessions_that_begin_days_later_have_the_same_clock() {
        let week = 7 * A_DAY;
        let options = InspectorOptions {
            started: Some(1_000_000_000),
            ..InspectorOptions::new(read_slice)
        };
        let process = Process::default();
        let mut late = Assembly::new(&options, process.clone(), week);
        late.take(0, "main", &slice(week / 1000, 10));
        assert_eq!(collected(late).samples[0].time, week - 999_000_000);
        // Another clock: its first slice starts when the session began.
        let mut foreign = Assembly::new(&options, process, week);
        foreign.take(0, "main", &slice(5_000_000, 10));
        assert_eq!(collected(foreign).samples[0].time, week - 999_000_000);
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
