//! perf.data against what `perf script` prints of it: every sample, thread and frame.

use std::path::Path;

use nodespy_formats::{ImportOptions, import_file};
use nodespy_model::{Category, Profile, Sample};
use nodespy_symbolize::{DiskOptions, DiskOrigin, JitKind, JitName, ResolveOptions, resolve};

use crate::installed_node::node;
use crate::scratch::Scratch;

/// A recording as perf would name it.
pub(crate) fn read(path: &Path, options: DiskOptions) -> Profile {
    let recording = import_file(path, &ImportOptions::default()).unwrap();
    let origin = DiskOrigin::new(options, &recording.about);
    // perf expands no inlined functions in chains of frame pointers.
    let options = ResolveOptions {
        has_inlines: false,
        ..ResolveOptions::default()
    };
    resolve(recording, Box::new(origin), &options)
}

/// A sample as `perf script` prints it.
#[derive(Debug)]
pub(crate) struct Printed {
    thread: String,
    tid: u32,
    /// Leaf first: address, name, file.
    frames: Vec<(u64, String, String)>,
}

/// Every sample of a text.
pub(crate) fn printed(text: &str) -> Vec<Printed> {
    text.split("\n\n")
        .filter(|block| !block.trim().is_empty())
        .map(|block| {
            let mut lines = block.lines().filter(|line| !line.is_empty());
            let head = lines.next().unwrap();
            let words: Vec<&str> = head.split_whitespace().collect();
            Printed {
                thread: words[0].to_owned(),
                tid: words[1].parse().unwrap(),
                frames: lines.map(frame).collect(),
            }
        })
        .collect()
}

/// `addr name+0xoffset (file)`.
fn frame(line: &str) -> (u64, String, String) {
    let (address, rest) = line.trim().split_once(' ').unwrap();
    let (name, file) = rest.rsplit_once(" (").unwrap();
    let name = match name.rsplit_once("+0x") {
        Some((name, offset)) if offset.chars().all(|digit| digit.is_ascii_hexdigit()) => name,
        _ => name,
    };
    (
        u64::from_str_radix(address, 16).unwrap(),
        name.to_owned(),
        file.trim_end_matches(')').to_owned(),
    )
}

/// The frames of a sample, leaf first, named as V8 and perf do.
pub(crate) fn frames(profile: &Profile, sample: &Sample) -> Vec<String> {
    let Some(stack) = sample.stack else {
        return Vec::new();
    };
    profile
        .frames_of(stack)
        .map(|frame| {
            let frame = profile.frame(frame);
            let category = profile.function(frame.function).category;
            let name = profile.name_of(frame.function);
            let place = profile.location_of(frame.function);
            match category {
                Category::App | Category::Dependency | Category::NodeCore => {
                    format!("{name} {place}")
                }
                _ => name.to_owned(),
            }
        })
        .collect()
}

/// The same name as [`frames`] gives it, from what V8 wrote into the perf map.
fn as_ours(name: &str, file: &str) -> String {
    if !file.ends_with(".map") {
        return name.to_owned();
    }
    let parts = JitName::parse(name);
    let column = match parts.column {
        0 => String::new(),
        column => format!(":{column}"),
    };
    match parts.kind {
        JitKind::JavaScript | JitKind::Script => {
            format!("{} {}:{}{column}", parts.name, parts.file, parts.line)
        }
        _ => parts.name,
    }
}

/// Whether two names for one address say the same.
fn is_same_function(ours: &str, theirs: &str) -> bool {
    // Several symbols have one address, and each side picks by its own rule.
    const ALIASES: [(&str, &str); 5] = [
        (
            "__memcpy_avx_unaligned_erms",
            "__memmove_avx_unaligned_erms",
        ),
        ("__clock_gettime", "clock_gettime"),
        ("__libc_malloc", "malloc"),
        ("__write", "__GI___libc_write"),
        (
            "Builtins_JSConstructStubGeneric",
            "construct_stub_create_deopt_addr",
        ),
    ];
    // perf 6.1 keeps the version of a symbol.
    let theirs = theirs.split("@@").next().unwrap();
    // It drops what stands behind the arguments.
    let ours = ours.strip_suffix(" const").unwrap_or(ours);
    // Thunks and functions inside of functions are written in other ways.
    let is_thunk = ours.contains("thunk(") && theirs.contains("thunk to");
    let is_local =
        |name: &str| name.contains("::{lambda(") && name.contains("Heap::CollectGarbage");
    ours == theirs
        || ALIASES.contains(&(ours, theirs))
        || is_thunk
        || (is_local(ours) && is_local(theirs))
}

/// Every sample, thread and name of a recording is what perf printed.
fn agrees_with_perf(name: &str, profile: &Profile, text: &str, has_node: bool) {
    let expected = printed(text);
    assert_eq!(profile.samples.len(), expected.len(), "{name}");
    for (sample, printed) in profile.samples.iter().zip(&expected) {
        let thread = &profile.threads[sample.thread.at()];
        assert_eq!(thread.tid, printed.tid, "{name}");
        // Threads that only carry the process's name get one of their own by their root.
        let is_renamed = thread.name == "libuv-worker" && printed.thread == "node";
        assert!(
            thread.name == printed.thread || is_renamed,
            "{name}: {}",
            thread.name
        );
        let ours = frames(profile, sample);
        assert_eq!(
            ours.len(),
            printed.frames.len(),
            "{name}: {ours:?} {printed:?}"
        );
        for (ours, theirs) in ours.iter().zip(&printed.frames) {
            check_frame(ours, theirs, has_node);
        }
    }
}

/// Compares a frame. Files of the system are another day's on another machine: their frames then
/// have no name, and must not have a wrong one.
fn check_frame(ours: &str, (address, name, file): &(u64, String, String), has_node: bool) {
    let theirs = as_ours(name, file);
    let is_refused = ours.starts_with('[') && ours.contains("+0x");
    let may_be_refused = match file.as_str() {
        file if file.ends_with("/node") => !has_node,
        "[kernel.kallsyms]" | "[vdso]" => true,
        file => !file.ends_with(".map"),
    };
    let is_unnamed_kernel = ours == "[kernel]" && file.starts_with("[kernel");
    assert!(
        is_same_function(ours, &theirs) || (may_be_refused && (is_refused || is_unnamed_kernel)),
        "{address:x} is {ours}, but perf says {theirs} ({file})"
    );
}

/// Whether any function has a name of V8.
pub(crate) fn has_v8_names(profile: &Profile) -> bool {
    let mut functions = profile.functions.iter();
    functions.any(|function| profile.strings.get(function.name).starts_with("v8::"))
}

/// Every sample, thread and name of a recording of this Node version is what perf printed.
pub(crate) fn expect_names_of_perf(recording: &Path, version: &str, perf_script: &str) {
    let node = node(version);
    let profile = read(
        recording,
        DiskOptions {
            recording: Some(recording.to_owned()),
            symbols: node.clone().into_iter().collect(),
            ..DiskOptions::default()
        },
    );
    agrees_with_perf(version, &profile, perf_script, node.is_some());
}

/// Where nothing is given, and nothing is where it was when it was recorded, node has no names.
pub(crate) fn expect_no_names_of_unproven(recording: &Path) {
    let profile = read(
        recording,
        DiskOptions {
            recording: Some(recording.to_owned()),
            root: Some(Scratch::new().path().to_owned()),
            ..DiskOptions::default()
        },
    );
    let of_node: Vec<&str> = profile
        .functions
        .iter()
        .filter(|function| {
            let file = function.file.map(|file| profile.strings.get(file));
            file == Some("node")
        })
        .map(|function| profile.strings.get(function.name))
        .collect();
    assert!(of_node.len() > 20, "{of_node:?}");
    assert!(of_node.iter().all(|name| name.starts_with("[node+0x")));
    let remarks = profile.notes.remarks.join("\n");
    assert!(remarks.contains("node is not used for names"), "{remarks}");
    assert!(remarks.contains("--symbols"), "{remarks}");
    // The perf map beside the recording is still its own.
    assert!(profile.notes.confidence().jit_named > 0.9);
}

/// A recording of node 20 gets no names from node 26.
pub(crate) fn expect_another_version_refused(recording: &Path) {
    let Some(other) = node("26.10.0") else {
        return;
    };
    let profile = read(
        recording,
        DiskOptions {
            symbols: vec![other],
            ..DiskOptions::default()
        },
    );
    assert!(!has_v8_names(&profile));
}
