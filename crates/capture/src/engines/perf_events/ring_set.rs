//! The rings of all CPUs, merged by time.
//!
//! Each CPU has a ring of samples and one of sideband records. An event comes out when everything
//! older than it has: sideband records before the samples of the same time. The time at the head of
//! each sample ring is kept, so a sample costs one look into its own ring however many CPUs there
//! are. Rings are a trait: the tests have no kernel.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use nodespy_model::{Event, EventIndex, FastMap, FastSet, Nanoseconds};
use nodespy_perf_abi::{
    Addresses, RawRecord, RecordLayout, Sideband, TracepointFormat, record_type,
};

use super::Losses;
use super::arguments::Arguments;
use super::followed::Followed;
use super::reader::{ReadMemory, ReaderOutput};
use super::records::{RingOf, is_birth, raw_sample, sideband_event, time_of};
use crate::new_processes::pid_of;
use crate::sys::ring_cursor::RecordRing;

/// Where the last word of what was copied counts chunks without room, above reads that failed (`bpf/walk.h`).
const DROPPED_SHIFT: u32 = 24;
const MAX_COUNT: u64 = 0xff_ffff;

/// The rings of a session.
#[derive(Debug)]
pub(super) struct RingSet<R> {
    samples: Vec<SampleRing<R>>,
    sideband: Vec<R>,
    sideband_layout: RecordLayout,
    /// The time of the next sample of each ring that has one, with the ring's position.
    next_samples: BinaryHeap<Reverse<(Nanoseconds, usize)>>,
    /// Sideband events that are not handed on yet, in order of time.
    pending: VecDeque<Event<'static>>,
    /// The call chain of a sample; kept for its room.
    addresses: Addresses,
    losses: Losses,
    newest_birth: Nanoseconds,
    /// Processes that others have forked, by the pending events.
    elsewhere: FastSet<u32>,
    /// Whose events are handed on, where there are others too.
    followed: Option<Followed>,
    /// What samples of some events stand for, by the number they carry: of those that are not taken as often as the others
    /// of their ring.
    weights: FastMap<u64, u64>,
    /// Threads whose samples of some event stand for several; those of others stand for themselves.
    thinned: Option<(EventIndex, FastSet<u32>)>,
    /// The arguments of events that are tracepoints.
    arguments: FastMap<EventIndex, Arguments>,
}

/// A ring of samples of one event on one CPU.
#[derive(Debug)]
struct SampleRing<R> {
    of: RingOf,
    layout: RecordLayout,
    ring: R,
    /// What was copied for the next sample.
    copied: Copied,
}

/// Memory that was copied for a sample: by a program, which makes it the record right before, or by a reader.
#[derive(Debug, Default)]
struct Copied {
    /// How such records are laid out, and the number they carry; none where no program runs.
    from: Option<(u64, RecordLayout)>,
    /// Where a reader copies samples, and what it has copied for one that is yet to come.
    reader: Option<ReaderOutput>,
    next: Option<ReadMemory>,
    tid: u32,
    /// Kept for its room.
    memory: Vec<u8>,
    counts: CopyCounts,
}

/// How much was copied at samples, and how much was not.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopyCounts {
    /// Samples that memory was copied for.
    pub(super) samples: u64,
    pub(super) bytes: u64,
    /// Reads that failed: memory that is not there, or not in memory.
    pub(super) faults: u64,
    /// Chunks that a record had no room for.
    pub(super) dropped: u64,
}

impl CopyCounts {
    /// Counts a record and takes off its last word, which says what is not in it.
    fn count(&mut self, memory: &mut Vec<u8>) {
        // Perf pads it.
        memory.truncate(memory.len() / 8 * 8);
        let Some((copied, counts)) = memory.split_last_chunk::<8>() else {
            return;
        };
        let counts = u64::from_le_bytes(*counts);
        let length = copied.len();
        memory.truncate(length);
        self.samples += 1;
        self.bytes += length as u64;
        self.faults += counts & MAX_COUNT;
        self.dropped += counts >> DROPPED_SHIFT & MAX_COUNT;
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            samples: self.samples + other.samples,
            bytes: self.bytes + other.bytes,
            faults: self.faults + other.faults,
            dropped: self.dropped + other.dropped,
        }
    }
}

impl Copied {
    /// Whether this is such a record, which is then kept.
    fn take(&mut self, record: &RawRecord<'_>) -> bool {
        let Some((id, layout)) = &self.from else {
            return false;
        };
        if layout.sample_id(record.body) != Some(*id) {
            return false;
        }
        self.memory.clear();
        if let Ok(sample) = layout.sample(record) {
            self.tid = sample.tid;
            self.memory.extend_from_slice(sample.raw);
            self.counts.count(&mut self.memory);
        }
        true
    }

    /// Takes what a reader has said of a sample.
    fn take_read(&mut self, tid: u32, time: Nanoseconds) {
        let Some(reader) = &self.reader else {
            return;
        };
        while self.next.as_ref().is_none_or(|next| next.time < time) {
            match reader.memory.try_recv() {
                Ok(next) => self.next = Some(next),
                Err(_) => return,
            }
        }
        let is_of_it = |next: &mut ReadMemory| (next.tid, next.time) == (tid, time);
        if let Some(next) = self.next.take_if(is_of_it) {
            self.tid = tid;
            self.memory = next.memory;
            self.counts.count(&mut self.memory);
        }
    }

    /// What was copied for a sample of this thread; none where nothing copies. A program may also have copied nothing, or its
    /// record was lost.
    fn of(&self, tid: u32) -> Option<&[u8]> {
        let memory: &[u8] = match self.tid == tid {
            true => &self.memory,
            false => &[],
        };
        (self.from.is_some() || !memory.is_empty()).then_some(memory)
    }
}

impl<R: RecordRing> RingSet<R> {
    pub(super) fn new(sideband_layout: RecordLayout) -> Self {
        Self {
            samples: Vec::new(),
            sideband: Vec::new(),
            sideband_layout,
            next_samples: BinaryHeap::new(),
            pending: VecDeque::new(),
            addresses: Addresses::default(),
            losses: Losses::default(),
            newest_birth: 0,
            elsewhere: FastSet::default(),
            followed: None,
            weights: FastMap::default(),
            thinned: None,
            arguments: FastMap::default(),
        }
    }

    /// Samples of this event have arguments.
    pub(super) fn label(&mut self, event: EventIndex, format: Arc<TracepointFormat>) {
        let arguments = self.arguments.entry(event);
        arguments.or_insert_with(|| Arguments::new(format));
    }

    /// Samples with this number stand for so much.
    pub(super) fn weigh(&mut self, id: u64, weight: u64) {
        self.weights.insert(id, weight);
    }

    /// Only samples of these threads stand for more than themselves: the program that drops the others is not inherited.
    pub(super) fn thin_out(&mut self, event: EventIndex, threads: impl Iterator<Item = u32>) {
        let (_, known) = self
            .thinned
            .get_or_insert_with(|| (event, FastSet::default()));
        known.extend(threads);
    }

    /// Hands on events of these processes alone.
    pub(super) fn keep_only(&mut self, followed: Followed) {
        self.followed = Some(followed);
    }

    /// Whether there are events of other processes too, which are not handed on.
    pub(super) fn has_others(&self) -> bool {
        self.followed.is_some()
    }

    /// The processes whose events are handed on, where there are others too.
    pub(super) fn followed(&mut self) -> Option<&mut Followed> {
        self.followed.as_mut()
    }

    pub(super) fn add_samples(&mut self, of: RingOf, layout: RecordLayout, ring: R) {
        self.samples.push(SampleRing {
            of,
            layout,
            ring,
            copied: Copied::default(),
        });
    }

    /// Before each sample of the ring of an event on a CPU there may be a record with this number: memory that was copied
    /// for it.
    pub(super) fn expect_copies(&mut self, cpu: u16, event: EventIndex, from: (u64, RecordLayout)) {
        let mut rings = self.samples.iter_mut();
        if let Some(ring) = rings.find(|ring| (ring.of.cpu, ring.of.event) == (cpu, event)) {
            ring.copied.from = Some(from);
        }
    }

    /// A reader reads the samples of the ring of an event on a CPU.
    pub(super) fn expect_reader(&mut self, cpu: u32, event: EventIndex, reader: ReaderOutput) {
        let mut rings = self.samples.iter_mut();
        if let Some(ring) =
            rings.find(|ring| (u32::from(ring.of.cpu), ring.of.event) == (cpu, event))
        {
            ring.copied.reader = Some(reader);
        }
    }

    pub(super) fn add_sideband(&mut self, ring: R) {
        self.sideband.push(ring);
    }

    /// Queues events that came from somewhere else than the rings.
    pub(super) fn queue(&mut self, events: impl IntoIterator<Item = Event<'static>>) {
        self.pending.extend(events);
        self.pending.make_contiguous().sort_by_key(time_of);
    }

    /// Whether sideband events wait for samples that may still be on their way, and are not known to be about other
    /// processes.
    pub(super) fn has_pending(&self) -> bool {
        self.pending.iter().any(|event| !self.is_elsewhere(event))
    }

    /// How many sideband events wait.
    pub(super) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// A process was made that no record tells of.
    pub(super) fn note_birth(&mut self, time: Nanoseconds) {
        self.newest_birth = self.newest_birth.max(time);
    }

    /// Whether an event is about a process that is not recorded, as far as is known yet.
    fn is_elsewhere(&self, event: &Event<'_>) -> bool {
        let Some(followed) = &self.followed else {
            return false;
        };
        let maker = match event {
            Event::Fork { parent_pid, .. } => *parent_pid,
            event => pid_of(event),
        };
        followed.is_other(maker) || self.elsewhere.contains(&maker)
    }

    /// Notes births among what is pending. In the order of time: who made a process is told before what it does.
    fn note_births(&mut self) {
        self.elsewhere.clear();
        for position in 0..self.pending.len() {
            let event = &self.pending[position];
            let (pid, time) = (pid_of(event), time_of(event));
            match is_birth(event).then(|| self.is_elsewhere(event)) {
                Some(true) => _ = self.elsewhere.insert(pid),
                Some(false) => self.newest_birth = self.newest_birth.max(time),
                None => {}
            }
        }
    }

    /// What was lost since the last call.
    pub(super) fn take_losses(&mut self) -> Losses {
        std::mem::take(&mut self.losses)
    }

    /// When the newest process or thread was made or a process started its program; 0 when none was.
    pub(super) fn newest_birth(&self) -> Nanoseconds {
        self.newest_birth
    }

    /// How much was copied at samples.
    pub(super) fn copied(&self) -> CopyCounts {
        let each = self.samples.iter().map(|ring| &ring.copied.counts);
        each.fold(CopyCounts::default(), CopyCounts::plus)
    }

    /// The rings of samples.
    pub(super) fn sample_rings(&self) -> impl Iterator<Item = &R> {
        self.samples.iter().map(|samples| &samples.ring)
    }

    /// The rings of an event, by CPU.
    pub(super) fn rings_of(&self, event: EventIndex) -> impl Iterator<Item = (u32, &R)> {
        let of_event = self.samples.iter().filter(move |it| it.of.event == event);
        of_event.map(|samples| (u32::from(samples.of.cpu), &samples.ring))
    }

    /// Hands on all samples, and what happened before them. Sideband events later than `settled`
    /// wait for the next round: a sample that was taken before them may still be on its way.
    pub(super) fn drain(&mut self, settled: Nanoseconds, take: &mut dyn FnMut(Event<'_>)) {
        // The heads of the sample rings are fixed before the sideband rings are read, so everything
        // these samples depend on has been read when they are handed on.
        for samples in &mut self.samples {
            samples.ring.load_head();
            if let Some(reader) = &samples.copied.reader {
                let position = reader.position.load(Ordering::Acquire);
                samples.ring.limit_head(position);
            }
        }
        self.collect_sideband();
        for position in 0..self.samples.len() {
            self.find_next_sample(position);
        }
        while let Some(Reverse((time, position))) = self.next_samples.pop() {
            self.hand_on_pending(time, take);
            self.hand_on_sample(position, take);
            self.find_next_sample(position);
        }
        self.hand_on_pending(settled, take);
    }

    /// Notes when the next sample of a ring was taken. Losses are counted on the way.
    fn find_next_sample(&mut self, position: usize) {
        let SampleRing {
            layout,
            ring,
            copied,
            ..
        } = &mut self.samples[position];
        loop {
            match ring.peek() {
                Ok(None) => return,
                Ok(Some(record)) if record.kind == record_type::SAMPLE && copied.take(&record) => {}
                Ok(Some(record)) if record.kind == record_type::SAMPLE => {
                    match layout.sample_time(record.body) {
                        Some(time) => {
                            self.next_samples.push(Reverse((time, position)));
                            return;
                        }
                        None => lose(&mut self.losses.samples, "sample", "no time"),
                    }
                }
                Ok(Some(record)) => match layout.sideband(&record) {
                    Ok(Sideband::Lost { count }) => {
                        // What was copied may have been for a sample that is among them.
                        copied.memory.clear();
                        add(&mut self.losses.samples, count);
                    }
                    Ok(other) => count_loss(&other, &mut self.losses),
                    Err(error) => lose(&mut self.losses.records, "sample", error),
                },
                Err(error) => {
                    copied.memory.clear();
                    lose(&mut self.losses.samples, "sample", error);
                }
            }
            ring.consume();
        }
    }

    fn hand_on_sample(&mut self, position: usize, take: &mut dyn FnMut(Event<'_>)) {
        let SampleRing {
            of,
            layout,
            ring,
            copied,
        } = &mut self.samples[position];
        if let Ok(Some(record)) = ring.peek() {
            match layout.sample(&record) {
                Ok(sample) => {
                    self.addresses.split(sample.callchain, sample.mode);
                    copied.take_read(sample.tid, sample.time.unwrap_or(0));
                    let memory = copied.of(sample.tid);
                    let mut of = *of;
                    let weight = sample.id.and_then(|id| self.weights.get(&id));
                    of.weight = weight.copied().unwrap_or(of.weight);
                    if let Some((event, threads)) = &self.thinned
                        && *event == of.event
                        && !threads.contains(&sample.tid)
                    {
                        of.weight = 1;
                    }
                    let mut raw = raw_sample(&sample, &self.addresses.kernel, memory, of);
                    if let Some(arguments) = self.arguments.get_mut(&of.event) {
                        raw.labels = arguments.labels(&sample);
                    }
                    pass(&mut self.followed, Event::Sample(raw), take);
                }
                Err(error) => lose(&mut self.losses.samples, "sample", error),
            }
        }
        copied.memory.clear();
        ring.consume();
    }

    fn hand_on_pending(&mut self, until: Nanoseconds, take: &mut dyn FnMut(Event<'_>)) {
        let is_due = |event: &Event<'_>| time_of(event) <= until;
        while self.pending.front().is_some_and(is_due) {
            let event = self.pending.pop_front().expect("just seen");
            pass(&mut self.followed, event, take);
        }
    }

    pub(super) fn collect_sideband(&mut self) {
        let before = self.pending.len();
        for position in 0..self.sideband.len() {
            self.sideband[position].load_head();
            while self.take_sideband(position) {
                self.sideband[position].consume();
            }
        }
        if self.pending.len() != before {
            self.pending.make_contiguous().sort_by_key(time_of);
            self.note_births();
        }
    }

    /// Queues or counts the next record of a sideband ring; false when there is none.
    fn take_sideband(&mut self, position: usize) -> bool {
        let record = match self.sideband[position].peek() {
            Ok(Some(record)) => record,
            Ok(None) => return false,
            Err(error) => {
                lose(&mut self.losses.records, "sideband", error);
                return true;
            }
        };
        match self.sideband_layout.sideband(&record) {
            Ok(Sideband::Lost { count }) => add(&mut self.losses.records, count),
            Ok(decoded) if is_of_others(&self.followed, &decoded) => {}
            Ok(decoded) => {
                // A record without a time is as old as can be.
                let time = self.sideband_layout.trailer_time(record.body).unwrap_or(0);
                match sideband_event(&decoded, time) {
                    Some(event) => self.pending.push_back(event),
                    None => count_loss(&decoded, &mut self.losses),
                }
            }
            Err(error) => lose(&mut self.losses.records, "sideband", error),
        }
        true
    }
}

/// Hands an event on, if it is about a process that is recorded.
fn pass(followed: &mut Option<Followed>, event: Event<'_>, take: &mut dyn FnMut(Event<'_>)) {
    match followed {
        Some(followed) => followed.pass(event, take),
        None => take(event),
    }
}

fn is_of_others(followed: &Option<Followed>, record: &Sideband<'_>) -> bool {
    let followed = followed.as_ref();
    followed.is_some_and(|followed| followed.is_of_others(record))
}

/// Counts what a record says was lost or throttled.
fn count_loss(record: &Sideband<'_>, losses: &mut Losses) {
    match *record {
        Sideband::LostSamples { count } => add(&mut losses.samples, count),
        Sideband::Throttle { .. } => add(&mut losses.throttled, 1),
        _ => {}
    }
}

/// Counts a record that can't be read as lost.
fn lose(count: &mut u64, ring: &str, why: impl fmt::Display) {
    log::debug!("a record of a {ring} ring is left out: {why}");
    add(count, 1);
}

fn add(count: &mut u64, more: u64) {
    *count = count.saturating_add(more);
}

#[cfg(test)]
mod tests;
