//! What stands before and after the records: the events, the machine, build-ids.
//!
//! Layout: tools/perf/Documentation/perf.data-file-format.txt of the Linux sources. A file has
//! its features behind the records; a pipe sends the same as records of their own.

use std::ops::Range;

use nodespy_model::{FastMap, Nanoseconds};

use super::attribute::Attribute;
use super::fields::{Fields, text};
use super::layout::Events;
use crate::import::ImportError;

/// How every file and pipe starts on a little-endian machine.
pub(super) const MAGIC: &[u8; 8] = b"PERFILE2";
/// How it starts on a big-endian one.
pub(super) const MAGIC_BIG_ENDIAN: &[u8; 8] = b"2ELIFREP";
/// The first format, of 2009, which no perf writes any more.
const MAGIC_OLD: &[u8; 8] = b"PERFFILE";

const PIPE_HEADER_BYTES: u64 = 16;
const FILE_HEADER_BYTES: u64 = 104;
/// Newer attributes may grow; none has come near this yet.
const ATTRIBUTE_LIMIT_BYTES: usize = 4096;
/// Of a build-id and what is before it.
const BUILD_ID_BYTES: usize = 20;
/// In the flags of a build-id's head: the byte after the id says how long it is.
const HAS_BUILD_ID_SIZE: u16 = 1 << 15;

mod feature {
    pub(super) const BUILD_ID: u64 = 2;
    pub(super) const HOSTNAME: u64 = 3;
    pub(super) const ARCH: u64 = 6;
    pub(super) const COMMAND: u64 = 11;
    pub(super) const EVENT_DESC: u64 = 12;
    pub(super) const SAMPLE_TIME: u64 = 21;
    pub(super) const COMPRESSED: u64 = 27;
    pub(super) const CLOCK_DATA: u64 = 29;
}

/// Everything that is not a record.
#[derive(Debug, Default)]
pub(super) struct Header {
    /// What was recorded.
    pub(super) events: Events,
    /// Where the records are.
    pub(super) records: Range<usize>,
    /// Whether events and features come as records.
    pub(super) is_pipe: bool,
    /// Whether the header says where the records end; a perf that was killed wrote no end.
    pub(super) has_end: bool,
    pub(super) host: String,
    pub(super) arch: String,
    /// Whether registers are not those of x86-64.
    pub(super) is_other_machine: bool,
    pub(super) command: Vec<String>,
    /// By path; none where a path has several.
    pub(super) build_ids: FastMap<String, Option<Vec<u8>>>,
    /// The first and the last sample.
    pub(super) sample_times: Option<(Nanoseconds, Nanoseconds)>,
    /// A time of the calendar and the same of the clock of the samples.
    pub(super) clock: Option<(Nanoseconds, Nanoseconds)>,
    /// What one compressed record may unpack to.
    pub(super) unpacked_record_bytes: Option<u32>,
}

impl Header {
    /// Reads the head, and of a file everything behind the records too.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, ImportError> {
        if bytes.starts_with(MAGIC_BIG_ENDIAN) {
            return Err(refused(
                0,
                "it was recorded on a big-endian machine, which nodespy does not read",
            ));
        }
        if bytes.starts_with(MAGIC_OLD) {
            return Err(refused(
                0,
                "it is in the format of perf before 2010, which nodespy does not read",
            ));
        }
        let mut fields = Fields(bytes);
        if fields.take(MAGIC.len()) != Some(MAGIC) {
            return Err(ImportError::NotThisFormat {
                format: "perf.data",
            });
        }
        let size = fields.u64().ok_or_else(|| cut(bytes))?;
        let mut header = Self::default();
        if size == PIPE_HEADER_BYTES {
            header.is_pipe = true;
            header.has_end = true;
            header.records = size as usize..bytes.len();
            return Ok(header);
        }
        if size < FILE_HEADER_BYTES {
            return Err(refused(8, &format!("its head claims to have {size} bytes")));
        }
        header
            .read_file(bytes, fields, size)
            .ok_or_else(|| cut(bytes))??;
        Ok(header)
    }

    /// None when the file ends too soon.
    fn read_file(
        &mut self,
        bytes: &[u8],
        mut fields: Fields<'_>,
        size: u64,
    ) -> Option<Result<(), ImportError>> {
        let attribute_bytes = fields.u64()?;
        let attributes = section(&mut fields)?;
        let records = section(&mut fields)?;
        let _event_types = section(&mut fields)?;
        let bits = [fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?];
        if !(64..=ATTRIBUTE_LIMIT_BYTES as u64).contains(&attribute_bytes) {
            let what = format!("an event claims to have {attribute_bytes} bytes");
            return Some(Err(refused(16, &what)));
        }
        let start = usize::try_from(records.start).ok()?;
        self.has_end = records.end > records.start;
        let end = match self.has_end {
            true => usize::try_from(records.end).unwrap_or(usize::MAX),
            false => bytes.len(),
        };
        if start > bytes.len() || records.start < size {
            let what = "the records are not where its head says";
            return Some(Err(refused(40, what)));
        }
        self.records = start..end;
        let attributes = part(bytes, &attributes)?;
        for entry in attributes.chunks_exact(attribute_bytes as usize) {
            let (attribute, ids) = entry.split_at(entry.len() - 16);
            let ids = section(&mut Fields(ids)).and_then(|ids| part(bytes, &ids));
            self.events
                .add(Attribute::read(attribute)?, numbers(ids.unwrap_or(&[])));
        }
        if self.has_end {
            self.read_features(bytes, &bits, end);
        }
        Some(Ok(()))
    }

    /// Reads the features behind the records; a file that is cut off has none.
    fn read_features(&mut self, bytes: &[u8], bits: &[u64; 4], start: usize) {
        let mut index = Fields(bytes.get(start..).unwrap_or_default());
        for number in (0..256).filter(|number| bits[number / 64] >> (number % 64) & 1 != 0) {
            let Some(range) = section(&mut index) else {
                return;
            };
            if let Some(content) = part(bytes, &range) {
                self.take_feature(number as u64, content);
            }
        }
    }

    /// Takes one feature. What can't be read is left out.
    pub(super) fn take_feature(&mut self, number: u64, content: &[u8]) -> Option<()> {
        let mut fields = Fields(content);
        match number {
            feature::BUILD_ID => self.take_build_ids(content),
            feature::HOSTNAME => self.host = fields.text()?,
            feature::ARCH => self.arch = fields.text()?,
            feature::COMMAND => {
                let count = fields.u32()?;
                self.command = (0..count).map_while(|_| fields.text()).collect();
            }
            feature::EVENT_DESC => self.take_event_names(fields)?,
            feature::SAMPLE_TIME => self.sample_times = Some((fields.u64()?, fields.u64()?)),
            feature::COMPRESSED => {
                let _version_type_level_ratio = fields.take(16)?;
                self.unpacked_record_bytes = Some(fields.u32()?);
            }
            feature::CLOCK_DATA => {
                let _version_and_clock = fields.u64()?;
                self.clock = Some((fields.u64()?, fields.u64()?));
            }
            _ => {}
        }
        Some(())
    }

    fn take_event_names(&mut self, mut fields: Fields<'_>) -> Option<()> {
        let count = fields.u32()?;
        let attribute_bytes = fields.u32()? as usize;
        for position in 0..count as usize {
            let attribute = Attribute::read(fields.take(attribute_bytes)?)?;
            let id_count = fields.u32()? as usize;
            let name = fields.text()?;
            let ids = fields.take(id_count.checked_mul(8)?)?;
            let known = numbers(ids).find_map(|id| self.events.by_id(id));
            let is_same = |at: usize| {
                self.events
                    .list
                    .get(at)
                    .is_some_and(|event| event.attribute == attribute)
            };
            if let Some(at) = known.or_else(|| is_same(position).then_some(position)) {
                self.events.list[at].name = name;
            }
        }
        Some(())
    }

    /// Takes a table of records, each the build-id of a file.
    fn take_build_ids(&mut self, table: &[u8]) {
        let mut rest = table;
        while let Some(size) = rest.get(6..8) {
            let size = u16::from_le_bytes([size[0], size[1]]) as usize;
            let Some((record, after)) = rest.split_at_checked(size) else {
                return;
            };
            if self.take_build_id(record).is_none() {
                return;
            }
            rest = after;
        }
    }

    /// Takes the build-id of one file; none when the record makes no sense.
    pub(super) fn take_build_id(&mut self, record: &[u8]) -> Option<()> {
        let mut fields = Fields(record);
        let _kind = fields.u32()?;
        let flags = fields.u16()?;
        let _size = fields.u16()?;
        let _pid = fields.u32()?;
        let id = fields.take(BUILD_ID_BYTES)?;
        let length = usize::from(fields.take(4)?[0]);
        let id = match flags & HAS_BUILD_ID_SIZE != 0 && (1..BUILD_ID_BYTES).contains(&length) {
            true => &id[..length],
            false => id,
        };
        let path = text(fields.0);
        let known = self
            .build_ids
            .entry(path)
            .or_insert_with(|| Some(id.to_vec()));
        if known.as_deref() != Some(id) {
            // Two files had this path, one after the other: neither can be told from it.
            *known = None;
        }
        Some(())
    }

    /// The build-id of a file, where the recording tells.
    pub(super) fn build_id(&self, path: &str) -> Vec<u8> {
        let known = self.build_ids.get(path);
        known.cloned().flatten().unwrap_or_default()
    }

    /// Takes an event that came through a pipe: its attribute and ids.
    pub(super) fn take_pipe_event(&mut self, body: &[u8]) -> Option<()> {
        let size = Fields(body.get(4..)?).u32()? as usize;
        let size = if size == 0 { 64 } else { size };
        let (attribute, ids) = body.split_at_checked(size)?;
        self.events.add(Attribute::read(attribute)?, numbers(ids));
        Some(())
    }

    /// Takes what a pipe says of an event later: its name.
    pub(super) fn take_event_update(&mut self, body: &[u8]) -> Option<()> {
        const NAME: u64 = 2;
        let mut fields = Fields(body);
        let what = fields.u64()?;
        let event = self.events.by_id(fields.u64()?)?;
        if what == NAME {
            self.events.list[event].name = text(fields.0);
        }
        Some(())
    }
}

/// An offset and a size, as a range.
fn section(fields: &mut Fields<'_>) -> Option<Range<u64>> {
    let start = fields.u64()?;
    let size = fields.u64()?;
    Some(start..start.checked_add(size)?)
}

fn part<'a>(bytes: &'a [u8], range: &Range<u64>) -> Option<&'a [u8]> {
    let start = usize::try_from(range.start).ok()?;
    bytes.get(start..usize::try_from(range.end).ok()?)
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes
        .as_chunks()
        .0
        .iter()
        .map(|chunk| u64::from_le_bytes(*chunk))
}

fn cut(bytes: &[u8]) -> ImportError {
    ImportError::Cut {
        at: bytes.len() as u64,
    }
}

fn refused(at: u64, what: &str) -> ImportError {
    ImportError::Damaged {
        at,
        what: what.to_owned(),
    }
}
