//! `nodespy agent --to`: what was sampled arrives once, whoever is killed meanwhile.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use nodespy_store::{OpenMode, SqliteStore, Store, WINDOW_SECONDS};

use super::agent::{FOREVER, HOT, expect_windows, file, share, start, unix_seconds, wait_for};
use super::live;
use crate::run::{DEADLINE, Started, nodespy};
use crate::scratch::Scratch;
use crate::serving::Server;

fn agent(folder: &Path, server: &str, token: &str) -> Started {
    let folder = folder.to_str().unwrap();
    let url = format!("http://{server}");
    let arguments = [
        "agent",
        "--store",
        folder,
        "--to",
        &url,
        "--token-file",
        token,
    ];
    Started::new(nodespy(&arguments), "")
}

/// How many batches wait to be sent.
fn waiting(folder: &Path) -> usize {
    let files = fs::read_dir(folder.join("to-server")).unwrap();
    let names = files.map(|file| file.unwrap().file_name());
    let is_whole = |name: &std::ffi::OsString| name.to_str().unwrap().ends_with(".windows");
    names.filter(is_whole).count()
}

#[track_caller]
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < DEADLINE, "waited for {what} in vain");
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// The server is killed; while it is away the agent is killed too; then both are back.
#[test]
fn what_waited_for_a_server_arrives_once() {
    let Some(_live) = live() else { return };
    let scratch = Scratch::new();
    let (store, spool) = (scratch.path().join("store"), scratch.path().join("agent"));
    let token = scratch.file("token");
    fs::write(&token, "writes-0123456789abcdef\n").unwrap();
    let arguments = ["--write-token-file", &*token];
    let service = format!("post-{}", std::process::id());
    let _letters = start(&service, "3.1.0", "writeLetters");

    let server = Server::start(&store, "127.0.0.1:0", &arguments);
    let address = server.address.clone();
    let first = agent(&spool, &address, &token);
    let span = wait_for(&store, &service, "3.1.0");
    drop(server);
    wait_until("two batches to wait", || waiting(&spool) >= 2);
    let killed = unix_seconds();
    first.signal("KILL");
    drop(first);
    let _second = agent(&spool, &address, &token);
    wait_until("a third batch to wait", || waiting(&spool) >= 3);
    let restarted = unix_seconds();
    let server = Server::start(&store, &address, &arguments);
    let last = || {
        let opened = SqliteStore::open(&file(&store), OpenMode::Read).unwrap();
        let spans = opened.labels(FOREVER).unwrap();
        let span = spans.iter().find(|span| span.service == service);
        span.unwrap().last
    };
    wait_until("what waited to arrive", || waiting(&spool) == 0);
    wait_until("the windows after", || last() > restarted + WINDOW_SECONDS);
    drop(server);

    let opened = SqliteStore::open(&file(&store), OpenMode::Read).unwrap();
    opened.check().unwrap();
    let share = share(&opened, &span, "writeLetters");
    assert!(share > HOT, "writeLetters has {share} of {span:?}");
    expect_windows(&opened, &service, killed, restarted);
}
