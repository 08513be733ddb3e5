//! Samples that came with names, put together.

use std::collections::BTreeMap;

use nodespy_capture::engine::NamedEvent;
use nodespy_model::{
    About, EventType, LoadedScript, Nanoseconds, Notes, Process, ProcessIndex, Profile,
    ProfileBuilder, Thread, ThreadIndex, WeightUnit, add_samples, add_threads,
};

/// What the sessions of an engine sent.
#[derive(Debug, Default)]
pub(crate) struct NamedSamples {
    sessions: BTreeMap<usize, Session>,
    pub(crate) scripts: Vec<LoadedScript>,
}

/// What was seen of one process.
#[derive(Debug)]
struct Session {
    builder: ProfileBuilder,
    event: EventType,
    process: ProcessIndex,
    threads: Vec<ThreadIndex>,
    notes: Notes,
    duration: Nanoseconds,
}

impl Session {
    fn new(process: Process, event: EventType) -> Self {
        let mut builder = ProfileBuilder::new(event.clone());
        Self {
            process: builder.process(process),
            builder,
            event,
            threads: Vec::new(),
            notes: Notes::default(),
            duration: 0,
        }
    }

    /// What came in since the last slice; the session goes on with its process and threads.
    fn slice(&mut self, mut about: About) -> Profile {
        about.duration = about.duration.max(self.duration);
        let mut next = ProfileBuilder::new(self.event.clone());
        let known = self.builder.so_far();
        for process in &known.processes {
            next.process(process.clone());
        }
        for thread in &known.threads {
            next.thread(thread.clone());
        }
        let builder = std::mem::replace(&mut self.builder, next);
        builder.finish(about, std::mem::take(&mut self.notes))
    }
}

impl NamedSamples {
    /// Takes the next event of a session.
    pub(crate) fn take(&mut self, session: usize, event: NamedEvent) {
        if let NamedEvent::Process(process, event_type) = event {
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
                session.threads.push(session.builder.thread(Thread {
                    process: session.process,
                    tid,
                    name,
                    role,
                    ..Thread::default()
                }));
            }
            NamedEvent::Samples {
                thread,
                start,
                profile,
            } => {
                let Some(&thread) = session.threads.get(thread) else {
                    log::warn!("samples of a thread that was not reported");
                    return;
                };
                add_samples(&mut session.builder, &profile, start, |_| thread);
                let end = profile.about.duration.saturating_add(start);
                session.duration = session.duration.max(end);
            }
            NamedEvent::Text { file, text } => session.builder.source(&file, text),
            NamedEvent::Scripts(scripts) => self.scripts.extend(scripts),
            NamedEvent::Remark(remark) => session.notes.remark(remark),
        }
    }

    /// Whether no process was recorded.
    pub(crate) fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// One profile of all processes with what came in since the last slice. Its times count from the
    /// start of the recording.
    pub(crate) fn slice(&mut self, about: About) -> Profile {
        let event = self.sessions.values().next().map_or_else(
            || EventType::from(WeightUnit::Nanoseconds),
            |session| session.event.clone(),
        );
        // A process of which nothing was seen is no part of a profile; why is a remark.
        let (seen, unseen): (Vec<&mut Session>, Vec<&mut Session>) = self
            .sessions
            .values_mut()
            .partition(|session| !session.threads.is_empty());
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
