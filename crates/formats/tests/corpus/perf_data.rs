//! perf.data: what a file must not do to its reader.

use nodespy_formats::{ImportOptions, import};

use crate::perf_data_claims::{
    a_lie_about_a_size_is_named_by_its_byte, chains, cut_off_it_gives_what_comes_before,
    of_aarch64, other_machines_are_refused_with_a_sentence, read,
};

fn corpus(name: &str) -> Vec<u8> {
    crate::corpus(&format!("perf-data/{name}"))
}

#[test]
fn every_sample_is_handed_over_in_order_of_time() {
    for (name, count) in [("node18", 293), ("node20", 261), ("node24", 354)] {
        let (samples, remarks) = read(corpus(&format!("{name}.perf.data"))).unwrap();
        assert_eq!((samples, remarks), (count, vec![]), "{name}");
    }
}

#[test]
fn a_file_that_is_cut_off_gives_what_comes_before() {
    cut_off_it_gives_what_comes_before(&corpus("node20.perf.data"), 261);
}

#[test]
fn a_record_that_lies_about_its_size_is_named_by_its_byte() {
    a_lie_about_a_size_is_named_by_its_byte(corpus("node20.perf.data"), 261);
}

#[test]
fn other_machines_are_refused() {
    other_machines_are_refused_with_a_sentence(&corpus("node20.perf.data"));
}

#[test]
fn chains_of_another_architecture_are_kept() {
    let here = corpus("node20.perf.data");
    let (ours, remarks) = chains(here.clone());
    assert!(remarks.is_empty());
    assert_eq!(chains(of_aarch64(here)), (ours, vec![]));
}

#[test]
fn an_event_that_is_not_there_is_answered_with_those_that_are() {
    let options = ImportOptions {
        event: Some("cycles".to_owned()),
        ..ImportOptions::default()
    };
    let error = import(corpus("node20.perf.data").into(), &options).unwrap_err();
    assert_eq!(
        error.to_string(),
        "there is no \"cycles\" in the file; it holds cpu-clock"
    );
}
