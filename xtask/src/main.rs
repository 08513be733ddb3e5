//! Chores of the project, each a word: `cargo run -p xtask -- golden | licences | v8-probe |
//! viewer-tables`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a chore reports on the terminal"
)]
#![forbid(unsafe_code)]

mod licences;
mod third_party;
mod v8_probe;
mod viewer_tables;

use std::path::Path;
use std::process::{Command, ExitCode};

type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let chore = std::env::args().nth(1).unwrap_or_default();
    let done = match chore.as_str() {
        "golden" => rewrite_golden_files(),
        "licences" => licences::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        "v8-probe" => v8_probe::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        "viewer-tables" => viewer_tables::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        _ => {
            eprintln!(
                "usage: cargo run -p xtask -- CHORE\n\n  \
                 golden     rewrite the golden files from today's output; review the diff like code\n  \
                 licences   [--write]: compare the licences of all dependencies with deny.toml and THIRD-PARTY.md\n  \
                 v8-probe   [--check] [NODE...]: find what V8 does not export, compare it with the table; try every way to await\n  \
                 viewer-tables   [--check]: write the tables and test vectors that the page shares with Rust"
            );
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{chore}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the checkout.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies inside the checkout")
}

/// The cargo that runs this.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs every test with `golden` in its name and lets it write instead of compare.
fn rewrite_golden_files() -> Result<(), Failure> {
    let status = cargo()
        .args(["test", "--workspace", "--quiet", "golden"])
        .env("NODESPY_REWRITE_GOLDEN", "1")
        .status()?;
    if !status.success() {
        return Err("a golden test ended with an error of its own".into());
    }
    println!("golden files are rewritten; look at: git diff fixtures");
    Ok(())
}
