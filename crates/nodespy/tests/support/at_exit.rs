//! Cleaning up after the last test of a process.
//!
//! What all tests of a process share (a browser, a container engine) lives in a static, which Rust
//! never drops. A shell waits for the end of the process instead, so that a killed run leaves nothing
//! behind either.

use std::process::{Command, Stdio};

/// Runs a shell script with `arguments` (`$0`, `$1`, …) once this process has ended.
pub(crate) fn at_exit(script: &str, arguments: &[&str]) {
    let waiting = Command::new("sh")
        .args(["-c", &format!("cat >/dev/null; {script}")])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The kernel closes the pipe when the process is gone.
    std::mem::forget(waiting);
}
