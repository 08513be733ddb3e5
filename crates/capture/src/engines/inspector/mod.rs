//! V8's own profiler, attached at run time through the inspector: the way in where perf events are
//! refused.
//!
//! The main thread and every worker are profiled, each with its own samples on one clock. The
//! process is left as it was found: an inspector we opened is closed again, one that was open stays
//! open. Dropping the session does the same, so a panic or an early return leaves nothing behind;
//! and if nodespy is killed, the connection breaks and V8 ends the profilers by itself.

mod close;
mod open;
pub(crate) mod ports;
mod profile;

use std::time::Duration;

use nodespy_inspector::{InspectorError, Place, Session, Worker};
use nodespy_model::{About, Profile};
use serde_json::json;

use close::Left;
use open::Opened;

use super::{Finding, Verdict};
use crate::error::CaptureError;
use crate::target::{Target, proc};

/// How long a profile may take to arrive: V8 makes it on the thread that was profiled.
const STOP: Duration = Duration::from_secs(60);

/// What to record.
#[derive(Debug, Clone)]
pub struct InspectorOptions {
    /// Microseconds between samples.
    pub interval_us: u32,
    /// How long a busy process is given to answer.
    pub patience: Duration,
    /// Whether an inspector that other machines can reach is opened all the same.
    pub force: bool,
}

impl Default for InspectorOptions {
    fn default() -> Self {
        Self {
            interval_us: 1000,
            patience: Duration::from_secs(10),
            force: false,
        }
    }
}

/// One thread whose profiler runs.
#[derive(Debug)]
struct Profiled {
    place: Place,
    name: String,
}

/// A recording that goes on.
#[derive(Debug)]
pub struct InspectorSession {
    pid: u32,
    opened: Opened,
    /// Until it is closed.
    session: Option<Session>,
    options: InspectorOptions,
    threads: Vec<Profiled>,
    remarks: Vec<String>,
}

impl InspectorSession {
    /// Starts V8's profiler on all threads of a process whose inspector listens.
    fn attach_to(
        pid: u32,
        opened: Opened,
        options: &InspectorOptions,
    ) -> Result<Self, CaptureError> {
        let session = match open::attach(pid, &opened) {
            Ok(session) => session,
            Err(error) => {
                if opened.is_ours {
                    close::close_opened(pid, &opened);
                }
                return Err(error);
            }
        };
        let mut recording = Self {
            pid,
            opened,
            session: Some(session),
            options: options.clone(),
            threads: Vec::new(),
            remarks: Vec::new(),
        };
        // An error from here on drops the recording, which closes what was opened.
        recording.start().map_err(|error| explain(pid, error))?;
        Ok(recording)
    }

    /// Attaches to several processes. Node's inspectors all want the same port, so each that we open
    /// moves to one of its own before the next is opened.
    pub fn attach_all(
        targets: &[Target],
        options: &InspectorOptions,
    ) -> Result<Vec<Self>, CaptureError> {
        let mut sessions = Vec::new();
        for (position, target) in targets.iter().enumerate() {
            let is_last = position + 1 == targets.len();
            let mut opened = open::open(target, options.patience, options.force)?;
            if opened.is_ours && !is_last {
                opened = open::move_away(target, opened, options.patience)?;
            }
            sessions.push(Self::attach_to(target.pid(), opened, options)?);
        }
        Ok(sessions)
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    fn start(&mut self) -> Result<(), InspectorError> {
        let session = self.session.as_mut().expect("it was just opened");
        let patience = self.options.patience;
        // Node 12 and later tell when they only wait for us to exit; earlier ones don't know it.
        let notify = json!({ "enabled": true });
        let told = session.call(
            &Place::Main,
            "NodeRuntime.notifyWhenWaitingForDisconnect",
            &notify,
            patience,
        );
        forgive_complaint(told)?;
        self.start_profiler(Place::Main, String::new())?;
        let session = self.session.as_mut().expect("it was just opened");
        let enable = json!({ "waitForDebuggerOnStart": false });
        let enabled = session.call(&Place::Main, "NodeWorker.enable", &enable, patience);
        forgive_complaint(enabled)?;
        self.start_new_workers()
    }

    fn start_profiler(&mut self, place: Place, name: String) -> Result<(), InspectorError> {
        let session = self.session.as_mut().expect("a running recording has one");
        let interval = json!({ "interval": self.options.interval_us });
        let calls = [
            ("Profiler.enable", json!({})),
            ("Profiler.setSamplingInterval", interval),
            ("Profiler.start", json!({})),
        ];
        for (method, params) in calls {
            session.call(&place, method, &params, self.options.patience)?;
        }
        self.threads.push(Profiled { place, name });
        Ok(())
    }

    /// Starts the profiler on workers that came since the last look. One that ends at once, or is
    /// too busy to answer, is left out.
    fn start_new_workers(&mut self) -> Result<(), InspectorError> {
        let session = self.session.as_mut().expect("a running recording has one");
        for worker in session.new_workers() {
            let name = name_of(&worker);
            let started = self.start_profiler(Place::Worker(worker.session), name.clone());
            match started {
                Err(error) if error.is_gone() => return Err(error),
                Err(error) => self
                    .remarks
                    .push(format!("{name} is not recorded: {error}")),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    /// The version of Node, such as `v20.20.2`.
    pub fn node_version(&self) -> &str {
        &self.opened.version
    }

    /// Whether nodespy opened the inspector.
    pub fn is_opened_by_us(&self) -> bool {
        self.opened.is_ours
    }

    /// Where the inspector listens.
    pub fn address(&self) -> std::net::SocketAddr {
        self.opened.listener
    }

    /// Takes in what happened and waits a moment for more. True when the process has ended but for
    /// us and the recording must be finished at once.
    pub fn look(&mut self) -> Result<bool, CaptureError> {
        let Some(session) = self.session.as_mut() else {
            return Ok(true);
        };
        let looked = session.look();
        if session.is_waiting_for_disconnect() {
            return Ok(true);
        }
        looked
            .and_then(|()| self.start_new_workers())
            .map_err(|error| explain(self.pid, error))?;
        Ok(false)
    }

    /// Ends the recording: takes the profiles and leaves the process as it was found.
    pub fn finish(mut self, about: About) -> Result<Profile, CaptureError> {
        let stopped = self.stop();
        let left = self.close();
        let pieces = stopped.map_err(|error| explain(self.pid, error))?;
        if let Some(remark) = self.say_how_left(left) {
            self.remarks.push(remark);
        }
        profile::assemble(self.pid, self.node_version(), about, &pieces, &self.remarks)
    }

    /// Stops every profiler. The commands go out together, so that the threads stop together.
    fn stop(&mut self) -> Result<Vec<profile::Piece>, InspectorError> {
        let session = self.session.as_mut().expect("a running recording has one");
        let mut asked = Vec::new();
        for thread in &self.threads {
            asked.push(session.send(&thread.place, "Profiler.stop", &json!({}))?);
        }
        let mut pieces = Vec::new();
        for (thread, id) in self.threads.iter().zip(asked) {
            let patience = match thread.place {
                Place::Main => STOP,
                // A worker that ended never answers.
                Place::Worker(_) => self.options.patience.min(STOP),
            };
            match session.reply(&thread.place, id, "Profiler.stop", patience) {
                Ok(json) => pieces.push(profile::Piece {
                    thread: thread.name.clone(),
                    is_main: thread.place == Place::Main,
                    json,
                }),
                Err(error) if thread.place == Place::Main => return Err(error),
                Err(_) => self.remarks.push(format!(
                    "{} ended during the recording: its samples are lost",
                    thread.name
                )),
            }
        }
        Ok(pieces)
    }

    fn close(&mut self) -> Left {
        match self.session.take() {
            Some(session) => close::close(self.pid, &self.opened, session),
            None => Left::AsFound,
        }
    }

    fn say_how_left(&self, left: Left) -> Option<String> {
        match left {
            Left::AsFound => None,
            Left::OpenForOthers => Some(format!(
                "the inspector nodespy opened still listens at {}, because somebody else is attached \
                 to it: closing it would stop the process until they hang up",
                self.opened.listener
            )),
            Left::Open if proc::read_status(self.pid).is_none() => None,
            Left::Open => Some(format!(
                "the inspector nodespy opened may still listen at {}: any user of the machine can \
                 run code in the process through it",
                self.opened.listener
            )),
        }
    }
}

impl Drop for InspectorSession {
    fn drop(&mut self) {
        if self.session.is_some() {
            self.close();
        }
    }
}

/// `[worker 1] name` (18 and later) or `Worker 1`, as a thread's name.
fn name_of(worker: &Worker) -> String {
    let title = worker.title.trim();
    match title
        .strip_prefix("[worker ")
        .and_then(|rest| rest.split_once(']'))
    {
        Some((number, "")) => format!("worker {number}"),
        Some((_, name)) if !name.trim().is_empty() => name.trim().to_owned(),
        Some((number, _)) => format!("worker {number}"),
        None => title.to_lowercase(),
    }
}

/// An inspector that does not know a command is an old one; any other failure counts.
fn forgive_complaint(result: Result<String, InspectorError>) -> Result<(), InspectorError> {
    match result {
        Ok(_) | Err(InspectorError::Command { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A command that is not answered is one whose thread is in native code: the inspector itself
/// answers on a thread of its own.
fn explain(pid: u32, error: InspectorError) -> CaptureError {
    match error {
        InspectorError::Late { after, method } => CaptureError::refused(format!(
            "the main thread of process {pid} did not answer {method} within {:.1} s: it is blocked \
             in native code (execSync, a synchronous addon); nodespy dump -p {pid} shows where, and \
             nodespy record --engine perf -p {pid} records it there",
            after.as_secs_f64()
        )),
        error => open::inspector_failure(pid, error),
    }
}

/// Whether an inspector can be opened in process `pid`, as far as can be told without doing it.
pub fn probe_quickly(pid: u32) -> bool {
    let own = proc::read_status(std::process::id()).unwrap_or_default();
    let may_signal = proc::read_status(pid)
        .is_some_and(|status| status.uid == own.uid || own.has_capability(proc::CAP_KILL));
    may_signal && open::signal_state(pid) == Some(open::SignalState::Caught)
}

/// Whether the inspector of a process can be used, and if not, why.
pub fn probe(pid: u32) -> Vec<Finding> {
    let subject = "V8 inspector";
    let listening = ports::listeners(pid)
        .into_iter()
        .find(|listener| open::probe(pid, *listener).is_ok());
    let (verdict, detail) = match (listening, open::signal_state(pid)) {
        (_, None) => (Verdict::Bad, "the process is gone".to_owned()),
        (Some(listener), _) => (Verdict::Good, format!("it listens at {listener} already")),
        (None, Some(open::SignalState::Caught)) => (
            Verdict::Good,
            format!(
                "SIGUSR1 is caught, so it can be opened (unless the application has a handler of \
                 its own){}",
                match ports::holder_of(pid, 9229) {
                    Some(holder) => format!("; but port 9229 is held by process {holder}"),
                    None => String::new(),
                }
            ),
        ),
        (None, Some(open::SignalState::Blocked)) => (
            Verdict::Bad,
            "SIGUSR1 is blocked (--disable-sigusr1), so it can't be opened".to_owned(),
        ),
        (None, Some(open::SignalState::Ignored)) => (
            Verdict::Bad,
            "SIGUSR1 is ignored, so it can't be opened".to_owned(),
        ),
        (None, Some(open::SignalState::Deadly)) => (
            Verdict::Bad,
            "SIGUSR1 is not caught and would end the process, so it is not opened".to_owned(),
        ),
    };
    vec![Finding {
        subject,
        verdict,
        detail,
        remedy: None,
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_go_by_the_name_they_were_given() {
        let named = |title: &str| {
            name_of(&Worker {
                session: String::new(),
                title: title.to_owned(),
                url: String::new(),
            })
        };
        assert_eq!(named("[worker 3] resize"), "resize");
        assert_eq!(named("[worker 3]"), "worker 3");
        assert_eq!(named("[worker 3] "), "worker 3");
        assert_eq!(named("Worker 3"), "worker 3");
    }
}
