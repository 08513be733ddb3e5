//! The HTTP routes of samples: are they found, and only the right ones?

use std::collections::BTreeMap;
use std::path::Path;

use nodespy_model::{Nanoseconds, Sample, label_key};

use super::certainty::margin;
use super::errors::{busy_shell, node_as_nobody, run_as_nobody};
use super::recorded::{Recorded, read, record, record_enough};
use super::versions::on_every_node;
use super::workload::{Running, Workload};
use super::{is_root, live};
use crate::scratch::Scratch;
use crate::skip::skip;

/// How many samples of functions that are named after a route have the right one at least, and a wrong one at most.
#[derive(Clone, Copy)]
struct Goal {
    right: f64,
    wrong: f64,
}

const BY_PROGRAM: Goal = Goal {
    right: 0.97,
    wrong: 0.001,
};
/// By threads without any right, which are in the way of the sampled one most of the time.
const BY_READERS: Goal = Goal {
    right: 0.6,
    wrong: 0.005,
};

/// What the names of the functions of a route start with, and its route as a framework says it, or as its path does.
const ROUTES: [(&str, &str, &str); 6] = [
    ("items_", "GET /shop/items/:id", "GET /shop/items/*"),
    ("report_", "GET /shop/report/:year", "GET /shop/report/*"),
    ("orders_", "POST /shop/orders/:id", "POST /shop/orders/*"),
    (
        "search_",
        "GET /shop/search/:text",
        "GET /shop/search/shoes",
    ),
    (
        "files_",
        "GET /shop/files/:name",
        "GET /shop/files/price-list",
    ),
    ("health_", "GET /shop/health", "GET /shop/health"),
];

/// workloads/routes/server.js on a framework, and what keeps it busy.
fn start_server(major: &str, framework: &str, flag: Option<&'static str>) -> (Running, Running) {
    let mut server = Workload::new("routes/server.js").on(major);
    if let Some(flag) = flag {
        server = server.flag(flag);
    }
    let server = server.with_packages("routes").argument(framework).start();
    let load = load_of(&server).argument(framework).start();
    (server, load)
}

fn start_load(server: &Running) -> Running {
    load_of(server).start()
}

fn load_of(server: &Running) -> Workload {
    let load = Workload::new("routes/load.js");
    load.argument(&server.ready).argument(120)
}

fn route_of<'a>(recorded: &'a Recorded, sample: &Sample) -> Option<&'a str> {
    let labels = recorded.profile.contexts.get(sample.context);
    labels.get(label_key::ROUTE)
}

/// The route that the functions of a sample are named after.
fn true_route(recorded: &Recorded, sample: &Sample) -> Option<(&'static str, &'static str)> {
    recorded.answer_of(sample, |name| {
        let route = ROUTES.iter().find(|(start, ..)| name.starts_with(start))?;
        Some((route.1, route.2))
    })
}

/// From when on routes are to be known: which objects are requests is learned step by step from the first samples. That takes
/// a few tenths of a second, and longer where nodespy has to wait for a CPU while it reads symbols for the first time: then
/// from when each of them was found once, but two thirds of the time at most.
fn learned_after(recorded: &Recorded, has_patterns: bool) -> Nanoseconds {
    let samples = &recorded.profile.samples;
    let end = samples.last().map_or(0, |last| last.time);
    let first_of = |route: &(&str, &'static str, &'static str)| {
        let right = if has_patterns { route.1 } else { route.2 };
        let mut found = samples.iter();
        let found = found.find(|sample| route_of(recorded, sample) == Some(right));
        found.map_or(0, |sample| sample.time)
    };
    let last = ROUTES.iter().map(first_of).max().unwrap_or(0);
    last.clamp(end / 3, end - end / 3)
}

/// Samples by their right route and the one they have.
fn judged(recorded: &Recorded, has_patterns: bool) -> BTreeMap<(&str, Option<&str>), u64> {
    let mut counts = BTreeMap::new();
    let learned = learned_after(recorded, has_patterns);
    let is_judged = |sample: &&Sample| sample.time >= learned;
    for sample in recorded.profile.samples.iter().filter(is_judged) {
        if let Some((pattern, path)) = true_route(recorded, sample) {
            let right = if has_patterns { pattern } else { path };
            *counts
                .entry((right, route_of(recorded, sample)))
                .or_default() += 1;
        }
    }
    counts
}

#[track_caller]
fn expect_right_routes(recorded: &Recorded, has_patterns: bool, goal: Goal) {
    let counts = judged(recorded, has_patterns);
    let all: u64 = counts.values().sum();
    let of = |wanted: fn(&str, Option<&str>) -> bool| {
        let wanted = counts
            .iter()
            .filter(|((right, found), _)| wanted(right, *found));
        wanted.map(|(_, count)| count).sum::<u64>()
    };
    let right = of(|right, found| found == Some(right));
    let wrong = of(|right, found| found.is_some_and(|found| found != right));
    // On a busy machine the server gets little of a CPU.
    assert!(all > 50, "{counts:#?}\n{}", recorded.describe());
    let all = all as f64;
    let least = goal.right - margin(goal.right, all);
    assert!(right as f64 / all >= least, "{counts:#?}");
    // Those of one request are wrong together.
    assert!(wrong as f64 <= goal.wrong * all + 3.0, "{counts:#?}");
    for labels in recorded.profile.contexts.iter() {
        let route = labels.get(label_key::ROUTE).unwrap_or_default();
        assert!(!route.contains("secret") && !route.contains('?'), "{route}");
    }
}

fn expect_routes(major: &str, framework: &str, flag: Option<&'static str>) {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("requests are read by an eBPF program, which needs root");
    }
    let (server, _load) = start_server(major, framework, flag);
    let recorded = record_enough(&server, 5, &["-F", "499"], 300);
    expect_right_routes(&recorded, !framework.starts_with("http"), BY_PROGRAM);
}

/// What a user finds who has no right but to look at their own processes.
fn expect_routes_without_rights(major: &str) {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("only root can become another user");
    }
    let mut server = node_as_nobody(major, "routes/server.js");
    server.arg("http");
    let server = Running::new(server);
    let _load = start_load(&server);
    let scratch = Scratch::for_other_users();
    let pid = server.pid_text();
    let record = "record --async -d 5 -F 499 -o out.nspy -p".split(' ');
    let arguments: Vec<&str> = record.chain([pid.as_str()]).collect();
    let outcome = run_as_nobody(&scratch, &arguments);
    outcome
        .expect_code(0)
        .expect_stderr(&[" with reader threads "]);
    let profile = read(Path::new(&scratch.file("out.nspy")));
    expect_right_routes(&Recorded { profile, outcome }, false, BY_READERS);
}

on_every_node! {{
    express_has_its_patterns(|major| expect_routes(major, "express", None));
    a_server_without_a_framework_has_its_paths(|major| expect_routes(major, "http", None));
} three {
    without_rights_threads_find_most(expect_routes_without_rights);
}}

mod frameworks {
    mod matrix {
        use super::super::*;

        #[test]
        fn fastify_has_its_patterns() {
            for major in ["16", "22", "26"] {
                expect_routes(major, "fastify", None);
            }
        }

        #[test]
        fn requests_of_http2_have_their_paths() {
            for major in ["16", "22", "26"] {
                expect_routes(major, "http2", None);
            }
        }

        #[test]
        fn streams_of_http2_have_the_paths_of_their_headers() {
            for major in ["16", "18", "20", "22", "24", "25", "26"] {
                expect_routes(major, "http2-streams", None);
            }
        }

        /// Who computes has no request then, or one with a dictionary, or waits for what runs from the next microtask on.
        #[test]
        fn requests_of_renderings_and_of_returned_promises_are_found() {
            for major in ["16", "20", "22", "24", "26"] {
                expect_routes(major, "http-rendered", None);
            }
        }

        #[test]
        fn koa_has_its_patterns() {
            for major in ["16", "22", "26"] {
                expect_routes(major, "koa", None);
            }
        }

        /// Samples are read late then, and their memory has long moved on.
        #[test]
        fn they_are_found_beside_loops_that_take_all_cpus() {
            let Some(_live) = live() else { return };
            if !is_root() {
                return skip("requests are read by an eBPF program, which needs root");
            }
            let (server, _load) = start_server("24", "express", None);
            let _busy = [busy_shell(), busy_shell(), busy_shell()];
            let recorded = record(&server, &["-d", "14", "-F", "499"]);
            expect_right_routes(&recorded, true, BY_PROGRAM);
        }

        #[test]
        fn requests_of_a_worker_are_found() {
            let Some(_live) = live() else { return };
            if !is_root() {
                return skip("requests are read by an eBPF program, which needs root");
            }
            for major in ["18", "24"] {
                let server = Workload::new("routes/worker.js").on(major);
                let server = server.argument("http").start();
                let _load = start_load(&server);
                let recorded = record_enough(&server, 5, &["-F", "499"], 300);
                expect_right_routes(&recorded, false, BY_PROGRAM);
            }
        }

        #[test]
        fn requests_that_move_often_are_found() {
            // Before Node 24 each request of express has a map of its own, with a list of properties that moves too.
            for major in ["18", "24"] {
                expect_routes(major, "express", Some("--max-semi-space-size=1"));
            }
        }
    }
}

#[test]
fn threads_that_go_before_others_find_nearly_all() {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("a thread of a real-time class needs root");
    }
    let (server, _load) = start_server("24", "express", None);
    let arguments = ["-F", "199", "--no-ebpf", "--async"];
    let recorded = record_enough(&server, 5, &arguments, 200);
    let goal = Goal {
        right: 0.9,
        wrong: BY_READERS.wrong,
    };
    expect_right_routes(&recorded, true, goal);
}

#[test]
fn they_can_be_left_out() {
    let Some(_live) = live() else { return };
    let (server, _load) = start_server("24", "http", None);
    for option in ["--no-routes", "--no-ebpf"] {
        let recorded = record(&server, &["-d", "1", "-F", "199", option]);
        let has_route = |sample: &Sample| route_of(&recorded, sample).is_some();
        assert!(!recorded.profile.samples.iter().any(has_route), "{option}");
    }
}
