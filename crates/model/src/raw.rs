//! Events as they were observed: samples, mappings, threads. No names yet.

use std::borrow::Cow;
use std::fmt;

use crate::about::About;
use crate::event::{EventIndex, EventType};
use crate::labels::Labels;
use crate::notes::Notes;
use crate::profile::{FunctionIndex, Nanoseconds, Profile};
use crate::x86_64::Registers;

/// An address in the memory of a process.
pub type RuntimeAddress = u64;

/// What was captured or imported, before it is resolved.
#[derive(Debug, Default)]
pub struct Recording {
    /// What was recorded, how and when.
    pub about: About,
    /// What made the samples, the event that views show first; empty where the contents are named,
    /// because a profile has its own.
    pub events: Vec<EventType>,
    /// What is known to be missing.
    pub notes: Notes,
    /// The events, or frames that came with names.
    pub contents: Contents,
}

/// The two shapes a recording can have.
#[derive(Debug)]
pub enum Contents {
    /// Raw addresses.
    Events(Box<dyn EventSource>),
    /// Frames already named by the tool that wrote the file.
    Named(Box<Profile>),
    /// Frames already named but for native code, of which only the address is known.
    PartlyNamed(Box<Profile>, Unnamed),
}

/// Native code of which a file has only the addresses.
#[derive(Debug, Clone, Default)]
pub struct Unnamed {
    /// The files that were mapped as code.
    pub libraries: Vec<MappedLibrary>,
    /// Functions that are to get the name of the symbol at their address.
    pub functions: Vec<UnnamedFunction>,
}

/// A file that was mapped as code, where nothing but its segments shows which file it was.
#[derive(Debug, Clone)]
pub struct MappedLibrary {
    /// From where the start of the file would be, or its only code segment is, to the end of the
    /// last segment.
    pub mapping: Mapping,
    /// Where each code segment ends.
    pub segment_ends: Vec<RuntimeAddress>,
}

/// A function that stands for one address.
#[derive(Debug, Clone, Copy)]
pub struct UnnamedFunction {
    /// The function in the profile.
    pub function: FunctionIndex,
    /// The library it is in.
    pub library: usize,
    /// Its address.
    pub address: RuntimeAddress,
}

impl Default for Contents {
    fn default() -> Self {
        Self::Events(Box::new(Vec::new()))
    }
}

/// Events that are handed over one by one, because all of them at once may not fit in memory.
pub trait EventSource: fmt::Debug {
    /// Hands over every event in order of time, and returns what is missing or odd.
    fn replay(self: Box<Self>, take: &mut dyn FnMut(Event<'_>)) -> Notes;
}

impl EventSource for Vec<Event<'static>> {
    fn replay(self: Box<Self>, take: &mut dyn FnMut(Event<'_>)) -> Notes {
        self.into_iter().for_each(take);
        Notes::default()
    }
}

/// What the kernel reported, in order of time.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// A thread was seen running here.
    Sample(RawSample<'a>),
    /// A file or anonymous memory was mapped as code.
    Mapping(Mapping),
    /// A thread got a name. `is_exec` when the process started another program.
    ThreadName {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// The new name.
        name: String,
        /// Whether this was an `exec`, which empties the address space.
        is_exec: bool,
        /// When.
        time: Nanoseconds,
    },
    /// A thread or process was born.
    Fork {
        /// The new process, or the process of the new thread.
        pid: u32,
        /// The new thread.
        tid: u32,
        /// The process that made it.
        parent_pid: u32,
        /// When.
        time: Nanoseconds,
    },
    /// A thread or process ended.
    Exit {
        /// Process.
        pid: u32,
        /// Thread.
        tid: u32,
        /// When.
        time: Nanoseconds,
    },
}

/// One observation of a running thread.
#[derive(Debug, Clone)]
pub struct RawSample<'a> {
    /// When, on a clock of the recording's own.
    pub time: Nanoseconds,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// The processor it ran on, where that is known.
    pub cpu: Option<u16>,
    /// Which event of the recording made it.
    pub event: EventIndex,
    /// What it counts for, in the event's unit.
    pub weight: u64,
    /// What the thread was doing.
    pub state: ThreadState,
    /// Kernel addresses, leaf first; empty when the thread ran in user mode.
    pub kernel: Cow<'a, [u64]>,
    /// What is known of the user stack.
    pub user: UserStack<'a>,
    /// Memory that was copied at the sampled instruction, in chunks: a word with an address in its lower 48 bits and a
    /// number of words above them, then these words. Empty where nothing copies memory.
    pub memory: Cow<'a, [u8]>,
    /// Whether its engine copies what a stack needs at the sampled instruction: what is neither in `user` nor in `memory` is of
    /// another moment by now.
    pub is_copied_at_sample: bool,
    /// What else is known of it, such as the arguments of a tracepoint.
    pub labels: Labels,
    /// Whether the thread was seen not to run, so that its memory stays as it was for a moment.
    pub stands_still: bool,
}

/// What a thread was doing when a sample was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ThreadState {
    /// Nobody asked.
    #[default]
    Unknown,
    /// It ran.
    OnCpu,
    /// It could have run and had no CPU.
    Runnable,
    /// It waited in the kernel.
    Waiting(WaitingIn),
}

/// What a thread entered the kernel for that waits there. What it waits for follows from its stack
/// as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WaitingIn {
    /// Nothing: memory that it touched is not there yet.
    PageFault,
    /// `futex`: a lock, a condition, `Atomics.wait`.
    Futex,
    /// `epoll_pwait`, `poll` and the like: an event loop.
    Poll,
    /// A file: opening, reading, writing, flushing.
    File,
    /// A pipe, or what else is read and written and is no file.
    Pipe,
    /// A socket.
    Socket,
    /// The end of a child process.
    Child,
    /// Time to pass.
    Sleep,
    /// Anything else.
    Other,
}

/// What a sample holds of the user stack.
#[derive(Debug, Clone)]
pub enum UserStack<'a> {
    /// Nothing: a kernel thread, or a process already gone.
    Absent,
    /// Addresses, leaf first, found by what took the sample.
    Chain(Cow<'a, [u64]>),
    /// Registers and the top of the stack, to be unwound.
    Copy {
        /// The registers in user mode.
        registers: Registers,
        /// Stack bytes from the stack pointer upwards.
        stack: Cow<'a, [u8]>,
    },
}

/// What proves that a file on disk is the one that was mapped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct FileIdentity {
    /// Device, as major and minor number; zero when not known.
    pub device: (u32, u32),
    /// Inode; zero when not known.
    pub inode: u64,
    /// Build-id; empty when not known.
    pub build_id: Vec<u8>,
}

/// A range of code memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Process; [`Mapping::KERNEL_PID`] for the kernel and its modules.
    pub pid: u32,
    /// First address.
    pub start: RuntimeAddress,
    /// First address after it.
    pub end: RuntimeAddress,
    /// Where in the file it starts.
    pub file_offset: u64,
    /// Path as the process sees it, or a name such as `[vdso]`; empty for anonymous memory.
    pub path: String,
    /// Which file it is.
    pub file: FileIdentity,
    /// When it was mapped; zero when it was there before.
    pub time: Nanoseconds,
}

impl Mapping {
    /// The `pid` of what belongs to the kernel itself.
    pub const KERNEL_PID: u32 = u32::MAX;

    /// Whether this is anonymous memory, where JIT code lives.
    pub fn is_anonymous(&self) -> bool {
        self.path.is_empty()
            || self.path == "//anon"
            || self.path.starts_with("[anon")
            || self.path.starts_with("/memfd:")
            || self.path.starts_with("/dev/zero")
            || self.path.starts_with("/anon_hugepage")
    }
}
