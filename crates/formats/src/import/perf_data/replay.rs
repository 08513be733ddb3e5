//! Records in order of time, as events.
//!
//! Rings of several processors are written one after the other, so records are sorted before
//! they are handed over. perf marks the end of each round over all rings: what is older than the
//! round before can't be overtaken any more. Only places are sorted; the records stay where they
//! are.

use std::borrow::Cow;
use std::fmt;

use nodespy_model::{
    Event, EventIndex, EventSource, FastMap, FileIdentity, Mapping, Nanoseconds, Notes, RawSample,
    Registers, ThreadState, UserStack,
};
use nodespy_perf_abi::{Addresses, FileId, Mmap, Sample, Sideband, context, record_type};

use super::header::{Header, lossy};
use super::records::{Place, Records, Trouble};
use super::sample::addresses;
use crate::budget::{Budget, Meter, left_out};
use crate::import::Progress;
use crate::input::Input;

/// How much is read before progress is reported again.
const PROGRESS_STEP_BYTES: usize = 4 << 20;

/// A round is flushed when at least one new record came for this many that waited before: records
/// with times far ahead would else be sorted again in every round.
const ROUND_SHARE: usize = 4;

/// The records of a perf.data, ready to be handed over.
pub(super) struct PerfEvents {
    pub(super) input: Input,
    pub(super) header: Header,
    /// Which event of the recording each of the file's is.
    pub(super) places: Vec<EventIndex>,
    pub(super) budget: Budget,
    pub(super) progress: Option<Progress>,
}

impl fmt::Debug for PerfEvents {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PerfEvents")
            .field("bytes", &self.input.len())
            .finish_non_exhaustive()
    }
}

impl EventSource for PerfEvents {
    fn replay(self: Box<Self>, take: &mut dyn FnMut(Event<'_>)) -> Notes {
        let records = Records::new(&self.input, &self.header, &self.budget);
        let mut replay = Replay {
            records,
            header: &self.header,
            places: &self.places,
            pending: Vec::new(),
            queued: 0,
            held: 0,
            ready: Vec::new(),
            newest: 0,
            flush_until: 0,
            waiting: FastMap::default(),
            addresses: Addresses::default(),
            has_named_idle: false,
            unreadable: Unreadable::default(),
            notes: Notes::default(),
            meter: self.budget.clone().meter(),
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

/// Records that make no sense.
#[derive(Debug, Default)]
struct Unreadable {
    count: u64,
    /// Where the first is, and what is wrong with it.
    first: String,
}

impl Unreadable {
    fn add(&mut self, place: Place, why: impl fmt::Display) {
        if self.count == 0 {
            self.first = format!("{place}: {why}");
        }
        self.count += 1;
    }
}

struct Replay<'a> {
    records: Records<'a>,
    header: &'a Header,
    places: &'a [EventIndex],
    pending: Vec<Pending>,
    /// How many records came since the last flush, and how many it left waiting.
    queued: usize,
    held: usize,
    ready: Vec<Pending>,
    /// The latest time seen.
    newest: Nanoseconds,
    /// What is not later than this can't be overtaken once the round ends.
    flush_until: Nanoseconds,
    /// Samples whose user part comes in a record of its own, by what names it.
    waiting: FastMap<u64, Vec<Pending>>,
    addresses: Addresses,
    has_named_idle: bool,
    unreadable: Unreadable,
    notes: Notes,
    meter: Meter,
}

impl Replay<'_> {
    fn run(&mut self, progress: Option<Progress>, take: &mut dyn FnMut(Event<'_>)) {
        let total = self.header.records.end as u64;
        let mut reported = 0;
        while let Some(place) = self.records.next() {
            if let Err(excess) = self.meter.row() {
                let record = format_args!("the record {place}");
                self.notes.remark(left_out(record, excess));
                break;
            }
            let record = self.records.get(place);
            match record.kind {
                record_type::SAMPLE => self.take_sample(place, take),
                record_type::MMAP
                | record_type::MMAP2
                | record_type::COMM
                | record_type::FORK
                | record_type::EXIT
                | record_type::CALLCHAIN_DEFERRED => {
                    let time = self.header.events.sideband_time(record.body);
                    self.queue(Pending { time, place }, take);
                }
                record_type::LOST | record_type::LOST_SAMPLES | record_type::THROTTLE => {
                    self.count_loss(place);
                }
                record_type::FINISHED_ROUND => {
                    if self.queued * ROUND_SHARE >= self.held {
                        self.flush(self.flush_until, take);
                    }
                    self.flush_until = self.newest;
                }
                _ => {}
            }
            let position = self.records.position();
            if let Some(progress) = progress
                && position - reported >= PROGRESS_STEP_BYTES
            {
                reported = position;
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
            self.unreadable.add(place, "its id is of no event");
            return;
        };
        let time = self.header.events.sample_time(event, body).unwrap_or(0);
        self.queue(Pending { time, place }, take);
    }

    /// Lets a record wait for its turn; one without a time is handed over at once.
    fn queue(&mut self, pending: Pending, take: &mut dyn FnMut(Event<'_>)) {
        if pending.time == 0 || pending.time == Nanoseconds::MAX {
            self.hand_over(pending, take);
            return;
        }
        self.newest = self.newest.max(pending.time);
        self.queued += 1;
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
        self.queued = 0;
        self.held = self.pending.len() + self.waiting.values().map(Vec::len).sum::<usize>();
    }

    fn hand_over(&mut self, pending: Pending, take: &mut dyn FnMut(Event<'_>)) {
        let record = self.records.get(pending.place);
        if record.kind == record_type::SAMPLE {
            self.hand_over_sample(pending.place, Some(pending.time), take);
            return;
        }
        let header = self.header;
        match header.events.sideband(&record) {
            Ok(Sideband::DeferredCallchain(deferred)) => {
                let addresses = deferred.callchain.iter();
                let user = addresses.filter(|address| *address < context::MAX);
                let user = user.collect::<Vec<_>>();
                self.hand_over_waiting(deferred.cookie, &user, take);
            }
            Ok(sideband) => {
                if let Some(event) = sideband_event(&sideband, header, pending.time) {
                    self.note_jitdump(&event);
                    take(event);
                }
            }
            Err(error) => self.unreadable.add(pending.place, error),
        }
    }

    /// Hands over a sample. With `wait_since` it waits where its user part comes later.
    fn hand_over_sample(
        &mut self,
        place: Place,
        wait_since: Option<Nanoseconds>,
        take: &mut dyn FnMut(Event<'_>),
    ) {
        let record = self.records.get(place);
        let event = self.header.events.of_sample(record.body).unwrap_or(0);
        let layout = self.header.layout(event);
        let sample = match layout.sample(&record) {
            Ok(sample) => sample,
            Err(error) => {
                self.unreadable.add(place, error);
                return;
            }
        };
        addresses(&sample, layout.attributes(), &mut self.addresses);
        if let (Some(cookie), Some(time)) = (self.addresses.deferred, wait_since) {
            let held = self.waiting.entry(cookie).or_default();
            held.push(Pending { time, place });
            return;
        }
        if sample.pid == 0 && !self.has_named_idle {
            self.has_named_idle = true;
            take(swapper());
        }
        take(Event::Sample(self.raw_sample(&sample, event)));
    }

    /// Hands over the samples whose user addresses came just now.
    fn hand_over_waiting(&mut self, cookie: u64, user: &[u64], take: &mut dyn FnMut(Event<'_>)) {
        for pending in self.waiting.remove(&cookie).unwrap_or_default() {
            let record = self.records.get(pending.place);
            let event = self.header.events.of_sample(record.body).unwrap_or(0);
            let layout = self.header.layout(event);
            if let Ok(sample) = layout.sample(&record) {
                addresses(&sample, layout.attributes(), &mut self.addresses);
                self.addresses.user.clear();
                self.addresses.user.extend_from_slice(user);
                take(Event::Sample(self.raw_sample(&sample, event)));
            }
        }
    }

    /// A sample of an event with the addresses that were taken from it.
    fn raw_sample<'s>(&'s self, sample: &Sample<'s>, event: usize) -> RawSample<'s> {
        let attributes = self.header.layout(event).attributes();
        // The stacks of another machine can't be unwound here.
        let registers = match self.header.is_other_machine {
            true => None,
            false => sample.regs_user.and_then(|registers| registers.x86_64()),
        };
        let user = match registers {
            Some(registers) if !sample.stack_user.is_empty() => UserStack::Copy {
                registers: Registers(registers),
                stack: Cow::Borrowed(sample.stack_user),
            },
            _ if self.addresses.user.is_empty() => UserStack::Absent,
            _ => UserStack::Chain(Cow::Borrowed(&self.addresses.user)),
        };
        RawSample {
            labels: Default::default(),
            time: sample.time.unwrap_or(0),
            pid: sample.pid,
            tid: sample.tid,
            cpu: sample.cpu.and_then(|cpu| u16::try_from(cpu).ok()),
            event: self.places[event],
            weight: sample.period.unwrap_or(match attributes.is_freq {
                true => 1,
                false => attributes.period_or_freq,
            }),
            state: ThreadState::Unknown,
            kernel: Cow::Borrowed(&self.addresses.kernel),
            user,
            memory: Default::default(),
            is_copied_at_sample: false,
            stands_still: false,
        }
    }

    fn count_loss(&mut self, place: Place) {
        match self.header.events.sideband(&self.records.get(place)) {
            Ok(Sideband::Lost { count } | Sideband::LostSamples { count }) => {
                self.notes.lost_samples = self.notes.lost_samples.saturating_add(count);
            }
            Ok(Sideband::Throttle { .. }) => self.notes.throttled += 1,
            Ok(_) => {}
            Err(error) => self.unreadable.add(place, error),
        }
    }

    fn note_jitdump(&mut self, event: &Event<'_>) {
        let Event::Mapping(mapping) = event else {
            return;
        };
        let name = mapping.path.rsplit('/').next().unwrap_or_default();
        let is_jitdump = name.starts_with("jit-") && name.ends_with(".dump");
        let first = self.header.events.list.first();
        let is_monotonic = first.is_some_and(|event| event.attributes().is_monotonic());
        if is_jitdump && !is_monotonic {
            self.notes.remark(format!(
                "{name} has times of another clock than the samples: JIT code that was moved or \
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
        if self.unreadable.count > 0 {
            self.notes.remark(format!(
                "{} records make no sense and are left out; the first {}",
                self.unreadable.count, self.unreadable.first
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

/// The name of what runs when nothing does; no record has it.
fn swapper() -> Event<'static> {
    Event::ThreadName {
        pid: 0,
        tid: 0,
        name: "swapper".to_owned(),
        is_exec: false,
        time: 0,
    }
}

/// Anything but a sample; none when it is of no use.
fn sideband_event(
    sideband: &Sideband<'_>,
    header: &Header,
    time: Nanoseconds,
) -> Option<Event<'static>> {
    match *sideband {
        Sideband::Mmap(mmap) if mmap.is_data => None,
        Sideband::Mmap(mmap) => Some(Event::Mapping(mapping(&mmap, header, time))),
        Sideband::Comm(comm) => Some(Event::ThreadName {
            pid: comm.pid,
            tid: comm.tid,
            name: lossy(comm.name),
            is_exec: comm.is_exec,
            time,
        }),
        Sideband::Fork(task) => Some(Event::Fork {
            pid: task.pid,
            tid: task.tid,
            parent_pid: task.ppid,
            time,
        }),
        Sideband::Exit(task) => Some(Event::Exit {
            pid: task.pid,
            tid: task.tid,
            time,
        }),
        _ => None,
    }
}

fn mapping(mmap: &Mmap<'_>, header: &Header, time: Nanoseconds) -> Mapping {
    let path = lossy(mmap.path);
    let mut file = FileIdentity::default();
    match mmap.file {
        FileId::Unknown => {}
        FileId::Inode { device, inode, .. } => (file.device, file.inode) = (device, inode),
        FileId::BuildId(id) => file.build_id = id.to_vec(),
    }
    if file.build_id.is_empty() {
        // The kernel's mapping is called `[kernel.kallsyms]_text`.
        let name = match path.starts_with("[kernel.kallsyms]") {
            true => "[kernel.kallsyms]",
            false => path.trim_end_matches(" (deleted)"),
        };
        file.build_id = header.build_id(name);
    }
    Mapping {
        pid: mmap.pid,
        start: mmap.addr,
        end: mmap.addr.saturating_add(mmap.len),
        file_offset: mmap.pgoff,
        path,
        file,
        time,
    }
}
