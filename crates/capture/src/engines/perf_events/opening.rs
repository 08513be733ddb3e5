//! Opening the events of a session: on every thread, or on a whole control group.

use super::{PerfOptions, proc};
use crate::error::{CaptureError, explain_refusal};
use crate::sys::files::raise_descriptor_limit;
use crate::sys::perf_event::{Clock, PerfEvent, Sampling, Subject};
use crate::target::Group;

/// The sampling and the sideband events of one CPU.
pub(super) struct CpuEvents {
    pub(super) cpu: u16,
    pub(super) samples: Vec<PerfEvent>,
    pub(super) sideband: Vec<PerfEvent>,
}

/// Opens the events of a control group, one pair for each CPU; none where that is refused, as it is
/// to everybody without CAP_PERFMON while `perf_event_paranoid` is above 0.
pub(super) fn open_group(
    group: &Group,
    cpus: &[u32],
    sampling: &Sampling,
) -> Option<Vec<CpuEvents>> {
    let subject = Subject::Group(group.as_fd());
    let on_cpu = |&cpu: &u32| {
        let opened = PerfEvent::sampling(subject, cpu, sampling).and_then(|sample| {
            let sideband = PerfEvent::sideband(subject, cpu, sampling)?;
            Ok(CpuEvents {
                cpu: cpu as u16,
                samples: vec![sample],
                sideband: vec![sideband],
            })
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

/// Opens the events of these threads (each with its process) on one CPU.
pub(super) fn open_on_cpu(
    threads: &[(u32, u32)],
    cpu: u32,
    sampling: &Sampling,
) -> Result<CpuEvents, CaptureError> {
    let mut samples = Vec::new();
    let mut sideband = Vec::new();
    for &(pid, tid) in threads {
        let subject = Subject::Thread(tid);
        let opened = PerfEvent::sampling(subject, cpu, sampling)
            .and_then(|sample| Ok((sample, PerfEvent::sideband(subject, cpu, sampling)?)));
        match opened {
            Ok((sample, of_sideband)) => {
                samples.push(sample);
                sideband.push(of_sideband);
            }
            // A thread may end while we go through the list, and so may one process of several.
            Err(error)
                if error.raw_os_error() == Some(libc::ESRCH)
                    && (tid != pid || threads.iter().any(|(other, _)| *other != pid)) => {}
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
pub(super) fn check_descriptors(threads: usize, cpus: usize) -> Result<(), CaptureError> {
    let needed = (threads * cpus * 2 + 256) as u64;
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

/// Finds the best event this machine and these rights allow: hardware cycles, else the CPU clock;
/// with kernel frames, else without.
pub(super) fn choose_event(
    pid: u32,
    cpus: &[u32],
    options: &PerfOptions,
    (stack_bytes, start_on_exec): (u32, bool),
) -> Result<(Sampling, Vec<String>), CaptureError> {
    let mut remarks = Vec::new();
    let mut sampling = Sampling {
        clock: Clock::Cycles,
        rate_hz: options.rate_hz,
        include_kernel: options.include_kernel,
        stack_bytes,
        follow_children: options.follow_children,
        start_on_exec: start_on_exec && !options.placebo,
        wakeup_bytes: wakeup_bytes(options.rate_hz, stack_bytes),
    };
    loop {
        let Err(error) = PerfEvent::sampling(Subject::Thread(pid), cpus[0], &sampling) else {
            return Ok((sampling, remarks));
        };
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::EINVAL)
                if sampling.clock == Clock::Cycles =>
            {
                sampling.clock = Clock::CpuClock;
            }
            Some(libc::EACCES | libc::EPERM) if sampling.include_kernel => {
                sampling.include_kernel = false;
                remarks.push(format!(
                    "kernel frames left out: kernel.perf_event_paranoid is {} (run as root, or: \
                     sudo sysctl kernel.perf_event_paranoid=1)",
                    proc::perf_event_paranoid()
                        .map_or_else(|| "unknown".to_owned(), |level| level.to_string())
                ));
            }
            Some(libc::EINVAL) => {
                let most = proc::sysctl("perf_event_max_sample_rate").unwrap_or(0);
                let doing = format!(
                    "opening an event at {} Hz (the kernel allows {most} Hz: kernel.perf_event_max_sample_rate)",
                    options.rate_hz
                );
                return Err(CaptureError::call(doing, error));
            }
            _ => return Err(explain_refusal(pid, error)),
        }
    }
}

/// Wakes us a dozen times a second on a busy CPU, oftener at high rates. The heap that names
/// JavaScript moves on while a sample waits, and a short-lived child may be gone, so sooner is
/// better; but memory read for one sample serves its whole batch.
fn wakeup_bytes(rate_hz: u32, stack_bytes: u32) -> u32 {
    let wakes_per_second = if rate_hz <= 200 { 12 } else { 40 };
    (rate_hz / wakes_per_second).clamp(1, 64) * stack_bytes
}
