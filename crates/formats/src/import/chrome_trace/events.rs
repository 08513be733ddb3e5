//! One trace event.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::json::{JsonError, Kind, Reader};

/// A thread by the numbers of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct ThreadKey {
    pub(super) pid: i64,
    pub(super) tid: i64,
}

/// What kind of event it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Phase {
    Begin,
    End,
    /// Begin and length in one.
    Complete,
    /// Says something of a process or thread.
    Metadata,
    /// Anything else.
    #[default]
    Other,
}

/// One event, with what is needed of it.
#[derive(Debug, Default)]
pub(super) struct Event<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) phase: Phase,
    pub(super) thread: ThreadKey,
    /// Which of several things of one process it is about.
    pub(super) id: Cow<'a, str>,
    /// In nanoseconds.
    pub(super) time: i64,
    /// In nanoseconds, for complete events.
    pub(super) length: i64,
    /// Before the `args` object.
    pub(super) args: Option<Reader<'a>>,
}

impl<'a> Event<'a> {
    pub(super) fn read(reader: &mut Reader<'a>) -> Result<Self, JsonError> {
        let mut event = Self::default();
        // The time on the thread's own clock stands in for a length on the wall's.
        let mut thread_length = 0;
        let mut length = None;
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            match &*key {
                "name" => event.name = reader.any_text()?,
                "ph" => event.phase = phase(&reader.any_text()?),
                "pid" => event.thread.pid = read_number(reader)?,
                "tid" => event.thread.tid = read_number(reader)?,
                "id" => event.id = reader.any_text()?,
                "id2" if reader.kind()? == Kind::Object => event.read_id2(reader)?,
                "ts" => event.time = read_time(reader)?,
                "dur" => length = Some(read_time(reader)?),
                "tdur" => thread_length = read_time(reader)?,
                "args" if reader.kind()? == Kind::Object => {
                    event.args = Some(reader.clone());
                    reader.skip()?;
                }
                _ => reader.skip()?,
            }
        }
        event.length = length.unwrap_or(thread_length).max(0);
        Ok(event)
    }

    /// `id2` says whether the id holds in this process or everywhere; here both are the same.
    fn read_id2(&mut self, reader: &mut Reader<'a>) -> Result<(), JsonError> {
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            match &*key {
                "local" | "global" => self.id = reader.any_text()?,
                _ => reader.skip()?,
            }
        }
        Ok(())
    }
}

fn phase(text: &str) -> Phase {
    match text {
        "B" => Phase::Begin,
        "E" => Phase::End,
        "X" => Phase::Complete,
        "M" => Phase::Metadata,
        _ => Phase::Other,
    }
}

/// A process or thread number. Some writers use words, which get a number of their own.
pub(super) fn read_number(reader: &mut Reader<'_>) -> Result<i64, JsonError> {
    let text = reader.any_text()?;
    let text = text.trim();
    Ok(text.parse().unwrap_or_else(|_| {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        -((hasher.finish() >> 1) as i64) - 2
    }))
}

/// Microseconds of the file as nanoseconds.
pub(super) fn read_time(reader: &mut Reader<'_>) -> Result<i64, JsonError> {
    Ok(reader
        .any_number()?
        .map_or(0, |number| number.thousandths()))
}
