//! The end of a recording: the threads' last profiles, which are asked for together and waited for together.
//!
//! Threads that sit in native code answer nothing: however many they are, the end waits for them once.

use std::time::{Duration, Instant};

use nodespy_inspector::{Cancel, InspectorError, Recipient};

use super::InspectorOptions;
use super::channel::Channel;
use super::lane::StopCommand;

/// Until when the commands that were sent together are waited for.
pub(super) struct Deadlines<'a> {
    main_timeout: Duration,
    worker_timeout: Duration,
    main: Option<Instant>,
    /// Replies of workers come through the main thread: their time starts when that has answered.
    workers: Option<Instant>,
    cancel: Cancel,
    now: &'a dyn Fn() -> Instant,
}

impl<'a> Deadlines<'a> {
    pub(super) fn new(options: &InspectorOptions, now: &'a dyn Fn() -> Instant) -> Self {
        Self {
            main_timeout: options.stop_timeout,
            worker_timeout: options.timeout.min(options.stop_timeout),
            main: None,
            workers: None,
            cancel: options.cancel_at_end(),
            now,
        }
    }

    /// Waits for the reply to a command; those of the main thread come first.
    pub(super) fn reply<C: Channel>(
        &mut self,
        sessions: &mut [C],
        command: &StopCommand,
        method: &'static str,
    ) -> Result<String, InspectorError> {
        let (deadline, after) = match command.recipient {
            Recipient::Main => (&mut self.main, self.main_timeout),
            Recipient::Worker(_) => (&mut self.workers, self.worker_timeout),
        };
        let deadline = *deadline.get_or_insert_with(|| (self.now)() + after);
        loop {
            let session = &mut sessions[command.session];
            if let Some(reply) = session.try_reply(&command.recipient, command.id, method) {
                return reply;
            }
            let is_cancelled = self.cancel.is_cancelled();
            if is_cancelled || (self.now)() >= deadline {
                session.forget(&command.recipient);
                return Err(match is_cancelled {
                    true => InspectorError::Cancelled { method },
                    false => InspectorError::Timeout { method, after },
                });
            }
            poll_all(sessions, command.session)?;
        }
    }
}

/// Takes in what comes in the session that is `needed`. Where nothing does, the others have their turn, each of which may wait
/// a moment: no thread's reply lies unread while another is waited for. They may fail.
fn poll_all<C: Channel>(sessions: &mut [C], needed: usize) -> Result<(), InspectorError> {
    if sessions[needed].poll()? {
        return Ok(());
    }
    for (position, session) in sessions.iter_mut().enumerate() {
        if position != needed {
            let _ = session.poll();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::Value;

    use super::*;
    use crate::engines::inspector::InspectorEvent;

    const STOP: &str = "Profiler.stop";

    /// A session whose polls take a second each. Commands of its `stuck` threads are never answered, others at
    /// the first poll.
    struct Slow<'a> {
        clock: &'a Cell<Duration>,
        stuck: Vec<u64>,
        is_polled: bool,
    }

    impl Channel for Slow<'_> {
        fn send(
            &mut self,
            _: &Recipient,
            _: &'static str,
            _: &Value,
        ) -> Result<u64, InspectorError> {
            unreachable!("everything was asked for before")
        }

        fn post(
            &mut self,
            _: &Recipient,
            _: &'static str,
            _: &Value,
        ) -> Result<(), InspectorError> {
            unreachable!("everything was asked for before")
        }

        fn try_reply(
            &mut self,
            _: &Recipient,
            id: u64,
            _: &'static str,
        ) -> Option<Result<String, InspectorError>> {
            (self.is_polled && !self.stuck.contains(&id)).then(|| Ok(id.to_string()))
        }

        fn has_ended(&self, _: &Recipient) -> bool {
            false
        }

        fn forget(&mut self, _: &Recipient) {}

        fn poll(&mut self) -> Result<bool, InspectorError> {
            self.is_polled = true;
            self.clock.set(self.clock.get() + Duration::from_secs(1));
            Ok(true)
        }
    }

    /// Stops a main thread (0) and workers (1 and on, every other in the second session): who answered, and how
    /// many seconds it took.
    fn stop(stuck: &[u64], workers: u64) -> (Vec<u64>, u64) {
        let (clock, start) = (Cell::new(Duration::ZERO), Instant::now());
        let mut sessions = [(); 2].map(|()| Slow {
            clock: &clock,
            stuck: stuck.to_vec(),
            is_polled: false,
        });
        let options = InspectorOptions {
            timeout: Duration::from_secs(10),
            stop_timeout: Duration::from_secs(60),
            ..InspectorOptions::new(|_: InspectorEvent, _: &str| Err("nothing is read".into()))
        };
        let now = || start + clock.get();
        let mut deadlines = Deadlines::new(&options, &now);
        let answers = |id: &u64| {
            let command = StopCommand {
                session: (*id % 2) as usize,
                recipient: match id {
                    0 => Recipient::Main,
                    worker => Recipient::Worker(worker.to_string()),
                },
                id: *id,
            };
            deadlines.reply(&mut sessions, &command, STOP).is_ok()
        };
        let answered = (0..=workers).filter(answers).collect();
        (answered, clock.get().as_secs())
    }

    #[test]
    fn however_many_workers_do_not_answer_the_end_waits_for_them_once() {
        let stuck: Vec<u64> = (1..=20).collect();
        let (answered, seconds) = stop(&stuck, 22);
        assert_eq!(answered, [0, 21, 22]);
        assert!(seconds <= 10 + 2 * 2, "{seconds}");
    }

    #[test]
    fn workers_have_their_time_when_the_main_thread_took_its_own() {
        let (answered, seconds) = stop(&[0], 3);
        assert_eq!(answered, [1, 2, 3]);
        assert!((60..64).contains(&seconds), "{seconds}");
    }
}
