//! The npm packages: packed, installed into an empty folder, and run.

use std::path::Path;
use std::process::{Command, Output};

use crate::run::DEADLINE;
use crate::scratch::Scratch;
use crate::skip::skip;

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[track_caller]
fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

/// A folder with both packages installed, from their archives alone.
fn installed() -> Scratch {
    let scratch = Scratch::new();
    let (binary, packed) = (scratch.file("nodespy"), scratch.file("packed"));
    // Debug information would take npm a minute.
    succeed(Command::new("strip").args(["-o", &binary, env!("CARGO_BIN_EXE_nodespy")]));
    succeed(Command::new(root().join("tools/npm.sh")).args([&binary, &packed]));
    let archives = std::fs::read_dir(&packed).unwrap();
    let archives: Vec<_> = archives.map(|archive| archive.unwrap().path()).collect();
    assert_eq!(archives.len(), 2, "{archives:?}");
    let folder = scratch.file("app");
    std::fs::create_dir(&folder).unwrap();
    let mut npm = Command::new("npm");
    npm.current_dir(&folder)
        .args(["install", "--offline", "--no-audit", "--no-fund"])
        .args(archives);
    succeed(&mut npm);
    scratch
}

fn run(scratch: &Scratch, arguments: &[&str]) -> Output {
    let program = Path::new(&scratch.file("app")).join("node_modules/.bin/nodespy");
    let seconds = DEADLINE.as_secs().to_string();
    let mut command = Command::new("timeout");
    command.arg(seconds).arg(program).args(arguments);
    command.output().unwrap()
}

#[test]
fn what_is_packed_installs_and_runs() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("npm") || !has("strip") {
        return skip("npm and strip make the packages");
    }
    let scratch = installed();
    let version = run(&scratch, &["--version"]);
    let said = String::from_utf8_lossy(&version.stdout).into_owned();
    assert!(said.contains(env!("CARGO_PKG_VERSION")), "{version:?}");
    // It ends as the binary does.
    let misused = run(&scratch, &["record", "--no-such-option"]);
    assert_eq!(misused.status.code(), Some(2), "{misused:?}");
    std::fs::remove_dir_all(scratch.file("app/node_modules/nodespy-linux-x64")).unwrap();
    let alone = run(&scratch, &["--version"]);
    let said = String::from_utf8_lossy(&alone.stderr).into_owned();
    assert_eq!(alone.status.code(), Some(1), "{alone:?}");
    assert!(said.contains("--include=optional"), "{said}");
}
