//! The processed format of the Firefox profiler, as samply, Firefox's own profiler page and
//! nodespy write it.
//!
//! <https://github.com/firefox-devtools/profiler/blob/main/docs-developer/processed-profile-format.md>
//! and the changelog beside it describe it. Tables are in each thread, or since version 56 more
//! and more of them once for all threads in `shared`; whatever is in neither is missing. The raw
//! format that Firefox hands to its profiler page is recognized and refused.

mod meta;
mod names;
mod tables;
mod thread;

use nodespy_model::{
    About, Contents, EventIndex, EventType, Labels, Notes, Profile, ProfileBuilder, Recording,
    WeightUnit, printable,
};

use super::{ImportError, ImportOptions, Importer};
use crate::budget::Meter;
use crate::contexts;
use crate::detect::{Confidence, ends_contain, head};
use crate::input::Input;
use crate::json::{JsonError, Kind, Reader};
use crate::recorded::{ProcessLabels, Recorded};
use meta::Meta;
use names::Names;
use tables::{Lib, Tables};
use thread::{Oddities, Place, ThreadText, Threads};

/// The importer of the Firefox profiler's format.
pub(crate) struct Firefox;

impl Importer for Firefox {
    fn name(&self) -> &'static str {
        "firefox"
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        let has = |text: &str| ends_contain(bytes, text.as_bytes());
        if Reader::new(head(bytes)).kind() != Ok(Kind::Object) {
            Confidence::No
        } else if has("\"preprocessedProfileVersion\"") {
            Confidence::Sure
        } else if has("\"meta\"")
            && has("\"threads\"")
            && (has("\"stackwalk\"") || has("\"schema\""))
        {
            Confidence::Likely
        } else {
            Confidence::No
        }
    }

    fn import(&self, input: Input, options: &ImportOptions) -> Result<Recording, ImportError> {
        let meter = input.budget(&options.limits).meter();
        let mut file = File::default();
        let mut notes = Notes::default();
        let mut cut = file.read(&mut Reader::metered(&input, &meter)).err();
        if file.threads.is_some() && file.meta.is_raw() {
            return Err(ImportError::NotRead {
                what: "this is the raw profile of Firefox, which nodespy does not read; open it in \
                       profiler.firefox.com and save it from there",
            });
        }
        let mut threads = Vec::new();
        if let Some(reader) = &file.threads {
            let read = ThreadText::read_all(&mut reader.clone(), &mut threads);
            cut = cut.or(read.err());
        }
        if threads.is_empty() {
            return Err(match cut {
                Some(error) => error.into(),
                None => ImportError::NoStacks,
            });
        }
        if let Some(error) = cut {
            notes.remark(format!("{error}; what comes before it was read"));
        }
        let recording = file.import(&threads, &meter, notes);
        recording.map_err(|error| meter.explain(error))
    }
}

/// What a file says, but for its threads.
#[derive(Default)]
struct File<'a> {
    meta: Meta<'a>,
    libs: Vec<Lib<'a>>,
    shared: Tables<'a>,
    /// Where the threads are.
    threads: Option<Reader<'a>>,
    /// The event of each thread, as our exporter says.
    events: Vec<u32>,
    contexts: Vec<Labels>,
    /// The contexts of the samples of each thread.
    sample_contexts: Vec<Vec<u32>>,
}

impl<'a> File<'a> {
    fn read(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            match (&*key, reader.kind()?) {
                ("meta", Kind::Object) => self.meta.read(reader)?,
                ("libs", Kind::Array) => self.libs = Lib::read_all(reader)?,
                ("shared", Kind::Object) => {
                    reader.enter_object()?;
                    while let Some(key) = reader.key()? {
                        self.shared.read_field(&key, reader)?;
                    }
                }
                ("threads", Kind::Array) => {
                    self.threads = Some(reader.clone());
                    reader.skip()?;
                }
                ("nodespy", Kind::Object) => self.read_tags(reader)?,
                _ => reader.skip()?,
            }
        }
        Ok(())
    }

    /// What our exporter adds.
    fn read_tags(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            match (&*key, reader.kind()?) {
                ("events", Kind::Array) => self.events = contexts::read_numbers(reader)?,
                ("contexts", Kind::Array) => self.contexts = contexts::read(reader)?,
                ("sampleContexts", Kind::Array) => {
                    reader.enter_array()?;
                    while reader.element()? {
                        self.sample_contexts.push(contexts::read_numbers(reader)?);
                    }
                }
                _ => reader.skip()?,
            }
        }
        Ok(())
    }

    /// The events of a file: what our exporter says, else one for each unit of weights.
    fn events(&self, threads: &[ThreadText<'a>], recorded: Option<&Recorded>) -> Vec<EventType> {
        if let Some(recorded) = recorded {
            return recorded.events.clone();
        }
        let mut events: Vec<EventType> = Vec::new();
        for thread in threads.iter().filter(|thread| thread.samples.len() > 0) {
            let unit = thread.samples.unit;
            if events.iter().all(|event| event.unit != unit) {
                let is_rate = self.meta.interval_ms > 0.0 && unit == WeightUnit::Samples;
                let rate_hz = match is_rate {
                    true => (1000.0 / self.meta.interval_ms).round() as u32,
                    false => 0,
                };
                events.push(EventType::from(unit).at_rate(rate_hz));
            }
        }
        events
    }

    fn import(
        mut self,
        threads: &[ThreadText<'a>],
        meter: &Meter,
        notes: Notes,
    ) -> Result<Recording, ImportError> {
        let recorded = Recorded::from_lines(self.meta.recorded.iter().map(|line| &**line));
        let events = self.events(threads, recorded.as_ref());
        let mut builder = ProfileBuilder::with_events(events.clone());
        let contexts = contexts::places(std::mem::take(&mut self.contexts), &mut builder);
        let mut oddities = Oddities::default();
        let names = Names {
            meta: &self.meta,
            libs: &self.libs,
            meter,
        };
        let mut known = Threads::default();
        // Stacks that all threads have in common are made once.
        let none = Tables::default();
        let shared = names.stacks(&none.with(&self.shared), &mut builder, &mut oddities);
        for (position, thread) in threads.iter().enumerate() {
            let event = match recorded {
                Some(_) => self.events.get(position).map_or(0, |event| *event as usize),
                None => (events.iter())
                    .position(|event| event.unit == thread.samples.unit)
                    .unwrap_or(0),
            };
            let event = event.min(events.len().saturating_sub(1));
            let of_samples = self.sample_contexts.get(position);
            let of_samples = of_samples.map_or(&[][..], |contexts| contexts);
            let place = Place {
                // Without samples a foreign file has no events either.
                thread: known.thread(
                    thread,
                    events.get(event),
                    event > 0 && recorded.is_some(),
                    &mut builder,
                ),
                event: EventIndex(event as u16),
                unit: events
                    .get(event)
                    .map_or(thread.samples.unit, |event| event.unit),
                contexts: of_samples
                    .iter()
                    .map(|context| contexts.get(*context as usize).copied().unwrap_or_default())
                    .collect(),
            };
            match thread.tables.has_stacks() {
                true => {
                    let tables = thread.tables.with(&self.shared);
                    let stacks = names.stacks(&tables, &mut builder, &mut oddities);
                    thread
                        .samples
                        .add(&place, &stacks, &mut builder, &mut oddities);
                }
                false => thread
                    .samples
                    .add(&place, &shared, &mut builder, &mut oddities),
            }
        }
        self.finish(builder, recorded, oddities, notes)
    }

    fn finish(
        self,
        builder: ProfileBuilder,
        recorded: Option<Recorded>,
        oddities: Oddities,
        mut notes: Notes,
    ) -> Result<Recording, ImportError> {
        oddities.report(&mut notes);
        if builder.so_far().samples.is_empty() {
            return Err(ImportError::NoStacks);
        }
        let mut labels = ProcessLabels::default();
        let about = match recorded {
            Some(recorded) => {
                labels = recorded.labels;
                let said = std::mem::replace(&mut notes, recorded.notes);
                notes.add_sentences(&said);
                recorded.about
            }
            None => self.about(builder.so_far()),
        };
        let mut profile = builder.finish(about.clone(), notes.clone());
        labels.give_to(&mut profile.processes);
        Ok(Recording {
            about,
            notes,
            contents: Contents::Named(Box::new(profile)),
            ..Recording::default()
        })
    }

    fn about(&self, profile: &Profile) -> About {
        let meta = &self.meta;
        let whole = |value: f64| if value > 0.0 { value.round() as u64 } else { 0 };
        let last = profile.samples.iter().map(|sample| sample.time).max();
        About {
            app: printable(&meta.product).into_owned(),
            engine: match &*meta.imported_from {
                "" => "Firefox profiler".to_owned(),
                name => printable(name).into_owned(),
            },
            // A double holds microseconds since 1970, and not all of their thousandths.
            started_unix: whole(meta.start_ms * 1e3).saturating_mul(1000),
            duration: last.unwrap_or(0),
            ..About::default()
        }
    }
}
