//! V8's own profiler, attached at run time through the inspector: the way in where perf events are
//! refused.
//!
//! The main thread and every worker are profiled, each with its own samples on one clock. The
//! process is left as it was found: an inspector we opened is closed again, one that was open stays
//! open. Dropping the session does the same, so a panic or an early return leaves nothing behind;
//! and if nodespy is killed, the connection breaks and V8 ends the profilers by itself.

mod assembly;
mod close;
mod event;
mod lane;
mod launched;
mod native_block;
mod open;
pub(crate) mod ports;
mod sources;
mod wanted;

use std::collections::HashSet;
use std::time::Duration;

pub use nodespy_inspector::InspectorUrl;
use nodespy_inspector::{InspectorError, Place, Session, Worker};
use nodespy_model::{About, LoadedScript, Nanoseconds, Process, Profile};
use serde::Deserialize;
use serde_json::json;

use assembly::Assembly;
use close::Left;
pub use event::InspectorEvent;
use lane::{Lane, Said};
pub use launched::{command_to_launch, is_node_command};
use native_block::what_blocks;
use open::Opened;
use ports::Holder;

use super::{Finding, Verdict};
use crate::Interrupts;
use crate::error::CaptureError;
use crate::target::{Target, app_of_command, describe, proc};

/// Files of what Node does not run as it is.
const SOURCE_EXTENSIONS: [&str; 7] = ["ts", "mts", "cts", "tsx", "jsx", "vue", "svelte"];
/// How long a profile may take to arrive: V8 makes it on the thread that was profiled.
const STOP: Duration = Duration::from_secs(60);

/// What to record.
#[derive(Debug, Clone)]
pub struct InspectorOptions {
    /// What makes a sample.
    pub event: InspectorEvent,
    /// Microseconds between samples of time.
    pub interval_us: u32,
    /// Bytes between samples of allocations.
    pub alloc_bytes: u32,
    /// How long a slice of a long recording is; by default as long as it takes to cost little.
    pub slice: Option<Duration>,
    /// How long a busy process is given to answer.
    pub patience: Duration,
    /// Whether the texts of the scripts that were seen go into the profile.
    pub embed_sources: bool,
    /// Whether V8 is asked for the source maps of scripts that it did not load as they are on disk.
    pub wants_source_maps: bool,
    /// Whether an inspector that other machines can reach is opened all the same.
    pub force: bool,
    /// When the recording starts, by the monotonic clock.
    pub started: Option<Nanoseconds>,
    /// The user's wish to stop.
    pub interrupts: Option<Interrupts>,
    /// Tells the user what is waited for.
    pub tell: fn(&str),
}

impl Default for InspectorOptions {
    fn default() -> Self {
        Self {
            event: InspectorEvent::Cpu,
            interval_us: 1000,
            alloc_bytes: 64 << 10,
            slice: None,
            patience: Duration::from_secs(10),
            embed_sources: false,
            wants_source_maps: false,
            force: false,
            started: None,
            interrupts: None,
            tell: |_| {},
        }
    }
}

impl InspectorOptions {
    fn is_interrupted(&self) -> bool {
        self.interrupts
            .is_some_and(|interrupts| interrupts.count() > 0)
    }

    /// Whether the user has asked twice.
    fn is_impatient(&self) -> bool {
        self.interrupts
            .is_some_and(|interrupts| interrupts.count() > 1)
    }
}

/// What was recorded.
#[derive(Debug)]
pub struct Inspected {
    /// The profile.
    pub profile: Profile,
    /// What V8 says of scripts that it did not load as they are on disk.
    pub scripts: Vec<LoadedScript>,
}

/// A recording that goes on.
#[derive(Debug)]
pub struct InspectorSession {
    opened: Opened,
    /// One conversation, or two once a recording is long; none when it is over.
    sessions: Vec<Session>,
    options: InspectorOptions,
    lanes: Vec<Lane>,
    assembly: Assembly,
    remarks: Vec<String>,
    /// Whether nodespy started the process, whose threads then wait to be let go.
    is_launched: bool,
}

impl InspectorSession {
    /// Attaches to several processes. Node's inspectors all want the same port, so each that we open
    /// moves to one of its own before the next is opened. A process that was not `asked` for by its
    /// number, such as a child of one, may refuse as long as another does not.
    pub fn attach_all(
        targets: &[&Target],
        asked: impl Fn(u32) -> bool,
        options: &InspectorOptions,
    ) -> Result<Vec<Self>, CaptureError> {
        let mut sessions: Vec<Self> = Vec::new();
        let mut refusals = Vec::new();
        for (position, target) in targets.iter().enumerate() {
            let is_last = position + 1 == targets.len();
            match Self::attach(target, is_last, options) {
                Ok(session) => sessions.push(session),
                Err(error) if asked(target.pid()) => return Err(error),
                Err(error) => refusals.push(error),
            }
        }
        match sessions.first_mut() {
            Some(first) => {
                let remarks = refusals
                    .iter()
                    .map(|error| format!("not recorded: {error}"));
                first.remarks.extend(remarks);
            }
            None if !refusals.is_empty() => return Err(refusals.remove(0)),
            None => {}
        }
        Ok(sessions)
    }

    fn attach(
        target: &Target,
        is_last: bool,
        options: &InspectorOptions,
    ) -> Result<Self, CaptureError> {
        let mut opened = open::open(target, options)?;
        if opened.is_ours && !is_last {
            opened = open::move_away(target, opened, options)?;
        }
        let mut recording = Self::over(opened, options)?;
        // An error from here on drops the recording, which closes what was opened.
        recording
            .begin()
            .map_err(|error| recording.explain(error))?;
        Ok(recording)
    }

    /// Attaches to the inspector behind an address, on another machine or forwarded from there.
    pub fn attach_url(
        url: &InspectorUrl,
        options: &InspectorOptions,
    ) -> Result<Self, CaptureError> {
        let mut recording = Self::over(open::open_url(url)?, options)?;
        recording
            .begin()
            .map_err(|error| recording.explain(error))?;
        Ok(recording)
    }

    /// Attaches to a process that was started to be recorded ([`command_to_launch`]) and waits for us.
    pub fn attach_launched(
        target: &Target,
        options: &InspectorOptions,
    ) -> Result<Self, CaptureError> {
        let opened = launched::wait_for_inspector(target, options.patience)?;
        let mut recording = Self::over(opened, options)?;
        recording.is_launched = true;
        let begun = recording.begin();
        begun
            .and_then(|()| launched::let_go(&mut recording.sessions[0], options.patience))
            .map_err(|error| recording.explain(error))?;
        Ok(recording)
    }

    /// A conversation with an inspector that listens, before anything is said.
    fn over(opened: Opened, options: &InspectorOptions) -> Result<Self, CaptureError> {
        let mut session = match open::attach(&opened) {
            Ok(session) => session,
            Err(error) => {
                if opened.is_ours {
                    close::close_opened(&opened);
                }
                return Err(error);
            }
        };
        let known = match opened.pid() {
            Some(pid) => describe(pid).unwrap_or(Process {
                pid,
                ..Process::default()
            }),
            None => ask_who(&mut session, options.patience),
        };
        let process = Process {
            node_version: Some(opened.version.clone()),
            ..known
        };
        Ok(Self {
            assembly: Assembly::new(options.event, process, options.started),
            opened,
            sessions: vec![session],
            options: options.clone(),
            lanes: Vec::new(),
            remarks: Vec::new(),
            is_launched: false,
        })
    }

    /// Its process on this machine.
    pub fn pid(&self) -> Option<u32> {
        self.opened.pid()
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

    fn begin(&mut self) -> Result<(), InspectorError> {
        self.introduce(0)?;
        let mut main = Lane::start(
            0,
            "main".to_owned(),
            Place::Main,
            0,
            &mut self.sessions,
            &self.options,
        )?;
        main.wait_for_start(&mut self.sessions, &self.options)?;
        self.lanes.push(main);
        self.enable_workers(0)?;
        self.start_new_workers()
    }

    /// Says what we want to be told.
    fn introduce(&mut self, conversation: usize) -> Result<(), InspectorError> {
        // Node 12 and later tell when they only wait for us to exit; earlier ones don't know it.
        let notify = json!({ "enabled": true });
        let told = self.sessions[conversation].call(
            &Place::Main,
            "NodeRuntime.notifyWhenWaitingForDisconnect",
            &notify,
            self.options.patience,
        );
        forgive_complaint(told)
    }

    fn enable_workers(&mut self, conversation: usize) -> Result<(), InspectorError> {
        let enable = json!({ "waitForDebuggerOnStart": false });
        let enabled = self.sessions[conversation].call(
            &Place::Main,
            "NodeWorker.enable",
            &enable,
            self.options.patience,
        );
        forgive_complaint(enabled)
    }

    /// Starts the profiler on workers that came since the last look.
    fn start_new_workers(&mut self) -> Result<(), InspectorError> {
        for conversation in 0..self.sessions.len() {
            for worker in self.sessions[conversation].new_workers() {
                // A worker whose title is not what Node writes is told from the others all the same.
                let number = worker
                    .number()
                    .unwrap_or(u32::MAX - self.lanes.len() as u32);
                let name = name_of(&worker);
                let place = Place::Worker(worker.session);
                if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.number == number) {
                    lane.is_also_at(conversation, place);
                    continue;
                }
                if self.is_launched {
                    let method = "Runtime.runIfWaitingForDebugger";
                    self.sessions[conversation].send(&place, method, &json!({}))?;
                }
                self.lanes.push(Lane::start(
                    number,
                    name,
                    place,
                    conversation,
                    &mut self.sessions,
                    &self.options,
                )?);
            }
        }
        Ok(())
    }

    /// Takes in what happened and waits a moment for more. True when the process has ended but for
    /// us and the recording must be finished at once.
    pub fn look(&mut self) -> Result<bool, CaptureError> {
        let looked = self.try_look();
        let is_waiting = |session: &Session| session.is_waiting_for_disconnect();
        if self.sessions.iter().any(is_waiting) {
            return Ok(true);
        }
        looked.map_err(|error| self.explain(error))?;
        Ok(self.sessions.is_empty())
    }

    fn try_look(&mut self) -> Result<(), InspectorError> {
        for session in &mut self.sessions {
            session.look()?;
        }
        if self.sessions.len() == 1 && self.lanes.iter().any(|lane| self.needs_another(lane)) {
            self.open_another()?;
        }
        self.start_new_workers()?;
        for lane in &mut self.lanes {
            match lane.turn(&mut self.sessions, &self.options)? {
                Said::Nothing => {}
                Said::Profile(json) => self.assembly.take(lane.number, &lane.name, &json),
                Said::Remark(remark) => self.remarks.push(remark),
            }
        }
        Ok(())
    }

    /// Whether a long recording now needs a second conversation.
    fn needs_another(&self, lane: &Lane) -> bool {
        self.options.event == InspectorEvent::Cpu && lane.is_due()
    }

    fn open_another(&mut self) -> Result<(), InspectorError> {
        let Ok(session) = open::attach(&self.opened) else {
            // Whoever does not want a second conversation is recorded in one slice.
            self.remarks.push(
                "the process takes no second conversation: if it had died, all would have been lost"
                    .to_owned(),
            );
            self.options.slice = Some(Duration::MAX);
            for lane in &mut self.lanes {
                lane.never_change_over();
            }
            return Ok(());
        };
        self.sessions.push(session);
        self.introduce(1)?;
        for lane in self.lanes.iter_mut().filter(|lane| lane.number == 0) {
            lane.is_also_at(1, Place::Main);
        }
        self.enable_workers(1)
    }

    /// Ends the recording: takes the profiles and leaves the process as it was found.
    pub fn finish(mut self, about: About) -> Result<Inspected, CaptureError> {
        let stopped = self.stop();
        let wanted = self.wanted_files();
        let scripts = match stopped.is_ok() && !wanted.is_empty() {
            true => self.fetch_scripts(&wanted),
            false => Vec::new(),
        };
        let left = self.close();
        if let Some(remark) = self.say_how_left(left) {
            self.remarks.push(remark);
        }
        if let Err(error) = stopped {
            let at_stake = self.lanes.first().map_or(Duration::ZERO, Lane::at_stake);
            if self.assembly.is_empty() {
                return Err(self.explain(error));
            }
            self.remarks.push(format!(
                "the process ended, or did not answer any more ({error}): the last {:.1} s are lost",
                at_stake.as_secs_f64()
            ));
        }
        if let Some(remark) = self.say_what_counts() {
            self.remarks.push(remark);
        }
        let remarks = std::mem::take(&mut self.remarks);
        let nothing = Assembly::new(self.options.event, Process::default(), None);
        let assembly = std::mem::replace(&mut self.assembly, nothing);
        Ok(Inspected {
            profile: assembly.finish(about, &remarks),
            scripts,
        })
    }

    /// The files whose scripts V8 is asked for. That costs the process some time, because V8 tells of
    /// all it has; files of JavaScript can be read from the disk instead. Anything else was made
    /// into JavaScript while it was loaded, and only V8 has what became of it.
    fn wanted_files(&self) -> HashSet<String> {
        let mut files = self.assembly.files();
        if !self.options.embed_sources {
            let is_compiled = |file: &String| {
                let name = file.rsplit('/').next().unwrap_or(file);
                let extension = name.rsplit_once('.').map(|(_, extension)| extension);
                let is_code = |extension: &str| SOURCE_EXTENSIONS.contains(&extension);
                extension.is_some_and(is_code) && self.options.wants_source_maps
            };
            files.retain(is_compiled);
        }
        files
    }

    /// Stops every profiler. The commands go out together, so that the threads stop together.
    fn stop(&mut self) -> Result<(), InspectorError> {
        let mut asked = Vec::new();
        for (position, lane) in self.lanes.iter().enumerate() {
            for command in lane.stop(&mut self.sessions, &self.options)? {
                asked.push((position, command));
            }
        }
        let method = self.options.event.stop();
        for (position, command) in asked {
            let lane = &self.lanes[position];
            let is_main = command.place == Place::Main;
            let patience = match is_main {
                true => STOP,
                false => self.options.patience.min(STOP),
            };
            let session = &mut self.sessions[command.conversation];
            match session.reply(&command.place, command.id, method, patience) {
                Ok(json) => self.assembly.take(lane.number, &lane.name, &json),
                // The next profiler was not yet running when it was stopped.
                Err(InspectorError::Command { .. }) if !self.assembly.is_empty() => {}
                Err(error) if is_main => return Err(error),
                Err(error) => self.remarks.push(format!(
                    "the last {:.1} s of {} are lost: {error}",
                    lane.at_stake().as_secs_f64(),
                    lane.name
                )),
            }
        }
        Ok(())
    }

    /// Asks for the scripts of files, and takes their texts where they are wanted, unless the
    /// process waits for us to go.
    fn fetch_scripts(&mut self, files: &HashSet<String>) -> Vec<LoadedScript> {
        let mut scripts = Vec::new();
        let is_waiting = |session: &Session| session.is_waiting_for_disconnect();
        if self.sessions.iter().any(is_waiting) {
            self.remarks
                .push("the process ended: the sources are left out".to_owned());
            return scripts;
        }
        let wish = sources::Wish {
            pid: self.pid().unwrap_or(0),
            files,
            has_texts: self.options.embed_sources,
            patience: self.options.patience,
        };
        for lane in &self.lanes {
            let (conversation, place) = lane.spoken_to_at();
            let session = &mut self.sessions[conversation];
            if session.has_ended(&place) {
                continue;
            }
            match sources::fetch(session, &place, &wish) {
                Ok(fetched) => {
                    scripts.extend(fetched.scripts);
                    for (file, text) in fetched.texts {
                        self.assembly.add_text(&file, text);
                    }
                }
                Err(error) => self.remarks.push(format!(
                    "the sources of {} are left out: {error}",
                    lane.name
                )),
            }
        }
        scripts
    }

    fn close(&mut self) -> Left {
        close::close(&self.opened, std::mem::take(&mut self.sessions))
    }

    fn say_how_left(&self, left: Left) -> Option<String> {
        let is_gone = self
            .pid()
            .is_some_and(|pid| proc::read_status(pid).is_none());
        match left {
            Left::AsFound => None,
            _ if is_gone => None,
            Left::OpenForOthers => Some(format!(
                "the inspector nodespy opened still listens at {}, because somebody else is attached \
                 to it: closing it would stop the process until they hang up",
                self.opened.listener
            )),
            Left::Open => Some(format!(
                "the inspector nodespy opened may still listen at {}: any user of the machine can \
                 run code in the process through it",
                self.opened.listener
            )),
        }
    }

    /// Says that an old Node tells less.
    fn say_what_counts(&self) -> Option<String> {
        let major = self
            .opened
            .version
            .trim_start_matches('v')
            .split('.')
            .next();
        let is_old = major.and_then(|major| major.parse::<u32>().ok())? < 20;
        (is_old && self.options.event == InspectorEvent::Allocations).then(|| {
            "before Node 20 V8 tells only allocations that were still alive at the end".to_owned()
        })
    }

    /// A command that is not answered is one whose thread is in native code: the inspector itself
    /// answers on a thread of its own.
    fn explain(&self, error: InspectorError) -> CaptureError {
        match (error, self.pid()) {
            (InspectorError::Late { after, method }, Some(pid)) => CaptureError::refused(format!(
                "the main thread of process {pid} did not answer {method} within {:.1} s: it is {}; \
                 nodespy dump -p {pid} shows where, and nodespy record --engine perf -p {pid} \
                 records it there",
                after.as_secs_f64(),
                what_blocks(pid)
            )),
            (error, _) => self.opened.failure(error),
        }
    }
}

impl Drop for InspectorSession {
    fn drop(&mut self) {
        if !self.sessions.is_empty() {
            self.close();
        }
    }
}

/// Sent to a target that is only known by its address.
const WHO: &str = "JSON.stringify({pid:process.pid,parent:process.ppid,command:process.argv})";

/// Asks a process that is only known by its address who it is. One that does not say is nobody.
fn ask_who(session: &mut Session, patience: Duration) -> Process {
    #[derive(Deserialize)]
    struct Answer {
        result: Evaluated,
    }
    #[derive(Deserialize)]
    struct Evaluated {
        value: String,
    }
    #[derive(Deserialize)]
    struct Who {
        pid: u32,
        parent: u32,
        command: Vec<String>,
    }
    let evaluate = json!({ "expression": WHO, "returnByValue": true });
    let answer = session.call(&Place::Main, "Runtime.evaluate", &evaluate, patience);
    let who = answer
        .ok()
        .and_then(|answer| serde_json::from_str::<Answer>(&answer).ok())
        .and_then(|answer| serde_json::from_str::<Who>(&answer.result.value).ok());
    who.map_or_else(Process::default, |who| Process {
        pid: who.pid,
        parent_pid: who.parent,
        name: app_of_command(&who.command),
        command: who.command.join(" "),
        ..Process::default()
    })
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

/// Closes the inspector of a process that a nodespy opened which could not close it any more.
pub fn close_abandoned(pid: u32, listener: std::net::SocketAddr) {
    let is_its_own = ports::listeners(pid).contains(&listener);
    if let (true, Some(found)) = (is_its_own, open::found_open(pid, listener)) {
        close::close_opened(&Opened {
            is_ours: true,
            ..found
        });
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
                match ports::holder_of(pid, wanted::Wanted::by_flags(pid).port) {
                    Holder::Process(holder) =>
                        format!("; but its port is held by process {holder}"),
                    Holder::Unknown => "; but its port is held by somebody else".to_owned(),
                    Holder::Nobody => String::new(),
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
