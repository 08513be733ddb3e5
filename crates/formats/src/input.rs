//! The bytes of an input: a mapped file, or what was read from a stream or unpacked.
//!
//! Importers see one slice, so that none of them copies what it only looks at. gzip and zstd are
//! taken off here, whatever is inside.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::ops::Deref;
use std::os::fd::AsFd;
use std::path::Path;

use memmap2::Mmap;

use crate::budget::{Budget, Limits};
use crate::import::ImportError;

/// How often an input may be packed inside of packed bytes.
const NESTING: usize = 3;

/// The whole of an input, and what reading it may still cost.
#[derive(Debug)]
pub struct Input {
    bytes: Bytes,
    budget: Budget,
}

#[derive(Debug)]
enum Bytes {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl Input {
    /// The content of a file.
    pub fn open(path: &Path, limits: &Limits) -> Result<Self, ImportError> {
        let open_error = |source| ImportError::Open {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(open_error)?;
        let metadata = file.metadata().map_err(open_error)?;
        if metadata.is_dir() {
            return Err(ImportError::Directory {
                path: path.to_owned(),
            });
        }
        Self::of_file(file, limits)
    }

    /// Everything that standard input gives: a file that it was redirected from is mapped.
    pub fn standard(limits: &Limits) -> Result<Self, ImportError> {
        let stdin = io::stdin();
        let file = stdin.as_fd().try_clone_to_owned().map(File::from);
        let at_start = |mut file: &File| matches!(file.stream_position(), Ok(0));
        match file {
            Ok(file) if at_start(&file) => Self::of_file(file, limits),
            _ => Self::read(&mut stdin.lock(), limits),
        }
    }

    fn of_file(mut file: File, limits: &Limits) -> Result<Self, ImportError> {
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() == 0 {
            return Self::read(&mut file, limits);
        }
        if metadata.len() > limits.input_bytes {
            return Err(ImportError::TooLarge {
                limit_bytes: limits.input_bytes,
            });
        }
        map(&file)
            .map(|map| Self::stored(Bytes::Mapped(map)))
            .or_else(|_| {
                // Some file systems can't map; all of them can read.
                Self::read(&mut file, limits)
            })
    }

    /// Everything a stream gives.
    pub fn read(stream: &mut dyn Read, limits: &Limits) -> Result<Self, ImportError> {
        let limit_bytes = limits.input_bytes;
        let mut bytes = Vec::new();
        stream
            .take(limit_bytes.saturating_add(1))
            .read_to_end(&mut bytes)?;
        match bytes.len() as u64 > limit_bytes {
            true => Err(ImportError::TooLarge { limit_bytes }),
            false => Ok(Self::stored(Bytes::Read(bytes))),
        }
    }

    /// Bytes as they are stored: the budget follows from how many there are.
    fn stored(bytes: Bytes) -> Self {
        let budget = Budget::of(bytes.len() as u64);
        Self { bytes, budget }
    }

    /// Bytes that were taken out of this input: they share its budget.
    pub(crate) fn part(&self, bytes: Vec<u8>) -> Self {
        Self {
            bytes: Bytes::Read(bytes),
            budget: self.budget.clone(),
        }
    }

    /// Bytes that were made of this input, not only taken out of it: its budget pays for them.
    pub(crate) fn made_part(&self, bytes: Vec<u8>, limits: &Limits) -> Result<Self, ImportError> {
        let mut budget = self.budget(limits);
        budget.draw_bytes(bytes.len() as u64)?;
        Ok(Self {
            bytes: Bytes::Read(bytes),
            budget,
        })
    }

    /// What reading it may still cost.
    pub(crate) fn budget(&self, limits: &Limits) -> Budget {
        self.budget.clone().within(limits)
    }

    /// The content of packed bytes, or the bytes as they are.
    pub fn unpacked(mut self, limits: &Limits) -> Result<Self, ImportError> {
        for _ in 0..NESTING {
            let budget = self.budget(limits);
            self = match &self[..] {
                [0x1f, 0x8b, 8, ..] => {
                    Self::unpack(flate2::bufread::MultiGzDecoder::new(&self[..]), budget)?
                }
                [0x28, 0xb5, 0x2f, 0xfd, ..] => {
                    let decoder =
                        zstd::stream::read::Decoder::with_buffer(&self[..]).map_err(damaged)?;
                    Self::unpack(decoder, budget)?
                }
                _ => return Ok(self),
            };
        }
        Ok(self)
    }

    /// What can be unpacked. A stream that ends too soon gives what came before, and the importer
    /// says that its content is cut off.
    fn unpack(decoder: impl Read, mut budget: Budget) -> Result<Self, ImportError> {
        let mut bytes = Vec::new();
        let unpacked = decoder
            .take(budget.bytes_left().saturating_add(1))
            .read_to_end(&mut bytes);
        budget.draw_bytes(bytes.len() as u64)?;
        match unpacked {
            Err(error) if bytes.is_empty() => Err(damaged(error)),
            _ => Ok(Self {
                bytes: Bytes::Read(bytes),
                budget,
            }),
        }
    }
}

fn damaged(error: io::Error) -> ImportError {
    ImportError::Damaged {
        at: 0,
        what: format!("it can't be unpacked ({error})"),
    }
}

impl From<Vec<u8>> for Input {
    fn from(bytes: Vec<u8>) -> Self {
        Self::stored(Bytes::Read(bytes))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(map) => map,
            Self::Read(bytes) => bytes,
        }
    }
}

impl Deref for Input {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[allow(unsafe_code)]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the mapping is private and only read. Whoever shortens the file meanwhile ends
    // nodespy with SIGBUS, which loses nothing but this run.
    let map = unsafe { Mmap::map(file) }?;
    #[cfg(unix)]
    let _ = map.advise(memmap2::Advice::Sequential);
    Ok(map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn unpacked(bytes: Vec<u8>) -> Result<Vec<u8>, ImportError> {
        let input = Input::from(bytes).unpacked(&Limits::default())?;
        Ok(input.to_vec())
    }

    #[test]
    fn packed_bytes_are_unpacked_whatever_packed_them() {
        let text = b"a;b 1\n".repeat(1000);
        let zstd = zstd::stream::encode_all(&text[..], 1).unwrap();
        assert_eq!(unpacked(gzip(&text)).unwrap(), text);
        assert_eq!(unpacked(zstd).unwrap(), text);
        assert_eq!(unpacked(gzip(&gzip(&text))).unwrap(), text);
        assert_eq!(unpacked(text.clone()).unwrap(), text);
    }

    #[test]
    fn packed_bytes_that_are_cut_off_give_what_came_before() {
        let text: Vec<u8> = (0..200_000u32)
            .flat_map(|number| {
                format!("a;b{} 1\n", number.wrapping_mul(2_654_435_761)).into_bytes()
            })
            .collect();
        let mut packed = gzip(&text);
        packed.truncate(packed.len() / 2);
        let read = unpacked(packed).unwrap();
        assert!(read.len() > text.len() / 4 && text.starts_with(&read));
    }

    #[test]
    fn a_bomb_is_refused() {
        let limits = Limits {
            unpacked_bytes: 1 << 20,
            ..Limits::default()
        };
        let input = Input::from(gzip(&vec![0; 4 << 20]));
        assert!(matches!(
            input.unpacked(&limits),
            Err(ImportError::TooLarge { limit_bytes }) if limit_bytes == 1 << 20
        ));
    }

    #[test]
    fn a_bomb_inside_of_a_bomb_draws_from_the_same_budget() {
        // Each layer alone unpacks to less than a small input may.
        let bomb = gzip(&gzip(&vec![0; 160 << 20]));
        assert!(bomb.len() < 100_000);
        let error = unpacked(bomb).unwrap_err();
        assert!(matches!(
            error,
            ImportError::TooLarge { limit_bytes } if limit_bytes == 128 << 20
        ));
    }
}
