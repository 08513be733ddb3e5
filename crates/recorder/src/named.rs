//! Samples that came with names, put together.

use std::collections::BTreeMap;

use nodespy_capture::engine::NamedEvent;
use nodespy_model::{
    About, EventType, LoadedScript, Nanoseconds, Notes, Process, ProcessIndex, Profile,
    ProfileBuilder, Thread, ThreadIndex, WeightUnit, add_samples, add_threads,
};

/// What one session has not reported yet holds up the others for so long at most.
const MAX_LAG: Nanoseconds = 120_000_000_000;

/// What the sessions of an engine sent.
#[derive(Debug, Default)]
pub(crate) struct NamedSamples {
    sessions: BTreeMap<usize, Session>,
    /// Whether there was a session.
    has_begun: bool,
    pub(crate) scripts: Vec<LoadedScript>,
}

/// What was seen of one process.
#[derive(Debug)]
struct Session {
    builder: ProfileBuilder,
    event: EventType,
    process: ProcessIndex,
    /// The threads that run, and those that ended in this slice, by their numbers.
    threads: BTreeMap<usize, SeenThread>,
    /// How many threads there were.
    thread_count: usize,
    notes: Notes,
    duration: Nanoseconds,
    /// Until when all samples were reported.
    complete_until: Nanoseconds,
    has_ended: bool,
}

#[derive(Debug, Clone, Copy)]
struct SeenThread {
    index: ThreadIndex,
    has_ended: bool,
}

impl Session {
    fn new(process: Process, event: EventType) -> Self {
        let mut builder = ProfileBuilder::new(event.clone());
        Self {
            process: builder.process(process),
            builder,
            event,
            threads: BTreeMap::new(),
            thread_count: 0,
            notes: Notes::default(),
            duration: 0,
            complete_until: 0,
            has_ended: false,
        }
    }

    fn add_thread(&mut self, thread: Thread) {
        let seen = SeenThread {
            index: self.builder.thread(thread),
            has_ended: false,
        };
        self.threads.insert(self.thread_count, seen);
        self.thread_count += 1;
    }

    /// What came in since the last slice; the session goes on with its process and the threads that run.
    fn slice(&mut self, mut about: About) -> Profile {
        about.duration = about.duration.max(self.duration);
        let mut next = ProfileBuilder::new(self.event.clone());
        let known = self.builder.so_far();
        for process in &known.processes {
            next.process(process.clone());
        }
        self.threads.retain(|_, thread| !thread.has_ended);
        for thread in self.threads.values_mut() {
            thread.index = next.thread(known.threads[thread.index.at()].clone());
        }
        let builder = std::mem::replace(&mut self.builder, next);
        builder.finish(about, std::mem::take(&mut self.notes))
    }
}

impl NamedSamples {
    /// Takes the next event of a session.
    pub(crate) fn take(&mut self, session: usize, event: NamedEvent) {
        if let NamedEvent::Process(process, event_type) = event {
            self.has_begun = true;
            let session = self.sessions.entry(session);
            session.or_insert_with(|| Session::new(*process, event_type));
            return;
        }
        let Some(session) = self.sessions.get_mut(&session) else {
            log::warn!("an event of a session that has not begun: {event:?}");
            return;
        };
        match event {
            NamedEvent::Process(..) => {}
            NamedEvent::Thread { tid, name, role } => {
                session.add_thread(Thread {
                    process: session.process,
                    tid,
                    name,
                    role,
                    ..Thread::default()
                });
            }
            NamedEvent::Samples {
                thread,
                start,
                profile,
            } => {
                let Some(thread) = session.threads.get(&thread).map(|it| it.index) else {
                    log::warn!("samples of a thread that was not reported");
                    return;
                };
                add_samples(&mut session.builder, &profile, start, |_| thread);
                let end = profile.about.duration.saturating_add(start);
                session.duration = session.duration.max(end);
            }
            NamedEvent::ThreadEnded { thread } => {
                if let Some(thread) = session.threads.get_mut(&thread) {
                    thread.has_ended = true;
                }
            }
            NamedEvent::Complete(until) => session.complete_until = until,
            NamedEvent::Ended => session.has_ended = true,
            NamedEvent::Text { file, text } => session.builder.source(&file, text),
            NamedEvent::Scripts(scripts) => self.scripts.extend(scripts),
            NamedEvent::Remark(remark) => session.notes.remark(remark),
        }
    }

    /// Whether no process was recorded.
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_begun
    }

    /// Until when all samples are there at `now`; both since the start of the recording.
    pub(crate) fn complete_until(&self, now: Nanoseconds) -> Nanoseconds {
        let running = self.sessions.values().filter(|session| !session.has_ended);
        let slowest = running.map(|session| session.complete_until).min();
        let slowest = slowest.map_or(now, |until| until.min(now));
        slowest.max(now.saturating_sub(MAX_LAG))
    }

    /// One profile of all processes with what came in since the last slice. Its times count from the
    /// start of the recording. Sessions that have ended are forgotten.
    pub(crate) fn slice(&mut self, about: About) -> Profile {
        let event = self.sessions.values().next().map_or_else(
            || EventType::from(WeightUnit::Nanoseconds),
            |session| session.event.clone(),
        );
        // A process of which nothing was seen is no part of a profile; why is a remark.
        let (seen, unseen): (Vec<&mut Session>, Vec<&mut Session>) = self
            .sessions
            .values_mut()
            .partition(|session| session.thread_count > 0);
        let mut profiles: Vec<Profile> = seen
            .into_iter()
            .map(|session| session.slice(about.clone()))
            .collect();
        let mut profile = match profiles.len() {
            1 => profiles.remove(0),
            _ => together(&profiles, event, about),
        };
        for session in unseen {
            profile.notes.add_sentences(&session.notes);
        }
        self.sessions.retain(|_, session| !session.has_ended);
        profile
    }
}

/// One profile of several processes.
fn together(profiles: &[Profile], event: EventType, mut about: About) -> Profile {
    let mut builder = ProfileBuilder::new(event);
    let mut notes = Notes::default();
    for profile in profiles {
        let threads = add_threads(&mut builder, profile);
        add_samples(&mut builder, profile, 0, |thread| threads[thread.at()]);
        about.duration = about.duration.max(profile.about.duration);
        notes.add_sentences(&profile.notes);
    }
    builder.finish(about, notes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stand_in::named_session;

    fn slice_of(named: &mut NamedSamples) -> Profile {
        named.slice(About::default())
    }

    #[test]
    fn what_has_ended_is_in_one_more_slice_and_then_forgotten() {
        let mut named = NamedSamples::default();
        for (session, pid) in [(0, 7), (1, 8)] {
            for event in named_session(pid, 3) {
                named.take(session, event);
            }
        }
        named.take(0, NamedEvent::Ended);
        named.take(1, NamedEvent::ThreadEnded { thread: 0 });
        let first = slice_of(&mut named);
        assert_eq!((first.processes.len(), first.samples.len()), (2, 6));
        let second = slice_of(&mut named);
        assert_eq!(second.processes.len(), 1);
        assert!(second.threads.is_empty() && second.samples.is_empty());
        assert!(!named.is_empty(), "it was recorded all the same");
        // Numbers of threads are not given again.
        let [_, thread, samples] = <[_; 3]>::try_from(named_session(8, 5)).unwrap();
        named.take(1, thread);
        named.take(1, samples);
        assert!(slice_of(&mut named).samples.is_empty());
    }

    #[test]
    fn the_slowest_session_says_what_is_complete_but_not_forever() {
        let second = 1_000_000_000;
        let mut named = NamedSamples::default();
        assert_eq!(named.complete_until(5 * second), 5 * second);
        for session in [0, 1] {
            let events = named_session(7 + session as u32, 1);
            events.into_iter().for_each(|it| named.take(session, it));
            let until = (10 + session as u64) * second;
            named.take(session, NamedEvent::Complete(until));
        }
        assert_eq!(named.complete_until(30 * second), 10 * second);
        assert_eq!(named.complete_until(900 * second), 780 * second);
        named.take(0, NamedEvent::Ended);
        assert_eq!(named.complete_until(30 * second), 11 * second);
        named.take(1, NamedEvent::Ended);
        assert_eq!(named.complete_until(30 * second), 30 * second);
    }
}
