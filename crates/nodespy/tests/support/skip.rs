//! Skipping a test for lack of something, so that it is seen at the end of the run.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// Notes why the running test is skipped; `NODESPY_REQUIRE_LIVE=1` makes that a failure. The test
/// runner hides what a passing test prints, so `tools/test.sh` prints the notes after the last test.
#[track_caller]
pub(crate) fn skip(why: &str) {
    assert!(
        std::env::var_os("NODESPY_REQUIRE_LIVE").is_none_or(|value| value != "1"),
        "NODESPY_REQUIRE_LIVE=1, but {why}"
    );
    eprintln!("skipped: {why}");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("skipped");
    let mut file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // One write, because other processes append to the same file.
    file.write_all(format!("{why}\t{test}\n").as_bytes())
        .unwrap();
}
