//! Rings that are made up.

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

    fn fork(&mut self, position: usize, pid: u64, parent: u64, time: u64) {
        let ids = pid | parent << 32;
        let body = words(&[ids, ids, time, parent | parent << 32, time]);
        self.sideband[position].write(record_type::FORK, 0, &body);
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
    let copy = |ring: &mut VecRing, tid: u64, time, memory: u64| {
        // Four bytes say how long it is, four are left over. Three reads failed, and two chunks had no room.
        let mut body = words(&[2, 7 | tid << 32, time]);
        body.extend(20_u32.to_le_bytes());
        body.extend(words(&[memory, 2 << 24 | 3]));
        body.extend([0; 4]);
        ring.write(record_type::SAMPLE, 0, &body);
    };
    copy(ring, 7, 10, 0xaa);
    copy(ring, 7, 20, 0xbb);
    let sample = |ring: &mut VecRing, tid: u64, time| {
        let body = words(&[1, 0x5000, 7 | tid << 32, time, 0]);
        ring.write(record_type::SAMPLE, 0, &body);
    };
    sample(ring, 7, 20);
    sample(ring, 7, 30);
    // The sample of a copy is lost: what was copied belongs to no other, whose own copy is lost too.
    copy(ring, 7, 40, 0xcc);
    ring.write(record_type::LOST, 0, &words(&[1, 5, 7 | 7 << 32, 45, 1]));
    sample(ring, 7, 50);
    let mut seen = Vec::new();
    rings.drain(Nanoseconds::MAX, &mut |event| {
        if let Event::Sample(sample) = event {
            assert!(sample.is_copied_at_sample);
            seen.push((sample.time, sample.memory.to_vec()));
        }
    });
    let memory = [0xbb, 0, 0, 0, 0, 0, 0, 0];
    let none = Vec::new;
    let expected = [(20, memory.to_vec()), (30, none()), (50, none())];
    assert_eq!(seen, expected);
    let copied = CopyCounts {
        samples: 3,
        bytes: 24,
        faults: 9,
        dropped: 6,
    };
    assert_eq!(rings.copied(), copied);
    assert_eq!(rings.take_losses().samples, 5);
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
fn a_new_process_or_thread_is_noticed_before_its_event_is_settled() {
    let mut rings = rings(1);
    // The second is a thread of a process that is there: it may be a worker.
    for (parent, time) in [(6, 50), (7, 60)] {
        let body = words(&[7 | parent << 32, 8 | 8 << 32, time, 7, time]);
        rings.sideband[0].write(record_type::FORK, 0, &body);
    }
    assert_eq!(rings.drained(0), [""; 0]);
    assert_eq!(rings.newest_birth(), 60);
}

/// Forks on one CPU, of which the later is read first: a child of a child of what is recorded.
#[test]
fn processes_are_judged_in_the_order_of_their_forks() {
    let [recorded, other, child, grandchild] = [7, 5_000_001, 5_000_002, 5_000_003];
    let mut rings = rings(2);
    let mut followed = Followed::new(true, None);
    followed.record(recorded as u32, false);
    followed.leave_out(other as u32);
    rings.keep_only(followed);
    rings.fork(0, grandchild, child, 20);
    rings.fork(1, child, recorded, 10);
    // The later fork of others is read first here too.
    rings.fork(0, 5_000_005, 5_000_004, 32);
    rings.fork(1, 5_000_004, other, 30);
    rings.collect_sideband();
    assert!(rings.has_pending());
    rings.sample(0, 40);
    assert_eq!(rings.drained(Nanoseconds::MAX), ["n10", "n20", "s40 0"]);
    assert_eq!(rings.newest_birth(), 20, "of what may be recorded");
    rings.fork(0, 5_000_007, 5_000_006, 52);
    rings.fork(1, 5_000_006, other, 50);
    rings.collect_sideband();
    assert!(!rings.has_pending(), "nothing that hurries");
}

#[test]
fn a_sample_has_its_registers_and_the_filled_part_of_its_stack() {
    let mut rings = rings_of(STACK_FIELDS, 1, 4096);
    let mut values = vec![0x5000, 7 | 8 << 32, 10, 0, 2];
    values.extend(100..117); // the registers that are asked for
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
