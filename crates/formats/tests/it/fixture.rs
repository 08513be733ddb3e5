//! The recordings of `fixtures/`, and what the field's own tools print of them.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures")
}

/// A file of `fixtures/`, unpacked when its name ends in `.gz`.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let path = folder().join(name);
    let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if !name.ends_with(".gz") {
        return bytes;
    }
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..])
        .read_to_end(&mut unpacked)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    unpacked
}

/// A text of `fixtures/`.
pub(crate) fn fixture_text(name: &str) -> String {
    String::from_utf8(fixture(name)).unwrap()
}

/// The first cells of a README's table.
fn listed(readme: &str) -> BTreeSet<String> {
    let rows = readme.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = rows.filter_map(|row| Some(row.split_once(" |")?.0.to_owned()));
    cells.filter(|cell| cell != "file").collect()
}

#[test]
fn every_readme_lists_the_files_beside_it_and_no_others() {
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let readme = fs::read_to_string(path.join("README.md"));
        let readme = readme.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let files = fs::read_dir(&path).unwrap().map(|entry| entry.unwrap());
        let names = files.map(|file| file.file_name().into_string().unwrap());
        let mut present: BTreeSet<String> = names.collect();
        present.remove("README.md");
        assert_eq!(listed(&readme), present, "{}", path.display());
    }
}

#[test]
fn fixtures_stay_small() {
    let folders = fs::read_dir(folder()).unwrap();
    let files = folders.flat_map(|entry| fs::read_dir(entry.unwrap().path()).unwrap());
    let bytes: u64 = files
        .map(|file| file.unwrap().metadata().unwrap().len())
        .sum();
    assert!(bytes < 15 << 20, "{bytes} bytes");
}
