//! The recordings of `fixtures/`, and what the field's own tools print of them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// A file or folder of `fixtures/`.
pub(crate) fn fixture(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name);
    assert!(path.exists(), "no {}", path.display());
    path
}

/// A text of `fixtures/`, unpacked when its name ends in `.gz`.
pub(crate) fn fixture_text(name: &str) -> String {
    let bytes = fs::read(fixture(name)).unwrap();
    if !name.ends_with(".gz") {
        return String::from_utf8(bytes).unwrap();
    }
    let mut text = String::new();
    let mut unpacked = flate2::read::GzDecoder::new(&bytes[..]);
    unpacked.read_to_string(&mut text).unwrap();
    text
}
