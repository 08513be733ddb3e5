//! A command that puts load on the one that is recorded, from when that listens on a port.

use std::time::{Duration, Instant};

use nodespy_capture::CaptureError;
use nodespy_capture::target::{LaunchOptions, Launched, listening_ports, proc};

/// How long the command may take to listen.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How often ports are looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How many processes of the command are asked for ports.
const MAX_PROCESSES: usize = 256;
/// What a shell answers for a command that it can't run, or does not find.
const NOT_RUN: [i32; 2] = [126, 127];

/// The command, waiting or running.
#[derive(Debug)]
pub(crate) struct Load {
    process: Launched,
    state: State,
    since: Instant,
    next_poll: Instant,
}

#[derive(Debug)]
enum State {
    Waiting,
    Running {
        port: u16,
    },
    Ended {
        port: u16,
        code: Option<i32>,
    },
    /// It was not started, for this reason.
    Failed(String),
}

/// How the load ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoadEnd {
    /// For the notes of the recording.
    pub(crate) sentence: String,
    /// Whether there was no load to speak of.
    pub(crate) is_failure: bool,
    /// Whether the recording ended with it.
    pub(crate) was_over: bool,
}

impl Load {
    /// Makes the process, which waits: as the same user as the command that is recorded.
    pub(crate) fn prepare(command: &str, keep_root: bool) -> Result<Self, CaptureError> {
        let shell = ["sh", "-c", command].map(Into::into).to_vec();
        let options = LaunchOptions {
            command: shell,
            keep_root,
        };
        Ok(Self {
            process: Launched::prepare_with_port(&options)?,
            state: State::Waiting,
            since: Instant::now(),
            next_poll: Instant::now(),
        })
    }

    /// Starts it once the command, process `app`, or a process of that listens. Returns whether there is
    /// nothing to wait for any more.
    pub(crate) fn poll(&mut self, app: u32) -> bool {
        if Instant::now() < self.next_poll {
            return false;
        }
        self.next_poll = Instant::now() + POLL_INTERVAL;
        match self.state {
            State::Waiting => self.start_if_possible(app),
            State::Running { port } => {
                if let Some(status) = self.process.try_status() {
                    let code = status.code();
                    self.state = State::Ended { port, code };
                }
            }
            State::Ended { .. } | State::Failed(_) => {}
        }
        matches!(self.state, State::Ended { .. } | State::Failed(_))
    }

    fn start_if_possible(&mut self, app: u32) {
        let Some(port) = port_of(app) else {
            if self.since.elapsed() > MAX_WAIT {
                self.state = State::Failed(format!(
                    "the command listened on no TCP port within {} s, so the load was not started",
                    MAX_WAIT.as_secs()
                ));
            }
            return;
        };
        self.state = match self.process.start_with_port(port) {
            Ok(()) => State::Running { port },
            Err(error) => State::Failed(format!(
                "the load was not started: {}",
                nodespy_capture::with_causes(&error)
            )),
        };
    }

    /// Ends it, if it still runs, and says how it went.
    pub(crate) fn finish(mut self) -> LoadEnd {
        let (sentence, is_failure, was_over) = match self.state {
            State::Waiting => (
                "the recording ended before the command listened on a TCP port, so the load was not \
                 started"
                    .to_owned(),
                true,
                false,
            ),
            State::Failed(ref sentence) => (sentence.clone(), true, true),
            State::Running { port } => {
                self.process.end();
                let sentence = format!("the load on port {port} was ended with the recording");
                (sentence, false, false)
            }
            State::Ended { port, code } => {
                let is_failure = code.is_some_and(|code| NOT_RUN.contains(&code));
                (ended_sentence(port, code), is_failure, true)
            }
        };
        LoadEnd {
            sentence,
            is_failure,
            was_over,
        }
    }
}

fn ended_sentence(port: u16, code: Option<i32>) -> String {
    match code {
        Some(code) if NOT_RUN.contains(&code) => format!(
            "the load on port {port} could not be run: the shell ended with status {code}; try the \
             command of --on-port by itself"
        ),
        Some(code) => format!("the load on port {port} ended with status {code}"),
        None => format!("a signal ended the load on port {port}"),
    }
}

/// The first port that a process or one of its descendants listens on.
fn port_of(app: u32) -> Option<u16> {
    let mut pids = vec![app];
    let mut position = 0;
    while position < pids.len() {
        let pid = pids[position];
        if let Some(port) = listening_ports(pid).first() {
            return Some(*port);
        }
        let room = MAX_PROCESSES.saturating_sub(pids.len());
        let children = proc::children(pid).into_iter();
        let fresh: Vec<u32> = children.filter(|child| !pids.contains(child)).collect();
        pids.extend(fresh.into_iter().take(room));
        position += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_of_ours_is_found_and_a_silent_process_has_none() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let own = std::process::id();
        assert!(listening_ports(own).contains(&listener.local_addr().unwrap().port()));
        assert!(port_of(own).is_some());
        assert_eq!(port_of(u32::MAX), None);
    }

    #[test]
    fn how_it_ended_is_said() {
        assert!(ended_sentence(80, Some(3)).contains("status 3"));
        assert!(ended_sentence(80, Some(127)).contains("could not be run"));
        assert!(ended_sentence(80, None).contains("signal"));
    }
}
