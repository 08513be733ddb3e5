//! `nodespy agent --push`: what others get of a real process is read by their own packages, and its busy function is there.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::agent::{HOT, start};
use super::live;
use super::workload::{USUAL_NODE, node, root};
use crate::run::{DEADLINE, Started, nodespy, run};
use crate::scratch::Scratch;
use crate::skip::skip;

const PARCA: &str = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw";
const PYROSCOPE: &str = "/ingest";
const OTLP: &str = "/v1development/profiles";

/// Bodies by path, with the query that each came with.
type Bodies = Arc<Mutex<HashMap<String, Vec<(String, Vec<u8>)>>>>;

/// A receiver of everything, and what it got.
fn receiver() -> (String, Bodies) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let bodies = Bodies::default();
    let taking = Arc::clone(&bodies);
    std::thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let (path, query, body) = receive(connection);
            let mut bodies = taking.lock().unwrap();
            bodies.entry(path).or_default().push((query, body));
        }
    });
    (url, bodies)
}

/// Reads a request and answers with what means success: an empty message, for gRPC-Web with its trailers.
fn receive(mut connection: TcpStream) -> (String, String, Vec<u8>) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let target = line.split(' ').nth(1).unwrap().to_owned();
    let mut length = 0;
    let lines = reader.by_ref().lines().map_while(Result::ok);
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').unwrap();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let reply: &[u8] = match path {
        PARCA => b"\0\0\0\0\0\x80\0\0\0\x10grpc-status: 0\r\n",
        _ => b"",
    };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", reply.len());
    connection.write_all(head.as_bytes()).unwrap();
    connection.write_all(reply).unwrap();
    (path.to_owned(), query.to_owned(), body)
}

/// What `workloads/parca/read.js` says of a file.
fn read_by_others(scratch: &Scratch, kind: &str, bytes: &[u8]) -> Vec<Value> {
    let file = scratch.file("pushed");
    fs::write(&file, bytes).unwrap();
    let mut reader = Command::new(node(USUAL_NODE).unwrap());
    reader.arg(root().join("workloads/parca/read.js"));
    let outcome = run({
        reader.args([kind, &file]);
        reader
    });
    outcome.expect_code(0);
    let lines = outcome.stdout.lines();
    lines.map(|it| serde_json::from_str(it).unwrap()).collect()
}

/// A window in which nearly all CPU time was in a function.
#[track_caller]
fn expect_busy(profile: &Value, function: &str) {
    assert_eq!(
        profile["types"],
        serde_json::json!(["samples/count", "cpu/nanoseconds"])
    );
    assert_eq!(profile["duration"], 10.0);
    let total = profile["total"].as_f64().unwrap();
    let busy = profile["weights"][function].as_f64().unwrap_or(0.0);
    assert!(
        total > 0.0 && busy / total > HOT,
        "{busy} of {total}: {profile}"
    );
}

/// The last window of a process may be of a moment only: the largest is looked at.
fn largest(profiles: Vec<Value>) -> Value {
    let total = |it: &Value| it["total"].as_f64().unwrap() as u64;
    profiles.into_iter().max_by_key(total).expect("a profile")
}

#[test]
fn what_is_pushed_is_what_ran() {
    let Some(_live) = live() else { return };
    let mut installer = Command::new(root().join("tools/packages.sh"));
    assert!(installer.arg("parca").status().unwrap().success());
    let scratch = Scratch::new();
    let service = format!("pushed-{}", std::process::id());
    let _busy = start(&service, "1.2.3", "packOrders");
    let (url, bodies) = receiver();
    let pushes = ["parca", "pyroscope", "otlp"].map(|kind| format!("{kind}={url}"));
    let store = scratch.file("spool");
    let mut arguments = vec!["agent", "--store", &store];
    arguments.extend(pushes.iter().flat_map(|push| ["--push", push]));
    let agent = Started::new(nodespy(&arguments), "");
    let name = format!("name={service}%7B");
    let since = Instant::now();
    // Two windows, so that one of them is whole.
    let is_there = || {
        let bodies = bodies.lock().unwrap();
        let pushed = bodies.get(PYROSCOPE).map_or(&[][..], Vec::as_slice);
        pushed
            .iter()
            .filter(|(query, _)| query.contains(&name))
            .count()
            >= 2
    };
    while !is_there() {
        assert!(
            since.elapsed() < 2 * DEADLINE,
            "nothing of {service} is pushed"
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    agent.signal("TERM");
    let outcome = agent.finish();
    outcome.expect_code(0);
    assert!(!outcome.stderr.contains("windows refused"), "{outcome}");
    let bodies = bodies.lock().unwrap();

    let requests = bodies[PARCA].iter();
    let series = requests.flat_map(|(_, body)| read_by_others(&scratch, "parca", body));
    let own: Vec<Value> = series
        .filter(|it| it["labels"]["job"] == service.as_str())
        .collect();
    let largest_of_parca = largest(own);
    let labels = &largest_of_parca["labels"];
    assert_eq!(labels["__name__"], "process_cpu");
    assert!(
        labels["version"].as_str().unwrap().starts_with("1.2.3"),
        "{labels}"
    );
    assert!(
        labels["node"].is_string() && labels["pid"].is_string(),
        "{labels}"
    );
    expect_busy(&largest_of_parca, "packOrders");

    let requests = bodies[PYROSCOPE]
        .iter()
        .filter(|(query, _)| query.contains(&name));
    let profiles = requests.flat_map(|(_, body)| read_by_others(&scratch, "pprof", body));
    expect_busy(&largest(profiles.collect()), "packOrders");
    expect_otlp(&scratch, &bodies[OTLP], &service);
}

/// By OpenTelemetry's own package.
fn expect_otlp(scratch: &Scratch, requests: &[(String, Vec<u8>)], service: &str) {
    let python = Command::new(root().join("tools/python.sh"))
        .output()
        .unwrap();
    if !python.status.success() {
        return skip("pip can't install opentelemetry-proto");
    }
    let python = String::from_utf8(python.stdout).unwrap();
    let (mut all, mut busy) = (0, 0);
    for (_, body) in requests {
        let file = scratch.file("pushed");
        fs::write(&file, body).unwrap();
        let mut reader = Command::new(python.trim());
        reader.arg(root().join("tools/fixtures/otlp.py"));
        reader.args(["read", &file]);
        let outcome = run(reader);
        outcome.expect_code(0);
        for line in outcome.stdout.lines().filter(|it| it.starts_with(service)) {
            let columns: Vec<&str> = line.split('\t').collect();
            let count: u64 = columns[7].parse().unwrap();
            all += count;
            busy += if columns[8].contains("packOrders ") {
                count
            } else {
                0
            };
        }
    }
    assert!(all > 0 && busy as f64 / all as f64 > HOT, "{busy} of {all}");
}
