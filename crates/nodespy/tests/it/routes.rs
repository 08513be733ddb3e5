//! Recordings whose samples say which HTTP request they were taken in: the table, the report and the filter.

use nodespy_model::{
    About, Category, EventType, FrameKind, FrameSpec, FunctionSpec, Labels, Notes, Process,
    Profile, ProfileBuilder, Sample, Thread, ThreadRole, WeightUnit, label_key,
};

use crate::run::run_nodespy;
use crate::scratch::Scratch;

/// A server: `GET /users/:id` renders for 60 samples under an async caller, `POST /orders` parses for 30, and the event
/// loop takes 10 in no request.
pub(crate) fn server() -> Profile {
    let mut builder = ProfileBuilder::new(EventType::new("cpu-clock", WeightUnit::Samples));
    let process = builder.process(Process {
        pid: 7,
        ..Process::default()
    });
    let thread = builder.thread(Thread {
        process,
        tid: 7,
        role: ThreadRole::Main,
        name: "main".to_owned(),
        ..Thread::default()
    });
    let rows = [
        (Some("GET /users/:id"), &["handle", "render"][..], 60),
        (Some("POST /orders"), &["parse"][..], 30),
        (None, &["poll"][..], 10),
    ];
    let mut time = 0;
    for (route, names, samples) in rows {
        let mut stack = None;
        for (line, name) in (1..).zip(names) {
            let frame = builder.frame(FrameSpec {
                function: FunctionSpec {
                    name,
                    file: "/srv/app.js",
                    line,
                    category: Category::App,
                    ..FunctionSpec::default()
                },
                line,
                kind: match *name {
                    "handle" => FrameKind::Async,
                    _ => FrameKind::Physical,
                },
                ..FrameSpec::default()
            });
            stack = Some(builder.stack(stack, frame));
        }
        let mut labels = Labels::default();
        labels.set(label_key::ROUTE, route.unwrap_or_default());
        let context = builder.context(labels);
        for _ in 0..samples {
            time += 10_000_000;
            builder.add_sample(Sample {
                time,
                thread,
                stack,
                weight: 1,
                context,
                ..Sample::default()
            });
        }
    }
    let about = About {
        duration: time,
        ..About::default()
    };
    builder.finish(about, Notes::default())
}

/// The server's recording as a file.
fn recorded(scratch: &Scratch) -> String {
    let path = scratch.file("server.nspy");
    let mut bytes = Vec::new();
    nodespy_formats::export(&server(), "nspy", &mut bytes).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

fn printed(arguments: &[&str]) -> String {
    let outcome = run_nodespy(arguments);
    outcome.expect_code(0);
    outcome.stdout
}

#[test]
fn a_report_ends_with_the_routes_and_may_be_about_them_alone() {
    let scratch = Scratch::new();
    let path = recorded(&scratch);
    let path = path.as_str();
    let text = printed(&["report", path]);
    let end = "CPU by route, of all CPU time of the recording
 share   samples  route
 60.0%        60  GET /users/:id
 30.0%        30  POST /orders
 10.0%        10  (no request)
";
    assert!(text.ends_with(end), "{text}");
    let text = printed(&["report", path, "--by", "route"]);
    assert!(
        text.contains("\n 60.0%              render  /srv/app.js:2\n"),
        "{text}"
    );
    assert!(!text.contains("heaviest by themselves"), "{text}");
    let markdown = printed(&["report", path, "--by", "route", "--format", "md"]);
    assert!(markdown.contains("| `GET /users/:id` |"), "{markdown}");
    let json = printed(&["report", path, "--by", "route", "--format", "json"]);
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["routes"][1]["functions"][0]["name"], "parse");
    assert_eq!(report["routes"][2]["samples"], 10);
    run_nodespy(&["report", path, "--by", "route", "--format", "prof"]).expect_code(2);
}

#[test]
fn every_field_of_the_routes_is_documented() {
    let documented = include_str!("../../../../docs/json.md");
    let scratch = Scratch::new();
    let json = printed(&["report", &recorded(&scratch), "--format", "json"]);
    let keys = json.lines().filter_map(|line| {
        let (key, _) = line.trim().strip_prefix('"')?.split_once("\": ")?;
        Some(key)
    });
    for key in keys {
        assert!(documented.contains(&format!("`{key}`")), "{key}");
    }
}

#[test]
fn a_route_is_a_filter_of_every_command_that_shows_a_recording() {
    let scratch = Scratch::new();
    let path = recorded(&scratch);
    let path = path.as_str();
    let folded = printed(&["convert", path, "-", "--to", "folded", "--route", "^POST"]);
    assert_eq!(folded.trim_end(), "main;parse /srv/app.js:1_[j] 30");
    let folded = printed(&[
        "convert",
        path,
        "-",
        "--to",
        "folded",
        "--route",
        "(no request)",
    ]);
    assert_eq!(folded.trim_end(), "main;poll /srv/app.js:1_[j] 10");
    let svg = printed(&["flamegraph", path, "--route", "users"]);
    assert!(svg.contains("render") && !svg.contains("parse"), "{svg}");
    let text = printed(&["report", path, "--route", "GET /users/:id"]);
    assert!(
        text.contains("--route \"GET /users/:id\" (60.0 % of the weight is left)"),
        "{text}"
    );
    assert!(
        text.ends_with("100.0%        60  GET /users/:id\n"),
        "{text}"
    );
    let difference = printed(&["diff", path, path, "--route", "orders"]);
    assert!(
        difference.contains("parse") && !difference.contains("render"),
        "{difference}"
    );
    let answer = printed(&["query", path, "self by function", "--route", "orders"]);
    assert!(
        answer.contains("parse") && !answer.contains("render"),
        "{answer}"
    );
}

#[test]
fn two_recordings_are_compared_by_route() {
    let scratch = Scratch::new();
    let (before, after) = (recorded(&scratch), scratch.file("after.nspy"));
    // Half of the samples of the orders are gone.
    let mut faster = server();
    let mut at = 0;
    faster.samples.retain(|_| {
        at += 1;
        !(60..75).contains(&at)
    });
    let mut bytes = Vec::new();
    nodespy_formats::export(&faster, "nspy", &mut bytes).unwrap();
    std::fs::write(&after, bytes).unwrap();
    let json = printed(&["diff", &before, &after, "--by", "route", "--format", "json"]);
    let difference: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(difference["by"], "route");
    let rows = difference["functions"].as_array().unwrap();
    let orders = rows.iter().find(|row| row["name"] == "POST /orders");
    let [was, is] = ["before", "after"].map(|side| orders.unwrap()["self"][side].as_f64());
    assert!(is < was, "{json}");
    assert!(rows.iter().all(|row| row["name"] != "parse"), "{json}");
    let text = printed(&["diff", &before, &after, "--by", "route"]);
    assert!(!text.contains("function"), "{text}");
    let page = scratch.file("diff.html");
    let outcome = run_nodespy(&["diff", &before, &after, "--by", "route", "-o", &page]);
    outcome.expect_code(2);
}

#[test]
fn a_route_that_is_not_there_is_answered_with_those_there_are() {
    let scratch = Scratch::new();
    let path = recorded(&scratch);
    let outcome = run_nodespy(&["report", &path, "--route", "DELETE"]);
    outcome.expect_code(5);
    let error = "no sample has a route that matches DELETE; there are GET /users/:id, POST /orders";
    assert!(outcome.stderr.contains(error), "{}", outcome.stderr);
}

#[test]
fn rows_of_top_are_by_what_is_asked_of_stores() {
    let outcome = run_nodespy(&["top", "-p", "1", "--by", "tenant"]);
    outcome
        .expect_code(2)
        .expect_stderr(&["--by tenant needs --store-key tenant"]);
}
