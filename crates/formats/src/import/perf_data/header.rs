//! What stands before and after the records: the events, the machine, build-ids.
//!
//! Layout: tools/perf/Documentation/perf.data-file-format.txt of the Linux sources. A file has
//! its features behind the records; a pipe sends the same as records of their own.

use std::ops::Range;

use nodespy_model::{FastMap, Nanoseconds};
use nodespy_perf_abi::{
    EventAttributes, FieldReader, RawRecord, RecordError, RecordHeader, RecordLayout, misc,
    until_nul,
};

use super::events::Events;
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
/// Attributes that do not say their size have that of the first version.
const FIRST_ATTRIBUTE_BYTES: usize = 64;
/// An offset and a size.
const SECTION_BYTES: usize = 16;
/// Of a build-id, whatever its length.
const BUILD_ID_BYTES: usize = 20;

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
        let mut fields = FieldReader::new(bytes);
        if fields.bytes(MAGIC.len(), "the magic").ok() != Some(MAGIC) {
            return Err(ImportError::NotThisFormat {
                format: "perf.data",
            });
        }
        let cut = |_: RecordError| cut(bytes);
        let size = fields.u64("the head's size").map_err(cut)?;
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
        let head = FileHead::read(&mut fields).map_err(cut)?;
        header.read_file(bytes, &head, size)?;
        Ok(header)
    }

    fn read_file(&mut self, bytes: &[u8], head: &FileHead, size: u64) -> Result<(), ImportError> {
        if !(64..=ATTRIBUTE_LIMIT_BYTES as u64).contains(&head.attribute_bytes) {
            let what = format!("an event claims to have {} bytes", head.attribute_bytes);
            return Err(refused(16, &what));
        }
        let start = usize::try_from(head.records.start).map_err(|_| cut(bytes))?;
        self.has_end = head.records.end > head.records.start;
        let end = match self.has_end {
            true => usize::try_from(head.records.end).unwrap_or(usize::MAX),
            false => bytes.len(),
        };
        if start > bytes.len() || head.records.start < size {
            let what = "the records are not where its head says";
            return Err(refused(40, what));
        }
        self.records = start..end;
        let attributes = part(bytes, &head.attributes).ok_or_else(|| cut(bytes))?;
        for entry in attributes.chunks_exact(head.attribute_bytes as usize) {
            let (attributes, ids) = entry.split_at(entry.len() - SECTION_BYTES);
            let ids = section(&mut FieldReader::new(ids)).ok();
            let ids = ids.and_then(|ids| part(bytes, &ids));
            let attributes = EventAttributes::read(attributes).map_err(|_| cut(bytes))?;
            self.events.add(&attributes, numbers(ids.unwrap_or(&[])));
        }
        if self.has_end {
            self.read_features(bytes, &head.feature_bits, end);
        }
        Ok(())
    }

    /// Reads the features behind the records; a file that is cut off has none.
    fn read_features(&mut self, bytes: &[u8], bits: &[u64; 4], start: usize) {
        let mut index = FieldReader::new(bytes.get(start..).unwrap_or_default());
        for number in (0..256).filter(|number| bits[number / 64] >> (number % 64) & 1 != 0) {
            let Ok(range) = section(&mut index) else {
                return;
            };
            if let Some(content) = part(bytes, &range) {
                self.take_feature(number as u64, content);
            }
        }
    }

    /// Takes one feature. What can't be read is left out.
    pub(super) fn take_feature(&mut self, number: u64, content: &[u8]) {
        let _ = self.read_feature(number, FieldReader::new(content));
    }

    fn read_feature(
        &mut self,
        number: u64,
        mut fields: FieldReader<'_>,
    ) -> Result<(), RecordError> {
        match number {
            feature::BUILD_ID => self.take_build_ids(fields.rest()),
            feature::HOSTNAME => self.host = text(&mut fields, "the host's name")?,
            feature::ARCH => self.arch = text(&mut fields, "the machine's name")?,
            feature::COMMAND => {
                let count = fields.u32("the number of arguments")?;
                self.command = (0..count)
                    .map_while(|_| text(&mut fields, "an argument").ok())
                    .collect();
            }
            feature::EVENT_DESC => self.take_event_names(fields)?,
            feature::SAMPLE_TIME => {
                let first = fields.u64("the first sample's time")?;
                self.sample_times = Some((first, fields.u64("the last sample's time")?));
            }
            feature::COMPRESSED => {
                fields.bytes(16, "the compression's type and ratio")?;
                self.unpacked_record_bytes = Some(fields.u32("the unpacked size")?);
            }
            feature::CLOCK_DATA => {
                fields.u64("the clock's id")?;
                let calendar = fields.u64("the time of day")?;
                self.clock = Some((calendar, fields.u64("the clock's time")?));
            }
            _ => {}
        }
        Ok(())
    }

    fn take_event_names(&mut self, mut fields: FieldReader<'_>) -> Result<(), RecordError> {
        let count = fields.u32("the number of events")?;
        let attribute_bytes = fields.u32("the attributes' size")? as usize;
        for position in 0..count as usize {
            let attributes = fields.bytes(attribute_bytes, "an event's attributes")?;
            let attributes = EventAttributes::read(attributes)?;
            let id_count = fields.u32("the number of ids")? as usize;
            let name = text(&mut fields, "an event's name")?;
            let ids = fields.bytes(id_count.saturating_mul(8), "an event's ids")?;
            let known = numbers(ids).find_map(|id| self.events.by_id(id));
            let is_same = |at: usize| {
                self.events
                    .list
                    .get(at)
                    .is_some_and(|event| *event.attributes() == attributes)
            };
            if let Some(at) = known.or_else(|| is_same(position).then_some(position)) {
                self.events.list[at].name = name;
            }
        }
        Ok(())
    }

    /// Takes a table of records, each the build-id of a file.
    fn take_build_ids(&mut self, table: &[u8]) {
        let mut rest = table;
        while let Ok(record) = RawRecord::read(rest) {
            if self.take_build_id(&record).is_err() {
                return;
            }
            rest = &rest[RecordHeader::BYTES + record.body.len()..];
        }
    }

    /// Takes the build-id of one file.
    pub(super) fn take_build_id(&mut self, record: &RawRecord<'_>) -> Result<(), RecordError> {
        let mut fields = FieldReader::starting_at(RecordHeader::BYTES, record.body);
        fields.u32("the process")?;
        let id = fields.bytes(BUILD_ID_BYTES, "the build-id")?;
        let length = usize::from(fields.bytes(4, "the build-id's length")?[0]);
        let has_length = record.misc & misc::BUILD_ID_SIZE != 0;
        let id = match has_length && (1..BUILD_ID_BYTES).contains(&length) {
            true => &id[..length],
            false => id,
        };
        let path = lossy(until_nul(fields.rest()));
        let known = self
            .build_ids
            .entry(path)
            .or_insert_with(|| Some(id.to_vec()));
        if known.as_deref() != Some(id) {
            // Two files had this path, one after the other: the path alone names neither.
            *known = None;
        }
        Ok(())
    }

    /// How the records of an event are laid out.
    pub(super) fn layout(&self, event: usize) -> &RecordLayout {
        &self.events.list[event].layout
    }

    /// The build-id of a file, where the recording has it.
    pub(super) fn build_id(&self, path: &str) -> Vec<u8> {
        let known = self.build_ids.get(path);
        known.cloned().flatten().unwrap_or_default()
    }

    /// Takes an event that came through a pipe: its attributes and ids.
    pub(super) fn take_pipe_event(&mut self, body: &[u8]) -> Result<(), RecordError> {
        let mut fields = FieldReader::starting_at(RecordHeader::BYTES, body);
        let mut head = fields;
        head.u32("the event's type")?;
        let size = match head.u32("the attributes' size")? {
            0 => FIRST_ATTRIBUTE_BYTES,
            size => size as usize,
        };
        let attributes = EventAttributes::read(fields.bytes(size, "the attributes")?)?;
        self.events.add(&attributes, numbers(fields.rest()));
        Ok(())
    }

    /// Takes what a pipe says of an event later: its name.
    pub(super) fn take_event_update(&mut self, body: &[u8]) -> Result<(), RecordError> {
        const NAME: u64 = 2;
        let mut fields = FieldReader::starting_at(RecordHeader::BYTES, body);
        let what = fields.u64("the update's type")?;
        let event = self.events.by_id(fields.u64("the event's id")?);
        if let (NAME, Some(event)) = (what, event) {
            self.events.list[event].name = lossy(until_nul(fields.rest()));
        }
        Ok(())
    }
}

/// The head of a file: where everything else is.
struct FileHead {
    attribute_bytes: u64,
    attributes: Range<u64>,
    records: Range<u64>,
    feature_bits: [u64; 4],
}

impl FileHead {
    fn read(fields: &mut FieldReader<'_>) -> Result<Self, RecordError> {
        let attribute_bytes = fields.u64("the size of an event")?;
        let attributes = section(fields)?;
        let records = section(fields)?;
        let _event_types = section(fields)?;
        let mut feature_bits = [0; 4];
        for word in &mut feature_bits {
            *word = fields.u64("the features")?;
        }
        Ok(Self {
            attribute_bytes,
            attributes,
            records,
            feature_bits,
        })
    }
}

/// An offset and a size, as a range.
fn section(fields: &mut FieldReader<'_>) -> Result<Range<u64>, RecordError> {
    let start = fields.u64("a section's offset")?;
    let size = fields.u64("a section's size")?;
    // One that overflows is outside of every file.
    Ok(start..start.saturating_add(size))
}

/// A text of a header: its padded length, then bytes up to a zero.
fn text(fields: &mut FieldReader<'_>, field: &'static str) -> Result<String, RecordError> {
    let length = fields.u32(field)? as usize;
    Ok(lossy(until_nul(fields.bytes(length, field)?)))
}

pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
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
