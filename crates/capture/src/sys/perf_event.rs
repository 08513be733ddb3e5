//! `perf_event_open`: what is asked of the kernel.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use perf_event_open_sys as sys;
use sys::bindings;

use super::{checked, registers};

/// What makes a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Hardware cycles.
    Cycles,
    /// The kernel's CPU clock, for machines without hardware counters.
    CpuClock,
}

impl Clock {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Cycles => "cycles",
            Self::CpuClock => "cpu-clock",
        }
    }
}

/// What a sampling event should do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sampling {
    pub(crate) clock: Clock,
    pub(crate) rate_hz: u32,
    pub(crate) include_kernel: bool,
    pub(crate) stack_bytes: u32,
    pub(crate) follow_children: bool,
    pub(crate) start_on_exec: bool,
    pub(crate) wakeup_bytes: u32,
}

/// Whom an event is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// One thread, and those it makes as far as asked.
    Thread(u32),
    /// Everybody in a control group and in those below it, given by its folder.
    Group(BorrowedFd<'a>),
}

/// An open event.
#[derive(Debug)]
pub(crate) struct PerfEvent(OwnedFd);

impl PerfEvent {
    /// An event that samples on one CPU.
    pub(crate) fn sampling(subject: Subject<'_>, cpu: u32, what: &Sampling) -> io::Result<Self> {
        let mut attributes = common(subject, what);
        match what.clock {
            Clock::Cycles => {
                attributes.type_ = bindings::PERF_TYPE_HARDWARE;
                attributes.config = bindings::PERF_COUNT_HW_CPU_CYCLES.into();
            }
            Clock::CpuClock => {
                attributes.type_ = bindings::PERF_TYPE_SOFTWARE;
                attributes.config = bindings::PERF_COUNT_SW_CPU_CLOCK.into();
            }
        }
        attributes.sample_type = u64::from(
            bindings::PERF_SAMPLE_IP
                | bindings::PERF_SAMPLE_TID
                | bindings::PERF_SAMPLE_TIME
                | bindings::PERF_SAMPLE_REGS_USER
                | bindings::PERF_SAMPLE_STACK_USER,
        );
        attributes.sample_regs_user = registers::MASK;
        attributes.sample_stack_user = what.stack_bytes;
        if what.include_kernel {
            attributes.sample_type |= u64::from(bindings::PERF_SAMPLE_CALLCHAIN);
            attributes.set_exclude_callchain_user(1);
        } else {
            attributes.set_exclude_kernel(1);
        }
        attributes.set_freq(1);
        attributes.__bindgen_anon_1.sample_freq = what.rate_hz.into();
        attributes.__bindgen_anon_2.wakeup_watermark = what.wakeup_bytes;
        open(&mut attributes, subject, cpu)
    }

    /// An event that never samples but tells of mappings, names, births and deaths.
    pub(crate) fn bookkeeping(subject: Subject<'_>, cpu: u32, what: &Sampling) -> io::Result<Self> {
        let mut attributes = common(subject, what);
        attributes.type_ = bindings::PERF_TYPE_SOFTWARE;
        attributes.config = bindings::PERF_COUNT_SW_DUMMY.into();
        attributes.sample_type = u64::from(bindings::PERF_SAMPLE_TID | bindings::PERF_SAMPLE_TIME);
        attributes.set_exclude_kernel(1);
        attributes.set_mmap(1);
        attributes.set_mmap2(1);
        attributes.set_comm(1);
        attributes.set_comm_exec(1);
        attributes.set_task(1);
        attributes.set_sample_id_all(1);
        // A program that starts maps about a dozen files: look while it is still there.
        attributes.__bindgen_anon_2.wakeup_watermark = 1024;
        open(&mut attributes, subject, cpu)
    }

    /// Sends the records of this event to the ring of another one on the same CPU.
    pub(crate) fn write_to_ring_of(&self, other: &Self) -> io::Result<()> {
        // SAFETY: both descriptors are open perf events.
        let result = unsafe { sys::ioctls::SET_OUTPUT(self.0.as_raw_fd(), other.0.as_raw_fd()) };
        checked(result.into()).map(|_| ())
    }

    pub(crate) fn as_raw_fd(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Stops it and, where it has one, empties nothing: what is in the ring stays readable.
    pub(crate) fn disable(&self) {
        // SAFETY: the descriptor is an open perf event; the argument is a plain number.
        unsafe { sys::ioctls::DISABLE(self.0.as_raw_fd(), 0) };
    }

    /// Starts it.
    pub(crate) fn enable(&self) {
        // SAFETY: as in `disable`.
        unsafe { sys::ioctls::ENABLE(self.0.as_raw_fd(), 0) };
    }
}

fn common(subject: Subject<'_>, what: &Sampling) -> bindings::perf_event_attr {
    let mut attributes = bindings::perf_event_attr::default();
    attributes.size = std::mem::size_of::<bindings::perf_event_attr>() as u32;
    attributes.set_disabled(1);
    if let Subject::Thread(_) = subject {
        attributes.set_inherit(1);
        if !what.follow_children {
            // Threads born later, but not processes (Linux 5.13).
            attributes.set_inherit_thread(1);
        }
        attributes.set_enable_on_exec(what.start_on_exec.into());
    }
    attributes.set_exclude_hv(1);
    attributes.set_use_clockid(1);
    attributes.clockid = libc::CLOCK_MONOTONIC;
    attributes.set_watermark(1);
    attributes
}

fn open(
    attributes: &mut bindings::perf_event_attr,
    subject: Subject<'_>,
    cpu: u32,
) -> io::Result<PerfEvent> {
    let (whom, kind) = match subject {
        Subject::Thread(tid) => (tid as i32, 0),
        Subject::Group(folder) => (folder.as_raw_fd(), bindings::PERF_FLAG_PID_CGROUP),
    };
    let flags = bindings::PERF_FLAG_FD_CLOEXEC | kind;
    // SAFETY: `attributes` is a valid structure of the size it names.
    let raw = unsafe { sys::perf_event_open(attributes, whom, cpu as i32, -1, flags.into()) };
    checked(raw.into())?;
    // SAFETY: perf_event_open returned `raw` to us just now, so we are its only owner.
    Ok(PerfEvent(unsafe { OwnedFd::from_raw_fd(raw) }))
}
