//! The header of a file, and its sections as they are unpacked one after the other.

use std::io::{self, Read};

use flate2::bufread::GzDecoder;

use super::columns::Columns;
use super::{HEADER_BYTES, MAGIC, VERSION};
use crate::budget::Budget;
use crate::import::ImportError;

/// Checks what comes before the packed stream, and returns the version.
pub(super) fn read_header(input: &[u8]) -> Result<u32, ImportError> {
    let header = &input[..input.len().min(HEADER_BYTES)];
    if header.is_empty() {
        return Err(ImportError::Empty);
    }
    if !header.starts_with(&MAGIC[..MAGIC.len().min(header.len())]) {
        return match header.starts_with(&MAGIC[..4]) {
            true => Err(ImportError::Damaged {
                at: 4,
                what: "its line ends were changed, as a transfer of text does".to_owned(),
            }),
            false => Err(ImportError::NotThisFormat { format: "nspy" }),
        };
    }
    if header.len() < HEADER_BYTES {
        return Err(ImportError::Cut {
            at: header.len() as u64,
        });
    }
    let version = u32::from_le_bytes(header[8..12].try_into().expect("four bytes are four bytes"));
    match version {
        1..=VERSION => Ok(version),
        0 => Err(ImportError::Damaged {
            at: 8,
            what: "there is no version 0".to_owned(),
        }),
        version => Err(ImportError::NewerVersion {
            version,
            newest: VERSION,
        }),
    }
}

/// Unpacks sections one after the other, never more than the limit altogether.
pub(super) struct Unpacker<'a> {
    decoder: GzDecoder<&'a [u8]>,
    input_bytes: u64,
    position: u64,
    budget: Budget,
}

impl<'a> Unpacker<'a> {
    /// Unpacks what follows the header of a file.
    pub(super) fn new(input: &'a [u8], budget: Budget) -> Self {
        Self {
            decoder: GzDecoder::new(&input[HEADER_BYTES..]),
            input_bytes: input.len() as u64,
            position: 0,
            budget,
        }
    }

    /// The next section: its id, where its content starts, and its content.
    pub(super) fn next_section(&mut self) -> Result<(u64, u64, Vec<u8>), ImportError> {
        let id = self.number()?;
        let length = self.number()?;
        let start = self.position;
        self.budget.draw_bytes(length)?;
        // Grows as bytes arrive: what a section claims costs nothing.
        let mut content = Vec::new();
        let taken = self.decoder.by_ref().take(length).read_to_end(&mut content);
        let taken = taken.map_err(|error| self.error(error))? as u64;
        self.position += taken;
        match taken == length {
            true => Ok((id, start, content)),
            false => Err(self.ends_early()),
        }
    }

    /// Checks that nothing follows the last section and that the checksum is right; returns how
    /// many bytes of input follow.
    pub(super) fn finish(mut self) -> Result<u64, ImportError> {
        match self.decoder.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => {
                return Err(ImportError::BadContent {
                    at: self.position,
                    what: "there is more after the last section".to_owned(),
                });
            }
            Err(error) => return Err(self.error(error)),
        }
        Ok(self.decoder.into_inner().len() as u64)
    }

    fn number(&mut self) -> Result<u64, ImportError> {
        let mut bytes = [0u8; 10];
        for length in 1..=bytes.len() {
            let next = &mut bytes[length - 1..length];
            match self.decoder.read(next) {
                Ok(0) => return Err(self.ends_early()),
                Ok(_) => self.position += 1,
                Err(error) => return Err(self.error(error)),
            }
            if bytes[length - 1] & 0x80 == 0 || length == bytes.len() {
                let start = self.position - length as u64;
                return Columns::new(&bytes[..length], start).number();
            }
        }
        unreachable!("the loop returns at the tenth byte")
    }

    /// The packed stream is whole, and what it holds is not.
    fn ends_early(&self) -> ImportError {
        ImportError::BadContent {
            at: self.position,
            what: "the content ends before its last section".to_owned(),
        }
    }

    fn error(&self, error: io::Error) -> ImportError {
        let at = self.input_bytes - self.decoder.get_ref().len() as u64;
        match error.kind() {
            io::ErrorKind::UnexpectedEof => ImportError::Cut { at },
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => ImportError::Damaged {
                at,
                what: error.to_string(),
            },
            _ => error.into(),
        }
    }
}
