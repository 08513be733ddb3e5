//! Names that came from outside, made safe to show.

use std::borrow::Cow;

/// The longest name that is kept; longer ones are cut with an ellipsis.
const LONGEST_NAME_BYTES: usize = 4096;

/// `text` with control characters replaced and its length bounded, so that no name can move a
/// terminal's cursor, split a line of folded stacks or fill the memory. Characters that turn the
/// direction of the text around them are control characters here.
pub fn printable(text: &str) -> Cow<'_, str> {
    let is_clean = text.len() <= LONGEST_NAME_BYTES && !text.chars().any(is_unprintable);
    if is_clean {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len().min(LONGEST_NAME_BYTES));
    for character in text.chars() {
        if clean.len() + character.len_utf8() > LONGEST_NAME_BYTES {
            clean.push('…');
            break;
        }
        clean.push(if is_unprintable(character) {
            '\u{fffd}'
        } else {
            character
        });
    }
    Cow::Owned(clean)
}

/// The beginning of a text, as much as [`printable`] looks at. Whoever refers to one text many times cuts it once before.
pub fn cut(text: &str) -> &str {
    // A character more than is kept, so that the ellipsis is still put where the text is cut.
    let mut end = text.len().min(LONGEST_NAME_BYTES + 4);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The same of a text that may be no UTF-8.
pub fn cut_bytes(text: &[u8]) -> &[u8] {
    &text[..text.len().min(LONGEST_NAME_BYTES + 4)]
}

fn is_unprintable(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_escapes_and_direction_marks_are_replaced() {
        assert_eq!(printable("plain name"), "plain name");
        assert_eq!(printable("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
        assert_eq!(printable("x\u{202e}y"), "x\u{fffd}y");
    }

    #[test]
    fn long_names_are_cut() {
        let long = "é".repeat(5000);
        let cut = printable(&long);
        assert!(cut.len() <= LONGEST_NAME_BYTES + '…'.len_utf8());
        assert!(cut.ends_with('…'));
        assert_eq!(printable(super::cut(&long)), cut);
        assert_eq!(super::cut("short"), "short");
    }
}
