//! Names and places made to fit into the columns of a terminal.

/// A name without what makes C++ and Rust names long: the arguments of templates and functions.
pub fn short_name(name: &str) -> String {
    if !name.contains("::") {
        return name.to_owned();
    }
    if let Some(name) = rust_method(name) {
        return short_name(&name);
    }
    let name = name.replace("(anonymous namespace)", "{anonymous}");
    let mut short = String::with_capacity(name.len());
    let mut depth = 0usize;
    for character in name.chars() {
        match character {
            '<' | '(' => {
                depth += 1;
                if depth == 1 && character == '<' {
                    short.push_str("<…>");
                }
            }
            '>' | ')' if depth > 0 => depth -= 1,
            character if depth == 0 => short.push(character),
            _ => {}
        }
    }
    match depth {
        0 => short.replace(" const", ""),
        // Operators such as `operator<` leave it open: the whole name is better than half.
        _ => name,
    }
}

/// `Type::method` of Rust's `<Type as Trait>::method` and `<Type>::method`.
fn rust_method(name: &str) -> Option<String> {
    let rest = name.strip_prefix('<')?;
    let mut depth = 1usize;
    let mut of_trait = None;
    for (position, character) in rest.char_indices() {
        match character {
            '<' => depth += 1,
            // The arrow of a function's type closes nothing.
            '>' if !rest[..position].ends_with('-') => depth -= 1,
            ' ' if depth == 1 && rest[position..].starts_with(" as ") => {
                of_trait.get_or_insert(position);
            }
            _ => {}
        }
        if depth == 0 {
            let method = rest[position + 1..].strip_prefix("::")?;
            let of_type = rest[..of_trait.unwrap_or(position)].trim_start_matches(['&', '*']);
            let of_type = of_type.strip_prefix("mut ").unwrap_or(of_type);
            return Some(format!("{of_type}::{method}"));
        }
    }
    None
}

/// How many columns a terminal gives to `text`, whose colours take none.
pub fn width_of(text: &str) -> usize {
    let mut width = 0;
    for (position, part) in text.split('\x1b').enumerate() {
        let shown = match position {
            0 => part,
            _ => part.split_once('m').map_or("", |(_, shown)| shown),
        };
        width += shown.chars().map(columns_of).sum::<usize>();
    }
    width
}

/// How many columns a terminal gives to a character, as near as matters for a table.
fn columns_of(character: char) -> usize {
    match u32::from(character) {
        0x300..=0x36f | 0x200b..=0x200d | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f
        | 0x2e80..=0xa4cf
        | 0xac00..=0xd7a3
        | 0xf900..=0xfaff
        | 0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1faff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// `text` in at most `width` columns, cut at its start.
pub fn keep_end(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let mut start = text.len();
    let mut taken = 1;
    for (position, character) in text.char_indices().rev() {
        taken += columns_of(character);
        if taken > width {
            break;
        }
        start = position;
    }
    format!("…{}", &text[start..])
}

/// `text` in at most `width` columns, without as many of its first parts as that takes, unless
/// that wastes much of the width.
pub fn keep_last_parts(text: &str, separator: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    // A path's own first separator leaves nothing out.
    let shorter = text.match_indices(separator).filter(|(at, _)| *at > 0);
    let mut shorter = shorter.map(|(at, _)| format!("…{}", &text[at..]));
    shorter
        .find(|text| width_of(text) <= width)
        .filter(|text| width_of(text) * 3 >= width * 2)
        .unwrap_or_else(|| keep_end(text, width))
}

/// `text` in at most `width` columns, cut at its end.
pub fn keep_start(text: &str, width: usize) -> String {
    if width_of(text) <= width {
        return text.to_owned();
    }
    let mut end = 0;
    let mut taken = 1;
    for (position, character) in text.char_indices() {
        taken += columns_of(character);
        if taken > width {
            break;
        }
        end = position + character.len_utf8();
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_keep_the_part_that_tells() {
        assert_eq!(keep_end("/app/lib/body.js:120", 12), "…body.js:120");
        assert_eq!(keep_end("short", 12), "short");
        assert_eq!(keep_start("abcdef", 4), "abc…");
        assert_eq!(keep_end("漢字漢字", 5), "…漢字");
        assert_eq!(keep_end("x", 0), "…");
        assert_eq!(
            keep_last_parts("/app/lib/body.js:1", "/", 16),
            "…/lib/body.js:1"
        );
        assert_eq!(keep_last_parts("/app/lib/body.js:1", "/", 8), "…dy.js:1");
        assert_eq!(keep_last_parts("v8::internal::Heap", "::", 8), "…::Heap");
    }

    #[test]
    fn names_lose_their_arguments() {
        assert_eq!(
            short_name("v8::internal::(anonymous namespace)::Invoke(v8::Isolate*, int)"),
            "v8::internal::{anonymous}::Invoke"
        );
        assert_eq!(
            short_name("node::crypto::Job<node::Traits<1>>::Run() const"),
            "node::crypto::Job<…>::Run"
        );
        assert_eq!(short_name("a::operator<(b)"), "a::operator<(b)");
        for (rust, short) in [
            (
                "<brotli::enc::State<Alloc<u8>> as brotli::Encoder>::compress",
                "brotli::enc::State<…>::compress",
            ),
            ("<&mut swc::Lexer>::next", "swc::Lexer::next"),
            ("<fn(u8) -> u8 as core::ops::Fn>::call", "fn -> u8::call"),
            ("<alloc::vec::Vec<T>>::push", "alloc::vec::Vec<…>::push"),
            ("<a::b", "<a::b"),
        ] {
            assert_eq!(short_name(rust), short);
        }
        assert_eq!(short_name("get x (y)"), "get x (y)");
    }
}
