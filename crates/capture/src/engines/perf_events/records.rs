//! Decoded records as events of the model.

use std::borrow::Cow;

use nodespy_model::{
    Event, EventIndex, FileIdentity, Mapping, Nanoseconds, RawSample, Registers, ThreadState,
    UserStack,
};
use nodespy_perf_abi::{FileId, Mmap, Sample, Sideband};

/// What a ring of samples belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct RingOf {
    pub(super) cpu: u16,
    pub(super) event: EventIndex,
    /// What a sample stands for that does not say it itself.
    pub(super) weight: u64,
}

/// A sample from a ring, with the kernel's part of its call chain and the memory that was copied for it, where a program
/// copies any.
pub(super) fn raw_sample<'a>(
    sample: &Sample<'a>,
    kernel: &'a [u64],
    memory: Option<&'a [u8]>,
    of: RingOf,
) -> RawSample<'a> {
    let registers = sample.regs_user.and_then(|registers| registers.x86_64());
    RawSample {
        labels: Default::default(),
        time: sample.time.unwrap_or(0),
        pid: sample.pid,
        tid: sample.tid,
        cpu: Some(of.cpu),
        event: of.event,
        weight: sample.period.unwrap_or(of.weight),
        state: ThreadState::Unknown,
        kernel: Cow::Borrowed(kernel),
        user: match registers {
            Some(registers) => UserStack::Copy {
                registers: Registers(registers),
                stack: Cow::Borrowed(sample.stack_user),
            },
            None => UserStack::Absent,
        },
        memory: Cow::Borrowed(memory.unwrap_or_default()),
        is_copied_at_sample: memory.is_some(),
        stands_still: false,
    }
}

/// An event about mappings, names, new and ended threads; none when the record is something else.
pub(super) fn sideband_event(record: &Sideband<'_>, time: Nanoseconds) -> Option<Event<'static>> {
    match *record {
        Sideband::Mmap(mmap) => Some(Event::Mapping(mapping(&mmap, time))),
        Sideband::Comm(comm) => Some(Event::ThreadName {
            pid: comm.pid,
            tid: comm.tid,
            name: String::from_utf8_lossy(comm.name).into_owned(),
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

fn mapping(mmap: &Mmap<'_>, time: Nanoseconds) -> Mapping {
    let mut file = FileIdentity::default();
    match mmap.file {
        FileId::Unknown => {}
        FileId::Inode { device, inode, .. } => (file.device, file.inode) = (device, inode),
        FileId::BuildId(id) => file.build_id = id.to_vec(),
    }
    Mapping {
        pid: mmap.pid,
        start: mmap.addr,
        end: mmap.addr.saturating_add(mmap.len),
        file_offset: mmap.pgoff,
        path: String::from_utf8_lossy(mmap.path).into_owned(),
        file,
        time,
    }
}

/// When an event happened.
pub(super) fn time_of(event: &Event<'_>) -> Nanoseconds {
    match event {
        Event::Sample(sample) => sample.time,
        Event::Mapping(mapping) => mapping.time,
        Event::ThreadName { time, .. } | Event::Fork { time, .. } | Event::Exit { time, .. } => {
            *time
        }
    }
}

/// Whether an event is about a new process or thread, or a process that starts a program.
pub(super) fn is_birth(event: &Event<'_>) -> bool {
    match event {
        Event::Fork { .. } => true,
        Event::ThreadName { is_exec, .. } => *is_exec,
        _ => false,
    }
}
