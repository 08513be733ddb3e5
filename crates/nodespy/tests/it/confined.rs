//! Commands that read files of others have given up what they do not need, and still do their work.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::fixture::fixture;
use crate::own_status::{FOR_FILES, capabilities_of, status_of};
use crate::run::{DEADLINE, nodespy, run, run_nodespy, signal};
use crate::scratch::Scratch;
use crate::skip::skip;

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

fn recording() -> String {
    let path = fixture("cpuprofile/node20.cpuprofile");
    path.to_str().unwrap().to_owned()
}

/// A server that is killed, by its own pid, when dropped.
struct Viewer {
    child: Child,
    address: String,
}

impl Viewer {
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut address)
            .unwrap();
        let address = address.trim().to_owned();
        Self { child, address }
    }

    /// The answer to a request for the page.
    fn page(&self) -> String {
        let rest = self.address.strip_prefix("http://").unwrap();
        let (host, path) = rest.split_once('/').unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < DEADLINE, "{what}: not after {DEADLINE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_viewer_has_given_up_what_it_does_not_need() {
    let viewer = Viewer::start(nodespy(&["view", "--no-open", &recording()]));
    let pid = viewer.child.id();
    assert_eq!(status_of(pid, "NoNewPrivs"), "1");
    assert_eq!(status_of(pid, "Seccomp"), "2");
    assert_eq!(capabilities_of(pid) & !FOR_FILES, 0);
    assert!(viewer.page().starts_with("HTTP/1.1 200"));
}

/// CAP_KILL, CAP_IPC_LOCK, CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_SYS_NICE, CAP_PERFMON, CAP_BPF and CAP_CHECKPOINT_RESTORE.
const FOR_CHECKS: u64 =
    1 << 5 | 1 << 14 | 1 << 19 | 1 << 21 | 1 << 23 | 1 << 38 | 1 << 39 | 1 << 40;

#[test]
fn a_check_has_given_up_what_it_does_not_need() {
    let own = std::process::id().to_string();
    let mut command = nodespy(&["check", "-p", &own]);
    let mut check = command.stdout(Stdio::null()).spawn().unwrap();
    // What has ended has its rights until it is waited for.
    let has_ended = || status_of(check.id(), "State").starts_with('Z');
    wait_until("the end of the check", has_ended);
    assert_eq!(status_of(check.id(), "NoNewPrivs"), "1");
    let kept = capabilities_of(check.id());
    assert_eq!(kept & !(FOR_FILES | FOR_CHECKS), 0, "{kept:#x}");
    check.wait().unwrap();
}

#[test]
fn the_browser_is_started_from_outside_and_its_redirect_goes_away() {
    let scratch = Scratch::new();
    // What a confined process could not do: write here.
    let script =
        "#!/bin/sh\ncp \"$1\" seen.html\ngrep NoNewPrivs /proc/self/status > status\n: > done\n";
    fs::write(scratch.path().join("script"), script).unwrap();
    scratch.copy_program(scratch.path().join("script"), "xdg-open");
    fs::create_dir(scratch.path().join("run")).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = nodespy(&["view", &recording()]);
    command
        .current_dir(scratch.path())
        .env("PATH", format!("{}:{path}", scratch.path().display()))
        .env("XDG_RUNTIME_DIR", scratch.path().join("run"))
        .env("DISPLAY", ":99")
        .env_remove("SSH_CONNECTION");
    let mut viewer = Viewer::start(command);
    let at = |name: &str| scratch.path().join(name);
    wait_until("the browser", || at("done").exists());
    let redirect = fs::read_to_string(at("seen.html")).unwrap();
    assert!(redirect.contains(&viewer.address), "{redirect}");
    let own = status_of(std::process::id(), "NoNewPrivs");
    let browser = fs::read_to_string(at("status")).unwrap();
    assert!(browser.trim().ends_with(&own), "{browser}");
    assert_eq!(status_of(viewer.child.id(), "NoNewPrivs"), "1");
    signal(viewer.child.id(), "TERM");
    assert_eq!(viewer.child.wait().unwrap().code(), Some(130));
    assert_eq!(fs::read_dir(at("run")).unwrap().count(), 0);
}

#[test]
fn the_browser_runs_as_who_called_sudo_and_reads_the_redirect() {
    if !is_root() {
        return skip("only root can become another user");
    }
    let scratch = Scratch::for_other_users();
    let script = "#!/bin/sh\ncp \"$1\" seen.html\nid -u > who\n: > done\n";
    fs::write(scratch.path().join("script"), script).unwrap();
    scratch.copy_program(scratch.path().join("script"), "xdg-open");
    let run_folder = scratch.path().join("run");
    fs::create_dir(&run_folder).unwrap();
    fs::set_permissions(&run_folder, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut command = nodespy(&["view", &recording()]);
    command
        .current_dir(scratch.path())
        .env("PATH", format!("{}:{path}", scratch.path().display()))
        .env("XDG_RUNTIME_DIR", &run_folder)
        .envs([("SUDO_UID", "54321"), ("SUDO_GID", "54321")])
        .env("DISPLAY", ":99")
        .env_remove("SSH_CONNECTION");
    let mut viewer = Viewer::start(command);
    let at = |name: &str| scratch.path().join(name);
    wait_until("the browser", || at("done").exists());
    assert_eq!(fs::read_to_string(at("who")).unwrap(), "54321\n");
    let redirect = fs::read_to_string(at("seen.html")).unwrap();
    assert!(redirect.contains(&viewer.address), "{redirect}");
    signal(viewer.child.id(), "TERM");
    viewer.child.wait().unwrap();
    assert_eq!(fs::read_dir(run_folder).unwrap().count(), 0);
}

#[test]
fn a_recording_that_cannot_be_read_leaves_no_redirect() {
    let scratch = Scratch::new();
    let mut command = nodespy(&["view", "/nowhere.nspy"]);
    command
        .env("XDG_RUNTIME_DIR", scratch.path())
        .env("DISPLAY", ":99")
        .env_remove("SSH_CONNECTION");
    run(command).expect_code(1);
    assert!(scratch.names().is_empty());
}

#[test]
fn outputs_arrive_wherever_they_are_put() {
    let scratch = Scratch::new();
    for folder in ["old", "far"] {
        fs::create_dir(scratch.path().join(folder)).unwrap();
    }
    fs::write(scratch.file("old/there.html"), "old").unwrap();
    std::os::unix::fs::symlink("far/target.html", scratch.file("link.html")).unwrap();
    let recording = recording();
    for name in ["new.html", "old/there.html", "link.html"] {
        run_nodespy(&["convert", &recording, &scratch.file(name)]).expect_code(0);
        let written = fs::read_to_string(scratch.file(name)).unwrap();
        assert!(written.starts_with("<!doctype html>"), "{name}");
    }
    assert!(Path::new(&scratch.file("far/target.html")).exists());
    let to_stdout = run_nodespy(&["convert", &recording, "/dev/stdout", "--to", "folded"]);
    assert!(to_stdout.expect_code(0).stdout.lines().count() > 1);
    let [map, picture] = ["palette.map", "picture.svg"].map(|name| scratch.file(name));
    let drawn = [
        "flamegraph",
        "--palette-map",
        &map,
        "-o",
        &picture,
        &recording,
    ];
    run_nodespy(&drawn).expect_code(0);
    assert!(fs::metadata(&map).unwrap().len() > 0);
    let comparison = scratch.file("old/diff.html");
    run_nodespy(&["diff", &recording, &recording, "-o", &comparison]).expect_code(0);
    assert!(fs::metadata(&comparison).unwrap().len() > 0);
}

#[test]
fn a_root_of_another_process_can_be_read_through() {
    let root = format!("/proc/{}/root", std::process::id());
    let perf_data = fixture("perf_data/node20.perf.data");
    let perf_data = perf_data.to_str().unwrap();
    let read = run_nodespy(&["-v", "report", "--root", &root, perf_data]);
    read.expect_code(0).expect_stderr(&["Landlock is left out"]);
    assert!(!read.stdout.contains("the root can't be opened"), "{read}");
}
