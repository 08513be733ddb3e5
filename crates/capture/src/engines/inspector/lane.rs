//! One thread that is recorded, in slices.
//!
//! V8 keeps a profile in the process until it is stopped, where it grows and dies with the process.
//! So a long recording is made of slices: the next profiler is started in a second session before
//! the first is stopped, and where the two overlap only one is counted. Allocations need no second
//! profiler: V8 reports what it has so far. A thread that does not answer delays no other.

use std::time::{Duration, Instant};

use nodespy_inspector::{InspectorError, Recipient, Session};
use serde_json::json;

use super::InspectorOptions;
use super::channel::Channel;
use super::event::InspectorEvent;

/// Starting a profiler stops the thread for 4 to 144 ms (node 12 to 26): a slice is so many times as
/// long that this costs a quarter of a percent at most.
const STARTS_PER_SLICE: u32 = 400;
const MIN_SLICE: Duration = Duration::from_secs(10);
const MAX_SLICE: Duration = Duration::from_secs(60);
/// What V8 has of allocations so far.
const SO_FAR: &str = "HeapProfiler.getSamplingProfile";

/// One thread that is recorded.
#[derive(Debug)]
pub(super) struct Lane {
    /// The `threadId` of a worker; 0 is the main thread.
    pub(super) number: u32,
    pub(super) name: String,
    /// The thread's address in each session.
    recipients: [Option<Recipient>; 2],
    /// The session whose profiler counts.
    active: usize,
    /// When that profiler started.
    since: Instant,
    slice: Duration,
    step: Step,
    /// Whether its thread did not answer when the recording ended.
    pub(super) is_silent: bool,
}

/// What a lane is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The first start.
    Starting { id: u64, asked: Instant },
    /// The end of the slice.
    Running,
    /// The start of the next profiler.
    ChangingOver { id: u64, asked: Instant },
    /// The profile of the last one.
    Stopping { id: u64 },
    /// What V8 has so far.
    Asking { id: u64 },
    /// Nothing: the thread has ended, or its profiler failed.
    Ended,
}

/// What came of a turn.
#[derive(Debug)]
pub(super) enum Turned {
    Nothing,
    /// A profile arrived.
    Profile(String),
    /// A part is lost, as a clause.
    Remark(String),
    /// The lane has ended, and is to be dropped; why, as a clause.
    Ended(String),
}

impl Lane {
    /// Asks for the start of a thread's first profiler.
    pub(super) fn start<C: Channel>(
        number: u32,
        name: String,
        (session, recipient): (usize, Recipient),
        sessions: &mut [C],
        options: &InspectorOptions,
        now: Instant,
    ) -> Result<Self, InspectorError> {
        let id = send_start(&mut sessions[session], &recipient, options)?;
        let mut recipients = [None, None];
        recipients[session] = Some(recipient);
        Ok(Self {
            number,
            name,
            recipients,
            active: session,
            since: now,
            slice: options.slice.unwrap_or(MIN_SLICE),
            step: Step::Starting { id, asked: now },
            is_silent: false,
        })
    }

    /// Adds the thread's address in another session.
    pub(super) fn add_recipient(&mut self, session: usize, recipient: Recipient) {
        self.recipients[session] = Some(recipient);
    }

    /// Makes the slice that runs the last one.
    pub(super) fn never_change_over(&mut self) {
        self.slice = Duration::MAX;
    }

    /// Waits until the first profiler runs.
    pub(super) fn wait_for_start(
        &mut self,
        sessions: &mut [Session],
        options: &InspectorOptions,
    ) -> Result<(), InspectorError> {
        let Step::Starting { id, asked } = self.step else {
            return Ok(());
        };
        let recipient = self.recipient(self.active);
        sessions[self.active].reply(&recipient, id, start_method(options), options.timeout)?;
        self.runs(asked, options, Instant::now());
        Ok(())
    }

    /// Whether it has ended, or its profiler failed.
    pub(super) fn has_ended(&self) -> bool {
        self.step == Step::Ended
    }

    /// Whether the running slice has lasted long enough.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.step == Step::Running && now.saturating_duration_since(self.since) >= self.slice
    }

    /// Goes on as far as the thread has answered.
    pub(super) fn turn<C: Channel>(
        &mut self,
        sessions: &mut [C],
        options: &InspectorOptions,
        now: Instant,
    ) -> Result<Turned, InspectorError> {
        match self.step {
            Step::Ended => Ok(Turned::Nothing),
            Step::Running if sessions[self.active].has_ended(&self.recipient(self.active)) => {
                Ok(self.ends(&InspectorError::Closed, sessions, now))
            }
            Step::Starting { id, asked } => {
                match self.reply(self.active, id, start_method(options), sessions) {
                    None => Ok(Turned::Nothing),
                    Some(Ok(_)) => {
                        self.runs(asked, options, now);
                        Ok(Turned::Nothing)
                    }
                    Some(Err(error)) => Ok(self.ends(&error, sessions, now)),
                }
            }
            Step::Running if !self.is_due(now) => Ok(Turned::Nothing),
            Step::Running if options.event == InspectorEvent::Allocations => {
                let recipient = self.recipient(self.active);
                let id = sessions[self.active].send(&recipient, SO_FAR, &json!({}))?;
                self.step = Step::Asking { id };
                Ok(Turned::Nothing)
            }
            Step::Running => self.start_next(sessions, options, now),
            Step::ChangingOver { id, asked } => self.change_over(id, asked, sessions, options, now),
            Step::Stopping { id } => {
                Ok(self.take(1 - self.active, id, options.event.stop(), sessions, now))
            }
            Step::Asking { id } => Ok(self.take(self.active, id, SO_FAR, sessions, now)),
        }
    }

    fn start_next<C: Channel>(
        &mut self,
        sessions: &mut [C],
        options: &InspectorOptions,
        now: Instant,
    ) -> Result<Turned, InspectorError> {
        let next = 1 - self.active;
        if let (Some(recipient), Some(session)) =
            (self.recipients[next].clone(), sessions.get_mut(next))
        {
            let id = send_start(session, &recipient, options)?;
            self.step = Step::ChangingOver { id, asked: now };
        }
        Ok(Turned::Nothing)
    }

    fn change_over<C: Channel>(
        &mut self,
        id: u64,
        asked: Instant,
        sessions: &mut [C],
        options: &InspectorOptions,
        now: Instant,
    ) -> Result<Turned, InspectorError> {
        let next = 1 - self.active;
        match self.reply(next, id, start_method(options), sessions) {
            None => Ok(Turned::Nothing),
            Some(Ok(_)) => {
                let recipient = self.recipient(self.active);
                let stop = options.event.stop();
                let id = sessions[self.active].send(&recipient, stop, &json!({}))?;
                self.active = next;
                self.runs(asked, options, now);
                self.step = Step::Stopping { id };
                Ok(Turned::Nothing)
            }
            Some(Err(error)) => Ok(self.ends(&error, sessions, now)),
        }
    }

    /// Takes a profile that was asked for.
    fn take<C: Channel>(
        &mut self,
        session: usize,
        id: u64,
        method: &'static str,
        sessions: &mut [C],
        now: Instant,
    ) -> Turned {
        let Some(reply) = self.reply(session, id, method, sessions) else {
            return Turned::Nothing;
        };
        self.step = Step::Running;
        if session == self.active {
            // What V8 has so far is asked for again after another slice.
            self.since = now;
        }
        match reply {
            Ok(json) => Turned::Profile(json),
            Err(error) if sessions[session].has_ended(&self.recipient(session)) => {
                self.ends(&error, sessions, now)
            }
            Err(error) => Turned::Remark(format!("a part of {} is lost: {error}", self.name)),
        }
    }

    /// Asks for all that is left, oldest first: the commands to wait for.
    pub(super) fn stop<C: Channel>(
        &self,
        sessions: &mut [C],
        options: &InspectorOptions,
    ) -> Result<Vec<StopCommand>, InspectorError> {
        let mut stop = |session: usize| {
            let recipient = self.recipient(session);
            let id = sessions[session].send(&recipient, options.event.stop(), &json!({}))?;
            Ok(StopCommand {
                session,
                recipient,
                id,
            })
        };
        Ok(match self.step {
            Step::Ended => Vec::new(),
            Step::Starting { .. } | Step::Running | Step::Asking { .. } => {
                vec![stop(self.active)?]
            }
            Step::ChangingOver { .. } => vec![stop(self.active)?, stop(1 - self.active)?],
            Step::Stopping { id } => {
                let last = StopCommand {
                    session: 1 - self.active,
                    recipient: self.recipient(1 - self.active),
                    id,
                };
                vec![last, stop(self.active)?]
            }
        })
    }

    /// The session whose profiler counts, and the thread's address in it.
    pub(super) fn address(&self) -> (usize, Recipient) {
        (self.active, self.recipient(self.active))
    }

    /// How long the profiler that runs has been running: what is lost if it never answers.
    pub(super) fn at_stake(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.since)
    }

    fn runs(&mut self, asked: Instant, options: &InspectorOptions, now: Instant) {
        let pause = now.saturating_duration_since(asked);
        let fitting = pause
            .saturating_mul(STARTS_PER_SLICE)
            .clamp(MIN_SLICE, MAX_SLICE);
        self.slice = options.slice.unwrap_or(fitting);
        self.since = now;
        self.step = Step::Running;
    }

    /// Ends the lane; the sessions keep nothing of it.
    fn ends<C: Channel>(
        &mut self,
        error: &InspectorError,
        sessions: &mut [C],
        now: Instant,
    ) -> Turned {
        let has_run = !matches!(self.step, Step::Starting { .. });
        self.step = Step::Ended;
        for (session, recipient) in sessions.iter_mut().zip(&self.recipients) {
            if let Some(recipient) = recipient {
                session.forget(recipient);
            }
        }
        Turned::Ended(match error {
            InspectorError::Closed if has_run => format!(
                "{} ended during the recording: its last {:.1} s are lost",
                self.name,
                self.at_stake(now).as_secs_f64()
            ),
            InspectorError::Closed => format!("{} ended before its profiler started", self.name),
            error => format!("{} is not recorded any more: {error}", self.name),
        })
    }

    fn reply<C: Channel>(
        &self,
        session: usize,
        id: u64,
        method: &'static str,
        sessions: &mut [C],
    ) -> Option<Result<String, InspectorError>> {
        sessions[session].try_reply(&self.recipient(session), id, method)
    }

    fn recipient(&self, session: usize) -> Recipient {
        let recipient = self.recipients[session].clone();
        recipient.expect("a profiler is only started in a session that reported the thread")
    }
}

/// A command that is answered with a profile.
#[derive(Debug)]
pub(super) struct StopCommand {
    pub(super) session: usize,
    pub(super) recipient: Recipient,
    pub(super) id: u64,
}

/// The command whose reply means that the profiler runs.
fn start_method(options: &InspectorOptions) -> &'static str {
    let commands = options.event.start(options);
    commands.last().map_or("", |(method, _)| method)
}

/// Sends all commands at once and returns the id of the last: they are answered in order.
fn send_start<C: Channel>(
    session: &mut C,
    recipient: &Recipient,
    options: &InspectorOptions,
) -> Result<u64, InspectorError> {
    let mut commands = options.event.start(options);
    let (start, params) = commands.pop().expect("the start is one of them");
    for (method, params) in commands {
        session.post(recipient, method, &params)?;
    }
    session.send(recipient, start, &params)
}

#[cfg(test)]
mod tests;
