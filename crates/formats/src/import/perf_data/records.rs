//! One record after the other, whether it lies in the file as it is or inside compressed ones.
//!
//! Nothing is copied of what lies in the file. `perf record -z` packs its records with zstd, one
//! stream through all compressed records, whose pieces end anywhere: what is unpacked is kept
//! piece by piece until nobody refers to it any more.

use std::collections::VecDeque;

use zstd::stream::raw::{Decoder, Operation};

use super::header::Header;
use super::layout::HEAD_BYTES;

/// Kinds of records that perf adds to the kernel's.
pub(super) mod kind {
    pub(in super::super) const PIPE_EVENT: u32 = 64;
    pub(in super::super) const TRACING_DATA: u32 = 66;
    pub(in super::super) const BUILD_ID: u32 = 67;
    pub(in super::super) const FINISHED_ROUND: u32 = 68;
    pub(in super::super) const AUXTRACE: u32 = 71;
    pub(in super::super) const EVENT_UPDATE: u32 = 78;
    pub(in super::super) const FEATURE: u32 = 80;
    pub(in super::super) const COMPRESSED: u32 = 81;
    /// The same with the length of the content first, of perf 6.16.
    pub(in super::super) const COMPRESSED_2: u32 = 83;
}

/// One compressed record unpacks to no more than this, whatever the header says.
const UNPACKED_RECORD_LIMIT_BYTES: usize = 256 << 20;
/// The same where the header says nothing: perf's rings have 512 KiB.
const USUAL_UNPACKED_RECORD_BYTES: u32 = 16 << 20;
/// All compressed records unpack to this many times as much as the file has, or to
/// [`SMALL_BYTES`]. Samples pack to a tenth or a fiftieth.
const EXPANSION: u64 = 200;
const SMALL_BYTES: u64 = 256 << 20;

/// Where a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// 0 for the file itself, else the number of an unpacked piece.
    piece: u32,
    at: u64,
}

/// A record's head and content.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'a> {
    pub(super) kind: u32,
    pub(super) flags: u16,
    pub(super) body: &'a [u8],
    /// The same with its head.
    pub(super) whole: &'a [u8],
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
    pieces: VecDeque<Vec<u8>>,
    /// The number of the first piece that is kept.
    first_piece: u32,
    /// How far the newest piece is read.
    inside: Option<usize>,
    /// The start of a record whose end is in the next piece.
    rest: Vec<u8>,
    unpacker: Option<Decoder<'static>>,
    unpacked_record_bytes: usize,
    /// How much may still be unpacked.
    unpacked_left: u64,
    trouble: Option<Trouble>,
}

impl<'a> Records<'a> {
    pub(super) fn new(file: &'a [u8], header: &Header, unpacked_limit_bytes: u64) -> Self {
        let end = header.records.end.min(file.len());
        let expanded = (file.len() as u64).saturating_mul(EXPANSION);
        let mut records = Self {
            file,
            at: header.records.start,
            end,
            is_pipe: header.is_pipe,
            pieces: VecDeque::new(),
            first_piece: 1,
            inside: None,
            rest: Vec::new(),
            unpacker: None,
            unpacked_record_bytes: (header
                .unpacked_record_bytes
                .unwrap_or(USUAL_UNPACKED_RECORD_BYTES)
                as usize)
                .min(UNPACKED_RECORD_LIMIT_BYTES),
            unpacked_left: unpacked_limit_bytes.min(expanded.max(SMALL_BYTES)),
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
    pub(super) fn get(&self, place: Place) -> Record<'_> {
        let bytes = match place.piece {
            0 => &self.file[place.at as usize..],
            piece => {
                let piece = &self.pieces[(piece - self.first_piece) as usize];
                &piece[place.at as usize..]
            }
        };
        let (kind, flags, size) = head(bytes).expect("a place is that of a whole record");
        Record {
            kind,
            flags,
            body: &bytes[HEAD_BYTES..size],
            whole: &bytes[..size],
        }
    }

    /// Forgets what is unpacked, up to the pieces that these places are in.
    pub(super) fn forget_before(&mut self, places: impl Iterator<Item = Place>) {
        let newest = self.first_piece + self.pieces.len() as u32;
        let needed = places
            .filter(|place| place.piece != 0)
            .map(|place| place.piece)
            // The newest is still being read.
            .fold(newest.saturating_sub(1), u32::min);
        while self.first_piece < needed {
            self.pieces.pop_front();
            self.first_piece += 1;
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
            let Some((kind, _, size)) = head(bytes) else {
                self.stop(cut(self.end));
                return None;
            };
            if size < HEAD_BYTES {
                self.stop(Trouble {
                    at: self.at,
                    is_cut: false,
                    what: format!("a record claims to have {size} bytes"),
                });
                return None;
            }
            if size > bytes.len() {
                self.stop(cut(self.end));
                return None;
            }
            let place = Place {
                piece: 0,
                at: self.at as u64,
            };
            let body = &bytes[HEAD_BYTES..size];
            let start = self.at;
            self.at += size + self.data_behind(kind, body);
            match kind {
                kind::COMPRESSED => self.unpack(body, start)?,
                kind::COMPRESSED_2 => {
                    let length = super::fields::u64_at(body, 0).unwrap_or(0);
                    let content = body.get(8..).unwrap_or_default();
                    let length = usize::try_from(length).unwrap_or(usize::MAX);
                    self.unpack(&content[..length.min(content.len())], start)?;
                }
                _ => return Some(place),
            }
        }
    }

    /// How many bytes that are no records follow a record.
    fn data_behind(&self, kind: u32, body: &[u8]) -> usize {
        let length = match kind {
            kind::AUXTRACE => super::fields::u64_at(body, 0),
            kind::TRACING_DATA if self.is_pipe => super::fields::Fields(body)
                .u32()
                .map(|length| u64::from(length).next_multiple_of(8)),
            _ => None,
        };
        let length = usize::try_from(length.unwrap_or(0)).unwrap_or(usize::MAX);
        length.min(self.end - self.at)
    }

    fn next_unpacked(&mut self) -> Option<Place> {
        let inside = self.inside?;
        let piece = self.pieces.back()?;
        let bytes = &piece[inside..];
        match head(bytes) {
            Some((_, _, size)) if size < HEAD_BYTES => {
                let at = self.at;
                self.inside = None;
                self.stop(Trouble {
                    at,
                    is_cut: false,
                    what: format!("an unpacked record claims to have {size} bytes"),
                });
                None
            }
            Some((_, _, size)) if size <= bytes.len() => {
                self.inside = Some(inside + size);
                Some(Place {
                    piece: self.first_piece + self.pieces.len() as u32 - 1,
                    at: inside as u64,
                })
            }
            _ => {
                self.rest = bytes.to_vec();
                self.inside = None;
                None
            }
        }
    }

    /// Unpacks a compressed record as a new piece.
    fn unpack(&mut self, mut packed: &[u8], at: usize) -> Option<()> {
        let mut piece = std::mem::take(&mut self.rest);
        let before = piece.len();
        let limit = (self.unpacked_record_bytes as u64).min(self.unpacked_left) as usize;
        if let Err(what) = self.unpack_into(&mut packed, &mut piece, before + limit) {
            self.stop(Trouble {
                at,
                is_cut: false,
                what,
            });
        }
        self.unpacked_left -= (piece.len() - before).min(limit) as u64;
        self.pieces.push_back(piece);
        self.inside = Some(0);
        Some(())
    }

    fn unpack_into(
        &mut self,
        packed: &mut &[u8],
        piece: &mut Vec<u8>,
        limit: usize,
    ) -> Result<(), String> {
        if self.unpacker.is_none() {
            let unpacker = Decoder::new().map_err(|error| error.to_string())?;
            self.unpacker = Some(unpacker);
        }
        let unpacker = self.unpacker.as_mut().expect("just made");
        loop {
            let start = piece.len();
            let room = packed.len().saturating_mul(8).max(32 << 10);
            let end = start.saturating_add(room).min(limit);
            if end == start {
                return Err("compressed records unpack to more than is read".to_owned());
            }
            piece.resize(end, 0);
            let status = unpacker.run_on_buffers(packed, &mut piece[start..]);
            let status = match status {
                Ok(status) => status,
                Err(error) => {
                    piece.truncate(start);
                    return Err(format!("compressed records can't be unpacked ({error})"));
                }
            };
            piece.truncate(start + status.bytes_written);
            *packed = &packed[status.bytes_read..];
            let is_done = packed.is_empty() && piece.len() < end;
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

/// Kind, flags and size of the record that starts here.
fn head(bytes: &[u8]) -> Option<(u32, u16, usize)> {
    let head: &[u8; HEAD_BYTES] = bytes.first_chunk()?;
    let [a, b, c, d, flags, more_flags, size, more_size] = *head;
    Some((
        u32::from_le_bytes([a, b, c, d]),
        u16::from_le_bytes([flags, more_flags]),
        usize::from(u16::from_le_bytes([size, more_size])),
    ))
}
