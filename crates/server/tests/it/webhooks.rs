//! Who is told of what: what is sure, and where a webhook's line asks for it what is only likely.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use nodespy_http::ClientOptions;
use nodespy_server::{Courier, Stores, Watch, Webhook};
use serde_json::Value;

use crate::fleet::{DEPLOYED, END, Fleet, START, store_of};
use crate::regressions::fleet;

/// A webhook that takes everything, and what it gets.
fn webhook() -> (String, Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let mut reader = BufReader::new(connection.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while line != "\r\n" {
                line.clear();
                reader.read_line(&mut line).unwrap();
                let header = line.to_ascii_lowercase();
                if let Some(value) = header.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let _ = sender.send(serde_json::from_slice(&body).unwrap());
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            connection.write_all(answer.as_bytes()).unwrap();
        }
    });
    (url, received)
}

/// The verdicts that two webhooks get of a fleet: one as usual, and one that takes likely ones too.
fn told(fleet: &Fleet) -> [Vec<String>; 2] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    drop(store_of(&path, &[fleet.batch()]));
    let (usual, of_usual) = webhook();
    let (both, of_both) = webhook();
    let lines = format!("json {usual}\njson {both} likely\n");
    let webhooks = Webhook::of_lines(&lines, &ClientOptions::default()).unwrap();
    let courier = Courier::start(webhooks, || {});
    let watch = Watch::new(courier, folder.path(), Duration::ZERO, "").unwrap();
    let stores = Stores::open(&path).unwrap();
    for _ in 0..2 {
        watch.check(&stores, END).unwrap();
    }
    [of_usual, of_both].map(|received| {
        let verdict = |row: &Value| row["verdict"].as_str().unwrap().to_owned();
        let rows = |told: Value| told["regressions"].as_array().unwrap().clone();
        let all = received.try_iter().flat_map(rows);
        all.map(|row| verdict(&row)).collect()
    })
}

#[test]
fn what_is_only_likely_is_told_where_it_is_asked_for() {
    let sure = told(&fleet(12, 1.5, 13));
    assert_eq!(sure, [["regression"], ["regression"]]);
    let [usual, both] = told(&Fleet {
        earlier: START - 7200..DEPLOYED,
        drift: (0.0, 5.2),
        ..fleet(12, 1.5, 13)
    });
    assert_eq!(usual, [""; 0]);
    assert_eq!(both, ["likely slower"]);
}

#[test]
fn a_line_says_nothing_else() {
    let options = ClientOptions::default();
    let why = Webhook::of_lines("json http://127.0.0.1:9/secret often", &options).unwrap_err();
    assert!(why.starts_with("line 1: likely is all"), "{why}");
    assert!(!why.contains("secret"));
}
