//! The drawing of the crates stays true: the manifests are read and compared with it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The arrows that ARCHITECTURE.md draws, as `formats → model analysis`: what each crate uses of ours.
fn drawn() -> BTreeMap<String, BTreeSet<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, section) = text.split_once("## Crates").unwrap();
    let (_, block) = section.split_once("```text").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let lines = block.lines().filter_map(|line| line.split_once('→'));
    lines
        .map(|(from, to)| {
            let from = from.split_whitespace().last().unwrap();
            let to = to.split_whitespace().map(str::to_owned);
            (from.to_owned(), to.collect())
        })
        .collect()
}

/// Our crates that a manifest depends on, whatever the kind of dependency.
fn arrows_of(manifest: &str) -> BTreeSet<String> {
    let mut arrows = BTreeSet::new();
    let mut is_dependencies = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            // `[dependencies.nodespy-model]` is an entry of its own.
            let (section, entry) = match section.rsplit_once("dependencies.") {
                Some((before, entry)) => (format!("{before}dependencies"), Some(entry)),
                None => (section.to_owned(), None),
            };
            is_dependencies = section.ends_with("dependencies");
            if is_dependencies {
                arrows.extend(entry.and_then(ours));
            }
        } else if is_dependencies {
            let name = line.split(['=', '.', ' ']).next().unwrap_or_default();
            arrows.extend(ours(name));
        }
    }
    arrows
}

fn ours(name: &str) -> Option<String> {
    name.trim_matches('"')
        .strip_prefix("nodespy-")
        .map(str::to_owned)
}

#[test]
fn crates_use_one_another_as_drawn() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else {
            continue;
        };
        let name = folder.file_name().unwrap().to_str().unwrap();
        found.insert(name.to_owned(), arrows_of(&manifest));
    }
    assert_eq!(
        found,
        drawn(),
        "the manifests, and what ARCHITECTURE.md draws"
    );
}

#[test]
fn arrows_point_down_only() {
    let drawn = drawn();
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    while placed.len() < drawn.len() {
        let before = placed.len();
        for (name, arrows) in &drawn {
            if arrows.iter().all(|arrow| placed.contains(&**arrow)) {
                placed.insert(name);
            }
        }
        assert!(placed.len() > before, "crates use one another in a circle");
    }
}

/// Words of source text that only the module of a machine may hold: names of its registers, bounds
/// of its address space, and bytes of its instructions.
const MACHINE_WORDS: &[&str] = &[
    "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r12", "r13", "r14", "r15",
    "47", "0x1_0000", "0xe8", "0xe9", "0xc2", "0xc3", "0x55", "0x57", "0x5f", "0x6a",
];

/// The lines of a source file that hold such a word, without its tests.
fn machine_lines(text: &str) -> Vec<&str> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let is_word = |byte: char| !byte.is_alphanumeric() && byte != '_';
    let has_word = |line: &&str| {
        line.split(is_word)
            .any(|word| MACHINE_WORDS.contains(&word))
    };
    code.lines().filter(has_word).collect()
}

/// What may depend on the machine, in the crates that touch registers, addresses and instructions.
const MACHINE_MODULES: &[&str] = &[
    "model/src/x86_64.rs",
    "perf-abi/src/x86_64.rs",
    "symbolize/src/x86_64.rs",
    "symbolize/src/x86_64/epilogue.rs",
    "capture/src/sys/ptrace.rs",
];

#[test]
fn machine_constants_are_in_one_module_of_each_crate() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let architecture = fs::read_to_string(crates.join("../ARCHITECTURE.md")).unwrap();
    for module in MACHINE_MODULES {
        let text = fs::read_to_string(crates.join(module)).unwrap();
        assert!(!machine_lines(&text).is_empty(), "{module} has such words");
        assert!(architecture.contains(module), "{module} is described");
    }
    for name in [
        "model",
        "perf-abi",
        "symbolize",
        "capture",
        "formats",
        "recorder",
    ] {
        for (path, text) in sources_in(&crates.join(name).join("src")) {
            let is_machine = MACHINE_MODULES.iter().any(|module| path.ends_with(module));
            let lines = machine_lines(&text);
            assert!(
                is_machine || lines.is_empty(),
                "{}: {lines:#?}",
                path.display()
            );
        }
    }
}

/// Every Rust file below a folder, with its text.
fn sources_in(folder: &Path) -> Vec<(std::path::PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources_in(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}

#[test]
fn targets_know_nothing_of_engines() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let sources = sources_in(&crates.join("capture/src/target"));
    assert!(sources.len() > 10, "{} files", sources.len());
    for (path, text) in sources {
        for upward in ["crate::engines", "crate::new_processes", "crate::list"] {
            assert!(!text.contains(upward), "{} uses {upward}", path.display());
        }
    }
}

#[test]
fn manifests_are_read_in_every_spelling() {
    let manifest = "
        [package]
        name = \"nodespy-other\"
        [dependencies]
        nodespy-model.workspace = true
        nodespy-view = { path = \"../view\" }
        libc = \"0.2\"
        [target.'cfg(unix)'.dependencies.nodespy-formats]
        workspace = true
        [dev-dependencies]
        nodespy-capture = \"0.1\"
        [lints]
        nodespy-server = 1
    ";
    let arrows: Vec<String> = arrows_of(manifest).into_iter().collect();
    assert_eq!(arrows, ["capture", "formats", "model", "view"]);
}

/// Weights of two events are never added: whatever sums them up checks that there is one, or goes
/// by the event.
#[test]
fn analysis_adds_the_weights_of_one_event_only() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let sources = crates.join("analysis/src");
    let mut sums = 0;
    for folder in [sources.clone(), sources.join("transform")] {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let Ok(text) = fs::read_to_string(&path) else {
                continue;
            };
            if text.contains("saturating_add(sample.weight") {
                sums += 1;
                let is_checked = ["assert_one_event()", "it.event == event", "sample.event"];
                let is_checked = is_checked.iter().any(|check| text.contains(check));
                assert!(is_checked, "{}", path.display());
            }
        }
    }
    assert!(sums > 3);
}
