//! The real inputs beside the project, with what the field's own tools say of them.

use std::path::{Path, PathBuf};

/// A file or folder of the corpus.
pub(crate) fn corpus(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/corpus")
        .join(name)
}
