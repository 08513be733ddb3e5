//! One string that grows, and as many references to it.

use std::fmt::Write;

use crate::foreign::{V8_HEAD, field, varint};

/// How long the string is for so many references.
fn long(count: usize) -> String {
    "x".repeat(count * 8)
}

fn numbers(fields: &[(u8, u64)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, value) in fields {
        bytes.push(number << 3);
        varint(&mut bytes, *value);
    }
    bytes
}

/// A profile of these samples, locations and functions; string 3 is `f` and string 4 is long.
fn pprof(count: usize, rows: impl Fn(u64, &mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    field(&mut bytes, 1, &[8, 1, 16, 2]);
    for text in ["", "samples", "count", "f", &long(count), "thread"] {
        field(&mut bytes, 6, text.as_bytes());
    }
    (1..=count as u64).for_each(|number| rows(number, &mut bytes));
    bytes
}

fn sample(location: u64, label: Option<Vec<u8>>) -> Vec<u8> {
    let mut sample = numbers(&[(1, location), (2, 1)]);
    if let Some(label) = label {
        field(&mut sample, 3, &label);
    }
    sample
}

fn location(id: u64, function: u64) -> Vec<u8> {
    let mut location = numbers(&[(1, id)]);
    field(&mut location, 4, &numbers(&[(1, function)]));
    location
}

pub(crate) fn pprof_functions(count: usize) -> Vec<u8> {
    pprof(count, |id, bytes| {
        field(bytes, 2, &sample(id, None));
        field(bytes, 4, &location(id, id));
        field(bytes, 5, &numbers(&[(1, id), (2, 4), (4, 4), (5, id)]));
    })
}

pub(crate) fn pprof_labels(count: usize) -> Vec<u8> {
    pprof(count, |id, bytes| {
        let label = numbers(&[(1, 4), (3, id)]);
        field(bytes, 2, &sample(1, Some(label)));
        field(bytes, 4, &location(1, 1));
        field(bytes, 5, &numbers(&[(1, 1), (2, 3)]));
    })
}

pub(crate) fn pprof_threads(count: usize) -> Vec<u8> {
    pprof(count, |id, bytes| {
        let mut sample = sample(1, Some(numbers(&[(1, 5), (2, 4)])));
        field(&mut sample, 3, &numbers(&[(1, 4), (3, id)]));
        field(bytes, 2, &sample);
        field(bytes, 4, &location(1, 1));
        field(bytes, 5, &numbers(&[(1, 1), (2, 3)]));
    })
}

pub(crate) fn pprof_addresses(count: usize) -> Vec<u8> {
    pprof(count, |id, bytes| {
        field(bytes, 2, &sample(id, None));
        field(bytes, 4, &numbers(&[(1, id), (2, 1), (3, id)]));
        field(bytes, 3, &numbers(&[(1, 1), (5, 4)]));
    })
}

fn listed(count: usize, item: impl Fn(usize) -> String) -> String {
    let items: Vec<String> = (0..count).map(item).collect();
    items.join(",")
}

pub(crate) fn firefox(count: usize) -> Vec<u8> {
    let name = long(count);
    format!(
        "{{\"meta\":{{\"preprocessedProfileVersion\":50,\"interval\":1}},\
         \"libs\":[{{\"name\":\"{name}\",\"path\":\"/{name}\"}}],\
         \"threads\":[{{\"name\":\"t\",\"pid\":1,\"tid\":1,\"stringArray\":[{}],\
         \"resourceTable\":{{\"lib\":[0],\"name\":[0]}},\
         \"funcTable\":{{\"name\":[{}],\"resource\":[{}]}},\
         \"frameTable\":{{\"func\":[{}]}},\"stackTable\":{{\"frame\":[{}],\"prefix\":[{}]}},\
         \"samples\":{{\"stack\":[{}],\"time\":[{}]}}}}]}}",
        listed(count, |row| format!("\"0x{row:x}\"")),
        listed(count, |row| row.to_string()),
        listed(count, |_| "0".to_owned()),
        listed(count, |row| row.to_string()),
        listed(count, |row| row.to_string()),
        listed(count, |_| "null".to_owned()),
        listed(count, |row| row.to_string()),
        listed(count, |row| row.to_string()),
    )
    .into_bytes()
}

pub(crate) fn v8_log(count: usize) -> Vec<u8> {
    let mut text = V8_HEAD.replace("/opt/node/bin/node", &format!("/{}", long(count)));
    for number in 0..count {
        writeln!(
            text,
            "tick,{:#x},{},0,0x0,0",
            0x40_0000 + number,
            1000 + number
        )
        .unwrap();
    }
    text.into_bytes()
}

pub(crate) fn v8_preprocessed(count: usize) -> Vec<u8> {
    format!(
        "{{\"code\":[{{\"name\":\"/{}\",\"type\":\"SHARED_LIB\"}}],\"functions\":[],\"ticks\":[{}]}}",
        long(count),
        listed(count, |row| format!("{{\"tm\":{row},\"vm\":0,\"s\":[0,{row}]}}")),
    )
    .into_bytes()
}

/// Every row is below one of a long name.
pub(crate) fn macos_sample(count: usize) -> Vec<u8> {
    let mut text = format!(
        "Analysis of sampling node (pid 7) every 1 millisecond\n\nCall graph:\n    9 {}\n",
        long(count)
    );
    (0..count).for_each(|number| writeln!(text, "    + 1 f{number}").unwrap());
    text.push_str("\nTotal number in stack (recursive counted multiple, when >=5):\n");
    text.into_bytes()
}

pub(crate) fn vtune(count: usize) -> Vec<u8> {
    let name = long(count);
    let mut text = format!("Function Stack,CPU Time:Self,Module\n{name},0.0,m\n");
    (0..count).for_each(|number| writeln!(text, " f{number},1,m").unwrap());
    text.into_bytes()
}

/// One backtrace of one frame, many times.
pub(crate) fn xctrace(count: usize) -> Vec<u8> {
    format!(
        "<?xml version=\"1.0\"?>\n<trace-query-result><node><row><backtrace id=\"2\">\
         <frame id=\"1\" name=\"{}\"/>{}</backtrace></row></node></trace-query-result>\n",
        long(count),
        "<frame ref=\"1\"/>".repeat(count)
    )
    .into_bytes()
}
