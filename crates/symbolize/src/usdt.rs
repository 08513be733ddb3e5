//! Probes that the authors of a program have put into it (USDT): the notes that `sys/sdt.h` of SystemTap leaves in an ELF file,
//! and where their instructions are.
//!
//! A note has three addresses, of the instruction, of the section `.stapsdt.base` as it was linked, and of a counter that the
//! kernel raises while the probe is watched, or 0; then the names of provider and probe and its arguments, each ended by a NUL.
//! A program that moves its sections afterwards (prelink) moves the base too, by which addresses are put right.

use nodespy_model::ImageBytes;

use crate::elf::{Elf, read_section, section_address};

/// The type of the notes, and who writes them.
const STAPSDT: u32 = 3;
const OWNER: &[u8] = b"stapsdt\0";
/// More notes than a program has.
const MAX_NOTES: usize = 1 << 16;
/// No provider or probe has a longer name.
const MAX_NAME_BYTES: usize = 256;

/// A place of a probe in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsdtProbe {
    /// Who provides it.
    pub provider: String,
    /// What it is called.
    pub name: String,
    /// Bytes from the start of the file to its instruction.
    pub offset: u64,
    /// The same to the counter of those that watch it; 0 where there is none.
    pub semaphore: u64,
}

/// The probes of a file, in the order of its notes.
pub fn usdt_probes(mut image: ImageBytes) -> Vec<UsdtProbe> {
    let Some(elf) = Elf::read(&mut image) else {
        return Vec::new();
    };
    let notes = read_section(&mut image, ".note.stapsdt").unwrap_or_default();
    let base = section_address(&mut image, ".stapsdt.base");
    let probe = |note: Note<'_>| {
        let moved = base.map_or(0, |base| base.wrapping_sub(note.base));
        let place = |address: u64| elf.offset_of_address(address.wrapping_add(moved));
        Some(UsdtProbe {
            provider: note.provider.to_owned(),
            name: note.name.to_owned(),
            offset: place(note.address)?,
            semaphore: match note.semaphore {
                0 => 0,
                address => place(address)?,
            },
        })
    };
    notes_of(&notes.bytes).filter_map(probe).collect()
}

/// What a note says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Note<'a> {
    address: u64,
    base: u64,
    semaphore: u64,
    provider: &'a str,
    name: &'a str,
}

/// The notes of a section, as far as it can be read.
fn notes_of(bytes: &[u8]) -> impl Iterator<Item = Note<'_>> {
    let mut rest = bytes;
    let each = std::iter::from_fn(move || {
        let (note, after) = split_note(rest)?;
        rest = after;
        Some(note)
    });
    each.take(MAX_NOTES).flatten()
}

/// The first note, if it is one of a probe, and the bytes after it.
fn split_note(bytes: &[u8]) -> Option<(Option<Note<'_>>, &[u8])> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let (owner_length, length) = (word(0)? as usize, word(4)? as usize);
    let owner_end = 12usize.checked_add(owner_length)?;
    let start = owner_end.checked_next_multiple_of(4)?;
    let end = start.checked_add(length)?;
    let owner = bytes.get(12..owner_end)?;
    let content = bytes.get(start..end)?;
    // The last may end without being filled up.
    let after = end.checked_next_multiple_of(4)?.min(bytes.len());
    let is_probe = word(8)? == STAPSDT && owner == OWNER;
    let note = is_probe.then(|| read_note(content)).flatten();
    Some((note, &bytes[after..]))
}

fn read_note(content: &[u8]) -> Option<Note<'_>> {
    let (addresses, names) = content.split_at_checked(24)?;
    let address = |at: usize| {
        let bytes = addresses[at..at + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(bytes)
    };
    let mut texts = names.split(|byte| *byte == 0);
    let mut text = || {
        let text = std::str::from_utf8(texts.next()?).ok()?;
        (!text.is_empty() && text.len() <= MAX_NAME_BYTES).then_some(text)
    };
    Some(Note {
        address: address(0),
        base: address(8),
        semaphore: address(16),
        provider: text()?,
        name: text()?,
    })
}

/// Reads any bytes as notes.
pub(crate) fn read_any(bytes: &[u8]) {
    notes_of(bytes).for_each(drop);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(owner: &[u8], kind: u32, content: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [owner.len() as u32, content.len() as u32, kind] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(owner);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn probe(address: u64, semaphore: u64, names: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        for number in [address, 0x4000, semaphore] {
            content.extend(number.to_le_bytes());
        }
        content.extend(names);
        note(OWNER, STAPSDT, &content)
    }

    #[test]
    fn notes_have_places_and_names() {
        let mut bytes = probe(0x1234, 0, b"libc\0setjmp\x008@%rdi\0");
        bytes.extend(note(b"GNU\0", STAPSDT, &[0; 40]));
        bytes.extend(probe(0x5678, 0x9000, b"app\0request__done\0\0"));
        let found: Vec<Note<'_>> = notes_of(&bytes).collect();
        let names: Vec<_> = found
            .iter()
            .map(|note| (note.provider, note.name))
            .collect();
        assert_eq!(names, [("libc", "setjmp"), ("app", "request__done")]);
        assert_eq!((found[0].address, found[0].semaphore), (0x1234, 0));
        assert_eq!((found[1].address, found[1].semaphore), (0x5678, 0x9000));
    }

    #[test]
    fn notes_that_lie_are_left_out() {
        let whole = probe(1, 0, b"app\0done\0\0");
        for end in 0..whole.len() {
            let _ = notes_of(&whole[..end]).count();
        }
        assert_eq!(notes_of(&probe(1, 0, b"app")).count(), 0);
        assert_eq!(notes_of(&probe(1, 0, b"\xff\0x\0")).count(), 0);
        assert_eq!(notes_of(&note(OWNER, STAPSDT, &[0; 23])).count(), 0);
        let mut long = whole.clone();
        long[4..8].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(notes_of(&long).count(), 0);
        let many = whole.repeat(MAX_NOTES + 10);
        assert_eq!(notes_of(&many).count(), MAX_NOTES);
        assert_eq!(usdt_probes(ImageBytes::Memory(whole)), []);
    }
}
