//! The page of `nodespy serve` over a fleet whose truth is known: two versions of a service of four instances each, at the same time,
//! one function slower in the later one, and one instance that does something else.

use std::time::{SystemTime, UNIX_EPOCH};

use nodespy_model::{Labels, ThreadRole, WeightUnit, label_key};
use nodespy_store::{
    Batch, CPU_EVENT, Count, OpenMode, Series, SqliteStore, Store, StoredFrame, StoredFunction,
    Symbols, Window,
};

use crate::scratch::Scratch;
use crate::serving::Server;
use crate::webdriver::Browser;

const FUNCTIONS: [&str; 8] = [
    "parseOrders",
    "packReply",
    "checkToken",
    "findPrice",
    "renderPage",
    "logRequest",
    "readCart",
    "hashKey",
];
/// Instances of each version.
const INSTANCES: usize = 4;
/// How long they ran, in seconds, and how long where that is too short to be judged as usual.
const LENGTH: u64 = 40 * 60;
const SHORT_LENGTH: u64 = 8 * 60;
/// A window has what six would.
const STEP: u64 = 60;

fn symbols() -> Symbols {
    let functions = FUNCTIONS
        .iter()
        .zip(1..)
        .map(|(name, line)| StoredFunction {
            name: (*name).to_owned(),
            file: "/app/shop.js".to_owned(),
            line,
            ..StoredFunction::default()
        });
    let numbers = 0..FUNCTIONS.len() as u32;
    let frames = numbers.clone().map(|function| StoredFrame {
        function,
        line: function + 2,
        ..StoredFrame::default()
    });
    Symbols {
        functions: functions.collect(),
        frames: frames.collect(),
        stacks: numbers.map(|frame| vec![frame]).collect(),
    }
}

fn series(service: &str, version: &str, instance: &str) -> Series {
    let mut labels = Labels::default();
    labels.set(label_key::VERSION, version);
    labels.set("instance", instance);
    Series {
        service: service.to_owned(),
        event: CPU_EVENT.to_owned(),
        unit: WeightUnit::Nanoseconds,
        period: 52_631_578,
        labels,
    }
}

/// A few samples more or less, the same in every run.
fn noise(seed: usize) -> u64 {
    let mixed = (seed as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 61
}

fn fleet(length: u64) -> Scratch {
    let folder = Scratch::new();
    let path = folder.path().join("profiles.sqlite");
    let mut store = SqliteStore::open(&path, OpenMode::Write).unwrap();
    let symbols = symbols();
    let hashes = symbols.hashes();
    let mut batch = Batch {
        symbols,
        ..Batch::default()
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let start = (now.as_secs() - length - 120) / 10 * 10;
    for number in 0..2 * INSTANCES {
        let is_later = number >= INSTANCES;
        let version = if is_later { "2.0.0" } else { "1.0.0" };
        batch
            .series
            .push(series("shop", version, &format!("web-{number}/7")));
        // The later version came two minutes after the other.
        let from = start + if is_later { 120 } else { 0 };
        for (place, start) in (from..start + length).step_by(STEP as usize).enumerate() {
            let counts = hashes.iter().enumerate().map(|(function, hash)| {
                let usual = 40 + noise((number * 64 + place) * 16 + function);
                let is_slower = is_later && FUNCTIONS[function] == "parseOrders";
                let is_odd = number == 1 && FUNCTIONS[function] == "hashKey";
                let count = if is_slower || is_odd {
                    usual * 2
                } else {
                    usual
                };
                Count::new(*hash, ThreadRole::Main, count)
            });
            batch.windows.push(Window {
                series: number,
                start,
                counts: counts.collect(),
            });
        }
    }
    batch.series.push(series("mail", "7", "mail-1/9"));
    batch.windows.push(Window {
        series: 2 * INSTANCES,
        start: start + length,
        counts: vec![Count::new(hashes[0], ThreadRole::Main, 5)],
    });
    store.append(&batch).unwrap();
    folder
}

fn in_viewer(expression: &str) -> String {
    format!("document.getElementById('viewer').contentDocument?.{expression}")
}

fn has_in_address(key: &str, value: &str) -> String {
    format!("new URLSearchParams(location.search).get('{key}') === '{value}'")
}

#[test]
fn a_person_goes_from_all_services_to_what_differs() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let folder = fleet(LENGTH);
    let server = Server::start(folder.path(), "127.0.0.1:0", &[]);
    browser.resize(1280, 800);
    browser.open(&format!("http://{}/", server.address));
    // All services, with their deployments, in one question.
    browser.wait_for("document.querySelectorAll('#cards .card').length === 2");
    browser.wait_for("document.querySelector('#cards .card').textContent.startsWith('shop')");
    browser.wait_for("document.querySelectorAll('#cards .card:first-child .mark').length === 2");
    let asked = "performance.getEntriesByType('resource').filter((one) => one.name.includes('/series')).length";
    assert_eq!(browser.text(asked), "1");
    browser.wait_for("document.querySelectorAll('#all-found li').length > 0");
    browser.screenshot("fleet-light");
    browser.script(
        "const filter = document.getElementById('filter');
         filter.value = 'MAI'; filter.dispatchEvent(new Event('input'));",
    );
    browser.wait_for("document.querySelectorAll('#cards .card').length === 1");
    browser.script(
        "const filter = document.getElementById('filter');
         filter.value = ''; filter.dispatchEvent(new Event('input'));",
    );

    // One of them: its odd instance, and what it does differently.
    browser.click("#cards .card");
    browser.wait_for(&has_in_address("service", "shop"));
    browser.wait_for(&in_viewer(
        "getElementById('title')?.textContent === 'shop'",
    ));
    browser.wait_for("document.querySelectorAll('#instances tbody tr').length === 8");
    let odd =
        "[...document.querySelectorAll('#instances tr.odd')].map((row) => row.innerText).join()";
    let odd = browser.text(odd);
    assert!(odd.contains("web-1/7") && odd.contains("hashKey"), "{odd}");
    assert!(!odd.contains("web-2/7"), "{odd}");
    browser.wait_for("document.querySelectorAll('#found li').length > 0");
    browser.screenshot("fleet-service-light");
    browser.click("#instances tr.odd td:last-child .link");
    browser.wait_for(&has_in_address("instance", "web-1/7"));
    browser.wait_for(&has_in_address("against", "siblings"));
    browser.wait_for(&in_viewer("getElementById('query')?.value === 'hashKey'"));

    // A regression leads to both versions and the function.
    browser.click("#all");
    browser.wait_for("!document.getElementById('overview').hidden");
    browser.wait_for("document.querySelector('#all-found .link')?.textContent === 'parseOrders'");
    browser.click("#all-found .link");
    browser.wait_for(&has_in_address("version", "2.0.0"));
    browser.wait_for(&has_in_address("base", "1.0.0"));
    browser.wait_for(&in_viewer(
        "getElementById('query')?.value === 'parseOrders'",
    ));
    browser.wait_for(&in_viewer("location.hash.includes('cmp=base')"));
    browser.prefer("prefers-color-scheme", "dark");
    browser.next_frames();
    browser.screenshot("fleet-regression-dark");
    browser.prefer("prefers-color-scheme", "light");
    // The way back leads to all services.
    browser.script("history.back()");
    browser.wait_for("!document.getElementById('overview').hidden");
    browser.expect_quiet_console();
}

#[test]
fn a_young_version_is_judged_where_the_address_asks_for_less() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let folder = fleet(SHORT_LENGTH);
    let server = Server::start(folder.path(), "127.0.0.1:0", &[]);
    let address = &server.address;
    browser.open(&format!("http://{address}/?service=shop"));
    browser.wait_for("document.getElementById('judged').textContent !== ''");
    assert_eq!(
        browser.text("document.querySelectorAll('#found li').length"),
        "0"
    );

    browser.open(&format!("http://{address}/?warm_up=20&min_length=60"));
    browser.wait_for("document.querySelector('#all-found .link')?.textContent === 'parseOrders'");
    // The address says it still after other steps.
    browser.click("#cards .card");
    browser.wait_for(&has_in_address("service", "shop"));
    browser.wait_for("document.querySelector('#found .link')?.textContent === 'parseOrders'");
    browser.click("#found .link");
    browser.wait_for(&has_in_address("base", "1.0.0"));
    browser.wait_for(&has_in_address("warm_up", "20"));
    browser.wait_for(&has_in_address("min_length", "60"));
    browser.expect_quiet_console();
}

/// The page of the service, once everything is there.
fn open_shop(browser: &Browser, server: &Server) {
    browser.resize(1280, 800);
    browser.open(&format!("http://{}/?service=shop", server.address));
    browser.wait_for("document.querySelectorAll('#chart path').length === 2");
    browser.wait_for("document.querySelectorAll('#instances tbody tr').length === 8");
    browser.wait_for("document.querySelectorAll('#found li').length > 0");
}

/// The ends of both ranges in the address.
const ENDS: &str = "['from', 'until', 'base.from', 'base.until']
    .map((key) => Number(new URLSearchParams(location.search).get(key)))";

fn choose_base(browser: &Browser, value: &str) {
    browser.script_with(
        "const list = document.getElementById('base');
         list.value = arguments[0]; list.dispatchEvent(new Event('change'));",
        serde_json::json!([value]),
    );
}

#[test]
fn a_person_compares_two_ranges_by_fields_and_a_list() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let folder = fleet(LENGTH);
    let server = Server::start(folder.path(), "127.0.0.1:0", &[]);
    open_shop(&browser, &server);
    choose_base(&browser, "range");
    browser.wait_for("document.querySelectorAll('#chart .brush.base').length === 1");
    browser.wait_for("document.querySelectorAll('#chart .brush').length === 2");
    browser.wait_for(&in_viewer("location.hash.includes('cmp=base')"));
    browser.wait_for("!document.getElementById('base-times').hidden");
    browser.screenshot("fleet-ranges-light");
    // A link shows the same.
    let chosen = browser.text(ENDS);
    let address = browser.text("location.href");
    browser.open(&address);
    browser.wait_for("document.getElementById('base').value === 'range'");
    assert_eq!(browser.text(ENDS), chosen);
    // A range that would end before it begins is not taken.
    browser.script(
        "const field = document.getElementById('base-from');
         field.value = document.getElementById('until').value;
         field.dispatchEvent(new Event('change'));",
    );
    browser
        .wait_for("document.getElementById('base-from').getAttribute('aria-invalid') === 'true'");
    assert_eq!(browser.text(ENDS), chosen);
    // Nothing was kept of yesterday: that is said where the picture would be.
    choose_base(&browser, "day");
    browser.wait_for(&has_in_address("against", "day"));
    browser.wait_for("document.getElementById('empty').textContent.includes('nothing of shop')");
}

#[test]
fn a_person_drags_over_a_second_range_to_compare_with() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let folder = fleet(LENGTH);
    let server = Server::start(folder.path(), "127.0.0.1:0", &[]);
    open_shop(&browser, &server);
    // Asked each time: the chart may have moved.
    let edge = |side: &str| {
        let found = format!(
            "return Math.round(document.getElementById('chart').getBoundingClientRect().{side})"
        );
        browser.script(&found).as_i64().unwrap()
    };
    let at = |share: f64| {
        let (left, right) = (edge("left"), edge("right"));
        let across = left + ((right - left) as f64 * share) as i64;
        (across, (edge("top") + edge("bottom")) / 2)
    };
    browser.drag(&[at(0.8), at(0.85), at(0.9)]);
    browser.wait_for("document.querySelectorAll('#chart .brush').length === 1");
    browser.drag_holding("Shift", &[at(0.5), at(0.55), at(0.6)]);
    browser.wait_for("document.querySelectorAll('#chart .brush.base').length === 1");
    browser.wait_for("document.getElementById('base').value === 'range'");
    browser.wait_for(&in_viewer("location.hash.includes('cmp=base')"));
}
