//! The rings of all CPUs, merged by time.
//!
//! Each CPU has a ring of samples and one of sideband records. An event comes out when everything
//! older than it has: sideband records before the samples of the same time. The time at the head of
//! each sample ring is kept, so a sample costs one look into its own ring however many CPUs there
//! are. Rings are a trait: the tests have no kernel.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;

use nodespy_model::{Event, EventIndex, Nanoseconds};
use nodespy_perf_abi::{Addresses, RawRecord, RecordLayout, Sideband, record_type};

use super::Losses;
use super::records::{RingOf, is_birth, raw_sample, sideband_event, time_of};
use crate::sys::ring_cursor::RecordRing;

/// What copied memory starts with: the thread, by the numbers of the first pid namespace.
const HEADER_BYTES: usize = 8;

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

/// Memory that a program copies for a sample: the record right before it.
#[derive(Debug, Default)]
struct Copied {
    /// How such records are laid out, and the number they carry; none where no program runs.
    from: Option<(u64, RecordLayout)>,
    tid: u32,
    /// Kept for its room.
    memory: Vec<u8>,
    /// How many records there were, and how many bytes.
    records: u64,
    bytes: u64,
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
        if let Ok(sample) = layout.sample(record)
            && let Some(memory) = sample.raw.get(HEADER_BYTES..)
        {
            self.tid = sample.tid;
            self.memory.extend_from_slice(memory);
            self.records += 1;
            self.bytes += memory.len() as u64;
        }
        true
    }

    /// What was copied for a sample of this thread.
    fn of(&self, tid: u32) -> &[u8] {
        match self.tid == tid {
            true => &self.memory,
            false => &[],
        }
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
        }
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

    pub(super) fn add_sideband(&mut self, ring: R) {
        self.sideband.push(ring);
    }

    /// Queues events that came from somewhere else than the rings.
    pub(super) fn queue(&mut self, events: impl IntoIterator<Item = Event<'static>>) {
        self.pending.extend(events);
        self.pending.make_contiguous().sort_by_key(time_of);
    }

    /// Whether sideband events wait for samples that may still be on their way.
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// What was lost since the last call.
    pub(super) fn take_losses(&mut self) -> Losses {
        std::mem::take(&mut self.losses)
    }

    /// When the newest process or thread was made or a process started its program; 0 when none was.
    pub(super) fn newest_birth(&self) -> Nanoseconds {
        self.newest_birth
    }

    /// How many samples had memory copied for them, and how many bytes that was.
    pub(super) fn copied(&self) -> (u64, u64) {
        let each = self.samples.iter().map(|ring| &ring.copied);
        each.fold((0, 0), |(records, bytes), copied| {
            (records + copied.records, bytes + copied.bytes)
        })
    }

    /// The rings of samples.
    pub(super) fn sample_rings(&self) -> impl Iterator<Item = &R> {
        self.samples.iter().map(|samples| &samples.ring)
    }

    /// Hands on all samples, and what happened before them. Sideband events later than `settled`
    /// wait for the next round: a sample that was taken before them may still be on its way.
    pub(super) fn drain(&mut self, settled: Nanoseconds, take: &mut dyn FnMut(Event<'_>)) {
        // The heads of the sample rings are fixed before the sideband rings are read, so everything
        // these samples depend on has been read when they are handed on.
        for samples in &mut self.samples {
            samples.ring.load_head();
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
                    Ok(Sideband::Lost { count }) => add(&mut self.losses.samples, count),
                    Ok(other) => count_loss(&other, &mut self.losses),
                    Err(error) => lose(&mut self.losses.records, "sample", error),
                },
                Err(error) => lose(&mut self.losses.samples, "sample", error),
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
                    let memory = copied.of(sample.tid);
                    let raw = raw_sample(&sample, &self.addresses.kernel, memory, *of);
                    take(Event::Sample(raw));
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
            take(self.pending.pop_front().expect("just seen"));
        }
    }

    fn collect_sideband(&mut self) {
        let before = self.pending.len();
        for position in 0..self.sideband.len() {
            self.sideband[position].load_head();
            while self.take_sideband(position) {
                self.sideband[position].consume();
            }
        }
        if self.pending.len() != before {
            self.pending.make_contiguous().sort_by_key(time_of);
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
            Ok(decoded) => {
                // A record without a time is as old as can be.
                let time = self.sideband_layout.trailer_time(record.body).unwrap_or(0);
                match sideband_event(&decoded, time) {
                    Some(event) => {
                        if is_birth(&event) {
                            self.newest_birth = self.newest_birth.max(time);
                        }
                        self.pending.push_back(event);
                    }
                    None => count_loss(&decoded, &mut self.losses),
                }
            }
            Err(error) => lose(&mut self.losses.records, "sideband", error),
        }
        true
    }
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
mod tests {
    use nodespy_perf_abi::{EventAttributes, context, misc, sample_type, x86_64};

    use super::*;
    use crate::sys::ring_cursor::stand_in::VecRing;

    const SIDEBAND_FIELDS: u64 = sample_type::TID | sample_type::TIME;
    const SAMPLE_FIELDS: u64 = sample_type::IP | SIDEBAND_FIELDS | sample_type::CALLCHAIN;
    const STACK_FIELDS: u64 = SAMPLE_FIELDS | sample_type::REGS_USER | sample_type::STACK_USER;

    fn layout(sample_type: u64, has_sample_id_all: bool) -> RecordLayout {
        RecordLayout::new(&EventAttributes {
            sample_type,
            has_sample_id_all,
            sample_regs_user: x86_64::REGISTER_MASK,
            ..EventAttributes::default()
        })
    }

    /// Rings of samples and sideband records of so many CPUs.
    fn rings_of(sample_fields: u64, cpus: u16, bytes: usize) -> RingSet<VecRing> {
        let mut rings = RingSet::new(layout(SIDEBAND_FIELDS, true));
        for cpu in 0..cpus {
            let of = RingOf {
                cpu,
                event: EventIndex::default(),
                weight: 1,
            };
            rings.add_samples(of, layout(sample_fields, false), VecRing::new(bytes));
            rings.add_sideband(VecRing::new(bytes));
        }
        rings
    }

    fn rings(cpus: u16) -> RingSet<VecRing> {
        rings_of(SAMPLE_FIELDS, cpus, 4096)
    }

    fn words(values: &[u64]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect()
    }

    impl RingSet<VecRing> {
        fn sample(&mut self, position: usize, time: u64) {
            let body = words(&[0x5000, 7 | 7 << 32, time, 2, context::KERNEL, time]);
            let ring = &mut self.samples[position].ring;
            ring.write(record_type::SAMPLE, misc::KERNEL, &body);
        }

        fn name(&mut self, position: usize, time: u64) {
            let name = u64::from_le_bytes(*b"node\0\0\0\0");
            let body = words(&[7 | 7 << 32, name, 7 | 7 << 32, time]);
            self.sideband[position].write(record_type::COMM, 0, &body);
        }

        fn lost(&mut self, position: usize, count: u64) {
            let ring = &mut self.samples[position].ring;
            ring.write(record_type::LOST, 0, &words(&[1, count]));
        }

        /// Drains up to a time: `s` or `n` with the time, and the CPU of a sample.
        fn drained(&mut self, settled: Nanoseconds) -> Vec<String> {
            let mut seen = Vec::new();
            self.drain(settled, &mut |event| match event {
                Event::Sample(sample) => {
                    assert_eq!(*sample.kernel, [sample.time], "the chain of this sample");
                    seen.push(format!("s{} {}", sample.time, sample.cpu.unwrap()));
                }
                event => seen.push(format!("n{}", time_of(&event))),
            });
            seen
        }
    }

    #[test]
    fn samples_of_all_rings_come_in_order_of_time() {
        let mut rings = rings(3);
        for (position, times) in [(0, [10, 40, 70]), (1, [20, 30, 90]), (2, [5, 60, 80])] {
            for time in times {
                rings.sample(position, time);
            }
        }
        let expected = [
            "s5 2", "s10 0", "s20 1", "s30 1", "s40 0", "s60 2", "s70 0", "s80 2", "s90 1",
        ];
        assert_eq!(rings.drained(Nanoseconds::MAX), expected);
        assert_eq!(rings.drained(Nanoseconds::MAX), [""; 0], "each once");
    }

    /// Samples and copies with the number of their event before everything else.
    #[test]
    fn what_was_copied_belongs_to_the_next_sample_of_its_thread() {
        let with_id = |fields| layout(sample_type::IDENTIFIER | fields, false);
        let mut rings = RingSet::new(layout(SIDEBAND_FIELDS, true));
        let of = RingOf {
            cpu: 0,
            event: EventIndex::default(),
            weight: 1,
        };
        rings.add_samples(of, with_id(SAMPLE_FIELDS), VecRing::new(4096));
        let copies = with_id(SIDEBAND_FIELDS | sample_type::RAW);
        rings.expect_copies(0, EventIndex::default(), (2, copies));
        let ring = &mut rings.samples[0].ring;
        let mut copy = |tid: u64, time, memory: u64| {
            // Four bytes say how long it is, four are left over.
            let mut body = words(&[2, 7 | tid << 32, time]);
            body.extend(20_u32.to_le_bytes());
            body.extend(words(&[tid, memory]));
            body.extend([0; 4]);
            ring.write(record_type::SAMPLE, 0, &body);
        };
        copy(7, 10, 0xaa);
        copy(7, 20, 0xbb);
        let sample = |ring: &mut VecRing, tid: u64, time| {
            let body = words(&[1, 0x5000, 7 | tid << 32, time, 0]);
            ring.write(record_type::SAMPLE, 0, &body);
        };
        let ring = &mut rings.samples[0].ring;
        sample(ring, 7, 20);
        sample(ring, 7, 30);
        let mut seen = Vec::new();
        rings.drain(Nanoseconds::MAX, &mut |event| {
            if let Event::Sample(sample) = event {
                seen.push((sample.time, sample.memory.first().copied()));
            }
        });
        assert_eq!(seen, [(20, Some(0xbb)), (30, None)]);
        assert_eq!(rings.take_losses(), Losses::default());
    }

    #[test]
    fn samples_of_one_time_come_in_order_of_cpus() {
        let mut rings = rings(3);
        for position in [2, 0, 1] {
            rings.sample(position, 10);
        }
        assert_eq!(rings.drained(0), ["s10 0", "s10 1", "s10 2"]);
    }

    #[test]
    fn sideband_events_come_before_samples_of_the_same_time() {
        let mut rings = rings(2);
        rings.sample(0, 10);
        rings.sample(0, 20);
        rings.name(1, 20);
        rings.name(0, 10);
        rings.name(0, 15);
        let expected = ["n10", "s10 0", "n15", "n20", "s20 0"];
        assert_eq!(rings.drained(0), expected);
    }

    #[test]
    fn sideband_events_wait_until_they_are_settled() {
        let mut rings = rings(1);
        rings.sample(0, 10);
        rings.name(0, 5);
        rings.name(0, 30);
        assert_eq!(rings.drained(20), ["n5", "s10 0"]);
        assert!(rings.has_pending());
        // A sample from before it, on its way until now.
        rings.sample(0, 25);
        assert_eq!(rings.drained(40), ["s25 0", "n30"]);
        assert!(!rings.has_pending());
    }

    #[test]
    fn queued_events_are_sorted_in() {
        let mut rings = rings(1);
        rings.name(0, 30);
        assert_eq!(rings.drained(0), [""; 0]);
        let exit = |time| Event::Exit {
            pid: 7,
            tid: 7,
            time,
        };
        rings.queue([exit(40), exit(0)]);
        assert_eq!(rings.drained(Nanoseconds::MAX), ["n0", "n30", "n40"]);
    }

    #[test]
    fn empty_rings_give_nothing_and_stop_no_others() {
        let mut rings = rings(4);
        assert_eq!(rings.drained(Nanoseconds::MAX), [""; 0]);
        rings.sample(2, 10);
        assert_eq!(rings.drained(0), ["s10 2"]);
        assert_eq!(rings.take_losses(), Losses::default());
    }

    #[test]
    fn wrapped_records_are_merged_like_others() {
        // A record has 56 bytes: in a ring of 80 nearly every one wraps.
        let mut rings = rings_of(SAMPLE_FIELDS, 2, 80);
        for round in 0..50 {
            rings.sample(0, 10 * round + 2);
            rings.sample(1, 10 * round + 1);
            let (first, second) = (10 * round + 1, 10 * round + 2);
            let expected = [format!("s{first} 1"), format!("s{second} 0")];
            assert_eq!(rings.drained(0), expected);
        }
        assert_eq!(rings.take_losses(), Losses::default());
    }

    #[test]
    fn what_the_kernel_dropped_is_counted() {
        let mut rings = rings(2);
        rings.lost(0, 3);
        rings.sample(0, 10);
        rings.lost(0, 4);
        let ring = &mut rings.samples[1].ring;
        ring.write(record_type::LOST_SAMPLES, 0, &words(&[5]));
        ring.write(record_type::THROTTLE, 0, &words(&[1, 2, 3]));
        let lost = words(&[1, 6, 7 | 7 << 32, 99]);
        rings.sideband[0].write(record_type::LOST, 0, &lost);
        assert_eq!(rings.drained(0), ["s10 0"]);
        let expected = Losses {
            samples: 12,
            records: 6,
            throttled: 1,
        };
        assert_eq!(rings.take_losses(), expected);
    }

    #[test]
    fn a_lapped_ring_is_a_loss_and_goes_on() {
        let mut rings = rings_of(SAMPLE_FIELDS, 2, 128);
        for time in [10, 20, 30] {
            rings.sample(0, time);
        }
        rings.sample(1, 15);
        assert_eq!(rings.drained(0), ["s15 1"]);
        assert_eq!(rings.take_losses().samples, 1);
        rings.sample(0, 40);
        assert_eq!(rings.drained(0), ["s40 0"]);
    }

    #[test]
    fn a_corrupt_record_in_one_ring_does_not_stop_the_others() {
        let mut rings = rings(2);
        rings.sample(0, 10);
        // A chain longer than its record: this sample is lost, the next is not.
        let lying = words(&[0x5000, 7, 20, 99]);
        let ring = &mut rings.samples[0].ring;
        ring.write(record_type::SAMPLE, misc::USER, &lying);
        ring.write(record_type::SAMPLE, misc::USER, &[0; 4]);
        rings.sample(0, 30);
        // A size that lies: what follows in this ring is lost.
        let ring = &mut rings.samples[0].ring;
        ring.write_bytes(&words(&[u64::from(record_type::SAMPLE)]));
        rings.sample(0, 35);
        rings.sideband[0].write(record_type::FORK, 0, &[0; 20]);
        rings.sideband[0].write_bytes(&[0; 8]);
        for time in [15, 25, 40] {
            rings.sample(1, time);
            rings.name(1, time);
        }
        let expected = [
            "s10 0", "n15", "s15 1", "n25", "s25 1", "s30 0", "n40", "s40 1",
        ];
        assert_eq!(rings.drained(0), expected);
        let losses = rings.take_losses();
        assert_eq!((losses.samples, losses.records), (3, 2));
    }

    #[test]
    fn a_new_process_is_noticed_before_its_event_is_settled() {
        let mut rings = rings(1);
        // The second is a thread of a process that is there.
        for (parent, time) in [(6, 50), (7, 60)] {
            let body = words(&[7 | parent << 32, 8 | 8 << 32, time, 7, time]);
            rings.sideband[0].write(record_type::FORK, 0, &body);
        }
        assert_eq!(rings.drained(0), [""; 0]);
        assert_eq!(rings.newest_birth(), 50);
    }

    #[test]
    fn a_sample_has_its_registers_and_the_filled_part_of_its_stack() {
        let mut rings = rings_of(STACK_FIELDS, 1, 4096);
        let mut values = vec![0x5000, 7 | 8 << 32, 10, 0, 2];
        values.extend(100..117); // ax bx cx dx si di bp sp ip r8 to r15
        values.extend([16, 0xaa, 0xbb, 8]);
        let ring = &mut rings.samples[0].ring;
        ring.write(record_type::SAMPLE, misc::USER, &words(&values));
        let mut count = 0;
        rings.drain(0, &mut |event| {
            let Event::Sample(sample) = event else {
                panic!("{event:?}");
            };
            assert_eq!((sample.pid, sample.tid), (7, 8));
            assert!(sample.kernel.is_empty());
            let nodespy_model::UserStack::Copy { registers, stack } = sample.user else {
                panic!("{:?}", sample.user);
            };
            assert_eq!(registers.stack_pointer(), 107);
            assert_eq!(registers.instruction_pointer(), 108);
            assert_eq!(*stack, 0xaau64.to_le_bytes());
            count += 1;
        });
        assert_eq!(count, 1);
    }
}
