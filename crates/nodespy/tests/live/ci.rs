//! `nodespy ci`: a function that does three times as much is a regression, with a saved base and in turns.

use super::workload::{USUAL_NODE, node, script};
use super::{is_root, live};
use crate::own_status::{FOR_FILES, capabilities_of, status_of};
use crate::run::{Outcome, Started, nodespy, run};
use crate::scratch::Scratch;
use crate::skip::skip;

/// Runs `nodespy ci` on the workload, of which one function does `factor` times as much.
fn ci(options: &[&str], factor: &str) -> Outcome {
    let (node, script) = (node(USUAL_NODE).unwrap(), script("regression.js"));
    let mut arguments = vec!["ci", "--rounds", "3"];
    arguments.extend(options);
    arguments.extend(["--", &node, &script]);
    let mut command = nodespy(&arguments);
    command.env("FACTOR", factor).env("TURNS", "10");
    run(command)
}

#[test]
fn a_regression_against_a_saved_base_fails_and_is_named() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let (base, markdown) = (scratch.file("base"), scratch.file("diff.md"));
    let outcome = ci(&["--base", &base], "1");
    outcome.expect_code(1).expect_stderr(&["base"]);
    ci(&["--save", &base], "1")
        .expect_code(0)
        .expect_stderr(&["Saved 3 runs"]);
    let outcome = ci(&["--base", &base, "-o", &markdown], "3");
    outcome.expect_code(10);
    let line = outcome
        .stdout
        .lines()
        .find(|line| line.contains("hashInts"))
        .unwrap();
    assert!(line.ends_with("regression"), "{outcome}");
    let markdown = std::fs::read_to_string(markdown).unwrap();
    assert!(markdown.contains("`hashInts`"), "{markdown}");
    // The same again is no change; a limit this wide no noise of the machine reaches.
    let limits = ["--base", &base, "--fail-on", "function +100%"];
    ci(&limits, "1").expect_code(0);
}

#[test]
fn two_commands_take_turns() {
    let Some(_live) = live() else { return };
    let (node, script) = (node(USUAL_NODE).unwrap(), script("regression.js"));
    let base = format!("FACTOR=1 exec '{node}' '{script}'");
    let outcome = ci(&["--base-cmd", &base], "3");
    outcome.expect_code(10);
    let rounds: Vec<&str> = outcome
        .stderr
        .lines()
        .filter(|line| line.ends_with("of 3") || *line == "warm-up")
        .collect();
    let order = [
        "warm-up",
        "warm-up",
        "base 1 of 3",
        "run 1 of 3",
        "run 2 of 3",
        "base 2 of 3",
        "base 3 of 3",
        "run 3 of 3",
    ];
    assert_eq!(rounds, order);
}

/// A comparison that goes on: one recording of the base, `base/slow.nspy`, is a FIFO and comes when it is written.
fn comparing(scratch: &Scratch) -> Started {
    let (base, page) = (scratch.file("base"), scratch.file("out/diff.html"));
    let temporary = scratch.file("tmp");
    std::fs::create_dir(&temporary).unwrap();
    std::fs::create_dir(scratch.file("out")).unwrap();
    ci(&["--save", &base], "1").expect_code(0);
    let slow = scratch.file("base/slow.nspy");
    let made = std::process::Command::new("mkfifo").arg(&slow).status();
    assert!(made.unwrap().success());
    let (node, script) = (node(USUAL_NODE).unwrap(), script("regression.js"));
    let mut command = nodespy(&[
        "ci", "--rounds", "3", "--base", &base, "-o", &page, "--", &node, &script,
    ]);
    command.env("TURNS", "10").env("TMPDIR", &temporary);
    let started = Started::new(command, "");
    wait_for("the comparison", || {
        status_of(started.pid(), "Seccomp") == "2"
    });
    started
}

#[test]
fn runs_are_compared_by_a_process_that_has_given_up_its_rights() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let started = comparing(&scratch);
    assert_eq!(status_of(started.pid(), "NoNewPrivs"), "1");
    assert_eq!(capabilities_of(started.pid()) & !FOR_FILES, 0);
    std::fs::write(
        scratch.file("base/slow.nspy"),
        std::fs::read(scratch.file("base/run-001.nspy")).unwrap(),
    )
    .unwrap();
    let outcome = started.finish();
    assert!(matches!(outcome.status.code(), Some(0 | 10)), "{outcome}");
    let page = std::fs::metadata(scratch.file("out/diff.html"));
    assert!(page.unwrap().len() > 0);
    let left = std::fs::read_dir(scratch.file("tmp")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn an_interrupted_comparison_leaves_nothing_behind() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let started = comparing(&scratch);
    started.signal("INT");
    let outcome = started.finish();
    outcome.expect_code(130);
    for folder in ["tmp", "out"] {
        let left = std::fs::read_dir(scratch.file(folder)).unwrap();
        assert_eq!(left.count(), 0, "{folder}");
    }
}

#[test]
fn an_interrupted_run_leaves_nothing_behind() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let (node, script) = (node(USUAL_NODE).unwrap(), script("regression.js"));
    let temporary = scratch.file("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let base = scratch.file("base");
    for options in [["--save", &base], ["--base-cmd", "sleep 600"]] {
        let mut arguments = vec!["ci"];
        arguments.extend(options);
        arguments.extend(["--", &node, &script]);
        let mut command = nodespy(&arguments);
        // Long enough to be interrupted on any machine.
        command.env("TURNS", "100000").env("TMPDIR", &temporary);
        let mut running = command.stderr(std::process::Stdio::null()).spawn().unwrap();
        let holds_files = |folder: &str| {
            let entries = std::fs::read_dir(folder).into_iter().flatten();
            entries.flatten().next().is_some()
        };
        let started = || holds_files(&base) || holds_files(&temporary);
        wait_for("the folder of the recordings", started);
        let children = || children_of(running.id());
        wait_for("the command", || !children().is_empty());
        let recorder = children()[0];
        let status = std::process::Command::new("kill")
            .args(["-TERM", &running.id().to_string()])
            .status();
        assert!(status.unwrap().success());
        assert_eq!(running.wait().unwrap().code(), Some(130));
        assert!(!holds_files(&base) && !holds_files(&temporary));
        assert!(!std::path::Path::new(&format!("/proc/{recorder}")).exists());
    }
}

fn wait_for(what: &str, is_there: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !is_there() {
        assert!(std::time::Instant::now() < deadline, "waited for {what}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn children_of(pid: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    list.split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

#[test]
fn a_server_is_compared_by_request() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let base = scratch.file("base");
    let node = node(USUAL_NODE).unwrap();
    let server = server_in(&scratch);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let number = port.local_addr().unwrap().port().to_string();
    let url = format!("http://127.0.0.1:{number}/");
    let ci = |side: [&str; 2], requests: &str, factor: &str| {
        let mut command = nodespy(&[
            "ci",
            "--rounds",
            "3",
            side[0],
            side[1],
            "--url",
            &url,
            "--requests",
            requests,
            "--",
            &node,
            &server,
        ]);
        command.env("PORT", &number).env("FACTOR", factor);
        run(command)
    };
    ci(["--save", &base], "300", "1")
        .expect_code(1)
        .expect_stderr(&["something listens on port"]);
    drop(port);
    ci(["--save", &base], "300", "1").expect_code(0);
    // Twice as many requests: the cost of one is the same, but for the function that does more.
    let outcome = ci(["--base", &base], "600", "10");
    outcome.expect_code(10);
    assert!(outcome.stdout.contains("CPU time per request"), "{outcome}");
    let found = outcome.stdout.lines().find(|line| line.contains("answer"));
    assert!(found.unwrap().ends_with("regression"), "{outcome}");
    // The same work costs more on a machine that is busier than it was, but not twice as much, as it would if requests
    // were not counted.
    let other = outcome.stdout.lines().find(|line| line.contains("work  "));
    let change = other.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    assert!(change.unwrap_or(0.0) < 60.0, "{outcome}");
}

/// A server that works for each request, FACTOR times as much in `answer`.
fn server_in(scratch: &Scratch) -> String {
    let server = scratch.file("server.js");
    std::fs::write(
        &server,
        "const work = (n) => { let sum = 0; for (let i = 0; i < n; i += 1) sum += Math.sqrt(i); return sum; };\n\
         const answer = (n) => { let sum = 0; for (let i = 0; i < n; i += 1) sum = (sum * 31 + i) | 0; return sum; };\n\
         require('http').createServer((request, response) => response.end(String(work(3e5) + answer(1e5 * process.env.FACTOR))))\n\
             .listen(Number(process.env.PORT), '127.0.0.1');\n",
    )
    .unwrap();
    server
}

#[test]
fn a_command_can_make_the_requests() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let (node, server) = (node(USUAL_NODE).unwrap(), server_in(&scratch));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let number = port.local_addr().unwrap().port().to_string();
    drop(port);
    let loader = scratch.file("load.js");
    std::fs::write(
        &loader,
        "let left = 200;\n\
         const next = () => { left -= 1; if (left >= 0) require('http').get({ port: process.env.PORT }, (reply) => reply.resume().on('end', next)); };\n\
         next();\n",
    )
    .unwrap();
    let url = format!("http://127.0.0.1:{number}/");
    let base = scratch.file("base");
    let ci = |side: [&str; 2], load: &str, factor: &str| {
        let [option, folder] = side;
        let mut command = nodespy(&[
            "ci", "--rounds", "3", option, folder, "--url", &url, "--load", load, "--", &node,
            &server,
        ]);
        command.env("PORT", &number).env("FACTOR", factor);
        run(command)
    };
    ci(["--save", &base], "exit 7", "1")
        .expect_code(1)
        .expect_stderr(&["the command of --load ended with exit status: 7"]);
    let load = format!("exec '{node}' '{loader}'");
    ci(["--save", &base], &load, "1").expect_code(0);
    let outcome = ci(["--base", &base], &load, "10");
    outcome.expect_code(10);
    let found = outcome.stdout.lines().find(|line| line.contains("answer"));
    assert!(found.unwrap().ends_with("regression"), "{outcome}");
}

#[test]
fn a_server_and_its_load_run_as_who_called_sudo() {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("only root can become another user");
    }
    let scratch = Scratch::for_other_users();
    let (node, server) = (node(USUAL_NODE).unwrap(), server_in(&scratch));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let number = port.local_addr().unwrap().port().to_string();
    drop(port);
    let url = format!("http://127.0.0.1:{number}/");
    let (base, said) = (scratch.file("base"), scratch.file("who"));
    let line = format!("id -u >> '{said}'; exec '{node}' '{server}'");
    let get = "require('http').get({ port: process.env.PORT }, (reply) => reply.resume().on('end', again))";
    let load = format!(
        "id -u >> '{said}'; exec '{node}' -e \"let left = 100; const again = () => {{ if (left-- > 0) {get}; }}; again();\""
    );
    let mut command = nodespy(&[
        "ci", "--rounds", "2", "--save", &base, "--url", &url, "--load", &load, "--", "sh", "-c",
        &line,
    ]);
    command.env("PORT", &number).env("FACTOR", "1");
    command.envs([("SUDO_UID", "54321"), ("SUDO_GID", "54321")]);
    let outcome = run(command);
    outcome.expect_code(0);
    let who = std::fs::read_to_string(&said).unwrap();
    // The warm-up and two rounds, each a server and two loads.
    assert_eq!(who, "54321\n".repeat(9), "{outcome}");
}
