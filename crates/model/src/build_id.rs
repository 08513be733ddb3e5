//! The build-id in an ELF file's notes: what proves which file an image is.

/// `NT_GNU_BUILD_ID`.
const BUILD_ID_TYPE: u32 = 3;
/// The lengths that linkers write; anything else in a head is no build-id.
const LENGTHS: std::ops::RangeInclusive<usize> = 8..=64;

/// One ELF note, with numbers in the machine's byte order.
struct Note<'a> {
    name: &'a [u8],
    kind: u32,
    /// None where the notes are cut in it.
    content: Option<&'a [u8]>,
    end: usize,
}

impl<'a> Note<'a> {
    fn at_start_of(notes: &'a [u8]) -> Option<Self> {
        let number = |at: usize| -> Option<u32> {
            let bytes = notes.get(at..at + 4)?;
            Some(u32::from_ne_bytes(bytes.try_into().expect("four bytes")))
        };
        let (name_len, content_len, kind) = (number(0)? as usize, number(4)? as usize, number(8)?);
        let name_end = 12usize.checked_add(name_len)?;
        let content_at = name_end.checked_next_multiple_of(4)?;
        let content_end = content_at.checked_add(content_len)?;
        Some(Self {
            name: notes.get(12..name_end)?,
            kind,
            content: notes.get(content_at..content_end),
            end: content_end.checked_next_multiple_of(4)?,
        })
    }

    fn is_build_id(&self) -> bool {
        self.kind == BUILD_ID_TYPE && self.name == b"GNU\0"
    }
}

/// The build-id among ELF notes.
pub fn in_notes(notes: &[u8]) -> Option<&[u8]> {
    let mut rest = notes;
    loop {
        let note = Note::at_start_of(rest)?;
        if note.is_build_id() {
            return note.content;
        }
        rest = rest.get(note.end..)?;
    }
}

/// The build-id in the first bytes of an ELF file, where linkers put it.
pub fn in_head(head: &[u8]) -> Option<&[u8]> {
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    // The type and the name of the note, after two lengths of four bytes.
    let pattern = b"\x03\0\0\0GNU\0";
    let at = head.windows(pattern.len()).position(|at| at == pattern)?;
    let note = Note::at_start_of(&head[at.checked_sub(8)?..])?;
    let id = note.content.filter(|_| note.is_build_id())?;
    LENGTHS.contains(&id.len()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_note(notes: &mut Vec<u8>, kind: u32, name: &[u8], content: &[u8]) {
        notes.extend((name.len() as u32).to_ne_bytes());
        notes.extend((content.len() as u32).to_ne_bytes());
        notes.extend(kind.to_ne_bytes());
        notes.extend(name);
        notes.extend(content);
        notes.resize(notes.len().next_multiple_of(4), 0);
    }

    #[test]
    fn notes_are_walked_by_their_sizes() {
        let mut notes = Vec::new();
        put_note(&mut notes, 1, b"Xen\0", &[9; 6]);
        put_note(&mut notes, 3, b"GNU\0", &[7; 20]);
        assert_eq!(in_notes(&notes), Some(&[7; 20][..]));
        for length in 0..notes.len() {
            assert_eq!(in_notes(&notes[..length]), None);
        }
    }

    #[test]
    fn the_note_is_found_in_the_head_of_a_file() {
        let mut head = b"\x7fELF\x02\x01\x01\0 program headers ".to_vec();
        put_note(&mut head, 3, b"GNU\0", &[7; 20]);
        head.extend(b".interp");
        assert_eq!(in_head(&head), Some(&[7; 20][..]));
        assert_eq!(in_head(&head[1..]), None);
        assert_eq!(in_head(&head[..40]), None);
        let mut short = b"\x7fELF".to_vec();
        put_note(&mut short, 3, b"GNU\0", &[7; 4]);
        assert_eq!(in_head(&short), None);
        assert_eq!(in_head(b"\x7fELF\x03\0\0\0GNU\0"), None);
    }
}
