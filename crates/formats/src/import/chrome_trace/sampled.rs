//! Stack samples beside the events: `samples` that name a frame of `stackFrames`, each of which
//! names the frame that called it. Hermes writes them.

use nodespy_model::{Category, FastMap, FunctionSpec, Notes, ProfileBuilder, SmallSort};

use super::events::{ThreadKey, read_number, read_time};
use super::{FURTHEST, Names, Summary};
use crate::import::cpuprofile::{self, Nodes, Timeline};
use crate::json::{JsonError, Kind, Reader};

/// The samples of a file and the frames they name.
#[derive(Default)]
pub(super) struct Sampled {
    frames: Nodes,
    ids: FastMap<String, u32>,
    threads: FastMap<ThreadKey, Timeline>,
}

impl Sampled {
    pub(super) fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// Frames are known by any text; nodes by a number.
    fn id(&mut self, text: &str) -> u32 {
        if let Some(id) = self.ids.get(text) {
            return *id;
        }
        let id = self.ids.len() as u32;
        self.ids.insert(text.to_owned(), id);
        id
    }

    pub(super) fn read_samples(&mut self, reader: &mut Reader<'_>) -> Result<(), JsonError> {
        reader.enter_array()?;
        while reader.element()? {
            if reader.kind()? != Kind::Object {
                reader.skip()?;
                continue;
            }
            let mut thread = ThreadKey::default();
            let mut time = 0;
            let mut frame = None;
            reader.enter_object()?;
            while let Some(key) = reader.key()? {
                match &*key {
                    "pid" => thread.pid = read_number(reader)?,
                    "tid" => thread.tid = read_number(reader)?,
                    "ts" => time = read_time(reader)?,
                    "sf" => frame = Some(reader.any_text()?),
                    _ => reader.skip()?,
                }
            }
            let id = frame.map_or(u32::MAX, |frame| self.id(&frame));
            let timeline = self.threads.entry(thread).or_default();
            timeline.nodes.push(id);
            timeline.timestamps.push(time);
        }
        Ok(())
    }

    pub(super) fn read_frames(
        &mut self,
        reader: &mut Reader<'_>,
        builder: &mut ProfileBuilder,
    ) -> Result<(), JsonError> {
        reader.enter_object()?;
        while let Some(id) = reader.key()? {
            let id = self.id(&id);
            if reader.kind()? != Kind::Object {
                reader.skip()?;
                continue;
            }
            let mut name = Default::default();
            let mut category = Default::default();
            let mut parent = None;
            reader.enter_object()?;
            while let Some(key) = reader.key()? {
                match &*key {
                    "name" => name = reader.any_text()?,
                    "category" => category = reader.any_text()?,
                    "parent" => parent = Some(reader.any_text()?),
                    _ => reader.skip()?,
                }
            }
            let parent = parent.map(|parent| self.id(&parent));
            let function = builder.function(described(&name, &category));
            self.frames.add(id, parent, function);
        }
        Ok(())
    }

    /// Adds the samples of every thread.
    pub(super) fn add(
        &mut self,
        names: &mut Names,
        builder: &mut ProfileBuilder,
        notes: &mut Notes,
    ) -> Summary {
        let mut summary = Summary::of("trace samples");
        self.frames.join();
        let mut threads: Vec<(ThreadKey, Timeline)> = self.threads.drain().collect();
        threads.small_sort_by_key(|(key, _)| *key);
        let times = threads
            .iter()
            .flat_map(|(_, timeline)| &timeline.timestamps);
        let first = times.copied().min().unwrap_or(0);
        for (key, timeline) in threads {
            let start = timeline.timestamps.iter().copied().min().unwrap_or(first);
            let offset = start.saturating_sub(first).clamp(0, FURTHEST) as u64;
            let thread = names.thread(key, builder);
            let place = (thread, offset);
            let placement =
                cpuprofile::add_thread(&mut self.frames, timeline, place, builder, notes);
            summary.interval = summary.interval.max(placement.interval);
            summary.duration = summary.duration.max(offset + placement.duration);
        }
        self.frames.remark(notes);
        summary
    }
}

/// A frame as Hermes describes it: `name(address:line:column)` and a category of its own.
fn described<'a>(text: &'a str, category: &str) -> FunctionSpec<'a> {
    let kind = match category {
        "JavaScript" => Category::App,
        _ if text.starts_with("[GC") => Category::Gc,
        _ => Category::Native,
    };
    let place = text
        .strip_suffix(')')
        .and_then(|text| text.split_once('('))
        .and_then(|(name, place)| {
            let (rest, column) = place.rsplit_once(':')?;
            let (file, line) = rest.rsplit_once(':')?;
            Some((name, file, line.parse().ok()?, column.parse().ok()?))
        });
    match place {
        Some((name, file, line, column)) => FunctionSpec {
            name,
            file,
            line,
            column,
            category: kind,
        },
        None => FunctionSpec {
            name: text,
            category: kind,
            ..FunctionSpec::default()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_hermes_are_taken_apart() {
        let frame = described("f(http://h:8081/i.bundle?a=b:418874:4)", "JavaScript");
        assert_eq!(
            (frame.name, frame.file, frame.line, frame.column),
            ("f", "http://h:8081/i.bundle?a=b", 418_874, 4)
        );
        assert_eq!(
            described("[GC Young Gen]", "Metadata").category,
            Category::Gc
        );
        assert_eq!(described("f(x)", "Native").name, "f(x)");
    }
}
