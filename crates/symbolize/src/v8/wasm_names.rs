//! Names of the functions of a WebAssembly module, from its bytes.
//!
//! Reads the import section (imported functions come first in the count of functions), the
//! function section, the export section and the custom section `name`, and skips the rest without
//! fetching it. The bytes belong to another process and may be anything: what can be read is kept.
//! The formats: <https://webassembly.github.io/spec/core/binary/modules.html> and
//! <https://webassembly.github.io/spec/core/appendix/custom.html#name-section>.

use nodespy_model::FastMap;

use super::varint::{MAX_BYTES, take_varint};

/// How every module begins: magic number and version.
pub(crate) const MODULE_START: [u8; 8] = [0x00, b'a', b's', b'm', 0x01, 0x00, 0x00, 0x00];
/// Sections after this many are not looked at.
const SECTION_LIMIT: usize = 4096;
/// Larger sections are not fetched.
const SECTION_LIMIT_BYTES: u64 = 64 << 20;
/// V8 refuses modules with more functions.
const FUNCTION_LIMIT: u32 = 1_000_000;
/// Longer names are cut.
const NAME_LIMIT_BYTES: usize = 1024;

const CUSTOM: u8 = 0;
const IMPORT: u8 = 2;
const FUNCTION: u8 = 3;
const EXPORT: u8 = 7;

/// What a module says of its functions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ModuleNames {
    /// How many functions it imports; its own are counted from there.
    pub(crate) imported: u32,
    /// How many functions of its own it has.
    pub(crate) declared: u32,
    /// From the `name` section.
    names: FastMap<u32, String>,
    /// From the export section.
    exports: FastMap<u32, String>,
}

impl ModuleNames {
    /// Reads a module of `length` bytes; `fetch` returns that many bytes from an offset on. None
    /// when this is no module.
    pub(crate) fn read(
        length: u64,
        fetch: &mut dyn FnMut(u64, usize) -> Option<Vec<u8>>,
    ) -> Option<Self> {
        if length < 8 || fetch(0, 8)? != MODULE_START {
            return None;
        }
        let mut names = Self::default();
        let mut at = 8;
        for _ in 0..SECTION_LIMIT {
            let Some(section) = Section::at(at, length, fetch) else {
                break;
            };
            at = section.end;
            if matches!(section.id, CUSTOM | IMPORT | FUNCTION | EXPORT) {
                // A section that is damaged is left where its damage begins.
                let _ = names.add(&section, fetch);
            }
        }
        Some(names)
    }

    /// The name of a function: its own, else that of its export, else its number.
    pub(crate) fn name(&self, index: u32) -> String {
        self.names
            .get(&index)
            .or_else(|| self.exports.get(&index))
            .cloned()
            .unwrap_or_else(|| format!("wasm-function[{index}]"))
    }

    fn add(
        &mut self,
        section: &Section,
        fetch: &mut dyn FnMut(u64, usize) -> Option<Vec<u8>>,
    ) -> Option<()> {
        let whole = section.end - section.start;
        if section.id == CUSTOM {
            // Debug information comes in custom sections too, and is large: ask for the name first.
            let head = fetch(section.start, whole.min(5) as usize)?;
            if head != *b"\x04name" {
                return None;
            }
        }
        if whole > SECTION_LIMIT_BYTES {
            return None;
        }
        let bytes = fetch(section.start, usize::try_from(whole).ok()?)?;
        let mut bytes = Bytes(&bytes);
        match section.id {
            IMPORT => self.add_imports(&mut bytes),
            FUNCTION => {
                self.declared = bytes.number()?.min(FUNCTION_LIMIT);
                Some(())
            }
            EXPORT => self.add_exports(&mut bytes),
            _ => {
                bytes.take(5)?;
                self.add_names(&mut bytes)
            }
        }
    }

    fn add_imports(&mut self, bytes: &mut Bytes<'_>) -> Option<()> {
        for _ in 0..bytes.number()? {
            let module = bytes.number()? as usize;
            bytes.take(module)?;
            let name = bytes.number()? as usize;
            bytes.take(name)?;
            match bytes.byte()? {
                // A function; one with an exact type has the next number (custom descriptors).
                0 | 0x20 => {
                    bytes.number()?;
                    if self.imported < FUNCTION_LIMIT {
                        self.imported += 1;
                    }
                }
                // A table: type of its elements, limits.
                1 => {
                    bytes.value_type()?;
                    bytes.limits()?;
                }
                // A memory.
                2 => bytes.limits()?,
                // A global: type, and whether it changes.
                3 => {
                    bytes.value_type()?;
                    bytes.byte()?;
                }
                // A tag: attribute, type.
                4 => {
                    bytes.byte()?;
                    bytes.number()?;
                }
                _ => return None,
            }
        }
        Some(())
    }

    fn add_exports(&mut self, bytes: &mut Bytes<'_>) -> Option<()> {
        for _ in 0..bytes.number()? {
            let name = bytes.text()?;
            let kind = bytes.byte()?;
            let index = bytes.number()?;
            if kind == 0 && index < 2 * FUNCTION_LIMIT && !name.is_empty() {
                self.exports.entry(index).or_insert(name);
            }
        }
        Some(())
    }

    /// Subsection 1 holds the names of functions.
    fn add_names(&mut self, bytes: &mut Bytes<'_>) -> Option<()> {
        while let Some(id) = bytes.byte() {
            let length = bytes.number()? as usize;
            let mut inside = Bytes(bytes.take(length)?);
            if id != 1 {
                continue;
            }
            for _ in 0..inside.number()? {
                let index = inside.number()?;
                let name = inside.text()?;
                if index < 2 * FUNCTION_LIMIT && !name.is_empty() {
                    self.names.entry(index).or_insert(name);
                }
            }
        }
        Some(())
    }
}

/// Where a section is.
struct Section {
    id: u8,
    start: u64,
    end: u64,
}

impl Section {
    fn at(
        at: u64,
        length: u64,
        fetch: &mut dyn FnMut(u64, usize) -> Option<Vec<u8>>,
    ) -> Option<Self> {
        let left = length.checked_sub(at).filter(|&left| left > 0)?;
        let head = fetch(at, left.min(6) as usize)?;
        let mut bytes = Bytes(&head);
        let id = bytes.byte()?;
        let size = bytes.number()?;
        let start = at + (head.len() - bytes.0.len()) as u64;
        let end = start + u64::from(size);
        (end <= length).then_some(Self { id, start, end })
    }
}

/// Bytes that have not been read yet.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    /// An unsigned number, seven bits a byte.
    fn number(&mut self) -> Option<u32> {
        u32::try_from(take_varint(&mut self.0, 5)?).ok()
    }

    fn text(&mut self) -> Option<String> {
        let length = self.number()? as usize;
        let bytes = self.take(length)?;
        let bytes = &bytes[..bytes.len().min(NAME_LIMIT_BYTES)];
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// A type is one byte, or one of two and the number of a type.
    fn value_type(&mut self) -> Option<()> {
        if matches!(self.byte()?, 0x63 | 0x64) {
            // A signed number, or one that is marked as exact or shared first.
            while matches!(self.0.first(), Some(0x62 | 0x65)) {
                self.byte()?;
            }
            take_varint(&mut self.0, 5)?;
        }
        Some(())
    }

    /// Flags, the smallest size and, where the flags say so, the largest and the size of a page.
    fn limits(&mut self) -> Option<()> {
        let flags = self.byte()?;
        take_varint(&mut self.0, MAX_BYTES)?;
        if flags & 1 != 0 {
            take_varint(&mut self.0, MAX_BYTES)?;
        }
        if flags & 8 != 0 {
            self.number()?;
        }
        Some(())
    }
}

/// Runs the parser on any bytes.
pub(crate) fn parse_any(bytes: &[u8]) {
    let names = ModuleNames::read(bytes.len() as u64, &mut |at, length| {
        let at = usize::try_from(at).ok()?;
        bytes.get(at..at.checked_add(length)?).map(<[u8]>::to_vec)
    });
    if let Some(names) = names {
        names.name(names.imported);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(id: u8, contents: &[u8]) -> Vec<u8> {
        let mut bytes = vec![id, contents.len() as u8];
        bytes.extend(contents);
        bytes
    }

    /// Imports a memory, a table, a global, a tag and two functions; has three functions, of which
    /// the first has a name, the second an export, the third nothing.
    fn module() -> Vec<u8> {
        let mut bytes = MODULE_START.to_vec();
        bytes.extend(section(1, &[1, 0x60, 0, 0]));
        let mut imports = vec![6];
        imports.extend(b"\x03env\x06memory\x02\x03\x80\x80\x04\x80\x80\x04");
        imports.extend(b"\x03env\x05table\x01\x63\x00\x00\x01");
        imports.extend(b"\x03env\x01f\x00\x00");
        imports.extend(b"\x03env\x01g\x03\x7f\x01");
        imports.extend(b"\x03env\x01t\x04\x00\x00");
        imports.extend(b"\x03env\x01h\x00\x00");
        bytes.extend(section(2, &imports));
        bytes.extend(section(3, &[3, 0, 0, 0]));
        bytes.extend(section(
            7,
            b"\x03\x01m\x02\x00\x05first\x00\x02\x03two\x00\x03",
        ));
        bytes.extend(section(0, b"\x05other!"));
        bytes.extend(section(
            0,
            b"\x04name\x00\x02\x01m\x01\x08\x01\x02\x05hotty",
        ));
        bytes
    }

    fn read(bytes: &[u8]) -> Option<ModuleNames> {
        ModuleNames::read(bytes.len() as u64, &mut |at, length| {
            bytes
                .get(at as usize..at as usize + length)
                .map(<[u8]>::to_vec)
        })
    }

    #[test]
    fn a_name_goes_before_an_export_and_an_export_before_a_number() {
        let names = read(&module()).unwrap();
        assert_eq!((names.imported, names.declared), (2, 3));
        assert_eq!(names.name(2), "hotty");
        assert_eq!(names.name(3), "two");
        assert_eq!(names.name(4), "wasm-function[4]");
    }

    #[test]
    fn the_code_is_not_fetched() {
        let mut bytes = module();
        let at = bytes.len() as u64 + 2;
        bytes.extend(section(10, &[0; 100]));
        let names = ModuleNames::read(bytes.len() as u64, &mut |offset, length| {
            assert!(offset < at, "fetched {length} bytes at {offset}");
            Some(bytes[offset as usize..offset as usize + length].to_vec())
        });
        assert_eq!(names.unwrap().name(2), "hotty");
    }

    #[test]
    fn a_cut_module_keeps_what_comes_before_the_cut() {
        let whole = module();
        for length in 0..whole.len() {
            let names = read(&whole[..length]);
            assert_eq!(names.is_some(), length >= 8, "cut at {length}");
            parse_any(&whole[..length]);
        }
        let without_names = read(&whole[..whole.len() - 1]).unwrap();
        assert_eq!(without_names.imported, 2);
        assert_eq!(without_names.name(2), "first");
    }

    #[test]
    fn no_flipped_bits_make_it_panic_or_balloon() {
        let whole = module();
        for position in 0..whole.len() {
            for value in 0..=255 {
                let mut bytes = whole.clone();
                bytes[position] = value;
                let Some(names) = read(&bytes) else { continue };
                assert!(names.names.len() <= whole.len());
                assert!(names.exports.len() <= whole.len());
                assert!(names.imported as usize <= whole.len());
            }
        }
    }

    #[test]
    fn numbers_that_promise_more_than_there_is_end_with_the_bytes() {
        let mut bytes = MODULE_START.to_vec();
        bytes.extend(section(2, &[0xff, 0xff, 0xff, 0xff, 0x0f]));
        bytes.extend(section(7, &[0xff, 0xff, 0xff, 0xff, 0x0f]));
        bytes.extend(section(
            0,
            b"\x04name\x01\x05\xff\xff\xff\xff\x0f\x01\xff\xff\xff\xff\x0f",
        ));
        let names = read(&bytes).unwrap();
        assert_eq!(names.name(0), "wasm-function[0]");
    }
}
