//! Containers that want to harm: each gets a clear word, and nothing of the host is read.

use std::fs;

use super::engine::{Docker, PLAIN};
use crate::scratch::Scratch;

/// A map that would name every address.
const EVERYTHING: &str = "0 7fffffffffff HostSecret\n";

#[test]
fn links_pipes_and_giants_in_place_of_a_map_name_nothing() {
    let Some(engine) = Docker::start() else {
        return;
    };
    let host = Scratch::for_other_users();
    let secret = host.file("secret.map");
    fs::write(&secret, EVERYTHING).unwrap();
    for (name, line) in [
        ("link", format!("ln -s {secret} /tmp/perf-1.map")),
        // The folder itself leads out.
        (
            "folder",
            format!("rm -r /tmp && ln -s {} /tmp", host.path().display()),
        ),
        ("pipe", "mkfifo /tmp/perf-1.map".to_owned()),
        ("giant", "truncate -s 10G /tmp/perf-1.map".to_owned()),
        (
            "stranger",
            format!("printf '{EVERYTHING}' > /tmp/perf-1.map && chown 4321 /tmp/perf-1.map"),
        ),
    ] {
        fs::write(host.file("perf-1.map"), EVERYTHING).unwrap();
        let container = engine.run(name, &[], &PLAIN);
        container.shell(&line);
        let recorded = engine.record(&["-c", name, "-d", "1", "--names", "map"]);
        let names: Vec<&str> = recorded.profile.strings.iter().collect();
        assert!(
            !names.iter().any(|text| text.contains("HostSecret")),
            "{name}: {names:?}"
        );
        assert!(recorded.profile.samples.len() > 10, "{name}");
        assert!(
            recorded.outcome.took.as_secs() < 40,
            "{name}: {}",
            recorded.outcome
        );
        // With the heap walk no map is needed.
        let walked = engine.record(&["-c", name, "-d", "1"]);
        assert!(
            walked.self_share("priceCart") > 0.8,
            "{name}\n{}",
            walked.describe()
        );
        engine.docker(&["rm", "-f", name]).expect_code(0);
    }
}

#[test]
fn what_is_only_called_node_is_left_out_and_names_can_not_steer_the_terminal() {
    let Some(engine) = Docker::start() else {
        return;
    };
    let web = engine.run("web", &[], &PLAIN);
    web.shell("mkdir -p /x && cp /bin/busybox /x/node");
    // busybox goes by its first argument, whatever its file is called.
    web.exec_detached(&[
        "/usr/bin/node",
        "-e",
        "require('child_process').spawn('/x/node', ['300'], { argv0: 'sleep', detached: true }); \
         setInterval(() => {}, 1000)",
    ]);
    web.exec_detached(&[
        "/usr/bin/node",
        "-e",
        "process.title = '\\x1b[2J\\x1b]0;owned\\x07evil'; setInterval(() => {}, 100)",
    ]);
    let ready = || engine.run_nodespy(&[]).stdout.matches(" v22.").count() >= 3;
    super::engine::wait_until("both in the list", ready);
    let list = engine.run_nodespy(&[]);
    assert!(!list.stdout.contains(['\x1b', '\x07']), "{:?}", list.stdout);
    let outcome = engine.run_nodespy(&[
        "record",
        "-c",
        "web",
        "-d",
        "1",
        "-o",
        "/dev/null",
        "-f",
        "folded",
    ]);
    outcome
        .expect_code(0)
        .expect_stderr(&["is only called node: what runs is not Node.js"]);
    let said = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(!said.contains(['\x1b', '\x07']), "{said:?}");
}

#[test]
fn a_container_that_dies_at_any_moment_gives_a_clear_word() {
    let Some(engine) = Docker::start() else {
        return;
    };
    for delay_ms in [0, 20, 60, 150, 400] {
        engine.run("short", &[], &PLAIN);
        let recording = crate::run::Started::new(
            engine.nodespy(&["record", "-c", "short", "-d", "2", "-o", "-"]),
            "",
        );
        std::thread::sleep(std::time::Duration::from_millis(delay_ms));
        engine.docker(&["rm", "-f", "short"]).expect_code(0);
        let outcome = recording.finish();
        let code = outcome.status.code();
        assert!(matches!(code, Some(0 | 4 | 5)), "{delay_ms} ms: {outcome}");
        assert!(!outcome.stderr.contains("panicked"), "{outcome}");
        assert!(!outcome.stderr.is_empty(), "{outcome}");
    }
}
