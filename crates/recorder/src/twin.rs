//! Perf events and V8's own profiler at once, joined on the monotonic clock.

use std::time::Duration;

use nodespy_analysis::{Agreement, join_twins};
use nodespy_capture::engine::{self, Engine, NamedEvent, Sink};
use nodespy_capture::{CaptureError, with_causes};
use nodespy_model::{About, Event, Nanoseconds, Profile};

use crate::named::NamedSamples;
use crate::observer::{Observer, Started};
use crate::subject::Subject;

/// Samples so near to each other are of the same moment.
const WITHIN: Nanoseconds = 1_000_000;

/// V8's profiler, while perf events record too.
pub(crate) struct Twin<'e> {
    engine: &'e mut dyn Engine,
    named: NamedSamples,
    started: Nanoseconds,
    /// Why it came to nothing.
    failure: Option<CaptureError>,
}

impl<'e> Twin<'e> {
    /// Starts V8's profiler.
    pub(crate) fn attach(
        engine: &'e mut dyn Engine,
        subject: &Subject,
        observer: &mut dyn Observer,
    ) -> Result<Self, CaptureError> {
        let attached = engine.attach(engine::Subject {
            targets: &subject.targets,
            group: None,
            launched: None,
        })?;
        observer.started(&Started {
            engine: engine.id(),
            events: &engine.events(),
            app: &subject.app,
            targets: &subject.targets,
            runs_as: None,
            attached: &attached,
            remarks: &[],
        });
        Ok(Self {
            engine,
            named: NamedSamples::default(),
            started: attached.started,
            failure: None,
        })
    }

    /// Takes in what has come, without waiting.
    pub(crate) fn drain(&mut self) {
        if let Err(error) = self
            .engine
            .drain(Duration::ZERO, &mut OnlyNamed(&mut self.named))
        {
            self.failure = Some(error);
        }
    }

    /// Ends V8's profiler and joins what it saw to `profile`, whose clock started at `started`. If
    /// it saw nothing the profile stays as it is and says why.
    pub(crate) fn join(mut self, mut profile: Profile, started: Nanoseconds) -> Profile {
        if let Err(error) = self.engine.finish(&mut OnlyNamed(&mut self.named)) {
            self.failure = Some(error);
        }
        let failure = match self.failure {
            Some(error) => Some(with_causes(&error)),
            None if self.named.is_empty() => Some("no process could be recorded".to_owned()),
            None => None,
        };
        if let Some(failure) = failure {
            let why = format!("V8's own profiler could not be asked: {failure}");
            profile.notes.remark(why);
            return profile;
        }
        let twin = self.named.slice(About::default());
        let earlier = started.saturating_sub(self.started);
        let (mut joined, agreement) = join_twins(profile, &twin, earlier, WITHIN);
        for clause in clauses(agreement) {
            joined.notes.add_cross_check(clause);
        }
        joined.notes.add_sentences(&twin.notes);
        joined.about.engine = "perf events and V8 inspector".to_owned();
        joined
    }
}

fn clauses(agreement: Agreement) -> Vec<String> {
    let percent = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
    let joined = percent(agreement.joined, agreement.javascript);
    let mut clauses = vec![format!("{joined:.0}% of JS samples joined with V8's own")];
    if agreement.compared > 0 {
        let agreeing = percent(agreement.agreeing, agreement.compared);
        clauses.push(format!("V8 agrees on {agreeing:.1}% of them"));
    }
    clauses
}

/// Takes what V8 names: addresses are the other engine's business.
struct OnlyNamed<'a>(&'a mut NamedSamples);

impl Sink for OnlyNamed<'_> {
    fn batch(&mut self) {}

    fn event(&mut self, _event: Event<'_>) {}

    fn named(&mut self, session: usize, event: NamedEvent) {
        self.0.take(session, event);
    }
}
