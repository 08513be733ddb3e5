//! One process as it is seen: what is mapped in it, and the stacks of its threads, some at a time.

use std::collections::VecDeque;
use std::io;

use nodespy_model::{Event, Mapping, UserStack};

use super::{SnapshotOutcome, ThreadSnapshot};
use crate::error::{CaptureError, explain_no_tracing};
use crate::polling::StackCopies;
use crate::target::proc::{self, MappedRange};
use crate::target::{no_mappings, synthesize_initial_events};

/// How often the threads of a process are read when it starts other programs meanwhile.
const ATTEMPTS: u32 = 3;
/// More threads than this are not read.
const THREAD_LIMIT: usize = 20_000;

/// A thread and its stack.
pub(super) type ThreadStack = (ThreadSnapshot, UserStack<'static>);

/// A way to see the stack of a thread.
pub(super) trait StackReader: Send {
    /// Runs what reads threads.
    fn run<T: Send>(&mut self, work: impl FnOnce(&mut Self) -> T + Send) -> T;

    /// Reads the stack of a thread, given as pid and tid; none when it has ended. An error is about the whole
    /// process.
    fn read_stack(
        &mut self,
        thread: (u32, u32),
        is_main: bool,
        ranges: &[MappedRange],
        copies: &mut StackCopies,
    ) -> Result<Option<ThreadStack>, CaptureError>;
}

/// A process that is being read.
#[derive(Debug)]
pub(super) struct ProcessSnapshot {
    pid: u32,
    /// What is mapped and what threads are called.
    events: Vec<Event<'static>>,
    /// Whether `events` are yet to be handed on.
    is_described: bool,
    /// The threads that are left, the main one first.
    tids: VecDeque<u32>,
    thread_count: usize,
}

/// Some threads of a process, and what is to be known before their stacks can be named.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) events: Vec<Event<'static>>,
    pub(super) threads: Vec<ThreadStack>,
    /// What the reader should know of how it was captured.
    pub(super) remarks: Vec<String>,
}

impl ProcessSnapshot {
    /// Takes hold of the threads that a process has.
    pub(super) fn new(pid: u32) -> Result<Self, CaptureError> {
        let tids: VecDeque<u32> = proc::threads(pid).into();
        if tids
            .iter()
            .all(|&tid| proc::live_run_state(pid, tid).is_none())
        {
            return Err(CaptureError::Gone { pid });
        }
        Ok(Self {
            pid,
            events: Vec::new(),
            is_described: false,
            thread_count: tids.len(),
            tids,
        })
    }

    /// Whether all threads were read.
    pub(super) fn is_over(&self) -> bool {
        self.tids.is_empty()
    }

    /// Reads the next threads: all of them, or as many as `copies` are enough. Once more when the
    /// process started another program or loaded a library meanwhile: stacks of the new code don't
    /// fit the mappings of the old.
    pub(super) fn next_part(
        &mut self,
        reader: &mut impl StackReader,
        copies: &mut StackCopies,
    ) -> Result<Part, CaptureError> {
        let mut attempts_left = ATTEMPTS;
        loop {
            let mut part = Part::default();
            self.describe(&mut part)?;
            copies.start();
            let rest = reader.run(|reader| self.read_some(reader, copies, &mut part.threads))?;
            attempts_left -= 1;
            if attempts_left > 0 && !self.has_its_files() {
                self.is_described = false;
                continue;
            }
            self.tids.drain(..self.tids.len() - rest);
            return Ok(part);
        }
    }

    /// Reads threads until the copies are enough; returns how many are left.
    fn read_some(
        &self,
        reader: &mut impl StackReader,
        copies: &mut StackCopies,
        threads: &mut Vec<ThreadStack>,
    ) -> Result<usize, CaptureError> {
        let ranges = proc::mapped_ranges(self.pid);
        let first = self.thread_count - self.tids.len();
        for (position, &tid) in self.tids.iter().enumerate() {
            if copies.is_enough() {
                return Ok(self.tids.len() - position);
            }
            let thread = (self.pid, tid);
            let stack = match first + position {
                ..THREAD_LIMIT => {
                    reader.read_stack(thread, first + position == 0, &ranges, copies)?
                }
                _ => over_the_limit(thread),
            };
            threads.extend(stack);
        }
        Ok(0)
    }

    /// Reads what is mapped, unless that is known.
    fn describe(&mut self, part: &mut Part) -> Result<(), CaptureError> {
        if self.is_described {
            return Ok(());
        }
        let (events, mappings) = synthesize_initial_events(self.pid);
        match mappings {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(explain_no_tracing(self.pid, error));
            }
            Err(error) => part.remarks.push(no_mappings(self.pid, &error)),
            Ok(()) => {}
        }
        part.events.clone_from(&events);
        self.events = events;
        self.is_described = true;
        Ok(())
    }

    /// Whether the process still runs code of the same files at the same addresses. One that is gone
    /// won't run any other.
    fn has_its_files(&self) -> bool {
        let Ok(now) = proc::code_mappings(self.pid) else {
            return true;
        };
        let before = self.events.iter().filter_map(|event| match event {
            Event::Mapping(mapping) => Some(mapping),
            _ => None,
        });
        let is_file = |mapping: &&Mapping| !mapping.is_anonymous();
        now.is_empty() || before.filter(is_file).eq(now.iter().filter(is_file))
    }
}

/// A thread that is one too many.
fn over_the_limit((pid, tid): (u32, u32)) -> Option<ThreadStack> {
    let state = proc::live_run_state(pid, tid)?;
    let why = format!("nodespy reads {THREAD_LIMIT} threads at most");
    let thread = ThreadSnapshot {
        pid,
        tid,
        state,
        outcome: SnapshotOutcome::Unseen { why },
    };
    Some((thread, UserStack::Absent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::proc::RunState;
    use std::process::{Command, Stdio};

    /// Says what it is told to of every thread.
    struct StandIn<F>(F);

    impl<F: FnMut(u32, &mut StackCopies) + Send> StackReader for StandIn<F> {
        fn run<T: Send>(&mut self, work: impl FnOnce(&mut Self) -> T + Send) -> T {
            work(self)
        }

        fn read_stack(
            &mut self,
            (pid, tid): (u32, u32),
            _is_main: bool,
            _ranges: &[MappedRange],
            copies: &mut StackCopies,
        ) -> Result<Option<ThreadStack>, CaptureError> {
            (self.0)(tid, copies);
            let thread = ThreadSnapshot {
                pid,
                tid,
                state: RunState::Sleeping,
                outcome: SnapshotOutcome::Waiting,
            };
            Ok(Some((thread, UserStack::Absent)))
        }
    }

    #[test]
    fn a_process_that_starts_another_program_meanwhile_is_read_again() {
        let mut shell = Command::new("sh")
            .args(["-c", "read line; exec sleep 60"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = shell.id();
        let mut reads = 0;
        let mut stdin = shell.stdin.take();
        let mut reader = StandIn(|_, _: &mut StackCopies| {
            reads += 1;
            // Dropping its input lets the shell go on.
            if stdin.take().is_some() {
                while proc::command_line(pid) != ["sleep", "60"] {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                // It maps its libraries after that.
                while proc::run_state(pid, pid) != Some(RunState::Sleeping) {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            }
        });
        let mut process = ProcessSnapshot::new(pid).unwrap();
        let part = process.next_part(&mut reader, &mut StackCopies::new());
        let program = part.unwrap().events.iter().find_map(|event| match event {
            Event::Mapping(mapping) => Some(mapping.path.clone()),
            _ => None,
        });
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!(process.is_over());
        assert!((2..=ATTEMPTS).contains(&reads), "{reads}");
        assert!(program.unwrap().ends_with("sleep") || reads == ATTEMPTS);
    }

    #[test]
    fn threads_with_large_stacks_are_handed_on_part_by_part_and_described_once() {
        let own = std::process::id();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let receiver = std::sync::Mutex::new(receiver);
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| receiver.lock().unwrap().recv());
            }
            let mut seen = Vec::new();
            let mut reader = StandIn(|tid, copies: &mut StackCopies| {
                seen.push(tid);
                copies.pretend_taken(8 << 20);
            });
            let mut process = ProcessSnapshot::new(own).unwrap();
            let count = process.thread_count;
            let mut copies = StackCopies::new();
            let (mut threads, mut described) = (0, 0);
            while !process.is_over() {
                let part = process.next_part(&mut reader, &mut copies).unwrap();
                assert!(part.threads.len() <= 4, "{}", part.threads.len());
                threads += part.threads.len();
                described += usize::from(!part.events.is_empty());
            }
            drop(sender);
            assert!(count > 20, "{count}");
            // Other tests run in this process and may load a library; stacks are then copied again.
            assert!(threads == count && described >= 1, "{threads} of {count}");
            seen.dedup();
            assert!(seen.len() >= count);
        });
    }
}
