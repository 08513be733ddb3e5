//! Records in order of time, as events.
//!
//! Rings of several processors are written one after the other, so records are sorted before
//! they are handed over. perf marks the end of each round over all rings: what is older than the
//! round before can't be overtaken any more. Only places are sorted; the records stay where they
//! are.

use std::borrow::Cow;

use nodespy_model::{
    Event, EventSource, FastMap, FileIdentity, Mapping, Nanoseconds, Notes, RawSample, UserStack,
};

use super::fields::{Fields, text};
use super::header::Header;
use super::layout::SAMPLE;
use super::records::{Place, Record, Records, Trouble, kind};
use super::sample::{Addresses, Sample, read_deferred};
use crate::import::Progress;
use crate::input::Input;

/// Kinds of the kernel's records.
const MMAP: u32 = 1;
const LOST: u32 = 2;
const COMM: u32 = 3;
const EXIT: u32 = 4;
const THROTTLE: u32 = 5;
const FORK: u32 = 7;
const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;
const CALLCHAIN_DEFERRED: u32 = 22;

/// Flags of records.
const IS_DATA_MAPPING: u16 = 1 << 13;
const IS_EXEC: u16 = 1 << 13;
const HAS_BUILD_ID: u16 = 1 << 14;

/// How much is read before the progress is told again.
const PROGRESS_STEP_BYTES: usize = 4 << 20;

/// The records of a perf.data, ready to be handed over.
pub(super) struct PerfEvents {
    pub(super) input: Input,
    pub(super) header: Header,
    /// Which event's samples are taken.
    pub(super) event: usize,
    pub(super) unpacked_limit_bytes: u64,
    pub(super) progress: Option<Progress>,
}

impl std::fmt::Debug for PerfEvents {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("PerfEvents")
            .field("bytes", &self.input.len())
            .field("event", &self.event)
            .finish_non_exhaustive()
    }
}

impl EventSource for PerfEvents {
    fn replay(self: Box<Self>, take: &mut dyn FnMut(Event<'_>)) -> Notes {
        let records = Records::new(&self.input, &self.header, self.unpacked_limit_bytes);
        let mut replay = Replay {
            records,
            header: &self.header,
            event: self.event,
            counts: vec![0; self.header.events.list.len()],
            pending: Vec::new(),
            ready: Vec::new(),
            newest: 0,
            flush_until: 0,
            waiting: FastMap::default(),
            addresses: Addresses::default(),
            has_named_idle: false,
            unreadable: 0,
            notes: Notes::default(),
        };
        replay.run(self.progress, take);
        replay.finish()
    }
}

/// A record that waits for its turn.
#[derive(Debug, Clone, Copy)]
struct Pending {
    time: Nanoseconds,
    place: Place,
}

struct Replay<'a> {
    records: Records<'a>,
    header: &'a Header,
    event: usize,
    /// Samples of each event.
    counts: Vec<u64>,
    pending: Vec<Pending>,
    ready: Vec<Pending>,
    /// The latest time seen.
    newest: Nanoseconds,
    /// What is not later than this can't be overtaken once the round ends.
    flush_until: Nanoseconds,
    /// Samples whose user part comes in a record of its own, by what names it.
    waiting: FastMap<u64, Vec<Pending>>,
    addresses: Addresses,
    has_named_idle: bool,
    unreadable: u64,
    notes: Notes,
}

impl Replay<'_> {
    fn run(&mut self, progress: Option<Progress>, take: &mut dyn FnMut(Event<'_>)) {
        let total = self.header.records.end as u64;
        let mut told = 0;
        while let Some(place) = self.records.next() {
            let record = self.records.get(place);
            match record.kind {
                SAMPLE => self.take_sample(place, take),
                MMAP | MMAP2 | COMM | FORK | EXIT | CALLCHAIN_DEFERRED => {
                    let time = self.header.events.other_time(record.body);
                    self.queue(Pending { time, place }, take);
                }
                LOST | LOST_SAMPLES | THROTTLE => count_loss(&record, &mut self.notes),
                kind::FINISHED_ROUND => {
                    self.flush(self.flush_until, take);
                    self.flush_until = self.newest;
                }
                _ => {}
            }
            let position = self.records.position();
            if let Some(progress) = progress
                && position - told >= PROGRESS_STEP_BYTES
            {
                told = position;
                progress(position as u64, total);
            }
        }
        self.flush(Nanoseconds::MAX, take);
        // Their second half was lost.
        let waiting: Vec<Pending> = self.waiting.drain().flat_map(|(_, held)| held).collect();
        for pending in waiting {
            self.hand_over_sample(pending.place, None, take);
        }
    }

    fn take_sample(&mut self, place: Place, take: &mut dyn FnMut(Event<'_>)) {
        let body = self.records.get(place).body;
        let Some(event) = self.header.events.of_sample(body) else {
            self.unreadable += 1;
            return;
        };
        self.counts[event] += 1;
        if event == self.event {
            let time = self.header.events.sample_time(event, body).unwrap_or(0);
            self.queue(Pending { time, place }, take);
        }
    }

    /// Lets a record wait for its turn; one without a time is handed over at once.
    fn queue(&mut self, pending: Pending, take: &mut dyn FnMut(Event<'_>)) {
        if pending.time == 0 || pending.time == Nanoseconds::MAX {
            self.hand_over(pending, take);
            return;
        }
        self.newest = self.newest.max(pending.time);
        self.pending.push(pending);
    }

    /// Hands over what is not later than `until`.
    fn flush(&mut self, until: Nanoseconds, take: &mut dyn FnMut(Event<'_>)) {
        self.pending.sort_by_key(|pending| pending.time);
        let count = self
            .pending
            .partition_point(|pending| pending.time <= until);
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        ready.extend(self.pending.drain(..count));
        for &pending in &ready {
            self.hand_over(pending, take);
        }
        self.ready = ready;
        let held = self.waiting.values().flatten();
        let places = self.pending.iter().chain(held).map(|pending| pending.place);
        self.records.forget_before(places);
    }

    fn hand_over(&mut self, pending: Pending, take: &mut dyn FnMut(Event<'_>)) {
        let record = self.records.get(pending.place);
        match record.kind {
            SAMPLE => self.hand_over_sample(pending.place, Some(pending.time), take),
            CALLCHAIN_DEFERRED => self.hand_over_waiting(pending.place, take),
            _ => match other_event(&record, self.header, pending.time) {
                Some(event) => {
                    self.note_jitdump(&event);
                    take(event);
                }
                None if record.flags & IS_DATA_MAPPING != 0 => {}
                None => self.unreadable += 1,
            },
        }
    }

    /// Hands over a sample. With `wait_since` it waits where its user part comes later.
    fn hand_over_sample(
        &mut self,
        place: Place,
        wait_since: Option<Nanoseconds>,
        take: &mut dyn FnMut(Event<'_>),
    ) {
        let attribute = &self.header.events.list[self.event].attribute;
        let record = self.records.get(place);
        let Some(mut sample) = Sample::read(attribute, record.flags, record.body) else {
            self.unreadable += 1;
            return;
        };
        sample.addresses(&mut self.addresses);
        if let (Some(cookie), Some(time)) = (self.addresses.deferred, wait_since) {
            let held = self.waiting.entry(cookie).or_default();
            held.push(Pending { time, place });
            return;
        }
        if sample.pid == 0 && !self.has_named_idle {
            self.has_named_idle = true;
            take(swapper());
        }
        self.forget_foreign_registers(&mut sample);
        take(Event::Sample(raw_sample(&sample, &self.addresses)));
    }

    /// Nobody here can unwind the stacks of another machine.
    fn forget_foreign_registers(&self, sample: &mut Sample<'_>) {
        if self.header.is_other_machine {
            sample.registers = None;
        }
    }

    /// Hands over the samples whose user addresses are in this record.
    fn hand_over_waiting(&mut self, place: Place, take: &mut dyn FnMut(Event<'_>)) {
        let mut user = Vec::new();
        let body = self
            .header
            .events
            .without_trailer(self.records.get(place).body);
        let Some(cookie) = read_deferred(body, &mut user) else {
            self.unreadable += 1;
            return;
        };
        let attribute = &self.header.events.list[self.event].attribute;
        for pending in self.waiting.remove(&cookie).unwrap_or_default() {
            let record = self.records.get(pending.place);
            if let Some(mut sample) = Sample::read(attribute, record.flags, record.body) {
                sample.addresses(&mut self.addresses);
                self.addresses.user.clone_from(&user);
                self.forget_foreign_registers(&mut sample);
                take(Event::Sample(raw_sample(&sample, &self.addresses)));
            }
        }
    }

    fn note_jitdump(&mut self, event: &Event<'_>) {
        let Event::Mapping(mapping) = event else {
            return;
        };
        let name = mapping.path.rsplit('/').next().unwrap_or_default();
        let is_jitdump = name.starts_with("jit-") && name.ends_with(".dump");
        let attribute = &self.header.events.list[self.event].attribute;
        if is_jitdump && !attribute.is_monotonic() {
            self.notes.remark(format!(
                "{name} tells times of another clock than the samples: JIT code that was moved or \
                 replaced may have a wrong name (perf record -k mono makes them agree)"
            ));
        }
    }

    fn finish(mut self) -> Notes {
        if let Some(trouble) = self.records.trouble() {
            self.notes.remark(remark_of(trouble));
        }
        if !self.header.has_end {
            self.notes.remark(
                "perf did not end its file: it was killed, or still runs; what it had written \
                 until then is shown",
            );
        }
        if self.unreadable > 0 {
            self.notes.remark(format!(
                "{} records make no sense and are left out",
                self.unreadable
            ));
        }
        let mut others = Vec::new();
        for (position, event) in self.header.events.list.iter().enumerate() {
            if position != self.event && self.counts[position] > 0 {
                others.push(format!("{} ({})", event.name, self.counts[position]));
            }
        }
        if !others.is_empty() {
            let chosen = &self.header.events.list[self.event];
            self.notes.remark(format!(
                "samples of {} are shown ({}); the file also holds {}: --event NAME",
                chosen.name,
                self.counts[self.event],
                others.join(", ")
            ));
        }
        self.notes
    }
}

/// What the reader should know of records that could not be read.
fn remark_of(trouble: &Trouble) -> String {
    match trouble.is_cut {
        true => format!("{}; what comes before is shown", trouble.what),
        false => format!(
            "the file is damaged at byte {} ({}); what comes before is shown",
            trouble.at, trouble.what
        ),
    }
}

/// The name of what runs when nothing does; no record tells it.
fn swapper() -> Event<'static> {
    Event::ThreadName {
        pid: 0,
        tid: 0,
        name: "swapper".to_owned(),
        is_exec: false,
        time: 0,
    }
}

fn raw_sample<'a>(sample: &Sample<'a>, addresses: &'a Addresses) -> RawSample<'a> {
    let user = match sample.registers {
        Some(registers) if !sample.stack.is_empty() => UserStack::Copy {
            registers,
            stack: Cow::Borrowed(sample.stack),
            is_full: sample.is_stack_full,
        },
        _ if addresses.user.is_empty() => UserStack::Absent,
        _ => UserStack::Chain(Cow::Borrowed(&addresses.user)),
    };
    RawSample {
        time: sample.time,
        pid: sample.pid,
        tid: sample.tid,
        cpu: sample.cpu,
        kernel: Cow::Borrowed(&addresses.kernel),
        user,
    }
}

fn count_loss(record: &Record<'_>, notes: &mut Notes) {
    let mut fields = Fields(record.body);
    let lost = match record.kind {
        LOST => {
            let _id = fields.u64();
            fields.u64()
        }
        LOST_SAMPLES => fields.u64(),
        _ => {
            notes.throttled += 1;
            return;
        }
    };
    notes.lost_samples = notes.lost_samples.saturating_add(lost.unwrap_or(1));
}

/// Anything but a sample; none when it makes no sense or is of no use.
fn other_event(record: &Record<'_>, header: &Header, time: Nanoseconds) -> Option<Event<'static>> {
    let mut fields = Fields(header.events.without_trailer(record.body));
    match record.kind {
        MMAP | MMAP2 => mapping(record, fields, header, time).map(Event::Mapping),
        COMM => Some(Event::ThreadName {
            pid: fields.u32()?,
            tid: fields.u32()?,
            name: text(fields.0),
            is_exec: record.flags & IS_EXEC != 0,
            time,
        }),
        FORK | EXIT => {
            let pid = fields.u32()?;
            let parent_pid = fields.u32()?;
            let tid = fields.u32()?;
            Some(match record.kind {
                FORK => Event::Fork {
                    pid,
                    tid,
                    parent_pid,
                    time,
                },
                _ => Event::Exit { pid, tid, time },
            })
        }
        _ => None,
    }
}

fn mapping(
    record: &Record<'_>,
    mut fields: Fields<'_>,
    header: &Header,
    time: Nanoseconds,
) -> Option<Mapping> {
    if record.flags & IS_DATA_MAPPING != 0 {
        return None;
    }
    let pid = fields.u32()?;
    let _tid = fields.u32()?;
    let start = fields.u64()?;
    let length = fields.u64()?;
    let file_offset = fields.u64()?;
    let mut file = FileIdentity::default();
    if record.kind == MMAP2 {
        let mut identity = Fields(fields.take(24)?);
        if record.flags & HAS_BUILD_ID != 0 {
            let length = usize::from(identity.take(4)?[0]);
            file.build_id = identity.take(20)?.get(..length)?.to_vec();
        } else {
            file.device = (identity.u32()?, identity.u32()?);
            file.inode = identity.u64()?;
        }
        let _protection_and_flags = fields.u64()?;
    }
    let path = text(fields.0);
    if file.build_id.is_empty() {
        // The kernel's mapping is called `[kernel.kallsyms]_text`.
        let name = match path.starts_with("[kernel.kallsyms]") {
            true => "[kernel.kallsyms]",
            false => path.trim_end_matches(" (deleted)"),
        };
        file.build_id = header.build_id(name);
    }
    Some(Mapping {
        pid,
        start,
        end: start.saturating_add(length),
        file_offset,
        path,
        file,
        time,
    })
}
