//! One record after the other, whether it lies in the file as it is or inside compressed ones.
//!
//! Nothing is copied of what lies in the file. `perf record -z` packs its records with zstd, one
//! stream through all compressed records, whose chunks end anywhere: what is unpacked is kept
//! chunk by chunk until nothing refers to it any more.

use std::collections::VecDeque;
use std::fmt;

use nodespy_perf_abi::{FieldReader, RawRecord, RecordError, RecordHeader, record_type, u64_at};
use zstd::stream::raw::{Decoder, Operation};

use super::header::Header;
use crate::budget::Budget;

/// One compressed record unpacks to no more than this, whatever the header says.
const UNPACKED_RECORD_LIMIT_BYTES: usize = 256 << 20;
/// The same where the header says nothing: perf's rings have 512 KiB.
const USUAL_UNPACKED_RECORD_BYTES: u32 = 16 << 20;

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// 0 for the file itself, else the number of an unpacked chunk.
    chunk: u32,
    at: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.chunk {
            0 => write!(formatter, "at byte {}", self.at),
            chunk => write!(formatter, "at byte {} of unpacked part {chunk}", self.at),
        }
    }
}

/// Why the reading ended before the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    /// The byte of the file.
    pub(super) at: usize,
    /// Whether the file simply ends there.
    pub(super) is_cut: bool,
    pub(super) what: String,
}

/// The records of a file in the order they were written.
pub(super) struct Records<'a> {
    file: &'a [u8],
    at: usize,
    end: usize,
    is_pipe: bool,
    chunks: VecDeque<Vec<u8>>,
    /// The number of the first chunk that is kept.
    first_chunk: u32,
    /// How far the newest chunk is read.
    inside: Option<usize>,
    /// The start of a record whose end is in the next chunk.
    rest: Vec<u8>,
    unpacker: Option<Decoder<'static>>,
    unpacked_record_bytes: usize,
    /// How much may still be unpacked.
    budget: Budget,
    trouble: Option<Trouble>,
}

impl<'a> Records<'a> {
    pub(super) fn new(file: &'a [u8], header: &Header, budget: &Budget) -> Self {
        let end = header.records.end.min(file.len());
        let mut records = Self {
            file,
            at: header.records.start,
            end,
            is_pipe: header.is_pipe,
            chunks: VecDeque::new(),
            first_chunk: 1,
            inside: None,
            rest: Vec::new(),
            unpacker: None,
            unpacked_record_bytes: (header
                .unpacked_record_bytes
                .unwrap_or(USUAL_UNPACKED_RECORD_BYTES)
                as usize)
                .min(UNPACKED_RECORD_LIMIT_BYTES),
            budget: budget.clone(),
            trouble: None,
        };
        if header.records.end > file.len() {
            // Told when the records before are read.
            records.trouble = Some(cut(file.len()));
        }
        records
    }

    /// How far the file is read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Why there is no next record, unless it is the end.
    pub(super) fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// The record at a place.
    pub(super) fn get(&self, place: Place) -> RawRecord<'_> {
        let bytes = match place.chunk {
            0 => &self.file[place.at as usize..],
            chunk => {
                let chunk = &self.chunks[(chunk - self.first_chunk) as usize];
                &chunk[place.at as usize..]
            }
        };
        RawRecord::read(bytes).expect("a place is that of a whole record")
    }

    /// Forgets what is unpacked, up to the chunks that these places are in.
    pub(super) fn forget_before(&mut self, places: impl Iterator<Item = Place>) {
        let newest = self.first_chunk + self.chunks.len() as u32;
        let needed = places
            .filter(|place| place.chunk != 0)
            .map(|place| place.chunk)
            // The newest is still being read.
            .fold(newest.saturating_sub(1), u32::min);
        while self.first_chunk < needed {
            self.chunks.pop_front();
            self.first_chunk += 1;
        }
    }

    /// The place of the next record.
    pub(super) fn next(&mut self) -> Option<Place> {
        loop {
            if let Some(place) = self.next_unpacked() {
                return Some(place);
            }
            let bytes = self.file.get(self.at..self.end)?;
            if bytes.is_empty() {
                return None;
            }
            let record = match RawRecord::read(bytes) {
                Ok(record) => record,
                Err(error) => {
                    let trouble = match error {
                        RecordError::Size { size, .. } => damaged(self.at, size),
                        _ => cut(self.end),
                    };
                    self.stop(trouble);
                    return None;
                }
            };
            let place = Place {
                chunk: 0,
                at: self.at as u64,
            };
            let start = self.at;
            self.at += RecordHeader::BYTES + record.body.len();
            self.at += self.data_behind(&record);
            match record.kind {
                record_type::COMPRESSED => self.unpack(record.body, start)?,
                record_type::COMPRESSED2 => {
                    let length = u64_at(record.body, 0).unwrap_or(0);
                    let content = record.body.get(8..).unwrap_or_default();
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    self.unpack(&content[..length.min(content.len())], start)?;
                }
                _ => return Some(place),
            }
        }
    }

    /// How many bytes that are no records follow a record.
    fn data_behind(&self, record: &RawRecord<'_>) -> usize {
        let length = match record.kind {
            record_type::AUXTRACE => u64_at(record.body, 0),
            record_type::HEADER_TRACING_DATA if self.is_pipe => FieldReader::new(record.body)
                .u32("the tracing data's size")
                .map(|length| u64::from(length).next_multiple_of(8))
                .ok(),
            _ => None,
        };
        let length = usize::try_from(length.unwrap_or(0)).unwrap_or(usize::MAX);
        length.min(self.end - self.at)
    }

    fn next_unpacked(&mut self) -> Option<Place> {
        let inside = self.inside?;
        let chunk = self.chunks.back()?;
        let bytes = &chunk[inside..];
        match RawRecord::read(bytes) {
            Ok(record) => {
                self.inside = Some(inside + RecordHeader::BYTES + record.body.len());
                Some(Place {
                    chunk: self.first_chunk + self.chunks.len() as u32 - 1,
                    at: inside as u64,
                })
            }
            Err(RecordError::Size { size, .. }) => {
                self.inside = None;
                self.stop(Trouble {
                    at: self.at,
                    is_cut: false,
                    what: format!("an unpacked record claims to have {size} bytes"),
                });
                None
            }
            Err(_) => {
                self.rest = bytes.to_vec();
                self.inside = None;
                None
            }
        }
    }

    /// Unpacks a compressed record as a new chunk.
    fn unpack(&mut self, mut packed: &[u8], at: usize) -> Option<()> {
        let mut chunk = std::mem::take(&mut self.rest);
        let before = chunk.len();
        let limit = (self.unpacked_record_bytes as u64).min(self.budget.bytes_left()) as usize;
        if let Err(what) = self.unpack_into(&mut packed, &mut chunk, before + limit) {
            self.stop(Trouble {
                at,
                is_cut: false,
                what,
            });
        }
        let drawn = self.budget.draw_bytes((chunk.len() - before) as u64);
        debug_assert!(drawn.is_ok(), "the limit is what is left at most");
        self.chunks.push_back(chunk);
        self.inside = Some(0);
        Some(())
    }

    fn unpack_into(
        &mut self,
        packed: &mut &[u8],
        chunk: &mut Vec<u8>,
        limit: usize,
    ) -> Result<(), String> {
        if self.unpacker.is_none() {
            let unpacker = Decoder::new().map_err(|error| error.to_string())?;
            self.unpacker = Some(unpacker);
        }
        let unpacker = self.unpacker.as_mut().expect("just made");
        loop {
            let start = chunk.len();
            let room = packed.len().saturating_mul(8).max(32 << 10);
            let end = start.saturating_add(room).min(limit);
            if end == start {
                return Err(format!(
                    "a compressed record unpacks to more than {limit} bytes"
                ));
            }
            chunk.resize(end, 0);
            let status = unpacker.run_on_buffers(packed, &mut chunk[start..]);
            let status = match status {
                Ok(status) => status,
                Err(error) => {
                    chunk.truncate(start);
                    return Err(format!("compressed records can't be unpacked ({error})"));
                }
            };
            chunk.truncate(start + status.bytes_written);
            *packed = &packed[status.bytes_read..];
            let is_done = packed.is_empty() && chunk.len() < end;
            let is_stuck = status.bytes_read == 0 && status.bytes_written == 0;
            if is_done || is_stuck {
                return Ok(());
            }
        }
    }

    fn stop(&mut self, trouble: Trouble) {
        self.at = self.end;
        self.trouble = Some(trouble);
    }
}

fn cut(at: usize) -> Trouble {
    Trouble {
        at,
        is_cut: true,
        what: format!("the file is cut off at byte {at}"),
    }
}

fn damaged(at: usize, size: u16) -> Trouble {
    Trouble {
        at,
        is_cut: false,
        what: format!("a record claims to have {size} bytes"),
    }
}
