//! Reading at the sampled instruction where no eBPF program may: a thread for each CPU that is in the way.
//!
//! A sample is taken in an interrupt, and what waits for it is woken before the sampled thread goes on. A thread that is pinned to
//! the same CPU and goes before others (SCHED_FIFO, where that is permitted) runs at once, while the sampled one does not. It
//! walks as the eBPF program does ([`crate::sys::walk`]); if the sampled thread has run on meanwhile, what was read is thrown away.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use nodespy_model::{CopyRules, Nanoseconds, Registers};
use nodespy_perf_abi::{RawRecord, RecordLayout, Sample, record_type};

use super::proc;
use crate::sys::bpf::{FieldsValue, ProgramOptions, fields_key, fields_value};
use crate::sys::clock::monotonic_now;
use crate::sys::memory::read_process_memory;
use crate::sys::pidfd::wait_for_either;
use crate::sys::priority::{pin_to, set_real_time};
use crate::sys::ring::RingView;
use crate::sys::walk::{Walk, WalkedMemory};

/// After so long the sampled thread has run on.
const MAX_AGE: Nanoseconds = 5_000_000;
/// A thread of a real-time class keeps its CPU from others: it must not hold it for longer than this, but once.
const MAX_HOLD: Nanoseconds = 1_000_000;
const MAX_LONG_HOLDS: u32 = 2;
/// How much of the stack is compared with its copy to see whether the thread has run on.
const COMPARED_BYTES: usize = 512;
/// What was read waits for its sample to be drained.
const MAX_WAITING: usize = 4096;
/// How many classes are known, as in the eBPF program.
const MAX_RULES: usize = 4096;
const PAGE: u64 = 4096;
/// How many pages are read for a sample: reading one takes as long as reading a word.
const MAX_PAGES: usize = 128;

/// Memory that was read for a sample.
#[derive(Debug)]
pub(super) struct ReadMemory {
    pub(super) time: Nanoseconds,
    pub(super) tid: u32,
    pub(super) memory: Vec<u8>,
}

/// What the reader of a CPU has to say, for the one who drains its ring.
#[derive(Debug)]
pub(super) struct ReaderOutput {
    pub(super) memory: Receiver<ReadMemory>,
    /// Up to where it has read the ring.
    pub(super) position: Arc<AtomicU64>,
}

/// How many samples were read, and how many had not run on.
#[derive(Debug, Default)]
pub(super) struct ReaderCounts {
    samples: AtomicU64,
    unchanged: AtomicU64,
}

impl ReaderCounts {
    /// Samples that were read, and those of which something is known.
    pub(super) fn counts(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.samples), load(&self.unchanged))
    }
}

/// The ring that a reader looks into.
#[derive(Debug)]
pub(super) struct ReadRing {
    pub(super) cpu: u32,
    /// The descriptor that is ready when a sample is written.
    pub(super) fd: i32,
    pub(super) view: RingView,
    pub(super) layout: RecordLayout,
}

/// A running reader. It ends with this.
#[derive(Debug)]
pub(super) struct Reader {
    rules: Sender<CopyRules>,
    thread: Option<JoinHandle<()>>,
    /// Closed to end the thread.
    stop: Option<UnixStream>,
}

impl Reader {
    pub(super) fn start(
        ring: ReadRing,
        options: ProgramOptions,
        counts: Arc<ReaderCounts>,
    ) -> io::Result<(Self, ReaderOutput)> {
        let (stop, stopped) = UnixStream::pair()?;
        let (rules, new_rules) = channel();
        let (output, memory) = sync_channel(MAX_WAITING);
        let position = Arc::new(AtomicU64::new(ring.view.position()));
        let cpu = ring.cpu;
        let mut reading = Reading {
            ring,
            options,
            position: Arc::clone(&position),
            output,
            counts,
            process: Process::new(new_rules),
            walk: Walk::new(),
            long_holds: 0,
        };
        let thread = std::thread::Builder::new()
            .name(format!("reader/{cpu}"))
            .spawn(move || reading.run(&stopped))?;
        let reader = Self {
            rules,
            thread: Some(thread),
            stop: Some(stop),
        };
        Ok((reader, ReaderOutput { memory, position }))
    }

    /// Copies more of objects from now on.
    pub(super) fn copy_also(&self, rules: &CopyRules) {
        // A thread that has ended needs none.
        let _ = self.rules.send(rules.clone());
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The work of a reader.
struct Reading {
    ring: ReadRing,
    options: ProgramOptions,
    position: Arc<AtomicU64>,
    output: SyncSender<ReadMemory>,
    counts: Arc<ReaderCounts>,
    process: Process,
    walk: Walk,
    long_holds: u32,
}

impl Reading {
    fn run(&mut self, stopped: &UnixStream) {
        let is_pinned = pin_to(self.ring.cpu);
        let is_first = is_pinned && is_real_time_bounded() && set_real_time(true);
        log::debug!(
            "reader of CPU {}: pinned {is_pinned}, SCHED_FIFO {is_first}",
            self.ring.cpu
        );
        let mut record = Vec::new();
        while let Ok([_, false]) = wait_for_either([self.ring.fd, stopped.as_raw_fd()]) {
            while self.ring.view.next(&mut record) {
                self.take_record(&record);
                self.position
                    .store(self.ring.view.position(), Ordering::Release);
            }
        }
        // Holds nothing back any more.
        self.position.store(u64::MAX, Ordering::Release);
    }

    /// Reads what a record needs, if it is a sample whose thread has not run on.
    fn take_record(&mut self, record: &[u8]) {
        let Ok(record) = RawRecord::read(record) else {
            return;
        };
        if record.kind != record_type::SAMPLE {
            return;
        }
        let Ok(sample) = self.ring.layout.sample(&record) else {
            return;
        };
        self.counts.samples.fetch_add(1, Ordering::Relaxed);
        let started = monotonic_now();
        let time = sample.time.unwrap_or(0);
        if started.saturating_sub(time) > MAX_AGE {
            return;
        }
        if let Some(memory) = self.read(&sample) {
            self.counts.unchanged.fetch_add(1, Ordering::Relaxed);
            let tid = sample.tid;
            // Where there is no room the sample has what it has without.
            let _ = self.output.try_send(ReadMemory { time, tid, memory });
        }
        self.note_hold(monotonic_now().saturating_sub(started));
    }

    /// The memory of a sample; none where its thread has run on.
    fn read(&mut self, sample: &Sample<'_>) -> Option<Vec<u8>> {
        let registers = Registers(sample.regs_user?.x86_64()?);
        let stack_pointer = registers.stack_pointer();
        self.process
            .start(sample.pid, stack_pointer, sample.stack_user);
        let options = self.options.with_stack(sample.stack_user.len());
        let slot = self.process.slots.get(&sample.tid).copied();
        let words = (self.walk).copy(&mut self.process, &registers, options, slot);
        is_unchanged(sample.pid, stack_pointer, sample.stack_user)
            .then(|| words.iter().flat_map(|word| word.to_ne_bytes()).collect())
    }

    /// Goes before others no more where that takes long.
    fn note_hold(&mut self, hold: Nanoseconds) {
        if hold > MAX_HOLD {
            self.long_holds += 1;
            if self.long_holds == MAX_LONG_HOLDS {
                set_real_time(false);
            }
        }
    }
}

/// Whether a thread of a real-time class leaves others some of each second.
fn is_real_time_bounded() -> bool {
    proc::sysctl("sched_rt_runtime_us").is_some_and(|runtime| runtime > 0)
}

/// Whether the innermost frames are still what they were.
fn is_unchanged(pid: u32, stack_pointer: u64, copy: &[u8]) -> bool {
    let copy = &copy[..copy.len().min(COMPARED_BYTES)];
    let mut now = [0; COMPARED_BYTES];
    let now = &mut now[..copy.len()];
    !copy.is_empty() && read_process_memory(pid, stack_pointer, now) == copy.len() && now == copy
}

/// The memory of the process of a sample: its stack as it was copied, the rest by pages, each once a sample.
struct Process {
    pid: u32,
    stack_start: u64,
    stack: Vec<u8>,
    /// Where the pages start that were read, or could not be.
    pages: Vec<(u64, bool)>,
    memory: Vec<u8>,
    rules: HashMap<u64, FieldsValue>,
    /// Where threads have their stores.
    slots: HashMap<u32, u64>,
    new_rules: Receiver<CopyRules>,
}

impl Process {
    fn new(new_rules: Receiver<CopyRules>) -> Self {
        Self {
            pid: 0,
            stack_start: 0,
            stack: Vec::new(),
            pages: Vec::with_capacity(MAX_PAGES),
            memory: vec![0; MAX_PAGES * PAGE as usize],
            rules: HashMap::new(),
            slots: HashMap::new(),
            new_rules,
        }
    }

    /// To be called for each sample.
    fn start(&mut self, pid: u32, stack_start: u64, stack: &[u8]) {
        self.pid = pid;
        self.stack_start = stack_start;
        self.stack.clear();
        self.stack.extend_from_slice(stack);
        self.pages.clear();
        for rules in self.new_rules.try_iter() {
            if self.rules.len() + rules.objects.len() > MAX_RULES {
                self.rules.clear();
            }
            let known = rules.objects.iter();
            self.rules
                .extend(known.map(|rule| (fields_key(rule), fields_value(rule))));
            if self.slots.len() + rules.slots.len() > MAX_RULES {
                self.slots.clear();
            }
            let slots = rules.slots.iter();
            self.slots
                .extend(slots.map(|slot| (slot.tid, slot.address)));
        }
    }

    /// Part of the copied stack.
    fn on_stack(&self, address: u64, length: usize) -> Option<&[u8]> {
        let start = usize::try_from(address.checked_sub(self.stack_start)?).ok()?;
        self.stack.get(start..start.checked_add(length)?)
    }

    /// Part of one page.
    fn in_page(&mut self, address: u64, length: usize) -> Option<&[u8]> {
        let start = address & !(PAGE - 1);
        let found = self.pages.iter().position(|(page, _)| *page == start);
        let position = match found {
            Some(position) => position,
            None => self.read_page(start)?,
        };
        if !self.pages[position].1 {
            return None;
        }
        let at = position * PAGE as usize + (address - start) as usize;
        self.memory.get(at..at.checked_add(length)?)
    }

    fn read_page(&mut self, start: u64) -> Option<usize> {
        let position = self.pages.len();
        if position == MAX_PAGES {
            return None;
        }
        let at = position * PAGE as usize;
        let page = &mut self.memory[at..at + PAGE as usize];
        let is_read = read_process_memory(self.pid, start, page) == page.len();
        self.pages.push((start, is_read));
        Some(position)
    }
}

impl WalkedMemory for Process {
    fn read(&mut self, address: u64, buffer: &mut [u8]) -> bool {
        if let Some(bytes) = self.on_stack(address, buffer.len()) {
            buffer.copy_from_slice(bytes);
            return true;
        }
        let (mut address, mut rest) = (address, buffer);
        while !rest.is_empty() {
            let in_page = (PAGE - address % PAGE) as usize;
            let (first, others) = rest.split_at_mut(in_page.min(rest.len()));
            let Some(bytes) = self.in_page(address, first.len()) else {
                return false;
            };
            first.copy_from_slice(bytes);
            let Some(next) = address.checked_add(first.len() as u64) else {
                return false;
            };
            (address, rest) = (next, others);
        }
        true
    }

    fn fields(&mut self, key: u64) -> Option<FieldsValue> {
        self.rules.get(&key).copied()
    }
}

#[cfg(test)]
mod tests {
    use nodespy_model::{CopyRule, ObjectShape, RuleOf, StoreSlot};

    use super::*;

    fn process() -> (Process, Sender<CopyRules>) {
        let (rules, new_rules) = channel();
        (Process::new(new_rules), rules)
    }

    #[test]
    fn memory_is_read_across_pages_and_the_stack_is_the_copy() {
        let (mut process, _) = process();
        let memory: Vec<u8> = (0..3 * PAGE as usize).map(|at| at as u8).collect();
        let start = memory.as_ptr() as u64;
        process.start(std::process::id(), start + 16, &[7; 64]);
        let mut buffer = [0; 40];
        assert!(process.read(start + 20, &mut buffer) && buffer == [7; 40]);
        let near_end = 2 * PAGE - start % PAGE - 8;
        assert!(process.read(start + near_end, &mut buffer));
        let at = near_end as usize;
        assert_eq!(buffer, memory[at..at + 40]);
        for address in [0, 1, u64::MAX - 7, 1 << 47] {
            assert!(!process.read(address, &mut buffer), "{address:x}");
        }
        process.start(std::process::id(), 0, &[]);
        assert!(process.read(start + 20, &mut buffer) && buffer == memory[20..60]);
    }

    #[test]
    fn no_more_pages_are_read_than_there_is_room_for() {
        let (mut process, _) = process();
        process.start(std::process::id(), 0, &[]);
        let memory = vec![1_u8; (MAX_PAGES + 8) * PAGE as usize];
        let start = memory.as_ptr() as u64;
        let read = (0..MAX_PAGES as u64 + 6)
            .filter(|page| process.read(start + page * PAGE, &mut [0; 8]))
            .count();
        assert_eq!(read, MAX_PAGES);
    }

    #[test]
    fn rules_arrive_with_the_next_sample_and_are_bounded() {
        let (mut process, rules) = process();
        let rule = |key| CopyRule {
            of: RuleOf::Request,
            key,
            fingerprint: 9,
            leads_to_request: true,
            shape: ObjectShape::Fields,
            fields: Vec::new(),
        };
        let rules_for = |objects: Vec<CopyRule>| CopyRules {
            slots: vec![StoreSlot {
                tid: 4,
                address: 16,
            }],
            objects,
            has_new_maps: false,
        };
        rules.send(rules_for(vec![rule(5)])).unwrap();
        assert_eq!(process.fields(5), None);
        process.start(1, 0, &[]);
        assert_eq!(process.fields(5), Some(fields_value(&rule(5))));
        rules
            .send(rules_for((10..10 + MAX_RULES as u64).map(rule).collect()))
            .unwrap();
        process.start(1, 0, &[]);
        assert!(process.fields(5).is_none() && process.fields(10).is_some());
        assert_eq!(process.slots.get(&4), Some(&16));
    }

    #[test]
    fn a_stack_that_differs_has_run_on() {
        let stack = [3_u8; 600];
        let (pid, at) = (std::process::id(), stack.as_ptr() as u64);
        assert!(is_unchanged(pid, at, &stack));
        assert!(!is_unchanged(pid, at, &[4; 600]));
        assert!(!is_unchanged(pid, at, &[]));
        assert!(!is_unchanged(pid, 0, &stack));
    }
}
