//! speedscope's own format, which py-spy, rbspy and others write as well: profiles of samples or
//! of events, all with the same frames.
//!
//! <https://www.speedscope.app/file-format-schema.json> describes it. Each profile becomes a
//! thread, and each of their units an event, of which that of the active profile is the first. Keys come in any order, so large arrays are passed over
//! first and read when it is known what they mean.

mod thread;

use std::borrow::Cow;

use nodespy_model::{
    About, Category, Contents, EventIndex, EventType, FastMap, Frame, FrameIndex, FrameKind,
    FunctionSpec, Labels, Notes, Process, ProcessIndex, ProfileBuilder, Recording, Thread,
    ThreadIndex, ThreadRole, Tier, WeightUnit, classify, printable,
};

use super::{ImportError, ImportOptions, Importer};
use crate::code_kind::category_of;
use crate::contexts;
use crate::detect::{Confidence, ends_contain, head};
use crate::input::Input;
use crate::json::{JsonError, Kind, Reader};
use crate::recorded::Recorded;
use thread::{Oddities, Place, ThreadText};

/// The importer of speedscope's format.
pub(crate) struct Speedscope;

impl Importer for Speedscope {
    fn name(&self) -> &'static str {
        "speedscope"
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        let has = |text: &str| ends_contain(bytes, text.as_bytes());
        if Reader::new(head(bytes)).kind() != Ok(Kind::Object) {
            Confidence::No
        } else if has("speedscope.app/file-format-schema.json") {
            Confidence::Sure
        } else if has("\"profiles\"") && has("\"shared\"") && has("\"frames\"") {
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
        let mut profiles = Vec::new();
        if let Some(reader) = &file.profiles {
            let read = ThreadText::read_all(&mut reader.clone(), &mut profiles);
            cut = cut.or(read.err());
        }
        if file.frames.is_empty() || profiles.is_empty() {
            return Err(match cut {
                Some(error) => error.into(),
                None => ImportError::NoStacks,
            });
        }
        if let Some(error) = cut {
            notes.remark(format!("{error}; what comes before it was read"));
        }
        let recording = file.import(&profiles, notes);
        recording.map_err(|error| meter.explain(error))
    }
}

/// A frame as it is written.
#[derive(Debug, Default)]
struct FrameText<'a> {
    name: Cow<'a, str>,
    file: Cow<'a, str>,
    line: u32,
    column: u32,
}

/// What is known of a thread.
#[derive(Debug, Clone, Default)]
struct ThreadNote {
    process: Process,
    thread: Thread,
    /// Which event of the recording it is of.
    event: usize,
    /// The contexts of its samples.
    contexts: Vec<u32>,
}

/// What a file says, but for its profiles.
#[derive(Default)]
struct File<'a> {
    name: Cow<'a, str>,
    active: usize,
    frames: Vec<FrameText<'a>>,
    /// Where the profiles are.
    profiles: Option<Reader<'a>>,
    recorded: Vec<Cow<'a, str>>,
    threads: Vec<ThreadNote>,
    kinds: Vec<Category>,
    contexts: Vec<Labels>,
}

impl<'a> File<'a> {
    fn read(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            match &*key {
                "name" => self.name = reader.any_text()?,
                "activeProfileIndex" => {
                    let index = reader.any_number()?.map_or(0, |index| index.as_i64());
                    self.active = usize::try_from(index).unwrap_or(0);
                }
                "shared" => self.read_shared(reader)?,
                "profiles" => {
                    self.profiles = Some(reader.clone());
                    reader.skip()?;
                }
                "nodespy" if reader.kind()? == Kind::Object => self.read_ours(reader)?,
                _ => reader.skip()?,
            }
        }
        Ok(())
    }

    fn read_shared(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            if key != "frames" {
                reader.skip()?;
                continue;
            }
            reader.enter_array()?;
            while reader.element()? {
                let frame = FrameText::read(reader)?;
                self.frames.push(frame);
            }
        }
        Ok(())
    }

    /// What our exporter adds.
    fn read_ours(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            if key == "contexts" && reader.kind()? == Kind::Array {
                self.contexts = contexts::read(reader)?;
                continue;
            }
            if !matches!(&*key, "recorded" | "threads" | "kinds") {
                reader.skip()?;
                continue;
            }
            reader.enter_array()?;
            while reader.element()? {
                match &*key {
                    "recorded" => self.recorded.push(reader.any_text()?),
                    "threads" => self.threads.push(ThreadNote::read(reader)?),
                    _ => {
                        let label = reader.any_text()?;
                        let known = Category::ALL.into_iter().find(|it| it.label() == label);
                        self.kinds.push(known.unwrap_or_default());
                    }
                }
            }
        }
        Ok(())
    }

    fn import(
        mut self,
        profiles: &[ThreadText<'a>],
        mut notes: Notes,
    ) -> Result<Recording, ImportError> {
        let mut recorded = Recorded::from_lines(self.recorded.iter().map(|line| &**line));
        let active = profiles.get(self.active).unwrap_or(&profiles[0]);
        let events = match &recorded {
            Some(recorded) => recorded.events.clone(),
            None => vec![EventType::from(active.unit.weight)],
        };
        let mut builder = ProfileBuilder::with_events(events);
        let frames = self.intern_frames(&mut builder);
        let contexts = contexts::places(std::mem::take(&mut self.contexts), &mut builder);
        let mut oddities = Oddities::default();
        let mut threads = Threads::default();
        for (position, profile) in profiles.iter().enumerate() {
            let note = self.thread_note(position, profile);
            let event = match &recorded {
                Some(_) => EventIndex(note.event.min(builder.so_far().events.len() - 1) as u16),
                // A format with four units has no more events.
                None => builder
                    .event(&EventType::from(profile.unit.weight))
                    .unwrap_or_default(),
            };
            let of_event = &builder.so_far().events[event.at()];
            // Samples that our exporter wrote as time are samples again.
            let is_samples_as_time = of_event.unit == WeightUnit::Samples
                && profile.unit.weight == WeightUnit::Nanoseconds;
            let period = of_event.interval().filter(|_| is_samples_as_time);
            let place = Place {
                thread: threads.index(&note, &mut builder),
                event,
                period,
                contexts: note
                    .contexts
                    .iter()
                    .map(|context| {
                        let known = contexts.get(*context as usize);
                        known.copied().unwrap_or_default()
                    })
                    .collect(),
            };
            profile.import(&place, &frames, &mut builder, &mut oddities);
        }
        oddities.report(&mut notes);
        if builder.so_far().samples.is_empty() {
            return Err(ImportError::NoStacks);
        }
        let labels = recorded.as_mut().map(|it| std::mem::take(&mut it.labels));
        let about = about(&self.name, recorded, &mut notes);
        let mut profile = builder.finish(about.clone(), notes.clone());
        labels.unwrap_or_default().give_to(&mut profile.processes);
        Ok(Recording {
            about,
            notes,
            contents: Contents::Named(Box::new(profile)),
            ..Recording::default()
        })
    }

    fn intern_frames(&self, builder: &mut ProfileBuilder) -> Vec<FrameIndex> {
        let mut frames = Vec::with_capacity(self.frames.len());
        for (position, frame) in self.frames.iter().enumerate() {
            let kind = self.kinds.get(position).copied();
            let function = builder.function(FunctionSpec {
                name: match &*frame.name {
                    "" => "[unknown]",
                    name => name,
                },
                file: &frame.file,
                line: frame.line,
                column: frame.column,
                category: kind.unwrap_or_else(|| category_of(&frame.name, &frame.file)),
            });
            frames.push(builder.frame_of(Frame {
                function,
                line: 0,
                column: 0,
                tier: Tier::None,
                kind: FrameKind::Physical,
            }));
        }
        frames
    }

    fn thread_note(&self, position: usize, profile: &ThreadText<'_>) -> ThreadNote {
        let known = self.threads.get(position).cloned();
        known.unwrap_or_else(|| ThreadNote {
            process: Process::default(),
            thread: Thread {
                name: profile.name.clone().into_owned(),
                role: classify::role_of_name(&profile.name),
                ..Thread::default()
            },
            ..ThreadNote::default()
        })
    }
}

impl<'a> FrameText<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, JsonError> {
        let mut frame = Self::default();
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            match &*key {
                "name" => frame.name = reader.any_text()?,
                "file" => frame.file = reader.any_text()?,
                "line" => frame.line = small(reader)?,
                "col" => frame.column = small(reader)?,
                _ => reader.skip()?,
            }
        }
        Ok(frame)
    }
}

impl ThreadNote {
    fn read(reader: &mut Reader<'_>) -> Result<Self, JsonError> {
        let mut note = Self::default();
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            match &*key {
                "pid" => note.process.pid = small(reader)?,
                "process" => note.process.name = reader.any_text()?.into_owned(),
                "tid" => note.thread.tid = small(reader)?,
                "event" => note.event = small(reader)? as usize,
                "contexts" if reader.kind()? == Kind::Array => {
                    note.contexts = contexts::read_numbers(reader)?;
                }
                "name" => note.thread.name = reader.any_text()?.into_owned(),
                "role" => {
                    let label = reader.any_text()?;
                    let known = ThreadRole::ALL.into_iter().find(|it| it.label() == label);
                    note.thread.role = known.unwrap_or_default();
                }
                _ => reader.skip()?,
            }
        }
        Ok(note)
    }
}

/// A line, column or number of a thread; 0 when it makes no sense.
fn small(reader: &mut Reader<'_>) -> Result<u32, JsonError> {
    let number = reader.any_number()?.map_or(0, |number| number.as_i64());
    Ok(u32::try_from(number).unwrap_or(0))
}

/// The processes and threads of a file, each once: our exporter writes a profile for each event.
#[derive(Default)]
struct Threads {
    processes: FastMap<(u32, String), ProcessIndex>,
    known: FastMap<(ProcessIndex, u32, String), ThreadIndex>,
}

impl Threads {
    fn index(&mut self, note: &ThreadNote, builder: &mut ProfileBuilder) -> ThreadIndex {
        let key = (note.process.pid, note.process.name.clone());
        let process = *self
            .processes
            .entry(key)
            .or_insert_with(|| builder.process(note.process.clone()));
        let key = (process, note.thread.tid, note.thread.name.clone());
        let mut add = || {
            builder.thread(Thread {
                process,
                ..note.thread.clone()
            })
        };
        match note.event {
            0 => {
                let thread = add();
                self.known.insert(key, thread);
                thread
            }
            _ => *self.known.entry(key).or_insert_with(add),
        }
    }
}

fn about(name: &str, recorded: Option<Recorded>, notes: &mut Notes) -> About {
    match recorded {
        Some(recorded) => {
            let said = std::mem::replace(notes, recorded.notes);
            notes.add_sentences(&said);
            recorded.about
        }
        None => About {
            app: printable(name).into_owned(),
            engine: "speedscope".to_owned(),
            ..About::default()
        },
    }
}
