//! Functions as V8's own profilers write them, both ways: `callFrame` of `.cpuprofile`,
//! `.heapprofile` and trace events.
//!
//! A call frame has no room for the category. Most follow from the name and the address, as for
//! whatever V8 writes; for the others our exporters put the category before the address
//! (`native:/usr/bin/node`), and it is taken off here again.

use std::borrow::Cow;

use nodespy_model::classify::category_of_file;
use nodespy_model::{
    Category, FunctionIndex, FunctionSpec, Profile, ProfileBuilder, file_of_url, percent_decoded,
};

use crate::json::{JsonError, Reader, Writer};

/// What V8 says instead of a name.
const ANONYMOUS: &str = "(anonymous)";
/// The node above all others, which stands for no code.
const ROOT: &str = "(root)";

/// One function as V8 describes it.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct CallFrame<'a> {
    pub(crate) name: Cow<'a, str>,
    pub(crate) url: Cow<'a, str>,
    /// Whether it is part of a script, named or not: native functions have script 0.
    pub(crate) has_script: bool,
    /// From 0; -1 when there is none.
    pub(crate) line: Option<i64>,
    /// From 0; -1 when there is none.
    pub(crate) column: Option<i64>,
}

impl<'a> CallFrame<'a> {
    /// Reads a `callFrame` object.
    pub(crate) fn read(reader: &mut Reader<'a>) -> Result<Self, JsonError> {
        let mut frame = Self::default();
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            if !frame.read_field(&key, reader)? {
                reader.skip()?;
            }
        }
        Ok(frame)
    }

    /// Reads the value of `key` if it is part of a call frame. Files of old have these keys in
    /// the node itself.
    pub(crate) fn read_field(
        &mut self,
        key: &str,
        reader: &mut Reader<'a>,
    ) -> Result<bool, JsonError> {
        match key {
            "functionName" => self.name = reader.any_text()?,
            "url" => self.url = reader.any_text()?,
            "scriptId" => self.has_script = !matches!(&*reader.any_text()?, "" | "0"),
            "lineNumber" => self.line = reader.any_number()?.map(|line| line.as_i64()),
            "columnNumber" => self.column = reader.any_number()?.map(|column| column.as_i64()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The function in a profile, when its first line and column have the number `first`; none for
    /// the root of a tree, which is no function.
    pub(crate) fn function(
        &self,
        first: i64,
        builder: &mut ProfileBuilder,
    ) -> Option<FunctionIndex> {
        if self.url.is_empty() && self.name == ROOT {
            return None;
        }
        let (file, category) = self.file_and_category();
        let from_one = |value: Option<i64>| {
            let value = value.unwrap_or(-1).saturating_add(1 - first);
            u32::try_from(value).unwrap_or(0)
        };
        Some(builder.function(FunctionSpec {
            name: match &*self.name {
                "" => ANONYMOUS,
                name => name,
            },
            file: &file,
            line: from_one(self.line),
            column: from_one(self.column),
            category,
        }))
    }

    fn file_and_category(&self) -> (Cow<'_, str>, Category) {
        if let Some((category, file)) = marked_category(&self.url) {
            return (percent_decoded(file), category);
        }
        let file = file_of_url(&self.url);
        let category = match &*file {
            "" => category_without_file(&self.name, self.has_script),
            // V8's own scripts before version 6, and those of Chrome's extension system.
            file if file.starts_with("native ") || file.starts_with("extensions::") => {
                Category::Builtin
            }
            file => category_of_file(file),
        };
        (file, category)
    }
}

fn category_without_file(name: &str, has_script: bool) -> Category {
    match name {
        "(idle)" => Category::Idle,
        "(garbage collector)" | "(GC)" => Category::Gc,
        _ if has_script => Category::App,
        _ if name.starts_with("RegExp:") => Category::RegExp,
        _ if name.starts_with("wasm-function") => Category::Wasm,
        // `(program)` is work of V8 and Node without JavaScript; the heap's `(COMPILER)` likewise.
        _ if name.starts_with('(') && name.ends_with(')') && name != ANONYMOUS => Category::Native,
        _ => Category::Builtin,
    }
}

/// The address of a file: what [`file_of_url`] takes back.
fn url_of_file(file: &str) -> Cow<'_, str> {
    match file.as_bytes() {
        [b'/', ..] => Cow::Owned(format!("file://{}", percent_encoded(file))),
        [letter, b':', b'/', ..] if letter.is_ascii_alphabetic() => {
            Cow::Owned(format!("file:///{}", percent_encoded(file)))
        }
        _ => Cow::Borrowed(file),
    }
}

/// The characters that would end a path or look like an escape, as escapes.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for (at, character) in text.char_indices() {
        match character {
            '%' | '?' | '#' | ' ' | '\\' => encoded.push_str(&format!("%{:02X}", character as u32)),
            // Two slashes at the start would make the next word the name of a host.
            '/' if at == 0 && text.starts_with("//") => encoded.push_str("%2F"),
            character => encoded.push(character),
        }
    }
    encoded
}

/// How our exporters name a category before an address, where nothing else shows it.
const MARKS: [(&str, Category); 12] = [
    ("app:", Category::App),
    ("dependency:", Category::Dependency),
    ("node-core:", Category::NodeCore),
    ("builtin:", Category::Builtin),
    ("wasm-code:", Category::Wasm),
    ("regexp:", Category::RegExp),
    ("gc:", Category::Gc),
    ("native:", Category::Native),
    ("kernel:", Category::Kernel),
    ("idle:", Category::Idle),
    ("unknown:", Category::Unknown),
    ("internal:", Category::Internal),
];

/// The category before an address, and the rest of it.
fn marked_category(url: &str) -> Option<(Category, &str)> {
    let marked = MARKS.iter().find_map(|(mark, category)| {
        let file = url.strip_prefix(mark)?;
        Some((*category, file))
    });
    // `app://…` is an address that others made.
    marked.filter(|(_, file)| !file.starts_with("//"))
}

/// Writes the `callFrame` of a function.
pub(crate) fn write(writer: &mut Writer<'_>, profile: &Profile, index: FunctionIndex) {
    let function = profile.function(index);
    let file = profile.file_of(index);
    let name = profile.name_of(index);
    let name = if name == ANONYMOUS { "" } else { name };
    let mut frame = CallFrame {
        name: Cow::Borrowed(name),
        url: url_of_file(file),
        has_script: function.category == Category::App,
        ..CallFrame::default()
    };
    let is_told = frame.file_and_category() == (Cow::Borrowed(file), function.category)
        && !(file.is_empty() && name == ROOT);
    if !is_told {
        let (mark, _) = MARKS
            .iter()
            .find(|(_, category)| *category == function.category)
            .expect("every category has a mark");
        frame.url = Cow::Owned(format!("{mark}{}", percent_encoded(file)));
    }
    let script = match function.file {
        Some(file) => u64::from(file.0) + 1,
        None => u64::from(frame.has_script) * (profile.strings.len() as u64 + 1),
    };
    writer.begin_object();
    writer.string_field("functionName", name);
    writer.string_field("scriptId", &script.to_string());
    writer.string_field("url", &frame.url);
    writer.number_field("lineNumber", i64::from(function.line) - 1);
    writer.number_field("columnNumber", i64::from(function.column) - 1);
    writer.end_object();
}

/// Writes a `callFrame` of something that is no function, such as `(root)`.
pub(crate) fn write_meta(writer: &mut Writer<'_>, name: &str) {
    writer.begin_object();
    writer.string_field("functionName", name);
    writer.string_field("scriptId", "0");
    writer.string_field("url", "");
    writer.number_field("lineNumber", -1);
    writer.number_field("columnNumber", -1);
    writer.end_object();
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::{About, Notes, WeightUnit};

    fn described(name: &str, url: &str, has_script: bool) -> (String, Category) {
        let frame = CallFrame {
            name: name.into(),
            url: url.into(),
            has_script,
            ..CallFrame::default()
        };
        let (file, category) = frame.file_and_category();
        (file.into_owned(), category)
    }

    #[test]
    fn categories_follow_from_names_and_addresses() {
        for (name, url, has_script, file, category) in [
            (
                "turn",
                "file:///my%20app/mix.js",
                true,
                "/my app/mix.js",
                Category::App,
            ),
            (
                "turn",
                "file:///C:/a/mix.js",
                true,
                "C:/a/mix.js",
                Category::App,
            ),
            ("turn", "/app/mix.js", true, "/app/mix.js", Category::App),
            ("emit", "events.js", true, "events.js", Category::NodeCore),
            (
                "next",
                "node:internal/timers",
                true,
                "node:internal/timers",
                Category::NodeCore,
            ),
            (
                "x",
                "file:///a/node_modules/b/c.js",
                true,
                "/a/node_modules/b/c.js",
                Category::Dependency,
            ),
            (
                "f",
                "wasm://wasm/7a3b",
                true,
                "wasm://wasm/7a3b",
                Category::Wasm,
            ),
            (
                "f",
                "app://page/x.js",
                true,
                "app://page/x.js",
                Category::App,
            ),
            (
                "join",
                "native array.js",
                true,
                "native array.js",
                Category::Builtin,
            ),
            ("(program)", "", false, "", Category::Native),
            ("(idle)", "", false, "", Category::Idle),
            ("(garbage collector)", "", false, "", Category::Gc),
            ("RegExp: a+", "", false, "", Category::RegExp),
            ("utf8Write", "", false, "", Category::Builtin),
            ("typed in the console", "", true, "", Category::App),
            (
                "uv_run",
                "native:/usr/bin/node",
                true,
                "/usr/bin/node",
                Category::Native,
            ),
        ] {
            assert_eq!(
                described(name, url, has_script),
                (file.to_owned(), category),
                "{name} {url}"
            );
        }
    }

    #[test]
    fn every_function_reads_back() {
        let files = [
            "",
            "/a b/c%20d.js",
            "//x",
            "C:/x.js",
            "node:fs",
            "[kernel]",
            "%",
            "file:///x",
            "http://x/y",
        ];
        let names = ["", "(root)", "(idle)", "(anonymous)", "f", "RegExp: x"];
        for category in Category::ALL {
            for (file, name) in files
                .iter()
                .flat_map(|file| names.map(|name| (*file, name)))
            {
                let mut builder = ProfileBuilder::new(WeightUnit::Samples);
                let spec = FunctionSpec {
                    name: if name.is_empty() { ANONYMOUS } else { name },
                    file,
                    line: 3,
                    column: 0,
                    category,
                };
                let index = builder.function(spec);
                let profile = builder.finish(About::default(), Notes::default());
                let mut text = Vec::new();
                let mut writer = Writer::new(&mut text);
                write(&mut writer, &profile, index);
                writer.finish().unwrap();
                let frame = CallFrame::read(&mut Reader::new(&text)).unwrap();
                let mut again = ProfileBuilder::new(WeightUnit::Samples);
                assert_eq!(
                    frame.function(0, &mut again),
                    Some(FunctionIndex(0)),
                    "{category:?} {file} {name}"
                );
                let again = again.finish(About::default(), Notes::default());
                assert_eq!(again, profile);
            }
        }
    }
}
