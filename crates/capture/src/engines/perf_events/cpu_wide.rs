//! Events of whole CPUs, whose samples an eBPF program drops unless they are of a recorded process.
//!
//! The kernel has work with an event of a thread whenever that thread goes on or off a CPU; an event of a CPU costs a context
//! switch nothing. Measured in docs/decisions/0018-cpu-wide-events.md.

use std::path::Path;

use super::followed::Followed;
use super::opening::{CpuEvents, attach_program, choose_events, open_all};
use super::walking::Walking;
use super::{PerfOptions, PerfSession, WALKED_STACK_BYTES, map_rings, proc};
use crate::error::CaptureError;
use crate::sys::bpf::{PidNamespace, ProgramOptions, WalkProgram};
use crate::sys::perf_event::{Sampling, Subject};
use crate::target::{Group, Target};

/// A target that is put on a CPU so often for each second of CPU time pays 0.2 % of what it does for events of its threads, some
/// 2 us each time; for events of CPUs it pays nothing. Its share of the machine does not tell this.
const MANY_SLICES: u64 = 1000;
/// With less CPU time than this, what a target does is not known yet.
const ENOUGH_CPU_TIME: u64 = 100_000_000;
/// For tests and benchmarks: `cpus` or `threads`.
const CHOICE: &str = "NODESPY_EVENTS";
/// What the kernel allows on x86_64 (`PID_MAX_LIMIT`).
const MAX_PIDS: u32 = 4 << 20;

/// Whether events of whole CPUs are possible and better than those of threads. A program has to run, which is not tried here.
pub(super) fn is_better(
    targets: &[Target],
    group: Option<&Group>,
    options: &PerfOptions,
    start_on_exec: bool,
) -> bool {
    // Events of a group are of whole CPUs already.
    if group.is_some() || options.events.len() != 1 || !options.events[0].is_cpu() {
        return false;
    }
    let pids: Vec<u32> = targets.iter().map(Target::pid).collect();
    match std::env::var(CHOICE).as_deref() {
        Ok("threads") => false,
        Ok("cpus") => has_own_pids(&pids),
        _ if options.prefers_cpus => has_own_pids(&pids),
        // What a command will do is not known before it runs.
        _ => !start_on_exec && is_better_for(&pids),
    }
}

/// Whether events of whole CPUs are better for what these processes have done so far.
pub(super) fn is_better_for(pids: &[u32]) -> bool {
    switches_often(pids) && has_own_pids(pids)
}

fn switches_often(pids: &[u32]) -> bool {
    let threads = pids.iter().flat_map(|&pid| {
        let threads = proc::threads(pid).into_iter();
        threads.filter_map(move |tid| proc::thread_schedstat(pid, tid))
    });
    let (slices, on_cpu) = threads.fold((0u64, 0u64), |(slices, on_cpu), thread| {
        (
            slices.saturating_add(thread.slices),
            on_cpu.saturating_add(thread.on_cpu),
        )
    });
    log::debug!("the targets were put on a CPU {slices} times in {on_cpu} ns of CPU time");
    are_many(slices, on_cpu)
}

fn are_many(slices: u64, on_cpu: u64) -> bool {
    let a_second = 1_000_000_000;
    on_cpu >= ENOUGH_CPU_TIME
        && u128::from(slices) * a_second >= u128::from(on_cpu) * u128::from(MANY_SLICES)
}

/// Whether the program sees the pids of all targets: where nodespy is in a container of its own, those of processes in
/// containers within it are not to be had.
fn has_own_pids(pids: &[u32]) -> bool {
    let Some(own) = pid_namespace(Path::new("/proc/self/ns/pid")) else {
        return false;
    };
    let its = |&pid: &u32| pid_namespace(&proc::path_of(pid, "ns/pid"));
    let is_seen = |pid| its(pid).is_some_and(|its| is_seen_from(own, its));
    own.is_initial() || pids.iter().all(is_seen)
}

/// Refuses a process whose pid the program does not see: all of its samples would be dropped.
pub(super) fn check_sees(pid: u32) -> Result<(), CaptureError> {
    let own = pid_namespace(Path::new("/proc/self/ns/pid"));
    // One that has ended has no namespace, and no samples either.
    let its = pid_namespace(&proc::path_of(pid, "ns/pid"));
    match own.zip(its) {
        Some((own, its)) if !is_seen_from(own, its) => Err(CaptureError::refused(format!(
            "process {pid} is in a pid namespace within nodespy's, of which events of whole CPUs have no samples; run \
             nodespy on the host, or record the process from the start: nodespy record -p {pid}"
        ))),
        _ => Ok(()),
    }
}

/// Whether a process in one namespace has a pid that the program finds in ours.
fn is_seen_from(own: PidNamespace, its: PidNamespace) -> bool {
    own.is_initial() || own == its
}

/// The namespace that nodespy sees pids of; none where that is the initial one.
fn own_namespace() -> Option<PidNamespace> {
    let namespace = pid_namespace(Path::new("/proc/self/ns/pid"));
    namespace.filter(|namespace| !namespace.is_initial())
}

/// What is copied at samples that have so much of their stack.
pub(super) fn copied_at_sample(stack_bytes: u32, options: &PerfOptions) -> ProgramOptions {
    ProgramOptions::new(stack_bytes, options.copies, own_namespace())
}

fn pid_namespace(file: &Path) -> Option<PidNamespace> {
    let metadata = file.metadata().ok()?;
    Some(PidNamespace::of(&metadata))
}

impl PerfSession {
    /// Opens an event for each CPU, with the program that drops samples of other processes.
    pub(super) fn open_cpu_wide(
        targets: &[Target],
        options: &PerfOptions,
        start_on_exec: bool,
    ) -> Result<Self, CaptureError> {
        let running = || targets.iter().filter(|target| !target.has_ended());
        let Some(first) = running().next() else {
            let pid = targets.first().map_or(0, Target::pid);
            return Err(CaptureError::Gone { pid });
        };
        let cpus = proc::online_cpus();
        let (samplings, remarks) =
            choose_events(first.pid(), &cpus, options, (WALKED_STACK_BYTES, false))?;
        let copied = copied_at_sample(WALKED_STACK_BYTES, options);
        let (program, others) = WalkProgram::load_for_cpus(copied, pids(), own_namespace())
            .map_err(|why| cannot_run(std::io::Error::other(why)))?;
        let on_cpu = |&cpu: &u32| open_on_cpu(cpu, &samplings);
        let events: Vec<CpuEvents> = cpus.iter().map(on_cpu).collect::<Result<_, _>>()?;
        attach_program(Some(&program), &events)?;
        let mut rings = map_rings(&events, &samplings)?;
        let walking = Walking::start(program, &events, &samplings[0], &mut rings);
        let walking = walking.map_err(cannot_run)?;
        let mut followed = Followed::new(options.follow_children, Some(others));
        let pids: Vec<u32> = running().map(Target::pid).collect();
        leave_others_out(&mut followed, &pids, options.follow_children);
        for &pid in &pids {
            followed.record(pid, start_on_exec);
        }
        rings.keep_only(followed);
        Ok(Self::new(
            events,
            rings,
            (samplings, remarks),
            Some(walking),
        ))
    }
}

/// Leaves out what there is already. Children of targets are not judged yet, as one may have been born after the targets were
/// looked for; nor is what is born from now on: they are judged by their parents.
fn leave_others_out(followed: &mut Followed, targets: &[u32], follow_children: bool) {
    let mut family = targets.to_vec();
    let mut at = 0;
    while let (true, Some(&pid)) = (follow_children, family.get(at)) {
        let children = proc::children(pid).into_iter();
        let new: Vec<u32> = children.filter(|pid| !family.contains(pid)).collect();
        family.extend(new);
        at += 1;
    }
    let others = proc::processes().into_iter();
    others
        .filter(|pid| !family.contains(pid))
        .for_each(|pid| followed.leave_out(pid));
}

fn open_on_cpu(cpu: u32, samplings: &[Sampling]) -> Result<CpuEvents, CaptureError> {
    let opened = open_all(Subject::Cpu, cpu, samplings);
    let (samples, sideband) =
        opened.map_err(|error| CaptureError::call("opening an event of a CPU", error))?;
    Ok(CpuEvents {
        cpu: cpu as u16,
        samples: samples.into_iter().map(|event| vec![event]).collect(),
        sideband: vec![sideband],
    })
}

fn cannot_run(error: std::io::Error) -> CaptureError {
    CaptureError::call("running a program at samples", error)
}

/// All pids are below this. One that is not, because the limit was raised meanwhile, is let through by the program.
fn pids() -> u32 {
    let limit = proc::sysctl("pid_max").and_then(|limit| u32::try_from(limit).ok());
    limit.unwrap_or(MAX_PIDS).clamp(1, MAX_PIDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_namespace_within_a_container_is_out_of_sight() {
        let [initial, ours, within] =
            [0xEFFF_FFFC, 0xF000_0001, 0xF000_0002].map(PidNamespace::with_inode);
        assert!(is_seen_from(initial, initial) && is_seen_from(initial, within));
        assert!(is_seen_from(ours, ours));
        assert!(!is_seen_from(ours, within));
        check_sees(std::process::id()).unwrap();
        check_sees(5_000_001).unwrap();
    }

    #[test]
    fn switches_are_counted_by_cpu_time() {
        assert!(are_many(1_000, 1_000_000_000));
        assert!(!are_many(999, 1_000_000_000));
        assert!(are_many(15_000, 200_000_000));
        assert!(!are_many(15_000, 1_000_000));
        assert!(!are_many(0, 0));
        assert!(are_many(u64::MAX, u64::MAX / 2_000));
    }
}
