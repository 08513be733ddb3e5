//! Starting a command under nodespy: it runs as if nodespy were not there.

use std::path::Path;

use super::live;
use super::recorded::{read, record_with};
use super::workload::{PERF_MAP_FLAGS, USUAL_NODE, children_of, node, script};
use crate::run::{Outcome, Started, nodespy, run};
use crate::scratch::Scratch;

/// A few tens of milliseconds of work, so that there is something to sample.
const BUSY: &str = "let n = 0; const end = Date.now() + 200; while (Date.now() < end) n++;";

#[test]
fn a_launched_program_is_recorded_until_it_ends() {
    let Some(_live) = live() else { return };
    let node = node(USUAL_NODE).unwrap();
    let script = script("exits.js");
    let mut arguments = vec!["record", "-F", "499", "--", &node];
    arguments.extend(PERF_MAP_FLAGS);
    arguments.push(&script);
    let recorded = record_with(&arguments);
    let busy = recorded.total_share("lastWords");
    // The rest is how Node starts.
    assert!(busy > 0.6, "{}", recorded.describe());
    assert_eq!(recorded.profile.processes.len(), 1);
    recorded.expect_nothing_lost();
}

#[test]
fn the_default_rate_of_a_launch_is_999_hz() {
    let Some(_live) = live() else { return };
    let node = node(USUAL_NODE).unwrap();
    let recorded = record_with(&["record", "--", &node, "-e", BUSY]);
    assert_eq!(recorded.profile.event().rate_hz(), 999);
}

#[test]
fn a_launched_program_keeps_its_input_output_environment_and_folder() {
    let Some(_live) = live() else { return };
    let node = node(USUAL_NODE).unwrap();
    let folder = Scratch::new();
    let program = format!(
        "{BUSY} process.stdin.on('data', (data) => process.stdout.write('read ' + data));
         process.stderr.write('complaint\\n');
         console.log('env', process.env.NODESPY_TEST_VALUE, 'folder', process.cwd());
         console.log('arguments', process.argv.slice(1).join('|'), 'uid', process.getuid());"
    );
    let output = folder.file("out.nspy");
    let mut command = nodespy(&[
        "record",
        "-o",
        &output,
        "--",
        &node,
        "-e",
        &program,
        "one",
        "two words",
    ]);
    command
        .env("NODESPY_TEST_VALUE", "kept")
        .current_dir(folder.path());
    let outcome = Started::new(command, "a line of input\n").finish();
    outcome.expect_code(0).expect_stderr(&["complaint"]);
    let cwd = folder.path().canonicalize().unwrap();
    for part in [
        "read a line of input",
        &format!("env kept folder {}", cwd.display()),
        "arguments one|two words",
    ] {
        assert!(outcome.stdout.contains(part), "no {part:?} in {outcome}");
    }
    assert_eq!(folder.names(), ["out.nspy"]);
}

/// Launches a program that ends with `status` and returns how nodespy ended.
fn launch_with_status(status: u32, flags: &[&str]) -> Outcome {
    let node = node(USUAL_NODE).unwrap();
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    let program = format!("{BUSY} process.exit({status});");
    let mut arguments = vec!["record", "-o", &output];
    arguments.extend(flags);
    arguments.extend(["--", &node, "-e", &program]);
    let outcome = run(nodespy(&arguments));
    assert!(Path::new(&output).exists(), "{outcome}");
    outcome
}

#[test]
fn the_status_of_the_program_is_returned_only_when_asked() {
    let Some(_live) = live() else { return };
    launch_with_status(7, &["--exit-code"]).expect_code(7);
    launch_with_status(7, &[]).expect_code(0);
    launch_with_status(0, &["--exit-code"]).expect_code(0);
}

#[test]
fn children_of_a_launched_program_are_followed() {
    let Some(_live) = live() else { return };
    let node = node(USUAL_NODE).unwrap();
    let program = format!(
        "const {{ execFileSync }} = require('child_process');
         for (let i = 0; i < 2; i++) execFileSync(process.execPath, ['-e', {BUSY:?}]); {BUSY}"
    );
    let recorded = record_with(&["record", "--", &node, "-e", &program]);
    assert_eq!(
        recorded.profile.processes.len(),
        3,
        "{:?}\n{}",
        recorded.profile.processes,
        recorded.describe()
    );
    for process in &recorded.profile.processes {
        let weight = recorded.weight_of(|sample| recorded.process_of(sample).pid == process.pid);
        assert!(weight > 0, "{process:?}\n{}", recorded.describe());
    }
}

#[test]
fn a_shell_that_becomes_node_is_recorded_as_node() {
    let Some(_live) = live() else { return };
    let node = node(USUAL_NODE).unwrap();
    let line = format!("exec {node} -e {BUSY:?}");
    let recorded = record_with(&["record", "--", "sh", "-c", &line]);
    assert_eq!(recorded.profile.processes.len(), 1);
    let process = &recorded.profile.processes[0];
    assert!(
        process
            .node_version
            .as_deref()
            .is_some_and(|version| version.starts_with("v20.")),
        "{process:?}"
    );
}

#[test]
fn an_interrupt_ends_the_recording_and_writes_it() {
    let Some(_live) = live() else { return };
    let node = node(USUAL_NODE).unwrap();
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    let script = script("split.js");
    let mut command = nodespy(&["record", "-o", &output, "--", &node, &script]);
    command.env("MS", "60000").current_dir(scratch.path());
    let started = Started::new(command, "");
    // The launched program is nodespy's child; its CPU time says when there is something to keep.
    let deadline = std::time::Instant::now() + crate::run::DEADLINE;
    let launched = loop {
        assert!(std::time::Instant::now() < deadline, "nothing was started");
        std::thread::sleep(std::time::Duration::from_millis(50));
        match children_of(started.pid())[..] {
            [child] if super::manners::cpu_ticks(child) > 50 => break child,
            _ => {}
        }
    };
    // A terminal sends the interrupt to the whole group; here nodespy and the program each get it.
    started.signal("INT");
    crate::run::signal_if_alive(launched, "INT");
    let outcome = started.finish();
    outcome.expect_code(0);
    let profile = read(Path::new(&output));
    assert!(profile.samples.len() > 100, "{outcome}");
}
