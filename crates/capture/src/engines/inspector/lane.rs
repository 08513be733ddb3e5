//! One thread that is recorded, in slices.
//!
//! V8 keeps a profile in the process until it is stopped, where it grows and dies with the process.
//! So a long recording is made of slices: the next profiler is started in a second conversation
//! before the first is stopped, and where the two overlap only one is counted. Allocations need no
//! second profiler: V8 tells what it has so far. A thread that does not answer holds up nobody.

use std::time::{Duration, Instant};

use nodespy_inspector::{InspectorError, Place, Session};
use serde_json::json;

use super::InspectorOptions;
use super::event::InspectorEvent;

/// Starting a profiler stops the thread for 4 to 144 ms (node 12 to 26): a slice is so many times as
/// long that this costs a quarter of a percent at most.
const STARTS_PER_SLICE: u32 = 400;
const SHORTEST_SLICE: Duration = Duration::from_secs(10);
const LONGEST_SLICE: Duration = Duration::from_secs(60);
/// What V8 has of allocations so far.
const SO_FAR: &str = "HeapProfiler.getSamplingProfile";

/// One thread that is recorded.
#[derive(Debug)]
pub(super) struct Lane {
    /// The `threadId` of a worker; 0 is the main thread.
    pub(super) number: u32,
    pub(super) name: String,
    /// Where it is spoken to in each conversation.
    places: [Option<Place>; 2],
    /// The conversation whose profiler counts.
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
    /// The time to change over.
    Running,
    /// The start of the next profiler.
    ChangingOver { id: u64, asked: Instant },
    /// The profile of the last one.
    Stopping { id: u64 },
    /// What V8 has so far.
    Asking { id: u64 },
    /// Nothing: the thread has ended, or did not want.
    Ended,
}

/// What a lane has to say.
#[derive(Debug)]
pub(super) enum Said {
    Nothing,
    /// A profile arrived.
    Profile(String),
    /// Something went wrong, as a clause.
    Remark(String),
}

impl Lane {
    /// Asks for the start of a thread's first profiler.
    pub(super) fn start(
        number: u32,
        name: String,
        place: Place,
        conversation: usize,
        sessions: &mut [Session],
        options: &InspectorOptions,
    ) -> Result<Self, InspectorError> {
        let id = send_start(&mut sessions[conversation], &place, options)?;
        let mut places = [None, None];
        places[conversation] = Some(place);
        Ok(Self {
            number,
            name,
            places,
            active: conversation,
            since: Instant::now(),
            slice: options.slice.unwrap_or(SHORTEST_SLICE),
            step: Step::Starting {
                id,
                asked: Instant::now(),
            },
        })
    }

    /// Says where the thread is spoken to in another conversation.
    pub(super) fn is_also_at(&mut self, conversation: usize, place: Place) {
        self.places[conversation] = Some(place);
    }

    /// Makes the slice that runs the only one.
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
        let place = self.place(self.active);
        sessions[self.active].reply(&place, id, start_method(options), options.patience)?;
        self.runs(asked, options);
        Ok(())
    }

    /// Whether the running slice has lasted long enough.
    pub(super) fn is_due(&self) -> bool {
        self.step == Step::Running && self.since.elapsed() >= self.slice
    }

    /// Goes on as far as the thread has answered.
    pub(super) fn turn(
        &mut self,
        sessions: &mut [Session],
        options: &InspectorOptions,
    ) -> Result<Said, InspectorError> {
        match self.step {
            Step::Ended => Ok(Said::Nothing),
            Step::Running if sessions[self.active].has_ended(&self.place(self.active)) => {
                Ok(self.ends(&InspectorError::Closed))
            }
            Step::Starting { id, asked } => {
                match self.answer(self.active, id, start_method(options), sessions) {
                    None => Ok(Said::Nothing),
                    Some(Ok(_)) => {
                        self.runs(asked, options);
                        Ok(Said::Nothing)
                    }
                    Some(Err(error)) => Ok(self.ends(&error)),
                }
            }
            Step::Running if !self.is_due() => Ok(Said::Nothing),
            Step::Running if options.event == InspectorEvent::Allocations => {
                let place = self.place(self.active);
                let id = sessions[self.active].send(&place, SO_FAR, &json!({}))?;
                self.step = Step::Asking { id };
                Ok(Said::Nothing)
            }
            Step::Running => self.start_next(sessions, options),
            Step::ChangingOver { id, asked } => self.change_over(id, asked, sessions, options),
            Step::Stopping { id } => {
                Ok(self.take(1 - self.active, id, options.event.stop(), sessions))
            }
            Step::Asking { id } => Ok(self.take(self.active, id, SO_FAR, sessions)),
        }
    }

    fn start_next(
        &mut self,
        sessions: &mut [Session],
        options: &InspectorOptions,
    ) -> Result<Said, InspectorError> {
        let next = 1 - self.active;
        if let (Some(place), Some(session)) = (self.places[next].clone(), sessions.get_mut(next)) {
            let id = send_start(session, &place, options)?;
            self.step = Step::ChangingOver {
                id,
                asked: Instant::now(),
            };
        }
        Ok(Said::Nothing)
    }

    fn change_over(
        &mut self,
        id: u64,
        asked: Instant,
        sessions: &mut [Session],
        options: &InspectorOptions,
    ) -> Result<Said, InspectorError> {
        let next = 1 - self.active;
        match self.answer(next, id, start_method(options), sessions) {
            None => Ok(Said::Nothing),
            Some(Ok(_)) => {
                let place = self.place(self.active);
                let id = sessions[self.active].send(&place, options.event.stop(), &json!({}))?;
                self.active = next;
                self.runs(asked, options);
                self.step = Step::Stopping { id };
                Ok(Said::Nothing)
            }
            Some(Err(error)) => Ok(self.ends(&error)),
        }
    }

    /// Takes a profile that was asked for.
    fn take(
        &mut self,
        conversation: usize,
        id: u64,
        method: &'static str,
        sessions: &mut [Session],
    ) -> Said {
        let Some(answer) = self.answer(conversation, id, method, sessions) else {
            return Said::Nothing;
        };
        self.step = Step::Running;
        if conversation == self.active {
            // What V8 has so far is asked for again after another slice.
            self.since = Instant::now();
        }
        match answer {
            Ok(json) => Said::Profile(json),
            Err(error) if sessions[conversation].has_ended(&self.place(conversation)) => {
                self.ends(&error)
            }
            Err(error) => Said::Remark(format!("a part of {} is lost: {error}", self.name)),
        }
    }

    /// Asks for all that is left, oldest first: the commands to wait for.
    pub(super) fn stop(
        &self,
        sessions: &mut [Session],
        options: &InspectorOptions,
    ) -> Result<Vec<Asked>, InspectorError> {
        let mut stop = |conversation: usize| {
            let place = self.place(conversation);
            let id = sessions[conversation].send(&place, options.event.stop(), &json!({}))?;
            Ok(Asked {
                conversation,
                place,
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
                let last = Asked {
                    conversation: 1 - self.active,
                    place: self.place(1 - self.active),
                    id,
                };
                vec![last, stop(self.active)?]
            }
        })
    }

    /// Where the thread is spoken to.
    pub(super) fn spoken_to_at(&self) -> (usize, Place) {
        (self.active, self.place(self.active))
    }

    /// How long the profiler that runs has been running: what is lost if it never answers.
    pub(super) fn at_stake(&self) -> Duration {
        self.since.elapsed()
    }

    fn runs(&mut self, asked: Instant, options: &InspectorOptions) {
        let pause = asked.elapsed().saturating_mul(STARTS_PER_SLICE);
        let fitting = pause.clamp(SHORTEST_SLICE, LONGEST_SLICE);
        self.slice = options.slice.unwrap_or(fitting);
        self.since = Instant::now();
        self.step = Step::Running;
    }

    fn ends(&mut self, error: &InspectorError) -> Said {
        self.step = Step::Ended;
        match error {
            InspectorError::Closed => Said::Remark(format!(
                "{} ended during the recording: its last {:.1} s are lost",
                self.name,
                self.at_stake().as_secs_f64()
            )),
            error => Said::Remark(format!("{} is not recorded any more: {error}", self.name)),
        }
    }

    fn answer(
        &self,
        conversation: usize,
        id: u64,
        method: &'static str,
        sessions: &mut [Session],
    ) -> Option<Result<String, InspectorError>> {
        sessions[conversation].reply_so_far(&self.place(conversation), id, method)
    }

    fn place(&self, conversation: usize) -> Place {
        let place = self.places[conversation].clone();
        place.expect("a profiler is only started where the thread is spoken to")
    }
}

/// A command that answers with a profile.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) conversation: usize,
    pub(super) place: Place,
    pub(super) id: u64,
}

/// The command whose reply says that the profiler runs.
fn start_method(options: &InspectorOptions) -> &'static str {
    let commands = options.event.start(options);
    commands.last().map_or("", |(method, _)| method)
}

/// Sends all commands at once and returns the number of the last: they are answered in order.
fn send_start(
    session: &mut Session,
    place: &Place,
    options: &InspectorOptions,
) -> Result<u64, InspectorError> {
    let mut last = 0;
    for (method, params) in options.event.start(options) {
        last = session.send(place, method, &params)?;
    }
    Ok(last)
}
