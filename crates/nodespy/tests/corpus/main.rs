//! What only files of other projects prove: `make test-corpus`.
//!
//! The files are read from the folder that `NODESPY_CORPUS` names.

#![allow(clippy::print_stderr, reason = "a test that skips says so")]

mod collapse;
#[path = "../support/collapsed.rs"]
mod collapsed;
mod flamegraph;
#[path = "../support/installed_node.rs"]
mod installed_node;
mod perf_data;
#[path = "../support/perf_text.rs"]
mod perf_text;
#[path = "../support/prof_report.rs"]
mod prof_report;
#[allow(dead_code, reason = "`tests/live` uses the rest")]
#[path = "../support/run.rs"]
mod run;
#[allow(dead_code, reason = "`tests/live` uses the rest")]
#[path = "../support/scratch.rs"]
mod scratch;
#[path = "../support/skip.rs"]
mod skip;
mod v8_log_report;

use std::path::PathBuf;

/// A file or folder of the corpus.
pub(crate) fn corpus(name: &str) -> PathBuf {
    let folder = std::env::var_os("NODESPY_CORPUS")
        .expect("NODESPY_CORPUS has to name the folder of foreign recordings");
    let path = PathBuf::from(folder).join(name);
    assert!(path.exists(), "the corpus has no {name}");
    path
}
