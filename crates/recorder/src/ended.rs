//! The end of a recording: of its processes, of its command, and of one that saw nothing.

use std::process::ExitStatus;
use std::time::Duration;

use nodespy_capture::monotonic_now;
use nodespy_capture::target::{Launched, Target};
use nodespy_model::{ExitReason, Nanoseconds, Process, Profile};

use crate::live::End;
use crate::observer::Observer;
use crate::subject::Subject;

/// A process that uses less of a CPU than this is called idle.
const IDLE_SHARE: f64 = 0.02;
/// How long a launched command is given to end after it was asked to.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// How often its end is polled for.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The CPU time of each process since sampling started; none for those that are gone.
pub(crate) fn cpu_times(subject: &Subject) -> Vec<(u32, Option<Nanoseconds>)> {
    let targets = subject.targets.iter();
    targets
        .map(|target| (target.pid(), target.cpu_time()))
        .collect()
}

/// Notes how targets ended while they were recorded.
pub(crate) fn remark_ended(subject: &mut Subject, profile: &mut Profile) {
    for target in &subject.targets {
        if !target.has_ended() {
            continue;
        }
        let status = subject.launched.as_mut().and_then(Launched::try_status);
        let Some(process) = profile
            .processes
            .iter_mut()
            .find(|process| process.pid == target.pid())
        else {
            continue;
        };
        process.exit = Some(status.map_or(ExitReason::Ended, exit_reason));
        let remark = ended_sentence(process);
        profile.notes.remark(remark);
    }
}

fn ended_sentence(process: &Process) -> String {
    let when = process
        .ended
        .map(|time| format!(" after {:.1} s", time as f64 / 1e9))
        .unwrap_or_default();
    let how = match process.exit {
        Some(ExitReason::Status(0)) => " with status 0".to_owned(),
        Some(ExitReason::Status(status)) => format!(" with status {status}"),
        Some(ExitReason::Signal(signal)) => format!(" by signal {signal}"),
        _ => String::new(),
    };
    format!("process {} ended{when}{how}", process.pid)
}

fn exit_reason(status: ExitStatus) -> ExitReason {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => ExitReason::Status(code),
        (None, Some(signal)) => ExitReason::Signal(signal),
        (None, None) => ExitReason::Ended,
    }
}

/// Why nothing was seen.
pub(crate) fn why_no_samples(
    duration: Nanoseconds,
    cpu_times: &[(u32, Option<Nanoseconds>)],
    end: End,
) -> String {
    let seconds = duration as f64 / 1e9;
    let (pid, used) = cpu_times.first().copied().unwrap_or((0, None));
    let why = match (end, used) {
        (End::TargetsGone, _) => format!("process {pid} ended after {seconds:.1} s"),
        (_, Some(used)) => {
            let is_idle = (used as f64) < duration as f64 * IDLE_SHARE;
            format!(
                "process {pid} used {:.3} s of CPU in {seconds:.1} s{}",
                used as f64 / 1e9,
                if is_idle {
                    ", so it was idle; record while it is busy, or longer (-d 60)"
                } else {
                    "; record longer (-d 60) or at a higher rate (-F 999)"
                }
            )
        }
        (_, None) => format!("process {pid} is gone"),
    };
    format!("no samples: {why}")
}

/// Why an event made no samples.
pub(crate) fn why_no_events(duration: Nanoseconds, event: &str) -> String {
    format!(
        "no samples: {event} did not happen often enough in {:.1} s; record longer (-d 60), or take \
         one sample for fewer of them (-e {event}/period=1/)",
        duration as f64 / 1e9
    )
}

/// Ends the command, if there is one, whose recording is over, and returns its status.
pub(crate) fn end_command(
    subject: &mut Subject,
    end: End,
    observer: &mut dyn Observer,
) -> Option<ExitStatus> {
    let launched = subject.launched.as_mut()?;
    if end == End::TargetsGone {
        return launched.wait();
    }
    // Ctrl-C reached the command too, as one of the terminal's foreground processes.
    if end == End::Duration {
        launched.terminate();
    }
    let deadline = monotonic_now() + END_TIMEOUT.as_nanos() as Nanoseconds;
    while launched.try_status().is_none() && monotonic_now() < deadline {
        std::thread::sleep(POLL_INTERVAL);
    }
    let status = launched.try_status();
    if status.is_none() {
        let pid = launched.pid();
        observer.note(&format!(
            "The command still runs as process {pid}; to end it: kill {pid}"
        ));
    }
    status
}

/// Ends a command that was there for the load only, and whatever it started. Returns its status.
pub(crate) fn end_all(subject: &mut Subject) -> Option<ExitStatus> {
    // Children that the kernel samples with their parents are not held yet.
    subject.add_children();
    let running = || subject.targets.iter().filter(|target| !target.has_ended());
    for end in [Target::terminate, Target::kill] {
        running().for_each(end);
        let deadline = monotonic_now() + END_TIMEOUT.as_nanos() as Nanoseconds;
        while running().next().is_some() && monotonic_now() < deadline {
            std::thread::sleep(POLL_INTERVAL);
        }
    }
    let launched = subject.launched.as_mut()?;
    launched.end();
    launched.try_status()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_process_is_told_from_a_short_recording() {
        let second = 1_000_000_000;
        let said = |used, end| why_no_samples(10 * second, &[(7, used)], end);
        assert!(said(Some(second / 100), End::Duration).contains("so it was idle"));
        assert!(said(Some(second), End::Duration).contains("-F 999"));
        assert!(said(None, End::Duration).contains("process 7 is gone"));
        assert!(said(None, End::TargetsGone).contains("ended after 10.0 s"));
    }
}
