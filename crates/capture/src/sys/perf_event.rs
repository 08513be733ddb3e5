//! `perf_event_open`: what is asked of the kernel.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use nodespy_model::EventIndex;
use nodespy_perf_abi::{EventAttributes, RecordLayout, TracepointFormat, x86_64};
use perf_event_open_sys as sys;
use sys::bindings;

use super::checked;
use super::one_in::OneIn;
use super::pidfd::Waker;

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Counted {
    /// `PERF_TYPE_*`, or the number of a PMU.
    pub(crate) kind: u32,
    pub(crate) config: u64,
    /// The file of a uprobe and the place in it.
    pub(crate) place: Option<(CString, u64)>,
}

impl Counted {
    /// Hardware cycles.
    pub(crate) const CYCLES: Self = Self {
        kind: bindings::PERF_TYPE_HARDWARE,
        config: bindings::PERF_COUNT_HW_CPU_CYCLES as u64,
        place: None,
    };
    /// Nothing at all.
    pub(crate) const NOTHING: Self = Self {
        kind: bindings::PERF_TYPE_SOFTWARE,
        config: bindings::PERF_COUNT_SW_DUMMY as u64,
        place: None,
    };
    /// The kernel's CPU clock, for machines without hardware counters.
    pub(crate) const CPU_CLOCK: Self = Self {
        kind: bindings::PERF_TYPE_SOFTWARE,
        config: bindings::PERF_COUNT_SW_CPU_CLOCK as u64,
        place: None,
    };

    /// A tracepoint with this number.
    pub(crate) fn tracepoint(id: u64) -> Self {
        Self {
            kind: bindings::PERF_TYPE_TRACEPOINT,
            config: id,
            place: None,
        }
    }
}

/// When a sample is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Every {
    /// So many times a second.
    Rate(u32),
    /// After so many occurrences.
    Period(u64),
}

impl Every {
    /// Samples a second that rings and wake-ups are made for; how often an event happens that has a
    /// period is not known before.
    pub(crate) fn expected_rate_hz(self) -> u32 {
        match self {
            Self::Rate(rate_hz) => rate_hz,
            Self::Period(_) => 999,
        }
    }

    /// What a sample stands for that does not say so itself.
    pub(crate) fn weight(self) -> u64 {
        match self {
            Self::Rate(_) => 1,
            Self::Period(period) => period,
        }
    }
}

/// What a sampling event should do.
#[derive(Debug, Clone)]
pub(crate) struct Sampling {
    pub(crate) counted: Counted,
    /// Which event of the recording its samples are.
    pub(crate) event: EventIndex,
    /// Whether only threads that run JavaScript make it happen.
    pub(crate) is_of_javascript: bool,
    pub(crate) every: Every,
    /// What a sample stands for that does not say so itself.
    pub(crate) weight: u64,
    /// What a sample carries of a tracepoint, where that is known.
    pub(crate) format: Option<Arc<TracepointFormat>>,
    /// Whether each sample says how much it stands for.
    pub(crate) has_period: bool,
    /// Whether kernel frames are wanted.
    pub(crate) include_kernel: bool,
    /// Whether what happens while the kernel runs is left out.
    pub(crate) exclude_kernel: bool,
    pub(crate) stack_bytes: u32,
    pub(crate) follow_children: bool,
    pub(crate) start_on_exec: bool,
    /// How many bytes in its ring wake who waits for it: 0 for half of the ring, and no more than it has.
    pub(crate) wakeup_bytes: u32,
    /// What keeps only some of the hits of a breakpoint.
    pub(crate) one_in: Option<Arc<OneIn>>,
}

/// Whom an event is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Subject<'a> {
    /// One thread, and those it makes as far as asked.
    Thread(u32),
    /// Everybody in a control group and in those below it, given by its folder.
    Group(BorrowedFd<'a>),
    /// Everything that runs on the CPU.
    Cpu,
}

impl Sampling {
    /// How the samples of [`PerfEvent::sampling`] are laid out.
    pub(crate) fn sample_layout(&self) -> RecordLayout {
        layout_of(&sampling_attributes(Subject::Thread(0), self))
    }

    /// How the records of [`PerfEvent::output`] are laid out.
    pub(crate) fn output_layout(&self) -> RecordLayout {
        layout_of(&output_attributes(self))
    }

    /// How the records of [`PerfEvent::sideband`] are laid out.
    pub(crate) fn sideband_layout(&self) -> RecordLayout {
        layout_of(&sideband_attributes(Subject::Thread(0), self))
    }
}

/// An open event.
#[derive(Debug)]
pub(crate) struct PerfEvent(OwnedFd);

impl PerfEvent {
    /// An event that samples on one CPU.
    pub(crate) fn sampling(subject: Subject<'_>, cpu: u32, what: &Sampling) -> io::Result<Self> {
        let event = open(&mut sampling_attributes(subject, what), subject, cpu)?;
        if let Some(one_in) = &what.one_in {
            one_in.attach(&event)?;
        }
        Ok(event)
    }

    /// An event that never samples but reports mappings, names, new and ended threads.
    pub(crate) fn sideband(subject: Subject<'_>, cpu: u32, what: &Sampling) -> io::Result<Self> {
        open(&mut sideband_attributes(subject, what), subject, cpu)
    }

    /// An event that never samples: what an eBPF program writes on this CPU becomes its records.
    pub(crate) fn output(cpu: u32, what: &Sampling) -> io::Result<Self> {
        open(&mut output_attributes(what), Subject::Cpu, cpu)
    }

    /// An event of one thread, wherever it runs, and of none that it makes: a record says when, and nothing else.
    pub(crate) fn of_thread(tid: u32, counted: &Counted) -> io::Result<Self> {
        let mut attributes = of_thread_attributes();
        count(&mut attributes, counted);
        open(&mut attributes, Subject::Thread(tid), Self::ANY_CPU)
    }

    /// How the records of [`Self::of_thread`] are laid out.
    pub(crate) fn of_thread_layout() -> RecordLayout {
        layout_of(&of_thread_attributes())
    }

    /// An event of one thread that says when it goes off a CPU and on one.
    pub(crate) fn switches(tid: u32) -> io::Result<Self> {
        open(
            &mut switches_attributes(),
            Subject::Thread(tid),
            Self::ANY_CPU,
        )
    }

    /// How the records of [`Self::switches`] are laid out.
    pub(crate) fn switches_layout() -> RecordLayout {
        layout_of(&switches_attributes())
    }

    /// As [`Self::of_thread`], and a record says what a tracepoint says.
    pub(crate) fn raw_of_thread(tid: u32, counted: &Counted) -> io::Result<Self> {
        let mut attributes = raw_of_thread_attributes();
        count(&mut attributes, counted);
        open(&mut attributes, Subject::Thread(tid), Self::ANY_CPU)
    }

    /// How the records of [`Self::raw_of_thread`] are laid out.
    pub(crate) fn raw_of_thread_layout() -> RecordLayout {
        layout_of(&raw_of_thread_attributes())
    }

    /// For a thread wherever it runs. Such an event has no ring.
    pub(crate) const ANY_CPU: u32 = u32::MAX;

    /// How often it has happened.
    pub(crate) fn count(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        // SAFETY: the descriptor is an open perf event, and `bytes` takes eight bytes.
        let read =
            unsafe { libc::read(self.0.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        checked(read as i64)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// The number that its records carry.
    pub(crate) fn id(&self) -> io::Result<u64> {
        let mut id = 0;
        // SAFETY: the descriptor is an open perf event, and `id` takes the number.
        let result = unsafe { sys::ioctls::ID(self.0.as_raw_fd(), &raw mut id) };
        checked(result.into()).map(|_| id)
    }

    /// Runs a program at each sample, before it is written.
    pub(crate) fn run_program(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        let program = program.as_raw_fd() as u32;
        // SAFETY: both descriptors are open: a perf event and a program.
        let result = unsafe { sys::ioctls::SET_BPF(self.0.as_raw_fd(), program) };
        checked(result.into()).map(|_| ())
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

    /// What ends a wait when its ring has samples.
    pub(crate) fn waker(&self) -> Waker {
        Waker::Ring(self.as_raw_fd())
    }

    /// What ends a wait when its ring has other records.
    pub(crate) fn sideband_waker(&self) -> Waker {
        Waker::Sideband(self.as_raw_fd())
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

fn count(attributes: &mut bindings::perf_event_attr, counted: &Counted) {
    attributes.type_ = counted.kind;
    attributes.config = counted.config;
    if let Some((file, offset)) = &counted.place {
        attributes.__bindgen_anon_3.config1 = file.as_ptr() as u64;
        attributes.__bindgen_anon_4.config2 = *offset;
    }
}

fn of_thread_attributes() -> bindings::perf_event_attr {
    let mut attributes = bindings::perf_event_attr::default();
    attributes.size = std::mem::size_of::<bindings::perf_event_attr>() as u32;
    attributes.set_disabled(1);
    attributes.set_exclude_hv(1);
    attributes.set_use_clockid(1);
    attributes.clockid = libc::CLOCK_MONOTONIC;
    attributes.sample_type = u64::from(
        bindings::PERF_SAMPLE_IDENTIFIER | bindings::PERF_SAMPLE_TID | bindings::PERF_SAMPLE_TIME,
    );
    attributes.__bindgen_anon_1.sample_period = 1;
    attributes
}

fn raw_of_thread_attributes() -> bindings::perf_event_attr {
    let mut attributes = of_thread_attributes();
    attributes.sample_type |= u64::from(bindings::PERF_SAMPLE_RAW);
    attributes
}

fn switches_attributes() -> bindings::perf_event_attr {
    let mut attributes = of_thread_attributes();
    attributes.type_ = bindings::PERF_TYPE_SOFTWARE;
    attributes.config = bindings::PERF_COUNT_SW_DUMMY.into();
    attributes.sample_type = u64::from(bindings::PERF_SAMPLE_TID | bindings::PERF_SAMPLE_TIME);
    attributes.set_exclude_kernel(1);
    attributes.set_context_switch(1);
    attributes.set_sample_id_all(1);
    attributes
}

fn sampling_attributes(subject: Subject<'_>, what: &Sampling) -> bindings::perf_event_attr {
    let mut attributes = common(subject, what);
    count(&mut attributes, &what.counted);
    attributes.sample_type = u64::from(
        bindings::PERF_SAMPLE_IDENTIFIER
            | bindings::PERF_SAMPLE_IP
            | bindings::PERF_SAMPLE_TID
            | bindings::PERF_SAMPLE_TIME
            | bindings::PERF_SAMPLE_REGS_USER
            | bindings::PERF_SAMPLE_STACK_USER,
    );
    attributes.sample_regs_user = x86_64::REGISTER_MASK;
    attributes.sample_stack_user = what.stack_bytes;
    if what.include_kernel {
        attributes.sample_type |= u64::from(bindings::PERF_SAMPLE_CALLCHAIN);
        attributes.set_exclude_callchain_user(1);
    }
    if what.has_period {
        attributes.sample_type |= u64::from(bindings::PERF_SAMPLE_PERIOD);
    }
    if what.format.is_some() {
        attributes.sample_type |= u64::from(bindings::PERF_SAMPLE_RAW);
    }
    attributes.set_exclude_kernel(what.exclude_kernel.into());
    if let Subject::Cpu = subject {
        // Cycles stand still where a CPU idles; its clock does not.
        attributes.set_exclude_idle((what.counted == Counted::CPU_CLOCK).into());
    }
    match what.every {
        Every::Rate(rate_hz) => {
            attributes.set_freq(1);
            attributes.__bindgen_anon_1.sample_freq = rate_hz.into();
        }
        Every::Period(period) => attributes.__bindgen_anon_1.sample_period = period,
    }
    attributes.__bindgen_anon_2.wakeup_watermark = what.wakeup_bytes;
    attributes
}

fn output_attributes(what: &Sampling) -> bindings::perf_event_attr {
    let mut attributes = common(Subject::Cpu, what);
    attributes.type_ = bindings::PERF_TYPE_SOFTWARE;
    attributes.config = bindings::PERF_COUNT_SW_BPF_OUTPUT.into();
    attributes.sample_type = u64::from(
        bindings::PERF_SAMPLE_IDENTIFIER
            | bindings::PERF_SAMPLE_TID
            | bindings::PERF_SAMPLE_TIME
            | bindings::PERF_SAMPLE_RAW,
    );
    attributes.__bindgen_anon_1.sample_period = 1;
    attributes.__bindgen_anon_2.wakeup_watermark = what.wakeup_bytes;
    attributes
}

fn sideband_attributes(subject: Subject<'_>, what: &Sampling) -> bindings::perf_event_attr {
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
    attributes
}

/// What is asked for decides how it is decoded.
fn layout_of(attributes: &bindings::perf_event_attr) -> RecordLayout {
    RecordLayout::new(&EventAttributes {
        sample_type: attributes.sample_type,
        read_format: attributes.read_format,
        has_sample_id_all: attributes.sample_id_all() != 0,
        branch_sample_type: attributes.branch_sample_type,
        sample_regs_user: attributes.sample_regs_user,
        sample_regs_intr: attributes.sample_regs_intr,
        ..EventAttributes::default()
    })
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
        Subject::Cpu => (-1, 0),
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

#[cfg(test)]
mod tests {
    use nodespy_perf_abi::{context, misc, record_type, sample_type};

    use super::*;

    #[test]
    fn perf_abi_agrees_with_the_kernels_header() {
        let types = [
            (record_type::MMAP, bindings::PERF_RECORD_MMAP),
            (record_type::LOST, bindings::PERF_RECORD_LOST),
            (record_type::COMM, bindings::PERF_RECORD_COMM),
            (record_type::EXIT, bindings::PERF_RECORD_EXIT),
            (record_type::THROTTLE, bindings::PERF_RECORD_THROTTLE),
            (record_type::UNTHROTTLE, bindings::PERF_RECORD_UNTHROTTLE),
            (record_type::FORK, bindings::PERF_RECORD_FORK),
            (record_type::SAMPLE, bindings::PERF_RECORD_SAMPLE),
            (record_type::MMAP2, bindings::PERF_RECORD_MMAP2),
            (
                record_type::LOST_SAMPLES,
                bindings::PERF_RECORD_LOST_SAMPLES,
            ),
            (record_type::SWITCH, bindings::PERF_RECORD_SWITCH),
        ];
        for (ours, theirs) in types {
            assert_eq!(ours, theirs);
        }
        let fields = [
            (sample_type::IP, bindings::PERF_SAMPLE_IP),
            (sample_type::TIME, bindings::PERF_SAMPLE_TIME),
            (sample_type::CALLCHAIN, bindings::PERF_SAMPLE_CALLCHAIN),
            (sample_type::REGS_USER, bindings::PERF_SAMPLE_REGS_USER),
            (sample_type::STACK_USER, bindings::PERF_SAMPLE_STACK_USER),
            (sample_type::IDENTIFIER, bindings::PERF_SAMPLE_IDENTIFIER),
            (
                sample_type::WEIGHT_STRUCT,
                bindings::PERF_SAMPLE_WEIGHT_STRUCT,
            ),
        ];
        for (ours, theirs) in fields {
            assert_eq!(ours, u64::from(theirs));
        }
        assert_eq!(context::KERNEL, bindings::PERF_CONTEXT_KERNEL);
        assert_eq!(context::USER, bindings::PERF_CONTEXT_USER);
        assert_eq!(context::MAX, bindings::PERF_CONTEXT_MAX);
        let comm_exec = bindings::PERF_RECORD_MISC_COMM_EXEC;
        assert_eq!(u32::from(misc::COMM_EXEC), comm_exec);
    }
}
