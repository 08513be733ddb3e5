//! ELF files: where their segments go, their unwind tables, symbols and build-id.
//!
//! Files are read section by section and never mapped: a container that truncates its binary
//! while we look at it must not end us with SIGBUS.

mod plt;
mod search;
mod symbols;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;

use nodespy_model::{FastMap, ImageBytes};
use object::elf::{PF_X, PT_LOAD};
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ReadCache, ReadRef};

use crate::image_budget::{Paid, Pool};
use crate::x86_64::RELATIVE_RELOCATION;
pub(crate) use plt::plt_entries;
pub(crate) use search::search_extents;
#[cfg(test)]
pub(crate) use symbols::tests::symbols;
pub(crate) use symbols::{
    SymbolIndex, Symbols, data_and_function_symbols, data_symbols, function_symbols,
};

/// No section larger than this is read (node 26's largest that we use has 12 MB). What is kept of sections draws from a budget that all
/// files share; this is for what is looked at and dropped.
const SECTION_LIMIT_BYTES: u64 = 256 << 20;

/// No table with more symbols or relocations than this is used.
const SYMBOL_LIMIT: usize = 20_000_000;

/// No more relocations than this are looked at (node 26 has 390,000).
const RELOCATION_LIMIT: usize = 1 << 22;

/// How long an `Elf64_Sym` is, and an `Elf64_Rela` too.
const SYMBOL_BYTES: usize = 24;

/// A segment of the file that is loaded into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    file_offset: u64,
    file_size: u64,
    address: u64,
    is_code: bool,
}

/// A section's bytes and the address it is linked to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Section {
    pub(crate) bytes: Vec<u8>,
    pub(crate) address: u64,
}

/// What unwinding needs of an ELF file.
#[derive(Debug, Default)]
pub(crate) struct UnwindSections {
    pub(crate) eh_frame: Section,
    pub(crate) eh_frame_hdr: Option<Section>,
    pub(crate) text_address: u64,
    pub(crate) got_address: u64,
    /// For the two sections.
    pub(crate) paid: Vec<Paid>,
}

/// The head of an ELF file.
#[derive(Debug, Default)]
pub(crate) struct Elf {
    segments: Vec<Segment>,
    pub(crate) build_id: Vec<u8>,
}

/// A segment, by its address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) is_code: bool,
}

impl Elf {
    /// Reads the head; none when this is no 64-bit ELF file.
    pub(crate) fn read(bytes: &mut ImageBytes) -> Option<Self> {
        match bytes {
            ImageBytes::File(file) => {
                let cache = ReadCache::new(rewound(file)?);
                Self::parse(&cache)
            }
            ImageBytes::Memory(bytes) => Self::parse(bytes.as_slice()),
        }
    }

    /// What the file holds of the memory it is linked to.
    pub(crate) fn extents(&self) -> Vec<Extent> {
        let extent = |segment: &Segment| Extent {
            address: segment.address,
            size: segment.file_size,
            is_code: segment.is_code,
        };
        self.segments.iter().map(extent).collect()
    }

    /// Offset and size of each code segment in the file.
    pub(crate) fn code_segments(&self) -> Vec<(u64, u64)> {
        let code = self.segments.iter().filter(|segment| segment.is_code);
        code.map(|segment| (segment.file_offset, segment.file_size))
            .collect()
    }

    fn parse<'data, R: ReadRef<'data>>(data: R) -> Option<Self> {
        let file: ElfFile64<'data, Endianness, R> = ElfFile64::parse(data).ok()?;
        let endian = file.endian();
        let segments = file
            .elf_header()
            .program_headers(endian, data)
            .ok()?
            .iter()
            .filter(|header| header.p_type(endian) == PT_LOAD)
            .map(|header| Segment {
                file_offset: header.p_offset(endian),
                file_size: header.p_filesz(endian),
                address: header.p_vaddr(endian),
                is_code: header.p_flags(endian).0 & PF_X.0 != 0,
            })
            .collect();
        Some(Self {
            segments,
            build_id: file.build_id().ok().flatten().unwrap_or(&[]).to_vec(),
        })
    }

    /// Reads the unwind tables, where there are any.
    pub(crate) fn read_unwind(bytes: &mut ImageBytes, pool: &Pool) -> Option<UnwindSections> {
        match bytes {
            ImageBytes::File(file) => {
                let cache = ReadCache::new(rewound(file)?);
                Self::parse_unwind(&cache, pool)
            }
            ImageBytes::Memory(bytes) => Self::parse_unwind(bytes.as_slice(), pool),
        }
    }

    fn parse_unwind<'data, R: ReadRef<'data>>(data: R, pool: &Pool) -> Option<UnwindSections> {
        let file: ElfFile64<'data, Endianness, R> = ElfFile64::parse(data).ok()?;
        let address_of = |name| {
            file.section_by_name(name)
                .map_or(0, |section| section.address())
        };
        let mut paid = Vec::new();
        let mut kept_section = |name: &str| {
            let (_, size) = file.section_by_name(name)?.file_range()?;
            paid.push(pool.draw(size)?);
            section(&file, name)
        };
        Some(UnwindSections {
            eh_frame: kept_section(".eh_frame")?,
            eh_frame_hdr: kept_section(".eh_frame_hdr"),
            paid,
            text_address: address_of(".text"),
            got_address: address_of(".got"),
        })
    }

    /// The address something at this offset of the file is linked to. Node 20 and later map
    /// their embedded builtins twice: both places have the same offset, and so the same address.
    pub(crate) fn address_of_offset(&self, file_offset: u64) -> Option<u64> {
        self.segments
            .iter()
            .filter(|segment| segment.is_code)
            .find(|segment| {
                file_offset
                    .checked_sub(segment.file_offset)
                    .is_some_and(|inside| inside < segment.file_size)
            })
            .map(|segment| {
                segment
                    .address
                    .wrapping_add(file_offset - segment.file_offset)
            })
    }
}

impl Elf {
    /// The offset in the file of something linked to this address.
    pub(crate) fn offset_of_address(&self, address: u64) -> Option<u64> {
        self.segments
            .iter()
            .find(|segment| {
                address
                    .checked_sub(segment.address)
                    .is_some_and(|inside| inside < segment.file_size)
            })
            .and_then(|segment| segment.file_offset.checked_add(address - segment.address))
    }
}

impl Elf {
    /// So many bytes at the address they are linked to, or fewer where the file ends.
    pub(crate) fn read_at(&self, bytes: &ImageBytes, address: u64, size: usize) -> Option<Vec<u8>> {
        let offset = self.offset_of_address(address)?;
        match bytes {
            ImageBytes::File(file) => {
                let left = file.metadata().ok()?.len().checked_sub(offset)?;
                let mut read = vec![0; size.min(usize::try_from(left).ok()?)];
                file.read_exact_at(&mut read, offset).ok()?;
                Some(read)
            }
            ImageBytes::Memory(bytes) => {
                let from = bytes.get(usize::try_from(offset).ok()?..)?;
                Some(from[..size.min(from.len())].to_vec())
            }
        }
    }
}

/// A section by its name.
pub(crate) fn read_section(bytes: &mut ImageBytes, name: &str) -> Option<Section> {
    match bytes {
        ImageBytes::File(file) => {
            let cache = ReadCache::new(rewound(file)?);
            let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
            section(&file, name)
        }
        ImageBytes::Memory(bytes) => {
            let file = ElfFile64::<Endianness, _>::parse(bytes.as_slice()).ok()?;
            section(&file, name)
        }
    }
}

/// Where a section is linked to.
pub(crate) fn section_address(bytes: &mut ImageBytes, name: &str) -> Option<u64> {
    match bytes {
        ImageBytes::File(file) => {
            let cache = ReadCache::new(rewound(file)?);
            let file = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
            Some(file.section_by_name(name)?.address())
        }
        ImageBytes::Memory(bytes) => {
            let file = ElfFile64::<Endianness, _>::parse(bytes.as_slice()).ok()?;
            Some(file.section_by_name(name)?.address())
        }
    }
}

/// The pointers into itself that a file has, by the address they are at: the loader writes them.
pub(crate) fn relative_pointers(bytes: &mut ImageBytes) -> FastMap<u64, u64> {
    let table = read_section(bytes, ".rela.dyn").unwrap_or_default();
    let wide = |row: &[u8], at: usize| {
        u64::from_le_bytes(row[at..at + 8].try_into().expect("eight bytes"))
    };
    table
        .bytes
        .chunks_exact(SYMBOL_BYTES)
        .take(RELOCATION_LIMIT)
        .filter(|row| wide(row, 8) == u64::from(RELATIVE_RELOCATION))
        .map(|row| (wide(row, 0), wide(row, 16)))
        .collect()
}

/// Where in a file of so many bytes a section is.
fn section_range<'data, R: ReadRef<'data>>(
    elf: &ElfFile64<'data, Endianness, R>,
    name: &str,
    length: u64,
) -> Option<(u64, u64)> {
    let (start, size) = elf.section_by_name(name)?.file_range()?;
    let is_in_file = size <= SECTION_LIMIT_BYTES && start.checked_add(size)? <= length;
    is_in_file.then_some((start, size))
}

fn section<'data, R: ReadRef<'data>>(
    file: &ElfFile64<'data, Endianness, R>,
    name: &str,
) -> Option<Section> {
    let section = file.section_by_name(name)?;
    let (_, size) = section.file_range()?;
    if size > SECTION_LIMIT_BYTES {
        return None;
    }
    Some(Section {
        bytes: section.data().ok()?.to_vec(),
        address: section.address(),
    })
}

/// Whether a separate debug file has this build-id.
pub(crate) fn is_debug_file_of(file: &File, build_id: &[u8]) -> bool {
    let found = || {
        let cache = ReadCache::new(rewound(file)?);
        let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        elf.build_id().ok().flatten().map(<[u8]>::to_vec)
    };
    found().is_some_and(|found| found == build_id)
}

fn rewound(file: &File) -> Option<impl Read + Seek + use<>> {
    let mut file = file.try_clone().ok()?;
    file.seek(SeekFrom::Start(0)).ok()?;
    Some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found by fuzzing.
    #[test]
    fn a_segment_beyond_the_end_of_every_file_has_no_offsets() {
        let segment = Segment {
            file_offset: u64::MAX - 1,
            file_size: 0x1000,
            address: 0x1000,
            is_code: true,
        };
        let elf = Elf {
            segments: vec![segment],
            build_id: Vec::new(),
        };
        assert_eq!(elf.offset_of_address(0x1001), Some(u64::MAX));
        assert_eq!(elf.offset_of_address(0x1002), None);
    }
}
