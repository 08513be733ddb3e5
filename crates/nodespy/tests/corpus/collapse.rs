//! `nodespy collapse` in place of `stackcollapse-perf.pl`: the same bytes for the same text.

use std::fs;

use crate::collapsed::collapsed;
use crate::corpus;

#[test]
fn every_file_and_option_gives_the_original_s_bytes() {
    let mut compared = 0;
    for entry in fs::read_dir(corpus("perf-script/expected")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let (input, option) = name.split_once("-collapsed").unwrap();
        let option = format!("-{option}");
        let options: &[&str] = if option == "-" { &[] } else { &[&option] };
        let input = corpus("perf-script").join(format!("{input}.txt"));
        let expected = fs::read_to_string(&path).unwrap();
        assert_eq!(collapsed(options, &input), expected, "{name}");
        compared += 1;
    }
    assert!(compared >= 40, "only {compared} files");
}

#[test]
fn what_perf_says_of_node_gives_the_original_s_bytes() {
    for version in ["node18", "node20", "node24"] {
        let folder = corpus("perf-data/expected");
        let input = folder.join(format!("{version}.perf-script.txt"));
        let expected = fs::read_to_string(folder.join(format!("{version}.collapsed-all.txt")));
        assert_eq!(
            collapsed(&["--all"], &input),
            expected.unwrap(),
            "{version}"
        );
    }
}
