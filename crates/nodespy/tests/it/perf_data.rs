//! perf.data against what perf itself says of it: every sample, thread and frame.

use std::fs;
use std::path::{Path, PathBuf};

use nodespy_formats::{ImportOptions, import_file};
use nodespy_model::{Category, Function, Profile, Sample};
use nodespy_symbolize::{DiskOptions, DiskOrigin, JitKind, JitName, ResolveOptions, resolve};

use crate::run::run_nodespy;
use crate::scratch::Scratch;

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn corpus() -> PathBuf {
    project().join("../shared/corpus/perf-data")
}

/// The binary that was recorded, where `tools/setup.sh` has installed it.
fn node(version: &str) -> Option<PathBuf> {
    let path = project().join(format!("target/nodes/{version}/bin/node"));
    path.exists().then_some(path)
}

fn read(path: &Path, options: DiskOptions) -> Profile {
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
struct Printed {
    thread: String,
    tid: u32,
    /// Leaf first: address, name, file.
    frames: Vec<(u64, String, String)>,
}

fn printed(text: &str) -> Vec<Printed> {
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
fn frames(profile: &Profile, sample: &Sample) -> Vec<String> {
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
    // Thunks and functions inside of functions are written in other ways.
    let is_thunk = ours.contains("thunk(") && theirs.contains("thunk to");
    let is_local =
        |name: &str| name.contains("::{lambda(") && name.contains("Heap::CollectGarbage");
    ours == theirs
        || ALIASES.contains(&(ours, theirs))
        || is_thunk
        || (is_local(ours) && is_local(theirs))
}

/// The number of process in the corpus, and what it ran.
const RECORDED: [(&str, &str); 3] = [
    ("node18", "18.20.8"),
    ("node20", "20.20.2"),
    ("node24", "24.21.0"),
];

fn recording(name: &str) -> PathBuf {
    corpus().join(format!("{name}.perf.data"))
}

#[test]
fn every_sample_thread_and_name_agrees_with_perf() {
    for (name, version) in RECORDED {
        let node = node(version);
        let profile = read(
            &recording(name),
            DiskOptions {
                recording: Some(recording(name)),
                symbols: node.clone().into_iter().collect(),
                ..DiskOptions::default()
            },
        );
        let text = corpus().join(format!("expected/{name}.perf-script.txt"));
        let expected = printed(&fs::read_to_string(text).unwrap());
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
            let ours = frames(&profile, sample);
            assert_eq!(
                ours.len(),
                printed.frames.len(),
                "{name}: {ours:?} {printed:?}"
            );
            for (ours, theirs) in ours.iter().zip(&printed.frames) {
                check_frame(ours, theirs, node.is_some());
            }
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

#[test]
fn a_binary_that_can_not_be_proven_names_nothing() {
    // Nothing is given, and nothing is where it was when it was recorded.
    let path = recording("node20");
    let profile = read(
        &path,
        DiskOptions {
            recording: Some(path.clone()),
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

#[test]
fn another_version_of_the_binary_is_refused() {
    let Some(other) = node("24.21.0") else {
        eprintln!("skipped: node 24 is not installed (tools/setup.sh)");
        return;
    };
    let path = recording("node20");
    let profile = read(
        &path,
        DiskOptions {
            symbols: vec![other],
            ..DiskOptions::default()
        },
    );
    let has_v8_name = |function: &Function| profile.strings.get(function.name).starts_with("v8::");
    assert!(!profile.functions.iter().any(has_v8_name));
}

#[test]
fn a_map_is_taken_by_its_number_or_for_the_only_process() {
    let scratch = Scratch::new();
    let map = corpus().join("node20.perf-5891.map");
    let unnamed = scratch.path().join("names.map");
    fs::copy(&map, &unnamed).unwrap();
    for map in [map, unnamed] {
        let profile = read(
            &recording("node20"),
            DiskOptions {
                maps: vec![map],
                ..DiskOptions::default()
            },
        );
        assert!(profile.notes.confidence().jit_named > 0.9);
        let turn = profile
            .functions
            .iter()
            .find(|function| profile.strings.get(function.name) == "turn");
        assert_eq!(turn.unwrap().line, 19);
    }
    let profile = read(&recording("node20"), DiskOptions::default());
    assert_eq!(profile.notes.confidence().jit_named, 0.0);
}

#[test]
fn the_command_converts_a_file_or_standard_input() {
    let scratch = Scratch::new();
    let path = recording("node24");
    let map = corpus().join("node24.perf-6235.map");
    let map = map.to_str().unwrap();
    let plain = scratch.file("plain.folded");
    run_nodespy(&["convert", path.to_str().unwrap(), &plain, "--map", map]).expect_code(0);
    let plain = fs::read_to_string(plain).unwrap();
    let total: u64 = plain
        .lines()
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(total, 354);
    assert!(plain.contains("turn /app/mix.js:19:15_[j]"));
    // The same through standard input.
    let command = format!(
        "{} convert - - --map {map} < {}",
        env!("CARGO_BIN_EXE_nodespy"),
        path.display()
    );
    let piped = std::process::Command::new("sh")
        .args(["-c", &command])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), plain);
}

fn fixture(name: &str) -> PathBuf {
    project().join("fixtures/perf_data").join(name)
}

fn read_fixture(name: &str, event: Option<&str>, symbols: Option<PathBuf>) -> Profile {
    let options = ImportOptions {
        event: event.map(str::to_owned),
        ..ImportOptions::default()
    };
    let recording = import_file(&fixture(name), &options).unwrap();
    let disk = DiskOptions {
        symbols: symbols.into_iter().collect(),
        ..DiskOptions::default()
    };
    let origin = DiskOrigin::new(disk, &recording.about);
    resolve(recording, Box::new(origin), &ResolveOptions::default())
}

#[test]
fn pipes_compressed_records_and_mapped_build_ids_give_what_perf_says() {
    for (name, samples) in [
        ("pipe.perf.data", 7),
        ("zstd.perf.data", 24),
        ("buildid.perf.data", 10),
    ] {
        let node = node("20.20.2");
        let folder = node.as_ref().map(|node| node.parent().unwrap().to_owned());
        let profile = read_fixture(name, None, folder);
        assert_eq!(profile.samples.len(), samples, "{name}");
        assert_eq!(profile.samples[0].time, 0, "{name}");
        assert_eq!(profile.about.event, "cpu-clock", "{name}");
        let has_start = |function: &Function| profile.strings.get(function.name) == "node::Start";
        // Neither a pipe nor, with perf 6.1, a compressed file holds build-ids: nothing proves a
        // binary that is found, and only one given by itself is taken at its giver's word.
        let is_proven = name == "buildid.perf.data" && node.is_some();
        assert_eq!(profile.functions.iter().any(has_start), is_proven, "{name}");
        let given = read_fixture(name, None, node.clone());
        let has_start = |function: &Function| given.strings.get(function.name) == "node::Start";
        assert_eq!(
            given.functions.iter().any(has_start),
            node.is_some(),
            "{name}"
        );
    }
}

#[test]
fn several_events_are_kept_apart() {
    let shown = read_fixture("events.perf.data.gz", None, None);
    assert_eq!(shown.samples.len(), 143);
    assert_eq!(shown.about.event, "cpu-clock");
    let remarks = shown.notes.remarks.join("\n");
    assert!(remarks.contains("context-switches (128)"), "{remarks}");
    let other = read_fixture("events.perf.data.gz", Some("context-switches"), None);
    assert_eq!(other.samples.len(), 128);
    assert_eq!(other.about.event, "context-switches");
}

#[test]
fn stack_copies_are_unwound_through_javascript_to_the_root() {
    let Some(node) = node("20.20.2") else {
        eprintln!("skipped: node 20 is not installed (tools/setup.sh)");
        return;
    };
    // perf itself ends at the first frame of JavaScript.
    let profile = read_fixture("dwarf.perf.data.gz", None, Some(node));
    assert_eq!(profile.samples.len(), 5);
    assert_eq!(profile.notes.unwound_stacks, 5);
    for sample in &profile.samples {
        let frames = frames(&profile, sample);
        assert!(
            frames.iter().any(|name| name == "node::Start"),
            "{frames:?}"
        );
        let is_entry = |name: &String| name == "Builtins_JSEntry";
        assert!(frames.iter().any(is_entry), "{frames:?}");
    }
}

#[test]
fn a_root_does_not_lead_outside_itself() {
    let scratch = Scratch::new();
    let Some(node) = node("20.20.2") else {
        eprintln!("skipped: node 20 is not installed (tools/setup.sh)");
        return;
    };
    let node = node.canonicalize().unwrap();
    let inside = scratch.path().join("opt/node20/bin");
    fs::create_dir_all(&inside).unwrap();
    let read_in_root = || {
        let path = recording("node20");
        let profile = read(
            &path,
            DiskOptions {
                root: Some(scratch.path().to_owned()),
                ..DiskOptions::default()
            },
        );
        let is_v8 = |function: &Function| profile.strings.get(function.name).starts_with("v8::");
        profile.functions.iter().any(is_v8)
    };
    // The right binary, but outside the root.
    std::os::unix::fs::symlink(&node, inside.join("node")).unwrap();
    assert!(!read_in_root());
    fs::remove_file(inside.join("node")).unwrap();
    fs::copy(&node, inside.join("node")).unwrap();
    assert!(read_in_root());
}
