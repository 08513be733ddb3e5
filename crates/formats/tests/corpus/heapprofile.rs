//! V8's heap profiles.

use nodespy_model::Category;

use crate::corpus;
use crate::heapprofile_claims::{all_bytes_are_there, comes_back_as_it_was};

const FILE: &str = "heapprofile/node10.heapprofile";

#[test]
fn the_bytes_of_a_real_file_are_all_there() {
    let profile = all_bytes_are_there(&corpus(FILE));
    let is_core = |name: &str| {
        let mut functions = profile.functions.iter();
        functions.any(|function| {
            profile.strings.get(function.name) == name && function.category == Category::NodeCore
        })
    };
    assert!(is_core("emitTwo") && is_core("_tickDomainCallback"));
}

#[test]
fn what_is_written_reads_back() {
    comes_back_as_it_was(&corpus(FILE));
}
