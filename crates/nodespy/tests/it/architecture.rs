//! The drawing of the crates stays true: the manifests are read and compared with it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What each crate may use of ours. Level by level, as ARCHITECTURE.md draws it: arrows point down
/// only, the crates of level 1 never use one another, and `inspector` does not know profiles.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("perf-abi", &[]),
    ("formats", &["model", "perf-abi"]),
    ("symbolize", &["model"]),
    ("view", &["model"]),
    ("inspector", &[]),
    ("capture", &["model", "perf-abi", "formats", "inspector"]),
    ("server", &["model", "formats", "symbolize", "view"]),
    (
        "nodespy",
        &[
            "model",
            "formats",
            "symbolize",
            "view",
            "inspector",
            "capture",
            "server",
        ],
    ),
];

/// Where capture and formats may name registers.
const MACHINE_FILES: &[&str] = &["capture/src/sys/ptrace.rs"];

/// What only code that depends on the machine has: registers by name or as the kernel's numbers,
/// the end of user addresses.
const MACHINE_WORDS: &[&str] = &[
    "user_regs_struct",
    ".rax",
    ".rip",
    "16, 17, 18, 19, 20, 21, 22, 23",
    "1 << 47",
    "0x7fff_ffff_f000",
];

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
fn crates_use_one_another_only_as_drawn() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut seen = 0;
    for entry in fs::read_dir(crates).unwrap() {
        let folder = entry.unwrap().path();
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else {
            continue;
        };
        let name = folder.file_name().unwrap().to_str().unwrap();
        let (_, allowed) = ARROWS
            .iter()
            .find(|(drawn, _)| *drawn == name)
            .unwrap_or_else(|| panic!("crates/{name} is not in the drawing"));
        for arrow in arrows_of(&manifest) {
            assert!(
                allowed.contains(&arrow.as_str()),
                "crates/{name} must not use {arrow}: the drawing allows {allowed:?}"
            );
        }
        seen += 1;
    }
    assert!(
        seen >= 3,
        "only {seen} manifests under {}",
        crates.display()
    );
}

/// Every Rust file below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn registers_and_address_limits_of_the_machine_are_in_perf_abi() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut files = Vec::new();
    for name in ["capture/src", "formats/src"] {
        sources(&crates.join(name), &mut files);
    }
    assert!(files.len() > 50, "only {} files", files.len());
    for file in files {
        let name = file.strip_prefix(crates).unwrap().to_str().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        let found = MACHINE_WORDS.iter().find(|word| text.contains(**word));
        match MACHINE_FILES.contains(&name) {
            true => assert!(found.is_some(), "{name} no longer depends on the machine"),
            false => assert_eq!(
                found, None,
                "crates/{name}: this belongs into crates/perf-abi/src/x86_64.rs"
            ),
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
