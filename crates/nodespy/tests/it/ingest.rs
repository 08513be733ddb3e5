//! `nodespy serve --ingest`: what agents send is there once, and what is too much has a clear answer.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nodespy_model::{Labels, ThreadRole, WeightUnit};
use nodespy_store::{
    Batch, Count, Series, StackHash, StoredFrame, StoredFunction, Symbols, Window, batch_to_bytes,
    hashes_from_bytes,
};

use crate::scratch::Scratch;
use crate::serving::Server;

const WINDOWS: &str = "/api/v1/windows";
const OTLP: &str = "/v1development/profiles";
const PUSH: &str = "/push.v1.PusherService/Push";

/// When a window starts that ended a minute ago.
pub(crate) fn lately() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    (now.as_secs() - 70) / 10 * 10
}

/// A window of a service in which a function was seen so often.
pub(crate) fn seen(service: &str, function: &str, start: u64, count: u64) -> Batch {
    let symbols = Symbols {
        functions: vec![StoredFunction {
            name: function.to_owned(),
            ..StoredFunction::default()
        }],
        frames: vec![StoredFrame::default()],
        stacks: vec![vec![0]],
    };
    let mut labels = Labels::default();
    labels.set("version", "1.0.0");
    labels.set("host", "web-1");
    Batch {
        series: vec![Series {
            service: service.to_owned(),
            event: "cpu".to_owned(),
            unit: WeightUnit::Nanoseconds,
            period: 1_000_000_000,
            labels,
        }],
        windows: vec![Window {
            series: 0,
            start,
            counts: vec![Count::new(symbols.hashes()[0], ThreadRole::Main, count)],
        }],
        symbols,
    }
}

/// Code and text that a batch is answered with.
pub(crate) fn send(server: &Server, batch: &Batch) -> (String, String) {
    let (head, body) = server.post(WINDOWS, "", &batch_to_bytes(batch));
    let text = String::from_utf8_lossy(&body).trim().to_owned();
    (head[9..12].to_owned(), text)
}

/// Seconds of CPU time of a service in the last hour.
pub(crate) fn total(server: &Server, service: &str) -> u64 {
    // A window that begins now is in no range that ends now.
    let until = lately() + 3600;
    let series = server.json(&format!(
        "/api/v1/series?service={service}&step=60&from=-1h&until={until}"
    ));
    let weights = series["series"][0]["weights"].as_array().unwrap();
    let sum: u64 = weights.iter().map(|it| it.as_u64().unwrap()).sum();
    sum / 1_000_000_000
}

#[test]
fn names_are_asked_for_once_and_windows_are_stored_once() {
    let folder = Scratch::new();
    let store = folder.path().join("store");
    let server = Server::start(&store, "127.0.0.1:0", &["--ingest"]);
    let start = lately();
    let batch = seen("shop", "parseOrders", start, 3);
    let nameless = Batch {
        symbols: Symbols::default(),
        ..batch.clone()
    };
    let (head, asked) = server.post(WINDOWS, "", &batch_to_bytes(&nameless));
    assert!(head.starts_with("HTTP/1.1 409"), "{head}");
    let asked: Vec<StackHash> = hashes_from_bytes(&asked).unwrap();
    assert_eq!(asked, batch.symbols.hashes());
    assert_eq!(send(&server, &batch).1, "windows=1 repeated=0 too_old=0");
    // From now on they are known, to other services as well.
    let later = Batch {
        symbols: Symbols::default(),
        ..seen("mail", "parseOrders", start, 2)
    };
    assert_eq!(send(&server, &later).1, "windows=1 repeated=0 too_old=0");

    // It is killed, and what was acknowledged is there: sent again, it changes nothing.
    let address = server.address.clone();
    drop(server);
    let server = Server::start(&store, &address, &["--ingest"]);
    assert_eq!(send(&server, &batch).1, "windows=0 repeated=1 too_old=0");
    assert_eq!((total(&server, "shop"), total(&server, "mail")), (3, 2));
    let (_, metrics) = server.ask("/metrics", "");
    let metrics = String::from_utf8(metrics).unwrap();
    let line = "nodespy_ingested_windows_total{outcome=\"repeated\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}

#[test]
fn what_is_too_much_has_a_clear_answer() {
    let folder = Scratch::new();
    let arguments = ["--ingest", "--max-series", "2"];
    let server = Server::start(folder.path(), "127.0.0.1:0", &arguments);
    let start = lately();
    for (service, code) in [("a", "200"), ("b", "200"), ("a", "200"), ("c", "422")] {
        let (found, text) = send(&server, &seen(service, "f", start, 1));
        assert_eq!(found, code, "{text}");
    }
    let (_, why) = send(&server, &seen("c", "f", start, 1));
    assert!(why.contains("--max-series"), "{why}");
    let early = seen("a", "f", start + 8000, 1);
    let (code, why) = send(&server, &early);
    assert_eq!(code, "422");
    assert!(why.contains("clock"), "{why}");
    // It is told when to come back, so that an agent keeps what it has.
    let (head, _) = server.post(WINDOWS, "", &batch_to_bytes(&early));
    let wait = head.lines().find_map(|it| it.strip_prefix("Retry-After: "));
    let wait: u64 = wait.unwrap().trim().parse().unwrap();
    assert!((4000..=4400).contains(&wait), "{wait}");
    let mut deep = seen("a", "f", start, 1);
    deep.symbols.stacks[0] = vec![0; 1025];
    let (code, why) = send(&server, &deep);
    assert_eq!(code, "400");
    assert!(why.contains("1024 frames of a stack"), "{why}");
    let (head, body) = server.post(WINDOWS, "", b"tea");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    assert_eq!(body, b"not windows of nodespy\n");
    let (head, _) = server.post(WINDOWS, "", &vec![0; 9 << 20]);
    assert!(head.starts_with("HTTP/1.1 413"), "{head}");
    let (head, _) = server.post("/elsewhere", "", b"");
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
    let (head, _) = server.post(WINDOWS, "Origin: http://evil.example\r\n", b"");
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    assert_eq!(total(&server, "a"), 1);
}

/// Compaction runs outside of requests, and a server that is told to end finishes it.
#[test]
fn hours_are_compacted_beside_requests_and_an_end_is_orderly() {
    let folder = Scratch::new();
    let two_hours_ago = lately() - 7200;
    let server = Server::start(folder.path(), "127.0.0.1:0", &["--ingest"]);
    for number in 0..3 {
        let batch = seen("shop", "parseOrders", two_hours_ago + 10 * number, 1);
        assert_eq!(send(&server, &batch).1, "windows=1 repeated=0 too_old=0");
    }
    assert_eq!(server.terminate().code(), Some(0));

    // It starts with what is due.
    let server = Server::start(folder.path(), "127.0.0.1:0", &["--ingest"]);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    let is_done = || {
        let (_, metrics) = server.ask("/metrics", "");
        let metrics = String::from_utf8(metrics).unwrap();
        metrics.contains("nodespy_compactions_total{outcome=\"done\"} 1\n")
    };
    while !is_done() {
        assert!(std::time::Instant::now() < deadline, "never compacted");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let batch = seen("shop", "parseOrders", two_hours_ago, 1);
    assert_eq!(send(&server, &batch).1, "windows=0 repeated=1 too_old=0");
    let series = server.json("/api/v1/series?service=shop&step=60&from=-4h");
    let weights = series["series"][0]["weights"].as_array().unwrap();
    let sum: u64 = weights.iter().map(|it| it.as_u64().unwrap()).sum();
    assert_eq!(sum, 3_000_000_000);
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn who_may_write_is_asked_for_a_token_of_its_own() {
    let folder = Scratch::new();
    let (read, write) = (folder.file("read"), folder.file("write"));
    std::fs::write(&read, "reads-0123456789abcdef\n").unwrap();
    std::fs::write(&write, "writes-0123456789abcdef\n").unwrap();
    let arguments = ["--token-file", &read, "--write-token-file", &write];
    let server = Server::start(&folder.path().join("store"), "127.0.0.1:0", &arguments);
    let body = batch_to_bytes(&seen("shop", "f", lately(), 1));
    for (token, code) in [("reads", "403"), ("writes", "200"), ("guesses", "403")] {
        let header = format!("Authorization: Bearer {token}-0123456789abcdef\r\n");
        let (head, _) = server.post(WINDOWS, &header, &body);
        assert_eq!(&head[9..12], code, "{token}");
    }
    let header = "Authorization: Bearer writes-0123456789abcdef\r\n";
    assert!(server.ask("/healthz", header).0.starts_with("HTTP/1.1 403"));

    let store = folder.file("other");
    let wide = [
        "serve",
        "--store",
        &store,
        "--behind-proxy",
        "--listen",
        "0.0.0.0:0",
    ];
    let outcome =
        crate::run::run_nodespy(&[&wide[..], &["--ingest", "--token-file", &read]].concat());
    outcome.expect_code(2);
    outcome.expect_stderr(&["--write-token-file"]);
}

/// A folder of the tokens of two tenants.
fn two_tenants(folder: &Scratch) -> String {
    let tokens = folder.path().join("tenants");
    for name in ["mail", "shop"] {
        std::fs::create_dir_all(tokens.join(name)).unwrap();
        for purpose in ["read", "write"] {
            let token = format!("{name}-{purpose}-0123456789abcdef\n");
            std::fs::write(tokens.join(name).join(purpose), token).unwrap();
        }
    }
    folder.file("tenants")
}

#[test]
fn tenants_share_nothing() {
    let folder = Scratch::new();
    let tokens = &*two_tenants(&folder);
    let arguments = ["--tenants", tokens, "--max-series", "1"];
    let server = Server::start(&folder.path().join("store"), "127.0.0.1:0", &arguments);
    let with = |token: &str| format!("Authorization: Bearer {token}-0123456789abcdef\r\n");
    let write = |tenant: &str, batch: &Batch| {
        let header = with(&format!("{tenant}-write"));
        let (head, body) = server.post(WINDOWS, &header, &batch_to_bytes(batch));
        (head[9..12].to_owned(), body)
    };
    let start = lately();
    // Each has its own limits: one that is full does not fill the other.
    assert_eq!(write("shop", &seen("a", "secretOfShop", start, 1)).0, "200");
    assert_eq!(write("shop", &seen("b", "f", start, 1)).0, "422");
    assert_eq!(write("mail", &seen("a", "f", start, 1)).0, "200");
    // Names that one has sent are not known to the other.
    let nameless = Batch {
        symbols: Symbols::default(),
        ..seen("a", "secretOfShop", start + 10, 1)
    };
    assert_eq!(write("shop", &nameless).0, "200");
    assert_eq!(write("mail", &nameless).0, "409");
    let target = "/api/v1/profile?service=a&format=folded";
    let read = |token: &str| {
        let (head, body) = server.ask(target, &with(token));
        (head[9..12].to_owned(), String::from_utf8(body).unwrap())
    };
    let (code, text) = read("shop-read");
    assert!(code == "200" && text.contains("secretOfShop"), "{text}");
    let (code, text) = read("mail-read");
    assert!(code == "200" && !text.contains("secretOfShop"), "{text}");
    for token in ["shop-write", "mail-write", "guess-read"] {
        assert_eq!(read(token).0, "403", "{token}");
    }
    assert_eq!(write("guess", &nameless).0, "403");
    drop(server);

    // A token that two have would be none.
    let shop = Path::new(tokens).join("shop");
    std::fs::copy(shop.join("read"), shop.join("write")).unwrap();
    let store = folder.file("store");
    let outcome = crate::run::run_nodespy(&["serve", "--store", &store, "--tenants", tokens]);
    outcome.expect_code(1);
    outcome.expect_stderr(&["another tenant or purpose"]);
}

/// Whoever may write could hold all connections of a server open, by bodies that never come.
#[test]
fn a_tenant_leaves_connections_to_others() {
    let folder = Scratch::new();
    let tokens = two_tenants(&folder);
    let arguments = ["--tenants", &*tokens];
    let server = Server::start(&folder.path().join("store"), "127.0.0.1:0", &arguments);
    let bearer = |tenant| format!("Authorization: Bearer {tenant}-write-0123456789abcdef\r\n");
    let bytes = batch_to_bytes(&seen("a", "f", lately(), 1));
    let slow = || {
        let mut connection = TcpStream::connect(&server.address).unwrap();
        let go = "Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n";
        let head = format!(
            "POST {WINDOWS} HTTP/1.1\r\nHost: x\r\n{}{go}",
            bearer("shop")
        );
        connection.write_all(head.as_bytes()).unwrap();
        // It is being answered now.
        let mut first = [0; 12];
        connection.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.1 100");
        connection
    };
    let held: Vec<TcpStream> = (0..32).map(|_| slow()).collect();
    let code = |tenant| server.post(WINDOWS, &bearer(tenant), &bytes).0[9..12].to_owned();
    assert_eq!(code("shop"), "503");
    assert_eq!(code("mail"), "200");
    drop(held);
    let until = Instant::now() + Duration::from_secs(30);
    while code("shop") != "200" {
        assert!(Instant::now() < until, "the tenant is never answered again");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_server_that_takes_nothing_says_so() {
    let folder = Scratch::new();
    drop(Server::start(folder.path(), "127.0.0.1:0", &["--ingest"]));
    let server = Server::start(folder.path(), "127.0.0.1:0", &[]);
    let (code, why) = send(&server, &seen("shop", "f", lately(), 1));
    assert_eq!(code, "405");
    assert!(why.contains("--ingest"), "{why}");
}

/// As the SDKs of Pyroscope send it.
#[test]
fn profiles_of_pyroscopes_sdks_are_taken() {
    let folder = Scratch::new();
    let server = Server::start(folder.path(), "127.0.0.1:0", &["--ingest"]);
    let target = format!(
        "/ingest?name=mail%7Benv%3Dprod%7D&from={}&until={}&sampleRate=100&spyName=pyspy&format=folded",
        lately(),
        lately() + 10
    );
    for expected in ["windows=1 repeated=0", "windows=0 repeated=1"] {
        let (head, body) = server.post(&target, "", b"main;send 200\nmain;wait 100\n");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(String::from_utf8_lossy(&body).contains(expected));
    }
    // The next one begins within the same ten seconds.
    let (_, body) = server.post(&target, "", b"main;send 100\n");
    assert!(String::from_utf8_lossy(&body).contains("windows=1 repeated=0"));
    assert_eq!(total(&server, "mail"), 4);
    let (head, body) = server.post("/ingest?name=mail&format=jfr", "", b"x");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    assert!(String::from_utf8_lossy(&body).contains("pprof and folded"));
}

#[test]
fn pyroscopes_own_sdk_sends_to_us_unchanged() {
    let Some(node) = crate::installed_node::node("20") else {
        return;
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut installer = Command::new(root.join("tools/packages.sh"));
    assert!(installer.arg("pyroscope").status().unwrap().success());
    let folder = Scratch::new();
    let server = Server::start(folder.path(), "127.0.0.1:0", &["--ingest"]);
    let mut sdk = Command::new(node);
    sdk.arg(root.join("workloads/pyroscope/app.js"))
        .env("SERVER", format!("http://{}", server.address))
        .env("DEBUG", "pyroscope");
    let outcome = crate::run::run(sdk);
    outcome.expect_code(0);
    let (head, body) = server.ask(
        "/api/v1/profile?service=sdk-shop&event=wall&label.env=test&format=folded",
        "",
    );
    assert!(head.starts_with("HTTP/1.1 200"), "{head}\n{outcome}");
    let text = String::from_utf8(body).unwrap();
    let weight = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    let all: u64 = text.lines().map(weight).sum();
    let hot = text.lines().filter(|line| line.contains("busyWithOrders"));
    let hot: u64 = hot.map(weight).sum();
    // The rest is idle time and the SDK's own.
    assert!(hot * 4 > all, "{hot} of {all}:\n{text}");
}

/// As Pyroscope's current SDK for Python sends it: push.v1, with a token, for a tenant.
#[test]
fn pyroscopes_sdk_for_python_sends_to_us_unchanged() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut installer = Command::new(root.join("tools/python.sh"));
    let python = installer.arg("pyroscope").output().unwrap();
    if !python.status.success() {
        let why = String::from_utf8_lossy(&python.stderr);
        return crate::skip::skip(&format!("pip can't install pyroscope-io: {}", why.trim()));
    }
    let folder = Scratch::new();
    let tenant = folder.path().join("tenants/mail");
    std::fs::create_dir_all(&tenant).unwrap();
    for purpose in ["read", "write"] {
        std::fs::write(tenant.join(purpose), format!("{purpose}-0123456789abcdef")).unwrap();
    }
    let arguments = ["--tenants", &folder.file("tenants")];
    let server = Server::start(&folder.path().join("store"), "127.0.0.1:0", &arguments);
    let python = String::from_utf8(python.stdout).unwrap();
    let mut sdk = Command::new(python.trim());
    sdk.arg(root.join("workloads/pyroscope/app.py"))
        .env("SERVER", format!("http://{}", server.address))
        .env("TOKEN", "write-0123456789abcdef");
    let outcome = crate::run::run(sdk);
    outcome.expect_code(0);
    let token = "Authorization: Bearer read-0123456789abcdef\r\n";
    let target = "/api/v1/profile?service=sdk-mail&label.env=test&format=folded";
    let (head, body) = server.ask(target, token);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}\n{outcome}");
    let text = String::from_utf8(body).unwrap();
    let weight = |line: &str| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    let all: u64 = text.lines().map(weight).sum();
    let hot = text.lines().filter(|line| line.contains("write_letters"));
    let hot: u64 = hot.map(weight).sum();
    assert!(hot * 10 > all * 8, "{hot} of {all}:\n{text}");
}

/// What Pyroscope's push.v1 says, byte for byte: answers of the Connect protocol, and an id that is known.
#[test]
fn pushes_are_answered_as_pyroscope_does() {
    let folder = Scratch::new();
    let server = Server::start(folder.path(), "127.0.0.1:0", &["--ingest"]);
    let kind = "Content-Type: application/proto\r\n";
    let field = |number: u8, bytes: &[u8]| {
        assert!(bytes.len() < 128);
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    };
    let label = |name: &[u8], value: &[u8]| field(1, &[field(1, name), field(2, value)].concat());
    // 3 s in `send`, without a time.
    let pprof = [
        field(1, &[8, 1, 16, 2]),
        field(2, &[10, 1, 1, 18, 5, 0x80, 0xbc, 0xc1, 0x96, 0x0b]),
        field(4, &[8, 1, 34, 2, 8, 1]),
        field(5, &[8, 1, 16, 3]),
        [
            field(6, b""),
            field(6, b"cpu"),
            field(6, b"nanoseconds"),
            field(6, b"send"),
        ]
        .concat(),
    ]
    .concat();
    let request = |id: &[u8]| {
        let sample = field(2, &[field(1, &pprof), field(2, id)].concat());
        field(1, &[label(b"service_name", b"mail"), sample].concat())
    };
    for (id, total_so_far) in [(b"1", 3), (b"1", 3), (b"2", 6)] {
        let (head, body) = server.post(PUSH, kind, &request(id));
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("Content-Type: application/proto"), "{head}");
        assert_eq!(body, b"");
        assert_eq!(total(&server, "mail"), total_so_far);
    }
    let refused = |kind: &str, body: &[u8], code: &str, words: &str| {
        let (head, body) = server.post(PUSH, kind, body);
        let error: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert!(!head.starts_with("HTTP/1.1 200"), "{head}");
        assert_eq!(error["code"], code);
        assert!(
            error["message"].as_str().unwrap().contains(words),
            "{error}"
        );
    };
    refused(kind, b"tea", "invalid_argument", "push.v1.PushRequest");
    refused(
        "Content-Type: application/json\r\n",
        b"{}",
        "unimplemented",
        "application/proto",
    );
    let packed = format!("{kind}Content-Encoding: gzip\r\n");
    refused(&packed, &request(b"3"), "invalid_argument", "gzip");
}

/// As collectors and profilers of OpenTelemetry send it; the request was made with OpenTelemetry's own messages.
#[test]
fn otlp_profiles_are_taken() {
    let folder = Scratch::new();
    // It was made long ago.
    let keep = [
        "--keep",
        "3650d",
        "--keep-hours",
        "3650d",
        "--keep-versions",
        "3650d",
    ];
    let arguments = [&["--ingest"], &keep[..]].concat();
    let server = Server::start(folder.path(), "127.0.0.1:0", &arguments);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let request = std::fs::read(root.join("fixtures/otlp/ebpf_profiler.pb")).unwrap();
    let kind = "Content-Type: application/x-protobuf\r\n";
    for _ in 0..2 {
        let (head, body) = server.post(OTLP, kind, &request);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("Content-Type: application/x-protobuf"));
        assert_eq!(body, b"");
    }
    let target =
        "/api/v1/profile?service=shop&event=cpu&from=1699999000&until=1700001000&format=folded";
    let (head, body) = server.ask(target, "");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let text = String::from_utf8(body).unwrap();
    // Four samples, once.
    assert!(text.contains("parseOrders"), "{text}");
    assert_eq!(text.trim_end().rsplit(' ').next(), Some("4"), "{text}");

    let (head, body) = server.post(OTLP, "Content-Type: application/json\r\n", b"{}");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
    assert!(String::from_utf8_lossy(&body).contains("JSON is not taken"));
    let (head, _) = server.post(OTLP, kind, b"tea");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
}

/// What is sent is decoded by OpenTelemetry's own package.
#[test]
fn otlp_profiles_are_what_opentelemetry_reads() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = Command::new(root.join("tools/python.sh")).output().unwrap();
    if !python.status.success() {
        // The fixture of the test above is of the same package, so that the wire is checked without it too.
        eprintln!("skipped: {}", String::from_utf8_lossy(&python.stderr));
        return;
    }
    let folder = Scratch::new();
    let file = folder.file("request");
    let start = lately();
    std::fs::write(
        &file,
        nodespy_otlp::encode(&seen("shop", "parseOrders", start, 3)),
    )
    .unwrap();
    let python = String::from_utf8(python.stdout).unwrap();
    let mut reader = Command::new(python.trim());
    reader
        .arg(root.join("tools/fixtures/otlp.py"))
        .args(["read", &file]);
    let outcome = crate::run::run(reader);
    outcome.expect_code(0);
    let expected = format!(
        "shop\t1.0.0\t0\tsamples/count/cpu/nanoseconds\t1000000000\t{start}\tmain\t3\tparseOrders :0\n"
    );
    assert_eq!(outcome.stdout, expected);
}

#[test]
fn settings_in_a_file_are_checked_with_their_lines() {
    let folder = Scratch::new();
    let file = folder.file("agent.toml");
    std::fs::write(&file, "rate = 49\nto = 'http://127.0.0.1:4600'\n").unwrap();
    let check = |more: &[&str]| {
        let arguments = ["agent", "--config", &file, "--check-config"];
        crate::run::run_nodespy(&[&arguments[..], more].concat())
    };
    check(&[]).expect_code(0);
    // What the command line says wins.
    check(&["--to", "nowhere"]).expect_code(1);
    std::fs::write(&file, "rate = 49\n\nkep = '3d'\n").unwrap();
    let outcome = check(&[]);
    outcome.expect_code(2);
    outcome.expect_stderr(&["agent.toml:3:", "kep"]);
    std::fs::write(&file, "rate = 49\nto = \n").unwrap();
    let outcome = check(&[]);
    outcome.expect_code(2);
    outcome.expect_stderr(&["agent.toml:2:"]);
    // A counter without a port is half a setting; the command line may have the other half.
    std::fs::write(&file, "[requests]\nmetric = 'http_requests_total'\n").unwrap();
    let outcome = check(&[]);
    outcome.expect_code(2);
    outcome.expect_stderr(&["port=PORT"]);
    check(&["--requests", "port=9464"]).expect_code(0);
    // V8's profiler has one rate.
    std::fs::write(&file, "engine = 'inspector'\nmax-overhead = '1%'\n").unwrap();
    check(&[]).expect_code(2).expect_stderr(&["perf events"]);
    check(&["--engine", "perf"]).expect_code(0);
    std::fs::write(&file, "engine = 'inspector'\n").unwrap();
    check(&[]).expect_code(0);
    // What a server refuses in each batch.
    std::fs::write(&file, format!("[label]\n{} = 'x'\n", "k".repeat(129))).unwrap();
    check(&[]).expect_code(2).expect_stderr(&["129 bytes"]);
    let many: String = (0..33).map(|it| format!("k{it} = 'x'\n")).collect();
    std::fs::write(&file, format!("[label]\n{many}")).unwrap();
    check(&[]).expect_code(2).expect_stderr(&["33 labels"]);
    // A token of the server is none of a collector.
    let token = folder.file("token");
    std::fs::write(&token, "writes-0123456789abcdef\n").unwrap();
    let push = "[push]\notlp = 'http://127.0.0.1:4318'\n";
    std::fs::write(&file, format!("token-file = '{token}'\n{push}")).unwrap();
    check(&[])
        .expect_code(2)
        .expect_stderr(&["--push-token-file"]);
    let text = format!("{push}[push-token-file]\notlp = '{token}'\n");
    std::fs::write(&file, text).unwrap();
    check(&[]).expect_code(0);
    let other = ["--push", "otlp=http://127.0.0.1:4319"];
    check(&other).expect_code(2).expect_stderr(&["2 of otlp"]);
    check(&["--push-token-file", "otlp=/nowhere"]).expect_code(1);
    // A token that anybody on the way can read is worth a word.
    let text = format!("to = 'http://profiles.internal:4600'\ntoken-file = '{token}'\n");
    std::fs::write(&file, text).unwrap();
    check(&[])
        .expect_code(0)
        .expect_stderr(&["level=warn", "http://profiles.internal:4600"]);
    let outcome = check(&["--to", "http://127.0.0.1:4600"]);
    outcome.expect_code(0);
    assert!(!outcome.stderr.contains("warn"), "{outcome}");
    std::fs::write(&file, "rate = 19\nengine = 'both'\n").unwrap();
    check(&[])
        .expect_code(2)
        .expect_stderr(&["agent.toml:2:", "both"]);
}
