//! What is pushed to others is what was sampled, and what they answer decides what becomes of it.

use nodespy_formats::{ImportOptions, import};
use nodespy_http::Client;
use nodespy_model::{Contents, Labels, Profile, SmallSort, ThreadRole, WeightUnit};
use nodespy_store::{
    Batch, CPU_EVENT, Count, REQUESTS_EVENT, Series, StoredFrame, StoredFunction, Symbols, Window,
    batch_to_bytes,
};
use prost::Message;

use crate::destination::Destination;
use crate::grpc_web;
use crate::parca::WriteRawRequest;
use crate::spool::Spool;
use crate::test_receiver::{LONG, client, receiver, wait_for, writers};

const START: u64 = 1_700_000_000;

/// Ten seconds of two services: one busy in a function and in libuv's pool, one in another function.
pub(crate) fn batch() -> Batch {
    let function = |name: &str, line| StoredFunction {
        name: name.to_owned(),
        file: "/app/main.js".to_owned(),
        line,
        ..StoredFunction::default()
    };
    let symbols = Symbols {
        functions: vec![
            function("serve", 1),
            function("parseOrders", 4),
            function("writeLetters", 9),
        ],
        frames: (0..3)
            .map(|function| StoredFrame {
                function,
                line: function + 10,
                ..StoredFrame::default()
            })
            .collect(),
        stacks: vec![vec![0, 1], vec![0, 2], vec![0]],
    };
    let series = |service: &str| {
        let mut labels = Labels::default();
        labels.set("version", "1.0.0");
        labels.set("inner-pid", "7");
        Series {
            service: service.to_owned(),
            event: CPU_EVENT.to_owned(),
            unit: WeightUnit::Nanoseconds,
            period: 50_000_000,
            labels,
        }
    };
    let hashes = symbols.hashes();
    let window = |series, counts| Window {
        series,
        start: START,
        counts,
    };
    Batch {
        series: vec![series("shop"), series("mail")],
        windows: vec![
            window(
                0,
                vec![
                    Count::new(hashes[0], ThreadRole::Main, 5),
                    Count::new(hashes[2], ThreadRole::Pool, 2),
                ],
            ),
            window(1, vec![Count::new(hashes[1], ThreadRole::Main, 3)]),
        ],
        symbols,
    }
}

/// The same with requests that were counted meanwhile, and a batch of nothing else before it.
fn with_requests() -> [Batch; 2] {
    let mut batch = batch();
    let counted = Series {
        event: REQUESTS_EVENT.to_owned(),
        unit: WeightUnit::Events,
        period: 1,
        ..batch.series[0].clone()
    };
    let mut alone = Batch::counted(vec![counted], &[(0, START, 77)]);
    let only = alone.clone();
    alone.windows[0].series = batch.series.len();
    batch.series.append(&mut alone.series);
    batch.windows.append(&mut alone.windows);
    batch.symbols.stacks.append(&mut alone.symbols.stacks);
    [only, batch]
}

/// They are not profiles, so only a server of nodespy gets them.
#[test]
fn requests_are_pushed_to_nodespy_alone() {
    type Made = fn(Client, Spool) -> Destination;
    let made: [(Made, u64); 4] = [
        (Destination::pyroscope, 2),
        (Destination::otlp, 2),
        (Destination::parca, 2),
        (Destination::server, 4),
    ];
    for (made, expected) in made {
        let folder = tempfile::tempdir().unwrap();
        let spool = Spool::open(folder.path(), 1 << 20).unwrap();
        // No server is there: what would be sent waits.
        let (writers, counters, _) = writers(made(client("http://127.0.0.1:1"), spool));
        with_requests().into_iter().for_each(|it| writers.write(it));
        wait_for("what waits", || {
            counters.backlog().unwrap().windows == expected
        });
        writers.finish();
        assert_eq!(counters.backlog().unwrap().windows, expected);
    }
}

fn read_pprof(bytes: &[u8]) -> Profile {
    assert!(bytes.starts_with(&[0x1f, 0x8b]), "it is gzipped");
    let options = ImportOptions::from(Some("pprof"));
    match import(bytes.to_vec().into(), &options).unwrap().contents {
        Contents::Named(profile) => *profile,
        _ => panic!("a pprof has names"),
    }
}

/// Names of the functions, and nanoseconds in all.
fn seen(profile: &Profile) -> (Vec<&str>, u64) {
    let functions = profile.functions.iter();
    let mut names: Vec<&str> = functions.map(|it| profile.strings.get(it.name)).collect();
    names.small_sort();
    let period = profile.event().interval().unwrap();
    let weight: u64 = profile.samples.iter().map(|sample| sample.weight).sum();
    let nanoseconds = match profile.unit() {
        WeightUnit::Samples => weight * period,
        _ => weight,
    };
    (names, nanoseconds)
}

#[track_caller]
fn expect_shop(profile: &Profile) {
    assert_eq!(profile.about.started_unix, START * 1_000_000_000);
    assert_eq!(seen(profile), (vec!["parseOrders", "serve"], 350_000_000));
}

#[track_caller]
fn expect_mail(profile: &Profile) {
    assert_eq!(seen(profile), (vec!["serve", "writeLetters"], 150_000_000));
}

/// A reply of gRPC-Web: an empty message, and the trailers that end the call.
fn grpc_reply(status: u32, message: &str) -> (&'static str, Vec<u8>) {
    let trailers = format!("grpc-status: {status}\r\ngrpc-message: {message}\r\n");
    let mut trailers = grpc_web::framed(trailers.as_bytes());
    trailers[0] = 0x80;
    let head = "200 OK\r\nContent-Type: application/grpc-web+proto";
    (head, [grpc_web::framed(&[]), trailers].concat())
}

#[test]
fn parca_gets_a_pprof_for_each_process_in_one_request() {
    let folder = tempfile::tempdir().unwrap();
    let (url, received) = receiver(vec![
        ("503 Service Unavailable", Vec::new()),
        grpc_reply(14, "not%20yet"),
        grpc_reply(0, ""),
        // One of the two is refused, and costs the other nothing.
        grpc_reply(3, "invalid%20label"),
        grpc_reply(3, "invalid%20label"),
        ("200 OK\r\ngrpc-status: 0", Vec::new()),
    ]);
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    let (writers, counters, lines) = writers(Destination::parca(client(&url), spool));
    (0..3).for_each(|_| writers.write(batch()));
    let mut requests: Vec<_> = (0..7)
        .map(|_| received.recv_timeout(LONG).unwrap())
        .collect();
    let half = requests.remove(4);
    let other_half = requests.remove(4);
    assert!(half.body.len() < requests[0].body.len() && other_half.body != half.body);
    wait_for("what was counted", || {
        let written = counters.written();
        (written.windows, written.dropped, written.retries) == (5, 1, 2)
    });
    writers.finish();
    for request in &requests {
        let path = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw";
        assert_eq!(request.target, path);
        assert_eq!(request.content_type, "application/grpc-web+proto");
        // What is tried again is the same.
        assert_eq!(request.body, requests[0].body);
    }
    let (head, message) = requests[2].body.split_at(5);
    assert_eq!(head[0], 0);
    let length = u32::from_be_bytes(head[1..].try_into().unwrap());
    assert_eq!(length as usize, message.len());
    let series = WriteRawRequest::decode(message).unwrap().series;
    let [shop, mail] = &series[..] else {
        panic!("{} series", series.len())
    };
    let label = |name: &str| {
        let labels = &shop.labels.as_ref().unwrap().labels;
        let found = labels.iter().find(|label| label.name == name);
        found.map(|label| label.value.as_str())
    };
    assert_eq!(label("__name__"), Some("process_cpu"));
    assert_eq!(
        (label("job"), label("inner_pid")),
        (Some("shop"), Some("7"))
    );
    expect_shop(&read_pprof(&shop.samples[0].raw_profile));
    expect_mail(&read_pprof(&mail.samples[0].raw_profile));
    let lines = lines.lock().unwrap().join("\n");
    for said in [
        "503",
        "grpc-status 14 not yet",
        "shop: grpc-status 3 invalid label",
    ] {
        assert!(lines.contains(said), "{lines}");
    }
}

/// A window that Pyroscope refuses does not take the others with it, and what it has is not sent again.
#[test]
fn pyroscope_gets_a_pprof_for_each_process() {
    let folder = tempfile::tempdir().unwrap();
    let (url, received) = receiver(vec![
        ("200 OK", Vec::new()),
        ("500 Internal Server Error", Vec::new()),
        ("200 OK", Vec::new()),
        ("422 Unprocessable Content", Vec::new()),
        ("200 OK", Vec::new()),
    ]);
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    let (writers, counters, _) = writers(Destination::pyroscope(client(&url), spool));
    writers.write(batch());
    writers.write(batch());
    let next = || {
        let request = received.recv_timeout(LONG).unwrap();
        let shop = request.target.contains("&name=shop%7B");
        match shop {
            true => expect_shop(&read_pprof(&request.body)),
            false => expect_mail(&read_pprof(&request.body)),
        }
        (shop, request)
    };
    let (requests, targets): (Vec<_>, Vec<_>) = (0..5).map(|_| next()).unzip();
    assert_eq!(requests, [true, false, false, true, false]);
    let target = &targets[0].target;
    for part in [
        "/ingest?format=pprof",
        "&from=1700000000&until=1700000010",
        "&sampleRate=20",
    ] {
        assert!(target.contains(part), "{target}");
    }
    wait_for("what was counted", || {
        let written = counters.written();
        (written.windows, written.dropped, written.retries) == (3, 1, 1)
    });
    writers.finish();
}

#[test]
fn otlp_receivers_get_what_was_sampled() {
    let folder = tempfile::tempdir().unwrap();
    let (url, received) = receiver(vec![("200 OK", Vec::new())]);
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    let (writers, counters, _) = writers(Destination::otlp(client(&url), spool));
    writers.write(batch());
    let request = received.recv_timeout(LONG).unwrap();
    assert_eq!(request.target, "/v1development/profiles");
    assert_eq!(request.content_type, "application/x-protobuf");
    let decoded = nodespy_otlp::decode(&request.body, Some("gzip"))
        .unwrap()
        .batch;
    let counts = |service: &str| -> Vec<(ThreadRole, u64)> {
        let windows = decoded.windows.iter();
        let mut of_service = windows.filter(|it| decoded.series[it.series].service == service);
        let window = of_service.next().unwrap();
        assert!(of_service.next().is_none() && window.start == START);
        let mut counts: Vec<_> = window
            .counts
            .iter()
            .map(|it| (it.role(), it.count))
            .collect();
        counts.small_sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counts
    };
    assert_eq!(
        counts("shop"),
        [(ThreadRole::Main, 5), (ThreadRole::Pool, 2)]
    );
    assert_eq!(counts("mail"), [(ThreadRole::Main, 3)]);
    let names = decoded.symbols.functions.iter();
    assert_eq!(names.filter(|it| it.name == "parseOrders").count(), 1);
    wait_for("what was counted", || counters.written().windows == 2);
    writers.finish();
}

/// Then its address may be that of something else.
#[test]
fn parca_that_refuses_everything_is_not_asked_about_each_window() {
    let folder = tempfile::tempdir().unwrap();
    let (url, received) = receiver(vec![grpc_reply(3, "no")]);
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    let (writers, counters, _) = writers(Destination::parca(client(&url), spool));
    let mut many = batch();
    let shop = many.windows.remove(0);
    many.windows = (0..300)
        .map(|number| Window {
            start: START + 10 * number,
            ..shop.clone()
        })
        .collect();
    writers.write(many);
    wait_for("what was counted", || counters.written().dropped == 300);
    writers.finish();
    assert_eq!(received.try_iter().count(), 257);
}

/// Windows of a time to come let others go first; what Pyroscope has of theirs by then is not sent again.
#[test]
fn pyroscope_gets_nothing_twice_for_a_window_that_waits() {
    let folder = tempfile::tempdir().unwrap();
    let (url, received) = receiver(vec![
        ("200 OK", Vec::new()),
        ("422 Unprocessable Content\r\nRetry-After: 1", Vec::new()),
        ("200 OK", Vec::new()),
    ]);
    let spool = Spool::open(folder.path(), 1 << 20).unwrap();
    let mut other = batch();
    other.windows.iter_mut().for_each(|it| it.start += 10);
    for batch in [batch(), other] {
        spool.push(&batch_to_bytes(&batch), 2).unwrap();
    }
    let (writers, counters, _) = writers(Destination::pyroscope(client(&url), spool));
    wait_for("what was counted", || counters.written().windows == 4);
    writers.finish();
    let sent: Vec<_> = received
        .try_iter()
        .map(|it| {
            let is_shop = it.target.contains("&name=shop%7B");
            (is_shop, it.target.contains("&from=1700000000&"))
        })
        .collect();
    let first = [(true, true), (false, true)];
    assert_eq!(
        sent,
        [first[0], first[1], (true, false), (false, false), first[1]]
    );
}
