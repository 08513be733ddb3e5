//! Files that `convert` writes: the old one stays until the new one is whole, and special files are
//! written as what they are.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use crate::fixture::fixture;
use crate::run::{Started, nodespy, run, run_nodespy};
use crate::scratch::Scratch;

fn input() -> String {
    let path = fixture("folded/py-spy.txt");
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_full_disk_costs_the_new_file_and_not_the_old_one() {
    let scratch = Scratch::new();
    let output = scratch.file("out.html");
    fs::write(&output, "precious\n").unwrap();
    // A limit on the size of files, which is an error where its signal is ignored.
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$@\"", "sh"])
        .arg(env!("CARGO_BIN_EXE_nodespy"))
        .args(["convert", &input(), &output]);
    let outcome = run(command);
    outcome.expect_code(1).expect_stderr(&["out.html"]);
    assert_eq!(fs::read_to_string(&output).unwrap(), "precious\n");
    assert_eq!(scratch.names(), ["out.html"]);
}

#[test]
fn a_file_that_is_replaced_keeps_its_mode_and_a_link_stays_a_link() {
    let scratch = Scratch::new();
    let (output, link) = (scratch.file("out.svg"), scratch.file("link.svg"));
    fs::write(&output, "old").unwrap();
    fs::set_permissions(&output, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("out.svg", &link).unwrap();
    run_nodespy(&["convert", &input(), &link]).expect_code(0);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&output).unwrap().contains("<svg"));
    let mode = fs::metadata(&output).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    assert_eq!(scratch.names(), ["link.svg", "out.svg"]);
}

#[test]
fn standard_output_by_its_name_is_written_where_it_leads() {
    let expected = run_nodespy(&["convert", &input(), "-", "--to", "folded"]);
    expected.expect_code(0);
    let by_name = run_nodespy(&["convert", &input(), "/dev/stdout", "--to", "folded"]);
    by_name.expect_code(0);
    assert_eq!(by_name.stdout, expected.stdout);
    // Redirected to a file, which must stay the file that the shell opened.
    let scratch = Scratch::new();
    let mut command = Command::new("sh");
    command
        .args(["-c", "exec 5>out && \"$@\" >&5 && echo last >>out"])
        .arg("sh")
        .arg(env!("CARGO_BIN_EXE_nodespy"))
        .args(["convert", &input(), "/dev/stdout", "--to", "folded"])
        .current_dir(scratch.path());
    run(command).expect_code(0);
    let written = fs::read_to_string(scratch.file("out")).unwrap();
    assert_eq!(written, format!("{}last\n", expected.stdout));
    assert_eq!(scratch.names(), ["out"]);
}

#[test]
fn the_reader_of_a_fifo_gets_everything() {
    let scratch = Scratch::new();
    let fifo = scratch.file("out.folded");
    let made = Command::new("mkfifo").arg(&fifo).status().unwrap();
    assert!(made.success());
    let mut reader = Command::new("cat");
    reader.arg(&fifo);
    let reader = Started::new(reader, "");
    run(nodespy(&["convert", &input(), &fifo])).expect_code(0);
    let expected = run_nodespy(&["convert", &input(), "-", "--to", "folded"]);
    assert_eq!(reader.finish().stdout, expected.stdout);
}

#[test]
fn an_unknown_extension_names_the_option_of_the_command() {
    let scratch = Scratch::new();
    let output = scratch.file("out.unknown");
    let outcome = run_nodespy(&["convert", &input(), &output]);
    outcome.expect_code(2).expect_stderr(&["(--to NAME)"]);
    let pid = std::process::id().to_string();
    let outcome = run_nodespy(&["record", "--any", "-p", &pid, "-o", &output]);
    outcome.expect_code(2).expect_stderr(&["(--format NAME)"]);
    assert!(scratch.names().is_empty());
}
