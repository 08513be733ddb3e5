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
mod tests {
    use std::collections::HashMap;

    use serde_json::Value;

    use super::*;

    /// Lanes hand profiles on unread.
    fn no_reader(
        _: InspectorEvent,
        _: &str,
    ) -> Result<nodespy_model::Recording, Box<dyn std::error::Error + Send + Sync>> {
        unreachable!("a lane reads no profile")
    }

    /// A session whose peer answers when the test makes it.
    #[derive(Default)]
    struct Scripted {
        sent: Vec<(u64, &'static str)>,
        replies: HashMap<u64, Result<String, InspectorError>>,
        has_ended: bool,
        is_forgotten: bool,
    }

    impl Scripted {
        /// Answers the last command, which must be `method`.
        #[track_caller]
        fn answer(&mut self, method: &str, reply: Result<&str, InspectorError>) {
            let &(id, last) = self.sent.last().expect("a command was sent");
            assert_eq!(last, method);
            self.replies.insert(id, reply.map(str::to_owned));
        }
    }

    impl Channel for Scripted {
        fn send(
            &mut self,
            _: &Recipient,
            method: &'static str,
            _: &Value,
        ) -> Result<u64, InspectorError> {
            let id = self.sent.len() as u64;
            self.sent.push((id, method));
            Ok(id)
        }

        fn post(
            &mut self,
            recipient: &Recipient,
            method: &'static str,
            params: &Value,
        ) -> Result<(), InspectorError> {
            self.send(recipient, method, params).map(drop)
        }

        fn try_reply(
            &mut self,
            _: &Recipient,
            id: u64,
            _: &'static str,
        ) -> Option<Result<String, InspectorError>> {
            let ended = self.has_ended.then_some(Err(InspectorError::Closed));
            self.replies.remove(&id).or(ended)
        }

        fn has_ended(&self, _: &Recipient) -> bool {
            self.has_ended
        }

        fn forget(&mut self, _: &Recipient) {
            self.is_forgotten = true;
        }
    }

    /// A worker's lane, its two sessions and a clock that the test moves.
    struct Bench {
        lane: Lane,
        sessions: [Scripted; 2],
        options: InspectorOptions,
        now: Instant,
    }

    impl Bench {
        fn new(options: InspectorOptions) -> Self {
            let mut sessions = [Scripted::default(), Scripted::default()];
            let now = Instant::now();
            let worker = |id: &str| Recipient::Worker(id.to_owned());
            let name = "resize".to_owned();
            let mut lane =
                Lane::start(3, name, (0, worker("a")), &mut sessions, &options, now).unwrap();
            lane.add_recipient(1, worker("b"));
            Self {
                lane,
                sessions,
                options,
                now,
            }
        }

        /// A lane whose first profiler runs.
        fn running(event: InspectorEvent) -> Self {
            let mut bench = Self::new(InspectorOptions {
                event,
                slice: Some(Duration::from_secs(10)),
                ..InspectorOptions::new(no_reader)
            });
            let start = start_method(&bench.options);
            bench.sessions[0].answer(start, Ok("{}"));
            assert!(matches!(bench.turn(), Turned::Nothing));
            bench
        }

        fn turn(&mut self) -> Turned {
            let turned = self.lane.turn(&mut self.sessions, &self.options, self.now);
            turned.unwrap()
        }

        fn pass(&mut self, seconds: u64) {
            self.now += Duration::from_secs(seconds);
        }

        fn last_sent(&self, session: usize) -> Option<&'static str> {
            self.sessions[session].sent.last().map(|sent| sent.1)
        }
    }

    #[test]
    fn the_next_profiler_runs_before_the_last_one_is_stopped() {
        let mut bench = Bench::running(InspectorEvent::Cpu);
        bench.pass(9);
        assert!(!bench.lane.is_due(bench.now));
        bench.turn();
        assert_eq!(bench.last_sent(1), None);
        bench.pass(1);
        assert!(bench.lane.is_due(bench.now));
        bench.turn();
        assert_eq!(bench.last_sent(1), Some("Profiler.start"));
        // Until the next one runs, the first goes on.
        bench.turn();
        assert_eq!(bench.last_sent(0), Some("Profiler.start"));
        bench.sessions[1].answer("Profiler.start", Ok("{}"));
        bench.turn();
        assert_eq!(bench.last_sent(0), Some("Profiler.stop"));
        assert_eq!(bench.lane.at_stake(bench.now), Duration::ZERO);
        bench.sessions[0].answer("Profiler.stop", Ok("first"));
        assert!(matches!(bench.turn(), Turned::Profile(json) if json == "first"));
        // And back again.
        bench.pass(10);
        bench.turn();
        bench.sessions[0].answer("Profiler.start", Ok("{}"));
        bench.turn();
        bench.sessions[1].answer("Profiler.stop", Ok("second"));
        assert!(matches!(bench.turn(), Turned::Profile(json) if json == "second"));
    }

    #[test]
    fn a_slow_start_makes_slices_longer_up_to_a_minute() {
        for (pause, slice) in [(0, 10), (50, 20), (1000, 60)] {
            let mut bench = Bench::new(InspectorOptions::new(no_reader));
            bench.now += Duration::from_millis(pause);
            bench.sessions[0].answer("Profiler.start", Ok("{}"));
            bench.turn();
            assert_eq!(bench.lane.slice.as_secs(), slice, "{pause} ms");
        }
    }

    #[test]
    fn a_worker_that_ends_while_it_runs_is_forgotten_everywhere() {
        let mut bench = Bench::running(InspectorEvent::Cpu);
        bench.pass(4);
        bench.sessions[0].has_ended = true;
        let turned = bench.turn();
        let expected = "resize ended during the recording: its last 4.0 s are lost";
        assert!(
            matches!(&turned, Turned::Ended(why) if why == expected),
            "{turned:?}"
        );
        assert!(bench.sessions.iter().all(|session| session.is_forgotten));
        let stop = bench.lane.stop(&mut bench.sessions, &bench.options);
        assert!(stop.unwrap().is_empty());
        assert!(matches!(bench.turn(), Turned::Nothing));
    }

    #[test]
    fn a_worker_that_ends_in_the_middle_of_a_change_keeps_the_profile_that_arrived() {
        let mut bench = Bench::running(InspectorEvent::Cpu);
        bench.pass(10);
        bench.turn();
        bench.sessions[1].answer("Profiler.start", Ok("{}"));
        bench.turn();
        // The profile was on its way when the worker ended.
        bench.sessions[0].answer("Profiler.stop", Ok("kept"));
        for session in &mut bench.sessions {
            session.has_ended = true;
        }
        bench.pass(2);
        assert!(matches!(bench.turn(), Turned::Profile(json) if json == "kept"));
        let turned = bench.turn();
        assert!(
            matches!(&turned, Turned::Ended(why) if why.contains("last 2.0 s")),
            "{turned:?}"
        );
    }

    #[test]
    fn a_worker_that_ends_before_its_profiler_runs_lost_nothing_that_was_recorded() {
        let mut bench = Bench::new(InspectorOptions::new(no_reader));
        bench.sessions[0].has_ended = true;
        let turned = bench.turn();
        assert!(matches!(&turned, Turned::Ended(why) if why.contains("before its profiler")));
    }

    #[test]
    fn a_profiler_that_fails_to_start_ends_the_lane_with_the_reason() {
        let mut bench = Bench::new(InspectorOptions::new(no_reader));
        let refused = InspectorError::Command {
            method: "Profiler.start",
            message: "no memory".to_owned(),
        };
        bench.sessions[0].answer("Profiler.start", Err(refused));
        let turned = bench.turn();
        assert!(
            matches!(&turned, Turned::Ended(why) if why.contains("no memory")),
            "{turned:?}"
        );
    }

    #[test]
    fn a_slice_that_is_lost_does_not_end_the_lane() {
        let mut bench = Bench::running(InspectorEvent::Cpu);
        bench.pass(10);
        bench.turn();
        bench.sessions[1].answer("Profiler.start", Ok("{}"));
        bench.turn();
        let refused = InspectorError::Command {
            method: "Profiler.stop",
            message: "busy".to_owned(),
        };
        bench.sessions[0].answer("Profiler.stop", Err(refused));
        assert!(matches!(bench.turn(), Turned::Remark(_)));
        bench.pass(10);
        assert!(bench.lane.is_due(bench.now));
    }

    #[test]
    fn the_end_asks_for_both_profiles_where_two_overlap_the_oldest_first() {
        let mut bench = Bench::running(InspectorEvent::Cpu);
        bench.pass(10);
        bench.turn();
        let sessions_asked = |bench: &mut Bench| -> Vec<usize> {
            let stop = bench.lane.stop(&mut bench.sessions, &bench.options);
            stop.unwrap()
                .iter()
                .map(|command| command.session)
                .collect()
        };
        assert_eq!(sessions_asked(&mut bench), [0, 1]);
        bench.sessions[1].answer("Profiler.stop", Ok("{}"));
        let mut bench = Bench::running(InspectorEvent::Cpu);
        bench.pass(10);
        bench.turn();
        bench.sessions[1].answer("Profiler.start", Ok("{}"));
        bench.turn();
        // The first was asked to stop already and is not asked again.
        let before = bench.sessions[0].sent.len();
        assert_eq!(sessions_asked(&mut bench), [0, 1]);
        assert_eq!(bench.sessions[0].sent.len(), before);
    }

    #[test]
    fn allocations_are_asked_for_so_far_in_one_session() {
        let mut bench = Bench::running(InspectorEvent::Allocations);
        for round in 0..3 {
            bench.pass(10);
            bench.turn();
            bench.sessions[0].answer(SO_FAR, Ok("so far"));
            assert!(matches!(bench.turn(), Turned::Profile(_)), "{round}");
            assert!(!bench.lane.is_due(bench.now));
        }
        assert_eq!(bench.last_sent(1), None);
    }
}
