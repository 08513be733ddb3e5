//! What a minified function was called, where the map shows it without doubt.
//!
//! A map has names for places, not for functions: the segment at the `e` of `e => e + 1` carries
//! the name of the parameter. So the word a function is declared or assigned with is looked for in
//! the script, right before the place where V8 says the function starts; it has to be the name V8
//! knows the function by.

/// Byte offsets of places of a text, from 0, lines and columns in UTF-16 units. `places` have to be
/// in order.
pub(super) fn offsets_of(text: &str, places: &[(u32, u32)]) -> Vec<Option<usize>> {
    let mut offsets = vec![None; places.len()];
    let mut next = 0;
    let (mut line, mut column) = (0u32, 0u32);
    let mut letters = text.char_indices().peekable();
    while next < places.len() {
        let Some((at, letter)) = letters.next() else {
            while places.get(next) == Some(&(line, column)) {
                offsets[next] = Some(text.len());
                next += 1;
            }
            break;
        };
        while let Some(&place) = places.get(next)
            && place <= (line, column)
        {
            offsets[next] = (place == (line, column)).then_some(at);
            next += 1;
        }
        let is_end = match letter {
            '\n' | '\u{2028}' | '\u{2029}' => true,
            '\r' => letters.peek().is_none_or(|(_, letter)| *letter != '\n'),
            _ => false,
        };
        if is_end {
            (line, column) = (line.saturating_add(1), 0);
        } else {
            column = column.saturating_add(letter.len_utf16() as u32);
        }
    }
    offsets
}

/// How many UTF-16 units before `start`, where a function starts, the word `name` stands that it is
/// declared or assigned with.
pub(super) fn word_before(text: &str, start: usize, name: &str) -> Option<u32> {
    let before = text.get(..start)?;
    let word = declared(before, name).or_else(|| assigned(before, name))?;
    let units = before[word..].encode_utf16().count();
    u32::try_from(units).ok()
}

/// `function name(`, `name(`.
fn declared(before: &str, name: &str) -> Option<usize> {
    ends_with_word(before.trim_end(), name)
}

/// `name = (`, `name: function (`, `name = async x`.
fn assigned(before: &str, name: &str) -> Option<usize> {
    let mut rest = before.trim_end();
    for word in ["*", "function", "async"] {
        rest = match ends_with_word(rest, word) {
            Some(at) => rest[..at].trim_end(),
            None => rest,
        };
    }
    let rest = rest.strip_suffix(['=', ':'])?;
    // `a == (b)` and `a ? b : (c)` name nothing, but there V8 has no such name either.
    ends_with_word(rest.trim_end(), name)
}

/// Where a text's last word starts, if it is this one.
fn ends_with_word(text: &str, word: &str) -> Option<usize> {
    let rest = text.strip_suffix(word)?;
    let is_part =
        |letter: char| letter.is_alphanumeric() || "_$.#\u{200c}\u{200d}".contains(letter);
    let goes_on = word != "*" && rest.ends_with(is_part);
    (!word.is_empty() && !goes_on).then_some(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_found_in_one_pass() {
        let text = "a\r\nbä😀c\rd\u{2028}e";
        let places = [
            (0, 0),
            (0, 9),
            (1, 0),
            (1, 2),
            (1, 4),
            (2, 0),
            (3, 0),
            (3, 1),
            (9, 0),
        ];
        let found: Vec<Option<&str>> = offsets_of(text, &places)
            .into_iter()
            .map(|at| at.map(|at| &text[at..]))
            .collect();
        assert_eq!(
            found,
            [
                Some(text),
                None,
                Some("bä😀c\rd\u{2028}e"),
                Some("😀c\rd\u{2028}e"),
                Some("c\rd\u{2028}e"),
                Some("d\u{2028}e"),
                Some("e"),
                Some(""),
                None
            ]
        );
    }

    #[test]
    fn the_word_a_function_is_declared_or_assigned_with_is_found() {
        for (before, units) in [
            ("x;function a", Some(1)),
            ("x;function* a ", Some(2)),
            ("{async a", Some(1)),
            ("var a=", Some(2)),
            ("var a = async ", Some(10)),
            ("{a:function", Some(10)),
            ("{a: async function*", Some(18)),
            ("var é,a=", Some(2)),
            ("function ba", None),
            ("x.a=", None),
            ("var b=", None),
            ("a+", None),
            ("", None),
        ] {
            assert_eq!(word_before(before, before.len(), "a"), units, "{before}");
        }
        assert_eq!(word_before("a=", 2, ""), None);
        assert_eq!(word_before("a=", 9, "a"), None);
    }
}
