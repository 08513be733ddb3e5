//! Opening the events of a session: on every thread, or on a whole control group.

use std::io;

use super::job_rate::keep_one_in;
use super::refusals::{explain_event, paranoid};
use super::sources::{counted, format_of};
use super::spec::EventSpec;
use super::walking::SAMPLED;
use super::{PerfOptions, SMALL_STACK_BYTES, STACK_BYTES, WALKED_STACK_BYTES, proc};
use crate::error::{CaptureError, explain_refusal};
use crate::sys::bpf::WalkProgram;
use crate::sys::files::raise_descriptor_limit;
use crate::sys::perf_event::{Counted, Every, PerfEvent, Sampling, Subject};
use crate::target::Group;

/// What is copied where a job is submitted: libuv's poll, below the JavaScript, has 12 KiB.
const SUBMITTER_STACK_BYTES: u32 = 32 << 10;

/// How often the events of threads are opened, where a thread is born each time.
pub(super) const MAX_OPENINGS: usize = 8;

/// The sampling and the sideband events of one CPU.
pub(super) struct CpuEvents {
    pub(super) cpu: u16,
    /// Those of each event, in the order of the samplings.
    pub(super) samples: Vec<Vec<PerfEvent>>,
    pub(super) sideband: Vec<PerfEvent>,
}

/// Opens the events of a control group, for each CPU one of each kind; none where that is refused,
/// as it is to everybody without CAP_PERFMON while `perf_event_paranoid` is above 0.
pub(super) fn open_group(
    group: &Group,
    cpus: &[u32],
    samplings: &[Sampling],
) -> Option<Vec<CpuEvents>> {
    let subject = Subject::Group(group.as_fd());
    let on_cpu = |&cpu: &u32| {
        let opened = open_all(subject, cpu, samplings).map(|(samples, sideband)| CpuEvents {
            cpu: cpu as u16,
            samples: samples.into_iter().map(|event| vec![event]).collect(),
            sideband: vec![sideband],
        });
        opened
            .inspect_err(|error| {
                log::info!(
                    "control group {} is not sampled as a whole: {error}",
                    group.path()
                );
            })
            .ok()
    };
    cpus.iter().map(on_cpu).collect()
}

/// One event of each sampling, and what reports mappings and threads.
pub(super) fn open_all(
    subject: Subject<'_>,
    cpu: u32,
    samplings: &[Sampling],
) -> io::Result<(Vec<PerfEvent>, PerfEvent)> {
    let samples = samplings
        .iter()
        .map(|sampling| PerfEvent::sampling(subject, cpu, sampling))
        .collect::<io::Result<Vec<_>>>()?;
    Ok((samples, PerfEvent::sideband(subject, cpu, &samplings[0])?))
}

/// The events of one thread: none of a sampling that is for threads of another kind.
fn open_on_thread(
    thread: &OpenedThread,
    cpu: u32,
    samplings: &[Sampling],
) -> io::Result<(Vec<Option<PerfEvent>>, PerfEvent)> {
    let subject = Subject::Thread(thread.tid);
    let open = |sampling: &Sampling| match sampling.is_of_javascript && !thread.is_of_javascript {
        true => Ok(None),
        false => PerfEvent::sampling(subject, cpu, sampling).map(Some),
    };
    let samples = samplings.iter().map(open).collect::<io::Result<Vec<_>>>()?;
    Ok((samples, PerfEvent::sideband(subject, cpu, &samplings[0])?))
}

/// A thread that events are opened on.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenedThread {
    pub(super) pid: u32,
    pub(super) tid: u32,
    /// Whether it may run JavaScript.
    pub(super) is_of_javascript: bool,
}

/// Opens the events of threads on every CPU, and has them run a program. What a thread is sampled by is inherited by those
/// it starts, but a program is not attached to what was inherited before: where a thread was born meanwhile (libuv starts its
/// pool with the first job), all is opened again.
pub(super) fn open_on_threads(
    threads: &dyn Fn() -> Vec<OpenedThread>,
    cpus: &[u32],
    samplings: &[Sampling],
    program: Option<&WalkProgram>,
) -> Result<Vec<CpuEvents>, CaptureError> {
    let mut attempts = 0;
    loop {
        let listed = threads();
        check_descriptors(listed.len(), cpus.len(), samplings.len())?;
        let on_cpu = |&cpu: &u32| open_on_cpu(&listed, cpu, samplings);
        let events = cpus.iter().map(on_cpu).collect::<Result<Vec<_>, _>>()?;
        attach_program(program, &events)?;
        attempts += 1;
        if program.is_none() || attempts == MAX_OPENINGS || !has_newcomer(&listed, &threads()) {
            return Ok(events);
        }
    }
}

fn has_newcomer(before: &[OpenedThread], now: &[OpenedThread]) -> bool {
    now.iter()
        .any(|thread| before.iter().all(|other| other.tid != thread.tid))
}

/// Has the events that sample the CPU run a program.
pub(super) fn attach_program(
    program: Option<&WalkProgram>,
    events: &[CpuEvents],
) -> Result<(), CaptureError> {
    let Some(program) = program else {
        return Ok(());
    };
    events
        .iter()
        .flat_map(|of_cpu| &of_cpu.samples[SAMPLED])
        .try_for_each(|event| program.attach(event))
        .map_err(|error| CaptureError::call("running a program at samples", error))
}

/// Opens the events of these threads on one CPU.
fn open_on_cpu(
    threads: &[OpenedThread],
    cpu: u32,
    samplings: &[Sampling],
) -> Result<CpuEvents, CaptureError> {
    let mut samples: Vec<Vec<PerfEvent>> = samplings.iter().map(|_| Vec::new()).collect();
    let mut sideband = Vec::new();
    for thread in threads {
        let (pid, tid) = (thread.pid, thread.tid);
        match open_on_thread(thread, cpu, samplings) {
            Ok((opened, of_sideband)) => {
                for (events, event) in samples.iter_mut().zip(opened) {
                    events.extend(event);
                }
                sideband.push(of_sideband);
            }
            // A thread may end while we go through the list, and so may one process of several.
            Err(error)
                if error.raw_os_error() == Some(libc::ESRCH)
                    && (tid != pid || threads.iter().any(|other| other.pid != pid)) => {}
            Err(error) => return Err(explain_refusal(pid, error)),
        }
    }
    Ok(CpuEvents {
        // Linux knows at most 8,192 CPUs on x86_64 (CONFIG_NR_CPUS of 6.12).
        cpu: cpu as u16,
        samples,
        sideband,
    })
}

/// Makes sure that so many events can be open.
pub(super) fn check_descriptors(
    threads: usize,
    cpus: usize,
    events: usize,
) -> Result<(), CaptureError> {
    let needed = (threads * cpus * (events + 1) + 256) as u64;
    let limit = raise_descriptor_limit();
    if needed > limit {
        return Err(CaptureError::TooManyDescriptors {
            needed,
            threads,
            cpus,
            limit,
        });
    }
    Ok(())
}

/// How each event is to be opened, found by opening it once.
pub(super) fn choose_events(
    pid: u32,
    cpus: &[u32],
    options: &PerfOptions,
    (stack_bytes, start_on_exec): (u32, bool),
) -> Result<(Vec<Sampling>, Vec<String>), CaptureError> {
    let mut remarks = Vec::new();
    let mut samplings = Vec::new();
    let indexes = EventSpec::event_indexes(&options.events);
    for (spec, event) in options.events.iter().zip(indexes) {
        let every = spec.every(options.rate_hz);
        let is_walked = stack_bytes == WALKED_STACK_BYTES;
        // A program copies the rest of the stack at the samples of CPU time alone.
        let stack_bytes = match stack_bytes {
            SMALL_STACK_BYTES => SMALL_STACK_BYTES,
            _ if spec.is_of_javascript() => SUBMITTER_STACK_BYTES,
            WALKED_STACK_BYTES if !spec.is_cpu() => STACK_BYTES,
            bytes => bytes,
        };
        let wanted = Sampling {
            counted: counted(spec)?,
            event,
            is_of_javascript: spec.is_of_javascript(),
            every,
            weight: every.weight(),
            format: format_of(spec),
            has_period: matches!(every, Every::Rate(_)) && !spec.is_clock(),
            include_kernel: options.include_kernel,
            exclude_kernel: spec.is_user_only || !options.include_kernel && !spec.is_kernel_only(),
            stack_bytes,
            follow_children: options.follow_children,
            start_on_exec: start_on_exec && !options.placebo,
            wakeup_bytes: match options.reads_at_sample && spec.is_cpu() && !is_walked {
                true => 1,
                false => wakeup_bytes(every.expected_rate_hz(), stack_bytes),
            },
            one_in: None,
        };
        let wanted = keep_one_in(wanted, &mut remarks);
        samplings.push(choose_event(pid, cpus[0], spec, wanted, &mut remarks)?);
    }
    Ok((samplings, remarks))
}

/// Finds the best event this machine and these rights allow: for CPU time hardware cycles, else the
/// CPU clock; with kernel frames, else without.
fn choose_event(
    pid: u32,
    cpu: u32,
    spec: &EventSpec,
    mut sampling: Sampling,
    remarks: &mut Vec<String>,
) -> Result<Sampling, CaptureError> {
    loop {
        let Err(error) = PerfEvent::sampling(Subject::Thread(pid), cpu, &sampling) else {
            return Ok(sampling);
        };
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::EINVAL)
                if spec.samples_cpu() && sampling.counted == Counted::CYCLES =>
            {
                sampling.counted = Counted::CPU_CLOCK;
            }
            Some(libc::EACCES | libc::EPERM)
                if !sampling.exclude_kernel && spec.can_exclude_kernel() =>
            {
                sampling.exclude_kernel = true;
                sampling.include_kernel = false;
                let remark = format!(
                    "kernel frames left out: kernel.perf_event_paranoid is {} (run as root, or: \
                     sudo sysctl kernel.perf_event_paranoid=1)",
                    paranoid()
                );
                if !remarks.contains(&remark) {
                    remarks.push(remark);
                }
            }
            Some(libc::EINVAL) if matches!(sampling.every, Every::Rate(_)) && spec.is_clock() => {
                let most = proc::sysctl("perf_event_max_sample_rate").unwrap_or(0);
                let doing = format!(
                    "opening an event at {} Hz (the kernel allows {most} Hz: kernel.perf_event_max_sample_rate)",
                    sampling.every.expected_rate_hz()
                );
                return Err(CaptureError::call(doing, error));
            }
            _ => return Err(explain_event(pid, spec, error)),
        }
    }
}

/// Wakes us a dozen times a second on a busy CPU, oftener at high rates. The heap that names
/// JavaScript moves on while a sample waits, and a short-lived child may be gone, so sooner is
/// better; but memory read for one sample serves its whole batch. Where a program has copied what moves there is no hurry:
/// the kernel takes 0 for half a ring, however large that could be made.
fn wakeup_bytes(rate_hz: u32, stack_bytes: u32) -> u32 {
    let wakes_per_second = match (stack_bytes, rate_hz) {
        (WALKED_STACK_BYTES, _) => return 0,
        (_, ..=200) => 12,
        _ => 40,
    };
    (rate_hz / wakes_per_second).clamp(1, 64) * stack_bytes
}
