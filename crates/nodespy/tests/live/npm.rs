//! The npm packages: packed, installed into an empty folder, and run as `npx` does.

use std::path::Path;
use std::process::Command;

use crate::live;
use crate::run::{Outcome, run};
use crate::scratch::Scratch;
use crate::skip::skip;
use crate::workload::{Workload, root};

fn succeed(command: Command) -> Outcome {
    let outcome = run(command);
    outcome.expect_code(0);
    outcome
}

/// A folder with both packages installed, from their archives alone.
fn installed() -> Scratch {
    let scratch = Scratch::new();
    let (binary, packed) = (scratch.file("nodespy"), scratch.file("packed"));
    // Debug information would take npm a minute.
    let mut strip = Command::new("strip");
    strip.args(["-o", &binary, env!("CARGO_BIN_EXE_nodespy")]);
    succeed(strip);
    let mut pack = Command::new(root().join("tools/npm.sh"));
    pack.args([&binary, &packed]);
    succeed(pack);
    let archives = std::fs::read_dir(&packed).unwrap();
    let archives: Vec<_> = archives.map(|archive| archive.unwrap().path()).collect();
    assert_eq!(archives.len(), 2, "{archives:?}");
    let folder = scratch.file("app");
    std::fs::create_dir(&folder).unwrap();
    let mut npm = Command::new("npm");
    npm.current_dir(&folder)
        .args(["install", "--offline", "--no-audit", "--no-fund"])
        .args(archives);
    succeed(npm);
    scratch
}

/// Runs the installed command with these options of Node.
fn npx(scratch: &Scratch, node_options: &str, arguments: &[&str]) -> Outcome {
    let mut command = Command::new("npx");
    command
        .current_dir(scratch.file("app"))
        .env("NODE_OPTIONS", node_options)
        .args(["--offline", "--no", "nodespy", "--"])
        .args(arguments);
    run(command)
}

#[test]
fn what_is_packed_installs_and_records() {
    let Some(_live) = live() else { return };
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    if !has("npm") || !has("strip") {
        return skip("npm and strip make the packages");
    }
    let scratch = installed();
    let modules = scratch.file("app/node_modules");
    for file in [
        "nodespy/README.md",
        "nodespy/LICENSE-MIT",
        "nodespy-linux-x64/README.md",
        "nodespy-linux-x64/THIRD-PARTY.md",
    ] {
        assert!(Path::new(&modules).join(file).is_file(), "{file}");
    }
    let version = npx(&scratch, "", &["--version"]);
    assert!(
        version.stdout.contains(env!("CARGO_PKG_VERSION")),
        "{version}"
    );

    let workload = Workload::new("split.js").start();
    let pid = workload.pid().to_string();
    let recorded = npx(
        &scratch,
        "",
        &["record", "-p", &pid, "-d", "2", "-o", "out.html"],
    );
    recorded.expect_code(0);
    assert!(recorded.stdout.contains("seventyPercent"), "{recorded}");
    assert!(Path::new(&scratch.file("app/out.html")).is_file());
    // It ends as the binary does.
    npx(&scratch, "", &["record", "--no-such-option"]).expect_code(2);

    // Preloaded into npx too, which does not mind.
    let other = scratch.file("other.js");
    let fake = "Object.defineProperty(process, 'platform', { value: 'darwin' });";
    std::fs::write(
        &other,
        format!("if (/nodespy/.test(process.argv[1])) {fake}"),
    )
    .unwrap();
    let elsewhere = npx(&scratch, &format!("--require {other}"), &["--version"]);
    elsewhere.expect_code(1);
    elsewhere.expect_stderr(&["only Linux on x86-64", "darwin-x64"]);
    // As on Alpine, where the loader of the binary is missing.
    let binary = scratch.file("app/node_modules/nodespy-linux-x64/bin/nodespy");
    std::fs::write(&binary, "#!/no/such/loader\n").unwrap();
    let without_loader = npx(&scratch, "", &["--version"]);
    without_loader.expect_code(1);
    without_loader.expect_stderr(&["needs glibc", "record -c CONTAINER"]);
    std::fs::remove_dir_all(scratch.file("app/node_modules/nodespy-linux-x64")).unwrap();
    let alone = npx(&scratch, "", &["--version"]);
    alone.expect_code(1);
    alone.expect_stderr(&["--include=optional"]);
}
