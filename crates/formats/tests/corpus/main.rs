//! What only files of other projects prove: `make test-corpus`.
//!
//! The files are read from the folder that `NODESPY_CORPUS` names.

mod chrome_trace;
#[path = "../support/chrome_trace_claims.rs"]
mod chrome_trace_claims;
#[path = "../support/convert.rs"]
mod convert;
mod cpuprofile;
#[path = "../support/cpuprofile_claims.rs"]
mod cpuprofile_claims;
mod heapprofile;
#[path = "../support/heapprofile_claims.rs"]
mod heapprofile_claims;
mod hostile;
#[path = "../support/in_words.rs"]
mod in_words;
#[path = "../support/mutate.rs"]
mod mutate;
mod perf_data;
#[path = "../support/perf_data_claims.rs"]
mod perf_data_claims;
mod perf_script;
mod pprof;
#[path = "../support/preprocessed_claims.rs"]
mod preprocessed_claims;
mod speedscope;
mod v8_log;
mod v8_preprocessed;

use std::path::PathBuf;

/// A file of the corpus.
pub(crate) fn corpus(name: &str) -> Vec<u8> {
    let folder = std::env::var_os("NODESPY_CORPUS")
        .expect("NODESPY_CORPUS has to name the folder of foreign recordings");
    let path = PathBuf::from(folder).join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
