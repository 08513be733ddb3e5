//! One process as it was seen: what is mapped in it, and the stacks of its threads.

use std::io;

use nodespy_model::{Event, Mapping};

use super::ThreadLook;
use crate::error::{CaptureError, explain_no_tracing};
use crate::target::{Target, no_mappings, proc, synthesize_initial_events};

/// How often a process is looked at that starts other programs meanwhile.
const ATTEMPTS: u32 = 3;

#[derive(Debug)]
pub(super) struct ProcessLook {
    /// What is mapped and what threads are called.
    pub(super) events: Vec<Event<'static>>,
    /// The threads with one sample each, the main one first.
    pub(super) threads: Vec<(ThreadLook, Event<'static>)>,
    /// What the reader should know of how it was captured.
    pub(super) remarks: Vec<String>,
}

/// Looks at processes one after the other. Children come and go: one that ended meanwhile is left
/// out, unless there was no other.
pub(super) fn look_at_each(
    targets: &[Target],
    mut look_at_threads: impl FnMut(&mut ProcessLook, u32) -> Result<(), CaptureError>,
) -> Result<Vec<ProcessLook>, CaptureError> {
    let mut looks = Vec::new();
    let mut gone = None;
    for target in targets {
        match look_at(target.pid(), &mut look_at_threads) {
            Ok(look) => looks.push(look),
            Err(error @ CaptureError::Gone { .. }) => gone = gone.or(Some(error)),
            Err(error) => return Err(error),
        }
    }
    match gone {
        Some(error) if looks.is_empty() => Err(error),
        _ => Ok(looks),
    }
}

/// Looks at a process, and again when it started another program or loaded a library meanwhile:
/// stacks of the new code don't fit the mappings of the old.
fn look_at(
    pid: u32,
    look_at_threads: &mut impl FnMut(&mut ProcessLook, u32) -> Result<(), CaptureError>,
) -> Result<ProcessLook, CaptureError> {
    let mut attempts_left = ATTEMPTS;
    loop {
        let mut look = ProcessLook::describe(pid)?;
        look_at_threads(&mut look, pid)?;
        attempts_left -= 1;
        if attempts_left == 0 || look.has_the_files_of(pid) {
            return Ok(look);
        }
    }
}

impl ProcessLook {
    fn describe(pid: u32) -> Result<Self, CaptureError> {
        let has_ended = |&tid: &u32| proc::live_run_state(pid, tid).is_none();
        if proc::threads(pid).iter().all(has_ended) {
            return Err(CaptureError::Gone { pid });
        }
        let (events, mappings) = synthesize_initial_events(pid);
        let remarks = match mappings {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Err(explain_no_tracing(pid, error));
            }
            Err(error) => vec![no_mappings(pid, &error)],
            Ok(()) => Vec::new(),
        };
        Ok(Self {
            events,
            threads: Vec::new(),
            remarks,
        })
    }

    /// Whether a process still runs code of the same files at the same addresses. One that is gone
    /// won't run any other.
    fn has_the_files_of(&self, pid: u32) -> bool {
        let Ok(now) = proc::code_mappings(pid) else {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::proc::RunState;
    use std::process::{Command, Stdio};

    fn held(pid: u32) -> Vec<Target> {
        vec![Target::hold(pid).unwrap()]
    }

    #[test]
    fn a_process_that_starts_another_program_meanwhile_is_looked_at_again() {
        let mut shell = Command::new("sh")
            .args(["-c", "read line; exec sleep 60"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = shell.id();
        let mut looks = 0;
        let found = look_at_each(&held(pid), |_, _| {
            looks += 1;
            // Dropping its input lets the shell go on.
            if shell.stdin.take().is_some() {
                while proc::command_line(pid) != ["sleep", "60"] {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
                // It maps its libraries after that.
                while proc::run_state(pid, pid) != Some(RunState::Sleeping) {
                    std::thread::sleep(std::time::Duration::from_millis(5));
                }
            }
            Ok(())
        })
        .unwrap();
        let program = found[0].events.iter().find_map(|event| match event {
            Event::Mapping(mapping) => Some(mapping.path.clone()),
            _ => None,
        });
        shell.kill().unwrap();
        shell.wait().unwrap();
        assert!((2..=ATTEMPTS).contains(&looks), "{looks}");
        assert!(program.unwrap().ends_with("sleep") || looks == ATTEMPTS);
    }

    #[test]
    fn an_ended_process_is_left_out_unless_it_is_the_only_one() {
        let mut alive = Command::new("sleep").arg("60").spawn().unwrap();
        let mut ended = Command::new("sleep").arg("60").spawn().unwrap();
        let mut targets = held(ended.id());
        ended.kill().unwrap();
        // A zombie until it is waited for.
        while proc::run_state(ended.id(), ended.id()) != Some(RunState::Ended) {
            std::thread::yield_now();
        }
        let only = look_at_each(&targets, |_, _| Ok(()));
        targets.extend(held(alive.id()));
        let both = look_at_each(&targets, |_, _| Ok(()));
        alive.kill().unwrap();
        ended.wait().unwrap();
        alive.wait().unwrap();
        assert!(matches!(only, Err(CaptureError::Gone { .. })), "{only:?}");
        assert_eq!(both.unwrap().len(), 1);
    }
}
