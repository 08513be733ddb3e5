//! Is what the summary says true: programs that spend half of their time in a known way, and one
//! that does nothing worth a word.

use std::ops::RangeInclusive;

use super::live;
use super::recorded::{Recorded, record};
use super::workload::Workload;

/// What the summary of `blocking.js` says stands out.
fn said_of(what: &'static str) -> Option<(Vec<String>, Recorded)> {
    // A single match lasts for up to 0.4 s of CPU time: several on a busy machine too.
    let seconds = if what == "backtrack" { "10" } else { "3" };
    said_of_program("blocking.js", what, seconds)
}

/// What the summary of a program says stands out, recorded for so many seconds.
fn said_of_program(
    program: &str,
    what: &'static str,
    seconds: &str,
) -> Option<(Vec<String>, Recorded)> {
    let _live = live()?;
    let target = Workload::new(program).env("WHAT", what).start();
    let recorded = record(&target, &["-d", seconds, "-F", "499", "--no-subprocesses"]);
    let lines = recorded.outcome.stdout.lines();
    let said = lines.filter_map(|line| line.strip_prefix("• "));
    let said = said.map(str::to_owned).collect();
    Some((said, recorded))
}

/// Fails unless a finding with these words claims a share near a half, and leads to the program.
#[track_caller]
fn expect_half(what: &'static str, words: &str) {
    expect_share_between(what, words, 30.0..=70.0);
}

#[track_caller]
fn expect_share_between(what: &'static str, words: &str, shares: RangeInclusive<f64>) {
    let Some((said, recorded)) = said_of(what) else {
        return;
    };
    let finding = said.iter().find(|finding| finding.contains(words));
    let finding = finding.unwrap_or_else(|| panic!("{said:?}\n{}", recorded.outcome.stdout));
    let (before, _) = finding.split_once(" %").unwrap();
    let number = before.rsplit(' ').next().unwrap();
    let share: f64 = number.parse().unwrap();
    assert!(shares.contains(&share), "{finding}");
    assert!(finding.contains("blocking.js"), "{finding}");
}

#[test]
fn synchronous_reading_is_said() {
    expect_half("fs", "Synchronous file system calls take");
}

#[test]
fn synchronous_compression_is_said() {
    expect_half("zlib", "Synchronous zlib calls take");
}

#[test]
fn hashing_is_said() {
    expect_half("crypto", "Crypto takes");
}

#[test]
fn parsing_is_said() {
    expect_half("json", "JSON takes");
}

#[test]
fn many_short_matches_are_said_to_take_time_and_not_to_backtrack() {
    // Half of that half is the loop around them.
    expect_share_between("regexp", "Regular expressions take", 12.0..=60.0);
}

#[test]
fn matches_that_backtrack_are_said_to() {
    expect_half("backtrack", "it backtracks");
}

#[test]
fn the_kernel_is_said_with_its_caller() {
    expect_half("kernel", "The kernel takes");
}

#[test]
fn synchronous_child_processes_are_said() {
    expect_half("child", "Synchronous child processes take");
}

#[test]
fn a_function_that_is_deoptimized_again_and_again_is_said() {
    let Some((said, recorded)) = said_of_program("tiers.js", "deoptimized", "6") else {
        return;
    };
    let words = "tiers.js:19 fell back from optimized code at least";
    let is_said = said.iter().any(|finding| finding.contains(words));
    assert!(is_said, "{said:?}\n{}", recorded.outcome.stdout);
}

#[test]
fn a_hot_function_that_stays_interpreted_is_said() {
    let Some((said, recorded)) = said_of_program("tiers.js", "interpreted", "6") else {
        return;
    };
    let words = "tiers.js:19, interpreted still after";
    let is_said = said.iter().any(|finding| finding.contains(words));
    assert!(is_said, "{said:?}\n{}", recorded.outcome.stdout);
}

#[test]
fn a_function_that_is_optimized_for_good_gets_no_word_of_its_compilers() {
    let Some((said, recorded)) = said_of_program("tiers.js", "optimized", "6") else {
        return;
    };
    for words in ["fell back", "interpreted", "dropped optimized code"] {
        let is_said = said.iter().any(|finding| finding.contains(words));
        assert!(!is_said, "{words}: {said:?}\n{}", recorded.outcome.stdout);
    }
}

#[test]
fn garbage_is_said_with_its_share() {
    let Some((said, recorded)) = said_of("garbage") else {
        return;
    };
    let finding = said.iter().find(|finding| finding.starts_with("Garbage"));
    assert!(finding.is_some(), "{said:?}\n{}", recorded.outcome.stdout);
}

#[test]
fn arithmetic_gets_no_word_but_its_own() {
    let Some((said, recorded)) = said_of("none") else {
        return;
    };
    // Where the machine is busy, that the program waited for a CPU comes first.
    let mut own = said.iter().filter(|finding| !finding.contains("waited"));
    let strongest = own.next().map(String::as_str).unwrap_or_default();
    assert!(
        strongest.contains("`spin`") || strongest.contains("spin "),
        "{said:?}"
    );
    for words in [
        "Synchronous",
        "Crypto",
        "JSON",
        "egular expression",
        "Garbage",
        "JIT",
        "Loading",
        "worker",
        "kernel",
        "without a name",
        "dependency",
        "interpreted",
        "fell back",
    ] {
        let is_said = said.iter().any(|finding| finding.contains(words));
        assert!(!is_said, "{words}: {said:?}\n{}", recorded.outcome.stdout);
    }
}
