//! What a tracepoint's samples carry: the fields of its `format` file in tracefs, read from a sample's raw bytes.
//!
//! The file is text of the kernel, of a module or of a dynamic event's author: lines that are not understood are left
//! out, and so are fields that lie outside of the bytes there are. Documentation/trace/events.rst of Linux describes it.

use crate::field_reader::until_nul;

/// More fields than a tracepoint that people read has.
const MAX_FIELDS: usize = 32;
/// A field's name is an identifier of C.
const MAX_NAME_BYTES: usize = 64;
/// The bytes of a record can't be more.
const MAX_OFFSET: usize = 1 << 16;
/// Fields that every tracepoint has start with this: type, flags and pid of what is a sample already.
const COMMON: &str = "common_";
/// The number of a system call, which its tracepoint says already.
const SYSTEM_CALL: &str = "__syscall_nr";

/// The fields of a tracepoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TracepointFormat {
    fields: Vec<TracepointField>,
}

/// One field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracepointField {
    /// Its name.
    pub name: String,
    offset: usize,
    size: usize,
    kind: Kind,
}

/// How its bytes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unsigned,
    Signed,
    /// An `int` in the slot of a word, as system calls have them.
    NarrowSigned,
    NarrowUnsigned,
    /// Text in the record itself.
    Text,
    /// Where in the record text is: 16 bits of offset, 16 of length.
    TextAt,
    /// The address of text in the memory of the program.
    TextPointer,
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldValue<'a> {
    /// A number.
    Unsigned(u64),
    /// A number that may be negative.
    Signed(i64),
    /// Text, up to its end.
    Text(&'a [u8]),
    /// Where text is in the memory of the program.
    TextAddress(u64),
}

impl TracepointFormat {
    /// Reads a `format` file.
    pub fn parse(text: &str) -> Self {
        let fields = text.lines().filter_map(parse_field).take(MAX_FIELDS);
        Self {
            fields: fields.collect(),
        }
    }

    /// The fields, without those that every tracepoint has.
    pub fn fields(&self) -> &[TracepointField] {
        &self.fields
    }
}

impl TracepointField {
    /// Its value in the raw bytes of a sample; none where these are too short.
    pub fn value<'a>(&self, raw: &'a [u8]) -> Option<FieldValue<'a>> {
        let bytes = raw.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(match self.kind {
            Kind::Text => FieldValue::Text(until_nul(bytes)),
            Kind::TextAt => {
                let place = number(bytes)?;
                let (offset, length) = ((place & 0xffff) as usize, (place >> 16 & 0xffff) as usize);
                FieldValue::Text(until_nul(raw.get(offset..offset.checked_add(length)?)?))
            }
            Kind::TextPointer => FieldValue::TextAddress(number(bytes)?),
            Kind::Unsigned => FieldValue::Unsigned(number(bytes)?),
            Kind::NarrowUnsigned => FieldValue::Unsigned(number(bytes)? & 0xffff_ffff),
            Kind::NarrowSigned => FieldValue::Signed((number(bytes)? as i32).into()),
            Kind::Signed => {
                let unused = 64 - 8 * self.size as u32;
                FieldValue::Signed((number(bytes)? << unused) as i64 >> unused)
            }
        })
    }
}

/// A number of 1, 2, 4 or 8 bytes.
fn number(bytes: &[u8]) -> Option<u64> {
    let mut word = [0; 8];
    word.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(u64::from_le_bytes(word))
}

/// `field:const char * filename; offset:24; size:8; signed:0;`
fn parse_field(line: &str) -> Option<TracepointField> {
    let declaration = line.trim_start().strip_prefix("field:")?;
    let mut parts = declaration.split(';').map(str::trim);
    let declared = parts.next()?;
    let (mut offset, mut size, mut is_signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", value)) => offset = value.parse::<usize>().ok(),
            Some(("size", value)) => size = value.parse::<usize>().ok(),
            Some(("signed", value)) => is_signed = value == "1",
            _ => {}
        }
    }
    let (offset, size) = (offset?, size?);
    let (type_name, name) = declared.rsplit_once([' ', '*'])?;
    let is_pointer = declared[type_name.len()..].starts_with('*') || type_name.ends_with('*');
    let (name, is_array) = match name.split_once('[') {
        Some((name, _)) => (name, true),
        None => (name, false),
    };
    let is_named = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_name = !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.bytes().all(is_named);
    let is_told_already = name.starts_with(COMMON) || name == SYSTEM_CALL;
    if !is_name || is_told_already || offset > MAX_OFFSET || size > MAX_OFFSET {
        return None;
    }
    let kind = kind_of(type_name.trim(), (is_pointer, is_array, is_signed), size)?;
    Some(TracepointField {
        name: name.to_owned(),
        offset,
        size,
        kind,
    })
}

/// How a field of this type is read; none where it can't be read: structures, and addresses of anything but text.
fn kind_of(
    type_name: &str,
    (is_pointer, is_array, is_signed): (bool, bool, bool),
    size: usize,
) -> Option<Kind> {
    let words: Vec<&str> = type_name
        .split([' ', '*'])
        .filter(|it| !it.is_empty())
        .collect();
    let is_text = words.iter().any(|word| matches!(*word, "char" | "char[]"));
    let is_located = words.first() == Some(&"__data_loc");
    match (is_text, is_located) {
        (true, true) => return (size == 4).then_some(Kind::TextAt),
        (false, true) => return None,
        (true, _) if is_pointer && type_name.matches('*').count() <= 1 => {
            return (size == 8 && !is_array).then_some(Kind::TextPointer);
        }
        (true, _) if is_array => return Some(Kind::Text),
        _ if is_pointer || is_array || words.contains(&"struct") => return None,
        _ => {}
    }
    let is_narrow = size == 8 && matches!(words[..], ["int"] | ["unsigned", "int"] | ["umode_t"]);
    match (is_narrow, size) {
        (true, _) if words == ["int"] => Some(Kind::NarrowSigned),
        (true, _) => Some(Kind::NarrowUnsigned),
        (false, 1 | 2 | 4 | 8) if is_signed => Some(Kind::Signed),
        (false, 1 | 2 | 4 | 8) => Some(Kind::Unsigned),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.18.
    const OPENAT: &str = "name: sys_enter_openat
ID: 784
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;
\tfield:int dfd;\toffset:16;\tsize:8;\tsigned:0;
\tfield:const char * filename;\toffset:24;\tsize:8;\tsigned:0;
\tfield:int flags;\toffset:32;\tsize:8;\tsigned:0;
\tfield:umode_t mode;\toffset:40;\tsize:8;\tsigned:0;

print fmt: \"dfd: 0x%08lx, filename: 0x%08lx\", ((unsigned long)(REC->dfd))
";

    const SWITCH: &str = "\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
\tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;
\tfield:__data_loc char[] device;\toffset:40;\tsize:4;\tsigned:0;
\tfield:struct sockaddr * address;\toffset:48;\tsize:8;\tsigned:0;
\tfield:u32 words[4];\toffset:48;\tsize:16;\tsigned:0;
";

    fn values<'a>(format: &'a TracepointFormat, raw: &'a [u8]) -> Vec<(&'a str, FieldValue<'a>)> {
        let fields = format.fields().iter();
        fields
            .filter_map(|field| Some((&*field.name, field.value(raw)?)))
            .collect()
    }

    #[test]
    fn the_arguments_of_a_system_call_are_read() {
        let format = TracepointFormat::parse(OPENAT);
        let mut raw = vec![0; 48];
        raw[16..24].copy_from_slice(&0xffff_ff9c_u64.to_le_bytes());
        raw[24..32].copy_from_slice(&0x7ffd_1234_u64.to_le_bytes());
        raw[32..40].copy_from_slice(&0x8_0000_u64.to_le_bytes());
        raw[40..48].copy_from_slice(&0xdead_0000_01b6_u64.to_le_bytes());
        assert_eq!(
            values(&format, &raw),
            [
                ("dfd", FieldValue::Signed(-100)),
                ("filename", FieldValue::TextAddress(0x7ffd_1234)),
                ("flags", FieldValue::Signed(0x8_0000)),
                ("mode", FieldValue::Unsigned(0o666)),
            ]
        );
        assert_eq!(values(&format, &raw[..24]).len(), 1);
    }

    #[test]
    fn text_in_the_record_is_read_and_structures_are_not() {
        let format = TracepointFormat::parse(SWITCH);
        let mut raw = vec![0; 64];
        raw[8..12].copy_from_slice(b"node");
        raw[24..28].copy_from_slice(&(-7i32).to_le_bytes());
        raw[32..40].copy_from_slice(&2u64.to_le_bytes());
        raw[40..44].copy_from_slice(&(5u32 << 16 | 56).to_le_bytes());
        raw[56..61].copy_from_slice(b"vda1\0");
        assert_eq!(
            values(&format, &raw),
            [
                ("prev_comm", FieldValue::Text(b"node")),
                ("prev_pid", FieldValue::Signed(-7)),
                ("prev_state", FieldValue::Signed(2)),
                ("device", FieldValue::Text(b"vda1")),
            ]
        );
    }

    #[test]
    fn lines_that_lie_are_left_out() {
        for line in [
            "field:",
            "field:int;offset:0;size:4",
            "field:int x;offset:99999999;size:4;signed:0;",
            "field:int x;offset:18446744073709551615;size:8;signed:0;",
            "field:int x;offset:8;size:3;signed:0;",
            "field:int x y z$;offset:8;size:4;",
            "field:char * x[;offset:8;size:8;",
            "field:é x;size:4",
        ] {
            assert_eq!(TracepointFormat::parse(line).fields(), [], "{line}");
        }
        let many = "field:int x;offset:8;size:4;signed:0;\n".repeat(10_000);
        assert_eq!(TracepointFormat::parse(&many).fields().len(), MAX_FIELDS);
        let wild = "field:__data_loc char[] x;offset:0;size:4;signed:0;";
        let format = TracepointFormat::parse(wild);
        assert_eq!(format.fields()[0].value(&[255; 4]), None);
    }
}
