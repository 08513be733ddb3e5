//! `nodespy serve --webhook-file`: what got slower is posted once to each webhook, also after a restart.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nodespy_model::{Labels, ThreadRole, WeightUnit};
use nodespy_store::{
    Batch, Count, OpenMode, Series, SqliteStore, Store, StoredFrame, StoredFunction, Symbols,
    Window,
};
use serde_json::Value;

use crate::scratch::Scratch;
use crate::serving::Server;

const FUNCTIONS: usize = 20;
const PERIOD: u64 = 1_000_000_000 / 19;

/// Half an hour of four instances each of two versions; of the later one `work3` takes half as much again.
fn fill(store: &Path) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let start = (now.as_secs() - 3600) / 60 * 60;
    let symbols = Symbols {
        functions: (0..=FUNCTIONS)
            .map(|number| StoredFunction {
                name: match number {
                    FUNCTIONS => "handleRequest".to_owned(),
                    number => format!("work{number}"),
                },
                file: "/app/shop.js".to_owned(),
                line: 10 * number as u32 + 1,
                ..StoredFunction::default()
            })
            .collect(),
        frames: (0..=FUNCTIONS as u32)
            .map(|function| StoredFrame {
                function,
                ..StoredFrame::default()
            })
            .collect(),
        stacks: (0..FUNCTIONS as u32)
            .map(|frame| vec![FUNCTIONS as u32, frame])
            .collect(),
    };
    let hashes = symbols.hashes();
    let mut batch = Batch {
        symbols,
        ..Batch::default()
    };
    for instance in 0..8_usize {
        let is_later = instance >= 4;
        let mut labels = Labels::default();
        let version = if is_later { "2.0.0" } else { "1.0.0" };
        for (key, value) in [
            ("version", version),
            ("instance", &*format!("shop-{instance}")),
            ("host", "web-1"),
        ] {
            labels.set(key, value);
        }
        batch.series.push(Series {
            service: "shop & <co>".to_owned(),
            event: "cpu".to_owned(),
            unit: WeightUnit::Nanoseconds,
            period: PERIOD,
            labels,
        });
        // The later version comes a minute after the earlier.
        let from = start + if is_later { 60 } else { 0 };
        for step in 0..30_u64 {
            let counts = hashes.iter().enumerate().map(|(function, hash)| {
                let usual = 40 + (7 * instance as u64 + 3 * function as u64 + step) % 5;
                let count = match is_later && function == 3 {
                    true => usual * 3 / 2,
                    false => usual,
                };
                Count::new(*hash, ThreadRole::Main, count)
            });
            batch.windows.push(Window {
                series: instance,
                start: from + 60 * step,
                counts: counts.collect(),
            });
        }
    }
    let file = store.join("profiles.sqlite");
    std::fs::create_dir_all(store).unwrap();
    SqliteStore::open(&file, OpenMode::Write)
        .unwrap()
        .append(&batch)
        .unwrap();
}

/// A webhook that answers with these codes, the last one for good; path and body of what it gets.
fn webhook(codes: &'static [&'static str]) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook/secret", listener.local_addr().unwrap());
    let (sender, received) = channel();
    std::thread::spawn(move || {
        for (number, connection) in listener.incoming().enumerate() {
            let mut connection = connection.unwrap();
            let mut reader = BufReader::new(connection.try_clone().unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            let mut length = 0;
            while line.trim() != "" {
                line.clear();
                reader.read_line(&mut line).unwrap();
                let header = line.to_ascii_lowercase();
                if let Some(value) = header.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let code = codes[number.min(codes.len() - 1)];
            let answer =
                format!("HTTP/1.1 {code} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            connection.write_all(answer.as_bytes()).unwrap();
            let _ = sender.send((path, serde_json::from_slice(&body).unwrap()));
        }
    });
    (url, received)
}

#[test]
fn each_regression_is_told_once_whoever_starts_again() {
    const LONG: Duration = Duration::from_secs(60);
    let folder = Scratch::new();
    let store = folder.path().join("store");
    fill(&store);
    let (json, of_json) = webhook(&["200"]);
    // The first time it is out of order.
    let (slack, of_slack) = webhook(&["500", "200"]);
    let file = folder.file("webhooks");
    std::fs::write(&file, format!("# ours\njson {json}\n\nslack {slack}\n")).unwrap();
    let arguments = [
        "--webhook-file",
        &*file,
        "--check-every",
        "1s",
        "--public-url",
        "https://profiles.internal/",
    ];
    let server = Server::start(&store, "127.0.0.1:0", &arguments);
    let (path, told) = of_json.recv_timeout(LONG).unwrap();
    assert_eq!(path, "/hook/secret");
    let [found] = &told["regressions"].as_array().unwrap()[..] else {
        panic!("{told:#}")
    };
    assert_eq!(found["function"], "work3");
    assert_eq!(
        (&found["file"], &found["line"]),
        (&"/app/shop.js".into(), &31.into())
    );
    assert_eq!(found["verdict"], "regression");
    let change = found["change"].as_f64().unwrap();
    assert!((1.4..1.6).contains(&change), "{change}");
    let link = found["link"].as_str().unwrap();
    let selected =
        "https://profiles.internal/?service=shop%20%26%20%3Cco%3E&version=2.0.0&base=1.0.0&from=";
    assert!(link.starts_with(selected), "{link}");
    let seconds = |key: &str| found[key].as_u64().unwrap();
    assert!(seconds("first_seen") < seconds("last_seen"));
    assert_eq!(found["callers"][0]["function"], "handleRequest");

    // Told again until it is taken, then no more.
    let (_, first) = of_slack.recv_timeout(LONG).unwrap();
    let (_, second) = of_slack.recv_timeout(LONG).unwrap();
    assert_eq!(first, second);
    let text = second["text"].as_str().unwrap();
    assert!(
        text.contains("`work3` /app/shop.js:31 through `handleRequest`, regression"),
        "{text}"
    );
    assert!(
        text.contains("|shop &amp; &lt;co&gt; 1.0.0 → 2.0.0>"),
        "{text}"
    );
    // Killed between a webhook's answer and the note of it, it would tell that again.
    let since = Instant::now();
    let noted = || std::fs::read_to_string(store.join("notified")).unwrap_or_default();
    while noted().lines().count() < 2 && since.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(server);
    let server = Server::start(&store, "127.0.0.1:0", &arguments);
    let again = of_json.recv_timeout(Duration::from_secs(4));
    assert!(again.is_err(), "{again:?}");
    assert!(of_slack.try_recv().is_err());
    // It answers beside that.
    assert!(server.ask("/healthz", "").0.starts_with("HTTP/1.1 200"));
}

#[test]
fn what_is_no_webhook_is_named_by_its_line_alone() {
    let folder = Scratch::new();
    let file = folder.file("webhooks");
    for (text, line) in [
        ("json\n", 1),
        ("\nteams http://a/secret\n", 2),
        ("slack ftp://a/secret", 1),
    ] {
        std::fs::write(&file, text).unwrap();
        let store = folder.file("store");
        let arguments = ["serve", "--store", &store, "--listen", "127.0.0.1:0"];
        let outcome =
            crate::run::run_nodespy(&[&arguments[..], &["--webhook-file", &file]].concat());
        outcome.expect_code(1);
        outcome.expect_stderr(&[&format!("line {line}:")]);
        assert!(!outcome.stderr.contains("secret"), "{outcome}");
    }
}
