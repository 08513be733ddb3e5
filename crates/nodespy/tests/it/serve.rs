//! `nodespy serve`: a store over HTTP, in every way it is asked.

use std::ops::Deref;
use std::time::{SystemTime, UNIX_EPOCH};

use nodespy_model::{
    About, Category, EventType, FrameSpec, FunctionSpec, Notes, Process, ProfileBuilder, Thread,
    ThreadRole, WeightUnit, label_key,
};
use nodespy_store::{OpenMode, SqliteStore, Store, batch_of};
use serde_json::Value;

use crate::own_status::status_of;
use crate::scratch::Scratch;
use crate::serving::Server;
use crate::webdriver::Browser;

/// A minute of a version whose time is in one function, `samples` of them, until now.
fn fill(store: &mut SqliteStore, version: &str, function: &str, samples: u64) {
    let event = EventType::new("cpu-clock", WeightUnit::Samples).at_rate(19);
    let mut builder = ProfileBuilder::new(event);
    let process = builder.process(Process {
        pid: 7,
        ..Process::default()
    });
    for (key, value) in [
        (label_key::APP, "shop"),
        (label_key::VERSION, version),
        ("instance", "web-1/7"),
    ] {
        builder.label(process, key, value);
    }
    let thread = builder.thread(Thread {
        process,
        tid: 7,
        role: ThreadRole::Main,
        ..Thread::default()
    });
    let frame = builder.frame(FrameSpec {
        function: FunctionSpec {
            name: function,
            file: "/app/shop.js",
            line: 3,
            column: 1,
            category: Category::App,
        },
        line: 4,
        ..FrameSpec::default()
    });
    let stack = builder.stack(None, frame);
    for number in 0..samples {
        builder.sample(number * 60_000_000_000 / samples, thread, Some(stack), 1);
    }
    let about = About {
        started_unix: (unix_seconds() - 120) * 1_000_000_000,
        ..About::default()
    };
    let profile = builder.finish(about, Notes::default());
    store.append(&batch_of(&profile)).unwrap();
}

fn unix_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap().as_secs()
}

/// A server of a store with two versions in it.
struct Serving {
    server: Server,
    folder: Scratch,
}

impl Serving {
    fn start(arguments: &[&str]) -> Self {
        let folder = Scratch::new();
        let path = folder.path().join("profiles.sqlite");
        let mut store = SqliteStore::open(&path, OpenMode::Write).unwrap();
        fill(&mut store, "1.0.0", "parseOrders", 100);
        fill(&mut store, "2.0.0", "packOrders", 50);
        drop(store);
        Self {
            server: Server::start(folder.path(), "127.0.0.1:0", arguments),
            folder,
        }
    }

    fn code(&self, target: &str) -> String {
        self.ask(target, "").0[9..12].to_owned()
    }
}

impl Deref for Serving {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

#[test]
fn services_series_and_profiles_are_answered() {
    let serving = Serving::start(&[]);
    let found = serving.json("/api/v1/services");
    let shop = &found["services"][0];
    assert_eq!(shop["service"], "shop");
    let versions = shop["versions"].as_array().unwrap();
    let names: Vec<&str> = versions
        .iter()
        .map(|it| it["version"].as_str().unwrap())
        .collect();
    assert_eq!(names.len(), 2);
    assert!(names.contains(&"1.0.0") && names.contains(&"2.0.0"));

    let series = serving.json("/api/v1/series?service=shop&by=version&step=60");
    let weight = |version: &str| -> u64 {
        let all = series["series"].as_array().unwrap();
        let one = all
            .iter()
            .find(|it| it["labels"]["version"] == version)
            .unwrap();
        one["weights"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it.as_u64().unwrap())
            .sum()
    };
    // A sample at 19 Hz is a nineteenth of a second.
    assert_eq!(weight("1.0.0"), 100 * (1_000_000_000 / 19));
    assert_eq!(weight("2.0.0"), 50 * (1_000_000_000 / 19));

    let all = serving.json("/api/v1/series?by=service&by=version&step=60");
    let labels = &all["series"][0]["labels"];
    assert_eq!(labels["service"], "shop");
    assert_eq!(all["series"].as_array().unwrap().len(), 2);
    let instances = serving.json("/api/v1/instances?service=shop&version=2.0.0");
    assert_eq!(instances["instances"][0]["instance"], "web-1/7");
    assert_eq!(instances["instances"][0]["samples"], 50);
    let short = serving.json("/api/v1/services?service=shop&instances=0");
    assert_eq!(short["services"][0]["instances"], serde_json::json!([]));
    assert_eq!(short["services"][0]["versions"][0]["instances"], 1);

    let folded = |query: &str| {
        let (head, body) = serving.ask(&format!("/api/v1/profile?format=folded&{query}"), "");
        assert!(head.contains("attachment"), "{head}");
        String::from_utf8(body).unwrap()
    };
    let both = folded("service=shop");
    assert!(
        both.contains("parseOrders") && both.contains("packOrders"),
        "{both}"
    );
    let one = folded("service=shop&version=2.0.0&role=main&instance=web-1/7");
    assert!(
        one.contains("packOrders") && one.trim_end().ends_with(" 50"),
        "{one}"
    );
    assert!(!one.contains("parseOrders"), "{one}");
    assert_eq!(
        serving.json("/api/v1/regressions")["regressions"],
        serde_json::json!([])
    );
}

#[test]
fn a_selection_is_shown_by_the_viewer_and_in_every_format() {
    let serving = Serving::start(&[]);
    let (head, page) = serving.ask("/api/v1/profile?service=shop&format=html", "");
    assert!(head.contains("X-Frame-Options: SAMEORIGIN"), "{head}");
    assert!(page.starts_with(b"<!doctype html>"));
    let (_, compared) = serving.ask(
        "/api/v1/profile?service=shop&format=html&version=2.0.0&base.version=1.0.0",
        "",
    );
    let compared = String::from_utf8(compared).unwrap();
    assert!(compared.contains("<template class=\"base\">"));
    for format in [
        "nspy",
        "pprof",
        "speedscope",
        "cpuprofile",
        "svg",
        "md",
        "json",
        "firefox",
    ] {
        let target = format!("/api/v1/profile?service=shop&format={format}");
        let (head, body) = serving.ask(&target, "");
        assert!(head.starts_with("HTTP/1.1 200"), "{format}: {head}");
        assert!(!body.is_empty());
    }
}

#[test]
fn what_is_wrong_has_its_code() {
    let serving = Serving::start(&[]);
    for (target, code) in [
        ("/", "200"),
        ("/healthz", "200"),
        ("/api/v1/profile", "400"),
        ("/api/v1/profile?service=shop&format=tea", "400"),
        ("/api/v1/profile?service=shop&from=tomorrow", "400"),
        ("/api/v1/series?service=shop&step=7", "400"),
        ("/api/v1/profile?service=other", "404"),
        ("/api/v1/instances", "400"),
        ("/api/v1/series", "400"),
        ("/api/v1/services?instances=all", "400"),
        ("/api/v1/profile?service=shop&from=5&until=9", "404"),
        ("/../../etc/passwd", "404"),
        ("/api/v1", "404"),
    ] {
        assert_eq!(serving.code(target), code, "{target}");
    }
    let (head, _) = serving.ask("/", "Origin: http://evil.example\r\n");
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    let (_, metrics) = serving.ask("/metrics", "");
    let metrics = String::from_utf8(metrics).unwrap();
    assert!(metrics.contains("nodespy_services 1"), "{metrics}");
    assert!(
        metrics.contains("nodespy_http_requests_total{outcome=\"refused\"} 12"),
        "{metrics}"
    );
}

#[test]
fn a_token_is_asked_for_and_kept_as_a_cookie() {
    let scratch = Scratch::new();
    let file = scratch.file("token");
    std::fs::write(&file, "0123456789abcdef0123\n").unwrap();
    let serving = Serving::start(&["--token-file", &file]);
    assert_eq!(serving.code("/healthz"), "403");
    assert_eq!(serving.code("/?token=0123"), "403");
    let (head, _) = serving.ask("/?token=0123456789abcdef0123", "");
    assert!(head.starts_with("HTTP/1.1 303"), "{head}");
    assert!(head.contains("HttpOnly; SameSite=Strict"), "{head}");
    for header in [
        "Cookie: nodespy-token=0123456789abcdef0123\r\n",
        "Authorization: Bearer 0123456789abcdef0123\r\n",
    ] {
        let (head, _) = serving.ask("/api/v1/services", header);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    }
}

#[test]
fn other_machines_are_not_served_without_a_token() {
    let scratch = Scratch::new();
    let store = scratch.path().to_str().unwrap();
    let outcome = crate::run::run_nodespy(&["serve", "--store", store, "--listen", "0.0.0.0:0"]);
    outcome.expect_code(2);
    outcome.expect_stderr(&["--token-file"]);
    let outcome = crate::run::run_nodespy(&["serve", "--store", store, "--listen", "127.0.0.1:0"]);
    outcome.expect_code(1);
    outcome.expect_stderr(&["nodespy agent --store"]);
}

#[test]
fn a_server_is_confined() {
    let serving = Serving::start(&[]);
    let pid = serving.pid();
    assert_eq!(status_of(pid, "NoNewPrivs"), "1");
    assert_eq!(status_of(pid, "Seccomp"), "2");
}

#[test]
fn deployments_are_listed_and_marked() {
    let serving = Serving::start(&[]);
    let store = serving.folder.path().to_str().unwrap();
    let listed = crate::run::run_nodespy(&["regressions", "--store", store]);
    listed.expect_code(0);
    assert!(
        listed.stdout.contains("shop 1.0.0 → 2.0.0")
            || listed.stdout.contains("shop 2.0.0 → 1.0.0")
    );
    assert!(listed.stdout.contains("no verdict"), "{listed}");
    let json = crate::run::run_nodespy(&["regressions", "--store", store, "--json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["comparisons"][0]["service"], "shop");
    let marked = crate::run::run_nodespy(&["deploy", "mark", "shop", "hotfix", "--store", store]);
    marked.expect_code(0);
    let until = unix_seconds() + 60;
    let found = serving.json(&format!("/api/v1/services?from=-1h&until={until}"));
    assert_eq!(found["services"][0]["marks"][0]["version"], "hotfix");
    assert_eq!(
        found["services"][0]["versions"].as_array().unwrap().len(),
        2
    );
}

#[test]
fn a_person_chooses_a_version_and_a_range_in_the_page() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let serving = Serving::start(&[]);
    browser.resize(1300, 900);
    browser.open(&format!("http://{}/", serving.address));
    browser.wait_for("document.querySelectorAll('#cards .card').length === 1");
    browser.click("#cards .card");
    browser.wait_for("document.getElementById('name').textContent === 'shop'");
    let in_viewer = |expression: &str| {
        format!("document.getElementById('viewer').contentDocument?.{expression}")
    };
    browser.wait_for(&in_viewer(
        "getElementById('title')?.textContent === 'shop'",
    ));
    browser.wait_for("document.querySelectorAll('#legend li').length === 2");
    browser.wait_for("document.querySelectorAll('#chart path').length === 2");
    browser.screenshot("serve-light");
    browser.script(
        "const select = document.getElementById('version');
         select.value = '2.0.0'; select.dispatchEvent(new Event('change'));",
    );
    browser.wait_for("new URLSearchParams(location.search).get('version') === '2.0.0'");
    browser.wait_for("document.querySelectorAll('#chart path').length === 1");
    let edge = |side: &str| -> i64 {
        let found = format!(
            "return Math.round(document.getElementById('chart').getBoundingClientRect().{side})"
        );
        browser.script(&found).as_i64().unwrap()
    };
    let (right, middle) = (edge("right"), (edge("top") + edge("bottom")) / 2);
    browser.drag(&[
        (right - 300, middle),
        (right - 100, middle),
        (right - 12, middle),
    ]);
    browser.wait_for("Number(new URLSearchParams(location.search).get('from')) > 0");
    browser.wait_for("!document.getElementById('whole').hidden");
    browser.wait_for(&in_viewer(
        "getElementById('how')?.textContent.includes('50 samples')",
    ));
    browser.prefer("prefers-color-scheme", "dark");
    browser.next_frames();
    browser.screenshot("serve-dark");
    // A link shows the same.
    let address = browser.text("location.href");
    browser.open(&address);
    browser.wait_for("document.getElementById('version').value === '2.0.0'");
    browser.wait_for("!document.getElementById('whole').hidden");
    browser.prefer("prefers-color-scheme", "light");
    browser.expect_quiet_console();
}
