//! Text that other programs, or an attacker, could have written: any amount of it.

use std::fmt::Write;

use nodespy_model::Profile;

/// `line` for each number, between a head and a tail.
fn lines(head: &str, count: usize, line: impl Fn(usize) -> String, tail: &str) -> Vec<u8> {
    let mut text = head.to_owned();
    (0..count).for_each(|number| text.push_str(&line(number)));
    text.push_str(tail);
    text.into_bytes()
}

pub(crate) fn folded_lines(count: usize) -> Vec<u8> {
    lines(
        "",
        count,
        |number| format!("t{number};main;f{number};g{} 1\n", number % 7),
        "",
    )
}

pub(crate) fn folded_bad_lines(count: usize) -> Vec<u8> {
    lines(
        "a;b 1\n",
        count,
        |number| format!("a;b 1\nthis is no stack {number}x\n"),
        "",
    )
}

pub(crate) fn folded_remarks(count: usize) -> Vec<u8> {
    lines(
        "# nodespy 1\n",
        count,
        |number| format!("# remark: number {number}\n"),
        "a;b 1\n",
    )
}

pub(crate) fn pprof_remarks(count: usize) -> Vec<u8> {
    // A string table and comments that refer to it, after one sample of one location.
    let mut strings = vec![
        String::new(),
        "samples".to_owned(),
        "count".to_owned(),
        "f".to_owned(),
        "nodespy 1".to_owned(),
    ];
    strings.extend((0..count).map(|number| format!("remark: number {number}")));
    let mut bytes = Vec::new();
    field(&mut bytes, 1, &[8, 1, 16, 2]);
    field(&mut bytes, 2, &[10, 1, 1, 18, 1, 1]);
    field(&mut bytes, 4, &[8, 1, 34, 2, 8, 1]);
    field(&mut bytes, 5, &[8, 1, 16, 3]);
    for text in &strings {
        field(&mut bytes, 6, text.as_bytes());
    }
    for comment in 4..strings.len() {
        bytes.push(13 << 3);
        varint(&mut bytes, comment as u64);
    }
    bytes
}

pub(crate) fn field(bytes: &mut Vec<u8>, number: u8, content: &[u8]) {
    bytes.push(number << 3 | 2);
    varint(bytes, content.len() as u64);
    bytes.extend_from_slice(content);
}

pub(crate) fn varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

pub(crate) fn bpftrace(count: usize) -> Vec<u8> {
    let stack = |number| format!("@[\n    f{number}+8\n    vfs_read+142\n, t{number}]: 3\n");
    lines("Attaching 1 probe...\n^C\n\n", count, stack, "")
}

pub(crate) fn dtrace(count: usize) -> Vec<u8> {
    let stack = |number| {
        format!(
            "\n              node`f{number}+0x20\n              node`main+0x12\n                1\n"
        )
    };
    lines(
        "CPU     ID                    FUNCTION:NAME\n  0  64091                        :tick-60s\n\n",
        count,
        stack,
        "\n",
    )
}

pub(crate) fn vtune(count: usize) -> Vec<u8> {
    let row = |number| format!("  f{number},2.000000,node\n");
    lines(
        "Function Stack,CPU Time:Self,Module\nTotal,0.0,[Unknown]\n main,1.000000,node\n",
        count,
        row,
        "",
    )
}

pub(crate) fn macos_sample(count: usize) -> Vec<u8> {
    let head = "Analysis of sampling node (pid 7) every 1 millisecond\n\nCall graph:\n    \
        3 Thread_1   DispatchQueue_1: com.apple.main-thread  (serial)\n    + 3 start  (in dyld) + 1  [0x7fff]\n";
    let row = |number| format!("    +   2 f{number}  (in node) + 5  [0x1]\n");
    let tail = "\nTotal number in stack (recursive counted multiple, when >=5):\n";
    lines(head, count, row, tail)
}

pub(crate) fn xctrace(count: usize) -> Vec<u8> {
    let head = r#"<?xml version="1.0"?>
<trace-query-result>
<node xpath='//trace-toc[1]/run[1]/data[1]/table[5]'><schema name="time-profile"></schema>
<row><sample-time id="1" fmt="00:00.1">1</sample-time><thread id="2" fmt="main 0x1"><tid id="3" fmt="0x1">1</tid></thread><weight id="8" fmt="1.00 ms">1000000</weight><backtrace id="9"><frame id="10" name="work" addr="0x1"><binary id="11" name="node" path="/bin/node"/></frame><frame id="12" name="main" addr="0x2"><binary ref="11"/></frame></backtrace></row>
"#;
    let row = |number: usize| {
        let id = 100 + number * 3;
        format!(
            "<row><sample-time id=\"{}\" fmt=\"00:00.2\">2</sample-time><thread ref=\"2\"/><weight ref=\"8\"/>\
             <backtrace id=\"{}\"><frame id=\"{}\" name=\"f{number}\" addr=\"0x1\"><binary ref=\"11\"/></frame></backtrace></row>\n",
            id,
            id + 1,
            id + 2
        )
    };
    lines(head, count, row, "</node>\n</trace-query-result>\n")
}

pub(crate) fn perf_script(count: usize) -> Vec<u8> {
    let sample = |number| {
        format!(
            "thread{number} {}/{} [000] {number}.000100: 1 cycles:\n\t    1234 f{number} (/bin/node)\n\t    1235 main (/bin/node)\n\n",
            1000 + number,
            1000 + number
        )
    };
    lines("", count, sample, "")
}

pub(crate) const V8_HEAD: &str = "v8-version,12,4,254,21,-node.57,0\nv8-platform,linux,linux\n\
    shared-library,/opt/node/bin/node,0x400000,0x32e7000,0\nshared-library-end\nprofiler,begin,500\n";

fn code(number: usize, address: usize, size: usize) -> String {
    format!(
        "code-creation,JS,10,{number},{address:#x},{size},f{number} /app/a.js:{}:1,{:#x},~\n",
        1 + number,
        0x1000 + number
    )
}

fn tick(number: usize, address: usize) -> String {
    format!("tick,{address:#x},{},0,0x0,0\n", 1000 + number)
}

pub(crate) fn v8_log_new_code(count: usize) -> Vec<u8> {
    let line = |number: usize| {
        let address = 0x7f20_0000_0000 + number * 64;
        code(number, address, 64) + &tick(number, address + 8)
    };
    lines(V8_HEAD, count, line, "")
}

pub(crate) fn v8_log_moves(count: usize) -> Vec<u8> {
    let line = |number: usize| {
        let address = 0x7f20_0000_0000 + number * 64;
        let before = address.wrapping_sub(64);
        match number {
            0 => code(0, address, 64),
            _ => format!("code-move,{before:#x},{address:#x}\n") + &tick(number, address + 8),
        }
    };
    lines(V8_HEAD, count, line, "")
}

pub(crate) fn v8_log_overlaps(count: usize) -> Vec<u8> {
    let line = |number: usize| {
        let address = 0x7f20_0000_0000 + number * 64;
        code(number, address, 1 << 30) + &tick(number, address + 8)
    };
    lines(V8_HEAD, count, line, "")
}

pub(crate) fn trace_nested(count: usize) -> Vec<u8> {
    let mut text = "{\"traceEvents\":[".to_owned();
    for number in 0..count {
        write!(
            text,
            "{{\"ph\":\"B\",\"pid\":1,\"tid\":1,\"ts\":{number},\"name\":\"f{}\"}},",
            number % 50
        )
        .unwrap();
    }
    for number in (0..count).rev() {
        let comma = if number == 0 { "" } else { "," };
        write!(
            text,
            "{{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":{},\"name\":\"f{}\"}}{comma}",
            2 * count - number,
            number % 50
        )
        .unwrap();
    }
    text.push_str("]}");
    text.into_bytes()
}

pub(crate) fn trace_threads(count: usize) -> Vec<u8> {
    let event = |number: usize| {
        let comma = if number == 0 { "" } else { "," };
        format!(
            "{comma}{{\"ph\":\"M\",\"pid\":{number},\"tid\":{number},\"name\":\"thread_name\",\"args\":{{\"name\":\"t{number}\"}}}},\
             {{\"ph\":\"X\",\"pid\":{number},\"tid\":{number},\"ts\":{number},\"dur\":5,\"name\":\"f\"}}"
        )
    };
    lines("{\"traceEvents\":[", count, event, "]}")
}

pub(crate) fn speedscope_evented(count: usize) -> Vec<u8> {
    let mut events: Vec<String> = (0..count)
        .map(|number| {
            format!(
                "{{\"type\":\"O\",\"frame\":{},\"at\":{number}}}",
                number % 50
            )
        })
        .collect();
    events.extend((0..count).rev().map(|number| {
        format!(
            "{{\"type\":\"C\",\"frame\":{},\"at\":{}}}",
            number % 50,
            2 * count - number
        )
    }));
    let frames: Vec<String> = (0..50)
        .map(|number| format!("{{\"name\":\"f{number}\"}}"))
        .collect();
    format!(
        "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"shared\":{{\"frames\":[{}]}},\
         \"profiles\":[{{\"type\":\"evented\",\"name\":\"p\",\"unit\":\"microseconds\",\"startValue\":0,\"endValue\":{},\"events\":[{}]}}]}}",
        frames.join(","), 2 * count, events.join(",")
    )
    .into_bytes()
}

const PAYLOAD: &str = "<template class=\"recording\">";

pub(crate) fn html_page(profile: &Profile) -> Vec<u8> {
    let mut recording = Vec::new();
    nodespy_formats::export(profile, "nspy", &mut recording).unwrap();
    let text = data_encoding::BASE64.encode(&recording);
    format!("<!doctype html><p>nodespy{PAYLOAD}{text}</template>").into_bytes()
}

/// A recording in as many elements as it has bytes, and more of nothing.
pub(crate) fn html_chunks(count: usize) -> Vec<u8> {
    let head = String::from_utf8(html_page(&crate::shapes::samples(10))).unwrap();
    lines(&head, count, |_| format!("{PAYLOAD}</template>"), "</html>")
}

const HEAP_FRAME: &str = "\"callFrame\":{\"functionName\":\"f\",\"scriptId\":\"1\",\"url\":\"/a.js\",\"lineNumber\":1,\"columnNumber\":1}";

/// Each node is the only child of the one before.
pub(crate) fn heap_chain(count: usize) -> Vec<u8> {
    let mut text = "{\"head\":".to_owned();
    for number in 0..count {
        let id = number + 1;
        write!(
            text,
            "{{{HEAP_FRAME},\"selfSize\":8,\"id\":{id},\"children\":["
        )
        .unwrap();
    }
    text.push_str(&"]}".repeat(count));
    text.push('}');
    text.into_bytes()
}

/// Allocations of one node, each its own sample.
pub(crate) fn heap_samples(count: usize) -> Vec<u8> {
    let head = format!(
        "{{\"head\":{{{HEAP_FRAME},\"selfSize\":{},\"id\":1,\"children\":[]}},\"samples\":[",
        count * 8
    );
    let sample = |number: usize| {
        let comma = if number == 0 { "" } else { "," };
        format!("{comma}{{\"size\":8,\"nodeId\":1,\"ordinal\":{number}}}")
    };
    lines(&head, count, sample, "]}")
}
