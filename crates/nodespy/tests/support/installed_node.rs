//! The Node binaries that recordings were made of.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip::skip;

/// The binary of a version, installed when it is missing. None where it can't be installed, with the
/// reason printed; with `NODESPY_REQUIRE_LIVE=1` that is a failure.
pub(crate) fn node(version: &str) -> Option<PathBuf> {
    let installer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/node.sh");
    let output = Command::new(&installer)
        .arg(version)
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", installer.display()));
    if output.status.success() {
        return Some(PathBuf::from(
            String::from_utf8(output.stdout).unwrap().trim(),
        ));
    }
    let why = String::from_utf8_lossy(&output.stderr);
    skip(&format!(
        "node {version} can't be installed: {}",
        why.trim()
    ));
    None
}
