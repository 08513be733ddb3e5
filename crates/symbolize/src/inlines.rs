//! Functions that a compiler put into their callers, from `.debug_info`.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use gimli::{EndianRcSlice, RunTimeEndian, SectionId};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ReadCache};

use crate::demangle::demangle;
use crate::image_budget::{Paid, Pool};

/// No more functions at one address are followed.
const DEPTH_LIMIT: usize = 64;

type Bytes = EndianRcSlice<RunTimeEndian>;

/// The debug information of one file, read where it is asked about.
pub(crate) struct Inlines {
    context: addr2line::Context<Bytes>,
    /// For its sections.
    _paid: Vec<Paid>,
}

impl std::fmt::Debug for Inlines {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Inlines")
    }
}

impl Inlines {
    /// Reads the sections of a file; none when it has no debug information, or more than there is room for.
    pub(crate) fn read(file: &File, pool: &Pool) -> Option<Self> {
        let cache = ReadCache::new(file.try_clone().ok()?);
        let elf = ElfFile64::<Endianness, _>::parse(&cache).ok()?;
        elf.section_by_name(".debug_info")?;
        let length = file.metadata().ok()?.len();
        let mut paid = Vec::new();
        let section = |name: &str| -> Option<Rc<[u8]>> {
            let section = elf.section_by_name(name)?;
            let range = section.compressed_file_range().ok()?;
            // A packed section is left out: then no inlined function is known.
            let is_plain = range.format == object::CompressionFormat::None;
            let end = range.offset.checked_add(range.uncompressed_size)?;
            if !is_plain || end > length {
                return None;
            }
            paid.push(pool.draw(range.uncompressed_size)?);
            let size = range.uncompressed_size as usize;
            let mut bytes: Rc<[u8]> = std::iter::repeat_n(0, size).collect();
            let only = Rc::get_mut(&mut bytes).expect("there is one reference");
            file.read_exact_at(only, range.offset).ok()?;
            Some(bytes)
        };
        let context = context_of(section)?;
        Some(Self {
            context,
            _paid: paid,
        })
    }

    /// The functions inlined at an address, outermost first, without the one they are in.
    pub(crate) fn at(&self, address: u64) -> Vec<String> {
        let mut names = Vec::new();
        let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() else {
            return names;
        };
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|name| {
                let name = name.raw_name().ok()?;
                Some(demangle(&name))
            });
            names.push(name.unwrap_or_else(|| "[inlined]".to_owned()));
            if names.len() > DEPTH_LIMIT {
                break;
            }
        }
        // The last is the function that has a symbol.
        names.pop();
        names.reverse();
        names
    }
}

fn context_of(
    mut section: impl FnMut(&str) -> Option<Rc<[u8]>>,
) -> Option<addr2line::Context<Bytes>> {
    let dwarf = gimli::Dwarf::load(|id| -> Result<Bytes, gimli::Error> {
        // Where variables are is of no use here, and takes the most room.
        let is_needed = !matches!(
            id,
            SectionId::DebugLoc
                | SectionId::DebugLocLists
                | SectionId::DebugMacinfo
                | SectionId::DebugMacro
        );
        let bytes = is_needed.then(|| section(id.name())).flatten();
        let bytes = bytes.unwrap_or_default();
        Ok(EndianRcSlice::new(bytes, RunTimeEndian::Little))
    });
    addr2line::Context::from_dwarf(dwarf.ok()?).ok()
}

/// Reads the debug information of an ELF file in memory, and what is inlined at some addresses.
pub(crate) fn read_any(bytes: &[u8]) {
    let Ok(elf) = ElfFile64::<Endianness, _>::parse(bytes) else {
        return;
    };
    let section = |name: &str| Some(Rc::from(elf.section_by_name(name)?.data().ok()?));
    let Some(context) = context_of(section) else {
        return;
    };
    let inlines = Inlines {
        context,
        _paid: Vec::new(),
    };
    for address in (0..0x20_000).step_by(997) {
        inlines.at(address);
    }
}
