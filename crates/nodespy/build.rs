//! What `nodespy --version` says of the build: the commit and the target.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=NODESPY_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    // Written at each commit and checkout.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"])
        && Path::new(&log).exists()
    {
        println!("cargo::rerun-if-changed={log}");
    }
    let given = std::env::var("NODESPY_COMMIT").ok();
    if let Some(commit) = given.or_else(|| git(&["rev-parse", "--short=12", "HEAD"])) {
        println!("cargo::rustc-env=NODESPY_COMMIT={commit}");
    }
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=NODESPY_TARGET={target}");
}

/// What git says in one line; none where this is no checkout of nodespy, but a package of its sources.
fn git(arguments: &[&str]) -> Option<String> {
    if !Path::new("../../.git").exists() {
        return None;
    }
    let output = Command::new("git").args(arguments).output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    let line = line.trim();
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}
