//! Where the records of one event have their id and their time.

use crate::attributes::{EventAttributes, sample_type};
use crate::error::RecordError;
use crate::field_reader::{FieldReader, u64_at};
use crate::record::{RawRecord, RecordHeader};
use crate::sample::Sample;
use crate::sideband::Sideband;

/// What every record but a sample ends with, where `sample_id_all` is set. Fields that the event's
/// `sample_type` does not have are 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SampleId {
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// When.
    pub time: u64,
    /// The event.
    pub id: u64,
    /// The event and the CPU it was opened on.
    pub stream_id: u64,
    /// The CPU.
    pub cpu: u32,
}

/// Fields of the trailer, in order; each has eight bytes.
const TRAILER: [u64; 6] = [
    sample_type::TID,
    sample_type::TIME,
    sample_type::ID,
    sample_type::STREAM_ID,
    sample_type::CPU,
    sample_type::IDENTIFIER,
];

/// How the records of one event are laid out: its attributes, and the offsets that let a merge or a
/// sort read ids and times without decoding the rest.
#[derive(Debug, Clone, Copy)]
pub struct RecordLayout {
    attributes: EventAttributes,
    sample_id_at: Option<usize>,
    sample_time_at: Option<usize>,
    trailer_bytes: usize,
    /// Bytes from the end of the record.
    trailer_id_from_end: Option<usize>,
    trailer_time_from_end: Option<usize>,
}

impl RecordLayout {
    /// The layout of an event's records.
    pub fn new(attributes: &EventAttributes) -> Self {
        let has = |field| attributes.has(field);
        let bytes_of = |fields: &[u64]| 8 * fields.iter().filter(|field| has(**field)).count();
        let before_time = bytes_of(&[sample_type::IDENTIFIER, sample_type::IP, sample_type::TID]);
        let before_id = before_time + bytes_of(&[sample_type::TIME, sample_type::ADDR]);
        let sample_id_at = match has(sample_type::IDENTIFIER) {
            true => Some(0),
            false => has(sample_type::ID).then_some(before_id),
        };
        let has_trailer = attributes.has_sample_id_all;
        // Offset from the end of the field at `position` in the trailer.
        let from_end = |position: usize| {
            (has_trailer && has(TRAILER[position])).then(|| bytes_of(&TRAILER[position..]))
        };
        Self {
            attributes: *attributes,
            sample_id_at,
            sample_time_at: has(sample_type::TIME).then_some(before_time),
            trailer_bytes: if has_trailer { bytes_of(&TRAILER) } else { 0 },
            trailer_id_from_end: from_end(5).or(from_end(2)),
            trailer_time_from_end: from_end(1),
        }
    }

    /// The attributes the layout was made from.
    #[inline]
    pub fn attributes(&self) -> &EventAttributes {
        &self.attributes
    }

    /// The id of the event that a sample's body belongs to.
    #[inline]
    pub fn sample_id(&self, body: &[u8]) -> Option<u64> {
        u64_at(body, self.sample_id_at?)
    }

    /// When a sample was taken.
    #[inline]
    pub fn sample_time(&self, body: &[u8]) -> Option<u64> {
        u64_at(body, self.sample_time_at?)
    }

    /// The id of the event that any other record's body belongs to.
    #[inline]
    pub fn trailer_id(&self, body: &[u8]) -> Option<u64> {
        u64_at(body, body.len().checked_sub(self.trailer_id_from_end?)?)
    }

    /// When any other record was written.
    #[inline]
    pub fn trailer_time(&self, body: &[u8]) -> Option<u64> {
        u64_at(body, body.len().checked_sub(self.trailer_time_from_end?)?)
    }

    /// What a record that is no sample ends with.
    pub fn trailer(&self, record: &RawRecord<'_>) -> Result<SampleId, RecordError> {
        let (_, mut fields) = self.split_trailer(record)?;
        let mut word = |field, name| {
            let is_present = self.trailer_bytes > 0 && self.attributes.has(field);
            Ok(fields.u64_if(is_present, name)?.unwrap_or(0))
        };
        let thread = word(sample_type::TID, "the trailer's thread")?;
        let time = word(sample_type::TIME, "the trailer's time")?;
        let id = word(sample_type::ID, "the trailer's id")?;
        let stream_id = word(sample_type::STREAM_ID, "the trailer's stream id")?;
        let cpu = word(sample_type::CPU, "the trailer's CPU")?;
        let identifier = word(sample_type::IDENTIFIER, "the trailer's identifier")?;
        Ok(SampleId {
            pid: thread as u32,
            tid: (thread >> 32) as u32,
            time,
            id: if identifier != 0 { identifier } else { id },
            stream_id,
            cpu: cpu as u32,
        })
    }

    /// Decodes a sample.
    #[inline]
    pub fn sample<'a>(&self, record: &RawRecord<'a>) -> Result<Sample<'a>, RecordError> {
        Sample::read(&self.attributes, record)
    }

    /// Decodes a record that is no sample.
    pub fn sideband<'a>(&self, record: &RawRecord<'a>) -> Result<Sideband<'a>, RecordError> {
        let (fields, _) = self.split_trailer(record)?;
        Sideband::read(record, fields)
    }

    /// Fields of the record, and of its trailer.
    fn split_trailer<'a>(
        &self,
        record: &RawRecord<'a>,
    ) -> Result<(FieldReader<'a>, FieldReader<'a>), RecordError> {
        let Some(length) = record.body.len().checked_sub(self.trailer_bytes) else {
            return Err(RecordError::Short {
                at: RecordHeader::BYTES,
                field: "the record's trailer",
                needed: self.trailer_bytes as u64,
                left: record.body.len(),
            });
        };
        let (content, trailer) = record.body.split_at(length);
        Ok((
            FieldReader::starting_at(RecordHeader::BYTES, content),
            FieldReader::starting_at(RecordHeader::BYTES + length, trailer),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::record_type;
    use crate::testing::{pair, words};

    fn layout(sample_type: u64) -> RecordLayout {
        RecordLayout::new(&EventAttributes {
            sample_type,
            has_sample_id_all: true,
            ..EventAttributes::default()
        })
    }

    fn record(body: &[u8]) -> RawRecord<'_> {
        RawRecord {
            kind: record_type::SWITCH,
            misc: 0,
            body,
        }
    }

    #[test]
    fn id_and_time_of_a_sample_are_found_without_decoding() {
        use sample_type::*;
        let body = words([10, 20, 30, 40, 50, 60]);
        let found = |fields| {
            let layout = layout(fields);
            (layout.sample_id(&body), layout.sample_time(&body))
        };
        assert_eq!(
            found(IDENTIFIER | IP | TID | TIME | ID),
            (Some(10), Some(40))
        );
        assert_eq!(found(IP | TID | TIME | ADDR | ID), (Some(50), Some(30)));
        assert_eq!(found(TIME | ID), (Some(20), Some(10)));
        assert_eq!(found(IP | TID), (None, None));
        assert_eq!(layout(IP | TID | TIME).sample_time(&body[..23]), None);
    }

    #[test]
    fn the_trailer_has_the_kernels_order() {
        use sample_type::*;
        let body = words([99, pair(7, 8), 1234, 55, 66, 3, 77]);
        let layout = layout(IP | TID | TIME | ID | STREAM_ID | CPU | IDENTIFIER);
        let expected = SampleId {
            pid: 7,
            tid: 8,
            time: 1234,
            id: 77,
            stream_id: 66,
            cpu: 3,
        };
        assert_eq!(layout.trailer(&record(&body)), Ok(expected));
        assert_eq!(layout.trailer_time(&body), Some(1234));
        assert_eq!(layout.trailer_id(&body), Some(77));
    }

    #[test]
    fn a_trailer_without_an_identifier_has_its_id_in_the_middle() {
        use sample_type::*;
        let body = words([pair(7, 8), 1234, 55, 3]);
        let layout = layout(TID | TIME | ID | CPU);
        assert_eq!(layout.trailer(&record(&body)).unwrap().id, 55);
        assert_eq!(layout.trailer_id(&body), Some(55));
        assert_eq!(layout.trailer_time(&body), Some(1234));
    }

    #[test]
    fn without_sample_id_all_there_is_no_trailer() {
        let layout = RecordLayout::new(&EventAttributes {
            sample_type: sample_type::TID | sample_type::TIME,
            ..EventAttributes::default()
        });
        let body = words([pair(7, 8), 1234]);
        assert_eq!(layout.trailer(&record(&body)), Ok(SampleId::default()));
        assert_eq!(layout.trailer_time(&body), None);
    }

    #[test]
    fn a_record_shorter_than_its_trailer_is_an_error() {
        let layout = layout(sample_type::TID | sample_type::TIME);
        let error = layout.trailer(&record(&[0; 15])).unwrap_err();
        assert_eq!(
            error.to_string(),
            "byte 8: the record's trailer needs 16 bytes, 15 are left"
        );
        assert_eq!(layout.sideband(&record(&[0; 15])), Err(error));
        assert_eq!(layout.trailer_time(&[0; 7]), None);
    }
}
