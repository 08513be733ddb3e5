//! JSON with an indent, written piece by piece.

use std::fmt::Write;

/// A JSON text in the making. Names are escaped as they come; nothing of them can be structure.
#[derive(Default)]
pub(super) struct JsonText {
    text: String,
    depth: usize,
    has_rows: bool,
}

impl JsonText {
    /// The finished text.
    pub(super) fn finish(mut self) -> String {
        self.text.push('\n');
        self.text
    }

    /// An object, whose fields `fill` adds.
    pub(super) fn object(&mut self, key: &str, fill: impl FnOnce(&mut Self)) {
        self.nested(key, ['{', '}'], fill);
    }

    /// A list of objects, whose fields `fill` adds for each of `items`.
    pub(super) fn objects<T>(
        &mut self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        mut fill: impl FnMut(&mut Self, T),
    ) {
        self.nested(key, ['[', ']'], |list| {
            for item in items {
                list.object("", |object| fill(object, item));
            }
        });
    }

    /// A list of strings.
    pub(super) fn strings<'a>(&mut self, key: &str, items: impl IntoIterator<Item = &'a str>) {
        self.nested(key, ['[', ']'], |list| {
            for item in items {
                list.string("", item);
            }
        });
    }

    /// A string.
    pub(super) fn string(&mut self, key: &str, value: &str) {
        self.row(key);
        self.quoted(value);
    }

    /// A string, or nothing at all when it is empty.
    pub(super) fn string_if_any(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.string(key, value);
        }
    }

    /// A whole number.
    pub(super) fn number(&mut self, key: &str, value: u64) {
        self.row(key);
        let _ = write!(self.text, "{value}");
    }

    /// A number with at most `digits` digits after the point.
    pub(super) fn decimal(&mut self, key: &str, value: f64, digits: usize) {
        self.row(key);
        let number = format!("{value:.digits$}");
        let number = match number.contains('.') {
            true => number.trim_end_matches('0').trim_end_matches('.'),
            false => &number,
        };
        self.text
            .push_str(if value.is_finite() { number } else { "0" });
    }

    /// What was made elsewhere.
    pub(super) fn value(&mut self, key: &str, value: &serde_json::Value) {
        self.row(key);
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        let indent = format!("\n{}", "  ".repeat(self.depth));
        self.text.push_str(&text.replace('\n', &indent));
    }

    fn nested(&mut self, key: &str, brackets: [char; 2], fill: impl FnOnce(&mut Self)) {
        self.row(key);
        self.text.push(brackets[0]);
        self.depth += 1;
        self.has_rows = false;
        fill(self);
        self.depth -= 1;
        if self.has_rows {
            self.new_line();
        }
        self.text.push(brackets[1]);
        self.has_rows = true;
    }

    /// Starts a field, or with an empty key an element of a list or the whole.
    fn row(&mut self, key: &str) {
        if self.has_rows {
            self.text.push(',');
        }
        if self.depth > 0 {
            self.new_line();
        }
        self.has_rows = true;
        if !key.is_empty() {
            self.quoted(key);
            self.text.push_str(": ");
        }
    }

    fn new_line(&mut self) {
        self.text.push('\n');
        for _ in 0..self.depth {
            self.text.push_str("  ");
        }
    }

    fn quoted(&mut self, value: &str) {
        self.text.push('"');
        for character in value.chars() {
            match character {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\u{0}'..='\u{1f}' | '\u{7f}' => {
                    let _ = write!(self.text, "\\u{:04x}", u32::from(character));
                }
                character => self.text.push(character),
            }
        }
        self.text.push('"');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structure_and_escapes_are_where_they_belong() {
        let mut json = JsonText::default();
        json.object("", |whole| {
            whole.string("name", "a\"b\\\n");
            whole.decimal("share", 12.50, 2);
            whole.decimal("whole", 100.0, 2);
            whole.strings("none", []);
            whole.objects("list", [1, 2], |object, value| object.number("n", value));
        });
        assert_eq!(
            json.finish(),
            "{\n  \"name\": \"a\\\"b\\\\\\u000a\",\n  \"share\": 12.5,\n  \"whole\": 100,\n  \"none\": [],\n  \
             \"list\": [\n    {\n      \"n\": 1\n    },\n    {\n      \"n\": 2\n    }\n  ]\n}\n"
        );
    }
}
