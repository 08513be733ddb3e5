//! A recording through the inspector, from attaching to leaving the process as it was found.

use std::collections::HashSet;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use nodespy_inspector::{InspectorError, InspectorUrl, Recipient, Session};
use nodespy_model::{LoadedScript, Process, printable};
use serde_json::json;

use super::assembly::Assembly;
use super::close::{self, Left};
use super::ended_threads::EndedThreads;
use super::event::InspectorEvent;
use super::identity::{ask_who, name_of};
use super::lane::{Lane, Turned};
use super::last_profiles::Deadlines;
use super::launched;
use super::native_block::what_blocks;
use super::open::{self, Opened};
use super::options::InspectorOptions;
use super::sources::{self, Fetched};
use crate::engine::{NamedEvent, OpenInspector};
use crate::error::CaptureError;
use crate::monotonic_now;
use crate::sys::pidfd::is_readable_within;
use crate::target::{Launched, Target, describe, proc};

/// Files of what Node does not run as it is.
const SOURCE_EXTENSIONS: [&str; 7] = ["ts", "mts", "cts", "tsx", "jsx", "vue", "svelte"];
/// Before this version of Node, an inspector takes one session only.
const FIRST_WITH_SESSIONS: u32 = 10;
/// When a second session is tried again that could not be opened: the machine may be busy, or have no descriptors left.
const ANOTHER_AGAIN: Duration = Duration::from_secs(10);
const MAX_REFUSED_SESSIONS: u32 = 6;
/// Before this version of Node, profiles know no `(idle)`.
const FIRST_WITH_IDLE: u32 = 14;

/// A recording that goes on.
#[derive(Debug)]
pub(super) struct InspectorSession {
    opened: Opened,
    /// One, or two once a recording is long; none when it is over.
    sessions: Vec<Session>,
    options: InspectorOptions,
    lanes: Vec<Lane>,
    ended: EndedThreads,
    assembly: Assembly,
    remarks: Vec<String>,
    /// Whether nodespy started the process, whose threads then wait to be let go.
    is_launched: bool,
    /// Whether the last poll found nothing.
    is_quiet: bool,
    /// When a second session is tried again.
    another_after: Option<Instant>,
    refused_sessions: u32,
}

impl InspectorSession {
    /// Attaches to several processes. Node's inspectors all want the same port, so each that we open
    /// moves to one of its own before the next is opened. A process that was not `asked` for by its
    /// pid, such as a child of one, may refuse as long as another does not.
    pub(super) fn attach_all(
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

    /// Attaches to one process of any number: what was opened moves away from the port that all want, unless it is
    /// the last.
    pub(super) fn attach(
        target: &Target,
        is_last: bool,
        options: &InspectorOptions,
    ) -> Result<Self, CaptureError> {
        let mut opened = open::open(target, options)?;
        if options.busy_only && major_of(&opened.version) < FIRST_WITH_IDLE {
            if opened.is_ours {
                close::close_opened(&mut opened);
            }
            return Err(knows_no_idle(target.pid(), &opened.version));
        }
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
    pub(super) fn attach_url(
        url: &InspectorUrl,
        options: &InspectorOptions,
    ) -> Result<Self, CaptureError> {
        let mut recording = Self::over(open::open_url(url, options)?, options)?;
        recording
            .begin()
            .map_err(|error| recording.explain(error))?;
        Ok(recording)
    }

    /// Starts a command to be recorded ([`super::command_to_launch`]), which waits for us, and attaches to it.
    pub(super) fn attach_launched(
        launched: &mut Launched,
        target: &Target,
        options: &InspectorOptions,
    ) -> Result<Self, CaptureError> {
        let opened = launched::start(launched, target, options)?;
        let mut recording = Self::over(opened, options)?;
        recording.is_launched = true;
        let begun = recording.begin().and_then(|()| {
            let session = &mut recording.sessions[0];
            launched::let_go(session, &mut recording.opened, options.timeout)
        });
        begun.map_err(|error| {
            let error = recording.explain(error);
            // One that has ended needs no closing, which lets it run.
            launched.terminate();
            error
        })?;
        Ok(recording)
    }

    /// A session with an inspector that listens, before any command.
    fn over(mut opened: Opened, options: &InspectorOptions) -> Result<Self, CaptureError> {
        let mut session = match open::attach(&opened, &options.cancel()) {
            Ok(session) => session,
            Err(error) => {
                if opened.is_ours {
                    close::close_opened(&mut opened);
                }
                return Err(error);
            }
        };
        let known = match opened.pid() {
            Some(pid) => describe(pid).unwrap_or(Process {
                pid,
                ..Process::default()
            }),
            None => ask_who(&mut session, options.timeout),
        };
        let process = Process {
            node_version: Some(opened.version.clone()),
            ..known
        };
        Ok(Self {
            assembly: Assembly::new(options, process, monotonic_now()),
            opened,
            sessions: vec![session],
            options: options.clone(),
            lanes: Vec::new(),
            ended: EndedThreads::default(),
            remarks: Vec::new(),
            is_launched: false,
            is_quiet: false,
            another_after: None,
            refused_sessions: 0,
        })
    }

    /// Its process on this machine.
    pub(super) fn pid(&self) -> Option<u32> {
        self.opened.pid()
    }

    /// The inspector it uses.
    pub(super) fn inspector(&self) -> OpenInspector {
        OpenInspector {
            pid: self.pid(),
            node_version: self.opened.version.clone(),
            address: self.opened.listener,
            is_opened_by_us: self.opened.is_ours,
        }
    }

    /// What has come since the last call.
    pub(super) fn take_events(&mut self) -> Vec<NamedEvent> {
        self.assembly.take_events()
    }

    fn begin(&mut self) -> Result<(), InspectorError> {
        self.introduce(0)?;
        let mut main = Lane::start(
            0,
            "main".to_owned(),
            (0, Recipient::Main),
            &mut self.sessions,
            &self.options,
            Instant::now(),
        )?;
        self.assembly.begin_thread(0, monotonic_now());
        main.wait_for_start(&mut self.sessions, &self.options)?;
        self.lanes.push(main);
        self.enable_workers(0)?;
        self.start_new_workers()
    }

    /// Asks for a notice of the process's end: Node 12 and later wait for us to disconnect then, and
    /// earlier ones do not know the command.
    fn introduce(&mut self, session: usize) -> Result<(), InspectorError> {
        let notify = json!({ "enabled": true });
        let method = "NodeRuntime.notifyWhenWaitingForDisconnect";
        self.sessions[session].post(&Recipient::Main, method, &notify)
    }

    fn enable_workers(&mut self, session: usize) -> Result<(), InspectorError> {
        let enable = json!({ "waitForDebuggerOnStart": false });
        self.sessions[session].post(&Recipient::Main, "NodeWorker.enable", &enable)
    }

    /// Starts the profiler on workers that were reported since the last call.
    fn start_new_workers(&mut self) -> Result<(), InspectorError> {
        for session in 0..self.sessions.len() {
            for worker in self.sessions[session].new_workers() {
                let number = worker.number().unwrap_or_else(|| self.ended.spare_number());
                if self.ended.contains(number) {
                    continue;
                }
                let name = name_of(&worker);
                let recipient = Recipient::Worker(worker.session);
                if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.number == number) {
                    lane.add_recipient(session, recipient);
                    continue;
                }
                if self.is_launched {
                    let method = "Runtime.runIfWaitingForDebugger";
                    self.sessions[session].post(&recipient, method, &json!({}))?;
                }
                self.assembly.begin_thread(number, monotonic_now());
                self.lanes.push(Lane::start(
                    number,
                    name,
                    (session, recipient),
                    &mut self.sessions,
                    &self.options,
                    Instant::now(),
                )?);
            }
        }
        Ok(())
    }

    /// Takes in what happened and waits a moment for more. True when the process has ended but for
    /// us and the recording must be finished at once.
    pub(super) fn poll(&mut self) -> Result<bool, CaptureError> {
        self.poll_with(Self::receive)
    }

    /// The same where hardly anything happens: waits up to `timeout` in one go. Also true when the main thread is not
    /// profiled any more.
    pub(super) fn poll_within(&mut self, timeout: Duration) -> Result<bool, CaptureError> {
        let sockets: Vec<i32> = self.sessions.iter().map(AsRawFd::as_raw_fd).collect();
        // What has been read of a socket, and not taken, is not seen there.
        let is_over = match self.is_quiet && !is_readable_within(sockets, timeout) {
            true => self.poll_with(|_| Ok(())),
            false => self.poll_with(Self::receive),
        }?;
        Ok(is_over || self.lanes.first().is_none_or(Lane::has_ended))
    }

    fn poll_with(
        &mut self,
        receive: impl FnOnce(&mut Self) -> Result<(), InspectorError>,
    ) -> Result<bool, CaptureError> {
        let polled = receive(self).and_then(|()| self.turn());
        let is_waiting = |session: &Session| session.is_waiting_for_disconnect();
        if self.sessions.iter().any(is_waiting) {
            return Ok(true);
        }
        polled.map_err(|error| self.explain(error))?;
        Ok(self.sessions.is_empty())
    }

    /// Takes in what has come, or comes in a moment.
    fn receive(&mut self) -> Result<(), InspectorError> {
        self.is_quiet = true;
        for session in &mut self.sessions {
            self.is_quiet &= !session.poll()?;
        }
        Ok(())
    }

    /// Goes on with every thread as far as it has answered.
    fn turn(&mut self) -> Result<(), InspectorError> {
        if self.needs_another() {
            self.open_another()?;
        }
        self.start_new_workers()?;
        let now = Instant::now();
        let mut ended = Vec::new();
        for lane in &mut self.lanes {
            match lane.turn(&mut self.sessions, &self.options, now)? {
                Turned::Nothing => {}
                Turned::Profile(json) => self.assembly.take(lane.number, &lane.name, &json),
                Turned::Remark(remark) => self.assembly.remark(remark),
                Turned::Ended(why) => {
                    self.ended.add(lane.number, why);
                    ended.push(lane.number);
                }
            }
        }
        if !ended.is_empty() {
            // The main thread's lane stays: whether it ended decides how the recording does.
            self.lanes
                .retain(|lane| lane.number == 0 || !ended.contains(&lane.number));
            for number in ended {
                self.assembly.end_thread(number);
            }
        }
        Ok(())
    }

    /// Whether a long recording now needs a second session.
    fn needs_another(&self) -> bool {
        let now = Instant::now();
        self.sessions.len() == 1
            && self.options.event == InspectorEvent::Cpu
            && self.another_after.is_none_or(|after| now >= after)
            && self.lanes.iter().any(|lane| lane.is_due(now))
    }

    /// Without a second session V8's profile grows in the process: an agent begins anew rather than wait for ever.
    fn try_another_later(&mut self) -> Result<(), InspectorError> {
        self.another_after = Some(Instant::now() + ANOTHER_AGAIN);
        self.refused_sessions += 1;
        match self.options.busy_only && self.refused_sessions >= MAX_REFUSED_SESSIONS {
            true => Err(InspectorError::Refused {
                what: "it accepts no second session".to_owned(),
            }),
            false => Ok(()),
        }
    }

    fn open_another(&mut self) -> Result<(), InspectorError> {
        let cancel = self.options.cancel();
        let Ok(session) = open::attach(&self.opened, &cancel) else {
            if cancel.is_cancelled() {
                return Ok(());
            }
            if major_of(&self.opened.version) >= FIRST_WITH_SESSIONS {
                return self.try_another_later();
            }
            // It is recorded in one slice.
            self.remarks.push(
                "the process accepts no second session: if it had died, all would have been lost"
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
            lane.add_recipient(1, Recipient::Main);
        }
        self.enable_workers(1)
    }

    /// Ends the recording: takes the profiles and leaves the process as it was found.
    pub(super) fn finish(&mut self) -> Result<(), CaptureError> {
        for session in &mut self.sessions {
            session.set_cancel(self.options.cancel_at_end());
        }
        let stopped = self.stop();
        let wanted = self.wanted_files();
        let scripts = match stopped.is_ok() && !wanted.is_empty() {
            true => self.fetch_scripts(&wanted),
            false => Vec::new(),
        };
        let left = self.close();
        if let Some(remark) = self.describe_leftover(left) {
            self.remarks.push(remark);
        }
        if let Err(error) = stopped {
            let now = Instant::now();
            let main = self.lanes.first();
            let at_stake = main.map_or(Duration::ZERO, |lane| lane.at_stake(now));
            if self.assembly.is_empty() {
                return Err(self.explain(error));
            }
            self.remarks.push(format!(
                "the process ended, or did not answer any more ({error}): the last {:.1} s are lost",
                at_stake.as_secs_f64()
            ));
        }
        if let Some(remark) = self.describe_old_node() {
            self.remarks.push(remark);
        }
        self.assembly.finish();
        self.assembly.add_scripts(scripts);
        let remarks = std::mem::take(&mut self.remarks);
        for remark in remarks.into_iter().chain(self.ended.remarks()) {
            self.assembly.remark(remark);
        }
        Ok(())
    }

    /// The files whose scripts V8 is asked for. That costs the process some time, because V8 reports
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
        let mut deadlines = Deadlines::new(&self.options, &Instant::now);
        for (position, command) in asked {
            let lane = &mut self.lanes[position];
            match deadlines.reply(&mut self.sessions, &command, method) {
                Ok(json) => self.assembly.take(lane.number, &lane.name, &json),
                // The next profiler was not yet running when it was stopped.
                Err(InspectorError::Command { .. }) if !self.assembly.is_empty() => {}
                Err(error) if command.recipient == Recipient::Main => return Err(error),
                Err(error) => {
                    lane.is_silent = true;
                    self.remarks.push(format!(
                        "the last {:.1} s of {} are lost: {error}",
                        lane.at_stake(Instant::now()).as_secs_f64(),
                        lane.name
                    ));
                }
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
            timeout: self.options.timeout,
            deadline: Instant::now() + self.options.stop_timeout,
        };
        for lane in &self.lanes {
            let (session, recipient) = lane.address();
            let session = &mut self.sessions[session];
            if session.has_ended(&recipient) {
                continue;
            }
            let mut fetched = Fetched::default();
            let done = match lane.is_silent {
                true => Err("it does not answer".to_owned()),
                false => sources::fetch(session, &recipient, &wish, &mut fetched)
                    .map_err(|error| error.to_string()),
            };
            scripts.extend(fetched.scripts);
            for (file, text) in fetched.texts {
                self.assembly.add_text(&file, text);
            }
            if let Err(why) = done {
                let remark = format!("sources of {} are missing: {why}", lane.name);
                self.remarks.push(remark);
            }
        }
        scripts
    }

    fn close(&mut self) -> Left {
        close::close(&mut self.opened, std::mem::take(&mut self.sessions))
    }

    fn describe_leftover(&self, left: Left) -> Option<String> {
        let is_gone = self
            .pid()
            .is_some_and(|pid| proc::read_status(pid).is_none());
        match left {
            Left::AsFound => None,
            _ if is_gone => None,
            Left::OpenForOthers => Some(format!(
                "the inspector nodespy opened still listens at {}, because another client is \
                 attached to it; {}",
                self.opened.listener,
                match self.opened.has_companion() {
                    true => "it is closed when that client disconnects",
                    false => "closing it would stop the process until that client disconnects",
                }
            )),
            Left::Open => Some(format!(
                "the inspector nodespy opened may still listen at {}: any user of the machine can \
                 run code in the process through it{}",
                self.opened.listener,
                match self.opened.has_companion() {
                    true => "; a background process closes it as soon as the process answers",
                    false => "",
                }
            )),
        }
    }

    /// What an old Node does not report.
    fn describe_old_node(&self) -> Option<String> {
        let is_old = major_of(&self.opened.version) < 20;
        (is_old && self.options.event == InspectorEvent::Allocations).then(|| {
            "before Node 20 V8 reports only allocations that were still alive at the end".to_owned()
        })
    }

    /// A command that is not answered is one whose thread is in native code: the inspector itself
    /// answers on a thread of its own.
    fn explain(&self, error: InspectorError) -> CaptureError {
        match (error, self.pid()) {
            (InspectorError::Timeout { after, method }, Some(pid)) => {
                let sentence = format!(
                    "the main thread of process {pid} did not answer {method} within {:.1} s: it is {}; \
                     nodespy dump -p {pid} shows where, and nodespy record --engine perf -p {pid} \
                     records it there",
                    after.as_secs_f64(),
                    what_blocks(pid)
                );
                CaptureError::Unanswered { sentence }
            }
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

/// The major version of Node, such as 20 of `v20.20.2`.
fn major_of(version: &str) -> u32 {
    let major = version.trim_start_matches('v').split('.').next();
    let major = major.and_then(|major| major.parse().ok());
    // What has no number is none of the old ones.
    major.unwrap_or(u32::MAX)
}

fn knows_no_idle(pid: u32, version: &str) -> CaptureError {
    CaptureError::refused(format!(
        "the profiler of process {pid} (Node {}) does not tell waiting from work, which it does since Node \
         {FIRST_WITH_IDLE}",
        printable(version)
    ))
}
