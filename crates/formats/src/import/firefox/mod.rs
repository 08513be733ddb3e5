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
    About, Contents, Notes, Profile, ProfileBuilder, Recording, WeightUnit, printable,
};

use super::{ImportError, ImportOptions, Importer};
use crate::detect::{Confidence, ends_contain, head};
use crate::input::Input;
use crate::json::{JsonError, Kind, Reader};
use crate::recorded::{ProcessLabels, Recorded};
use meta::Meta;
use names::Names;
use tables::{Lib, Tables};
use thread::{Oddities, ThreadText, Threads};

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

    fn import(&self, input: Input, _: &ImportOptions) -> Result<Recording, ImportError> {
        let mut file = File::default();
        let mut notes = Notes::default();
        let mut cut = file.read(&mut Reader::new(&input)).err();
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
        file.import(&threads, notes)
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
                _ => reader.skip()?,
            }
        }
        Ok(())
    }

    fn import(self, threads: &[ThreadText<'a>], notes: Notes) -> Result<Recording, ImportError> {
        let unit = threads
            .iter()
            .find(|thread| thread.samples.len() > 0)
            .map_or(WeightUnit::Samples, |thread| thread.samples.unit);
        let mut builder = ProfileBuilder::new(unit);
        let mut oddities = Oddities::default();
        let names = Names {
            meta: &self.meta,
            libs: &self.libs,
        };
        let mut known = Threads::default();
        // Stacks that all threads have in common are made once.
        let none = Tables::default();
        let shared = names.stacks(&none.with(&self.shared), &mut builder, &mut oddities);
        for thread in threads {
            if thread.samples.unit != unit {
                oddities.other_units += thread.samples.len() as u64;
                continue;
            }
            let index = known.thread(thread, &mut builder);
            match thread.tables.has_stacks() {
                true => {
                    let tables = thread.tables.with(&self.shared);
                    let stacks = names.stacks(&tables, &mut builder, &mut oddities);
                    thread
                        .samples
                        .add(index, &stacks, &mut builder, &mut oddities);
                }
                false => thread
                    .samples
                    .add(index, &shared, &mut builder, &mut oddities),
            }
        }
        self.finish(builder, oddities, notes)
    }

    fn finish(
        self,
        builder: ProfileBuilder,
        oddities: Oddities,
        mut notes: Notes,
    ) -> Result<Recording, ImportError> {
        oddities.tell(&mut notes);
        if builder.so_far().samples.is_empty() {
            return Err(ImportError::NoStacks);
        }
        let recorded = Recorded::from_lines(self.meta.recorded.iter().map(|line| &**line));
        let mut labels = ProcessLabels::default();
        let about = match recorded {
            Some(recorded) => {
                labels = recorded.labels;
                let said = std::mem::replace(&mut notes, recorded.notes);
                said.remarks.into_iter().for_each(|it| notes.remark(it));
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
            rate_hz: match meta.interval_ms > 0.0 && profile.unit == WeightUnit::Samples {
                true => (1000.0 / meta.interval_ms).round() as u32,
                false => 0,
            },
            // A double holds microseconds since 1970, and not all of their thousandths.
            started_unix: whole(meta.start_ms * 1e3).saturating_mul(1000),
            duration: last.unwrap_or(0),
            ..About::default()
        }
    }
}
