//! A recording of several events: the page shows one, and switches.

use nodespy_model::EventIndex;

use super::shop::{shop, shop_of_events};
use super::{Opened, open_file, write};
use crate::run::run_nodespy;

/// The hottest function, its share, and its weight in words.
fn hottest(page: &Opened) -> (String, String, String) {
    let text = |selector: &str| page.text(&format!("#top tbody tr:first-child {selector}"));
    let weight = page
        .browser
        .text("document.querySelector('#top tbody .number').title");
    (text(".name"), text(".number"), weight)
}

#[track_caller]
fn expect(page: &Opened, how: &str, name: &str, share: &str, weight: &str) {
    assert!(page.text("#how").contains(how), "{}", page.text("#how"));
    let expected = (name.to_owned(), share.to_owned(), weight.to_owned());
    assert_eq!(hottest(page), expected);
}

#[track_caller]
fn expect_cpu(page: &Opened) {
    let how = "10.0 s, 1,000 samples at 100 Hz, perf events cpu-clock";
    expect(page, how, "levenshtein.get", "40.0 %", "4.0 s");
}

#[track_caller]
fn expect_faults(page: &Opened) {
    let how = "200 samples, 500 page faults, perf events page-faults";
    expect(page, how, "walk", "60.0 %", "300 page faults");
}

#[track_caller]
fn expect_allocations(page: &Opened) {
    let how = "500 samples, 11.0 MB, perf events alloc_space";
    expect(page, how, "render", "90.9 %", "10.0 MB");
}

#[test]
fn events_are_switched_by_mouse_key_and_address_and_never_added() {
    let Some(page) = open_file(&shop_of_events(), "v=top") else {
        return;
    };
    assert_eq!(
        page.texts("#event option"),
        [
            "cpu-clock · 10.0 s",
            "page-faults · 500 page faults",
            "alloc_space · 11.0 MB"
        ]
    );
    expect_cpu(&page);
    assert_eq!(page.part("ev"), "");
    page.browser
        .script("document.querySelector('#event').focus()");
    page.press(&["ArrowDown"]);
    expect_faults(&page);
    assert_eq!(page.part("ev"), "1");
    page.browser
        .script("document.querySelector('#event').blur()");
    page.press(&["E"]);
    expect_allocations(&page);
    page.browser.script("history.back()");
    page.browser
        .wait_for("new URLSearchParams(location.hash.slice(1)).get('ev') === '1'");
    page.settle();
    expect_faults(&page);
    page.press(&["E", "E"]);
    expect_cpu(&page);
    page.go("v=top&ev=2");
    expect_allocations(&page);
    page.go("v=top&ev=99");
    expect_cpu(&page);
    page.browser.expect_quiet_console();
}

#[test]
fn every_view_counts_the_chosen_event() {
    let Some(page) = open_file(&shop_of_events(), "ev=1&ov=threads") else {
        return;
    };
    assert!(page.texts(".track")[0].contains("100 %"));
    let legend = page.text("#share-legend");
    assert_eq!(legend, "JS 100 %");
    page.press(&["ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp", "ArrowUp"]);
    let status = page.text("#status");
    assert!(
        status.contains("walk") && status.contains("total 60.0 %"),
        "{status}"
    );
    page.browser.screenshot("events-faults");
    page.go("ev=2&v=sandwich&ov=heat");
    let bar = page.text("#sandwich .view-bar");
    assert!(
        bar.contains("render") && bar.contains("total 90.9 %"),
        "{bar}"
    );
    page.go("ev=2&v=flame&theme=dark");
    page.browser.screenshot("events-allocations-dark");
    page.browser.expect_quiet_console();
}

#[test]
fn an_event_that_is_asked_for_comes_first_and_the_others_stay() {
    let Some(page) = open_file(&shop_of_events(), "v=top") else {
        return;
    };
    let [recording, chosen] = ["new.nspy", "chosen.html"].map(|name| page.scratch.file(name));
    run_nodespy(&["convert", &recording, &chosen, "--event", "alloc_space"]).expect_code(0);
    page.browser.open("about:blank");
    page.browser.open(&format!("file://{chosen}#v=top"));
    page.settle();
    expect_allocations(&page);
    assert_eq!(page.texts("#event option").len(), 3);
    page.press(&["E"]);
    expect_cpu(&page);
    page.browser.expect_quiet_console();
    let refused = run_nodespy(&["convert", &recording, &chosen, "--event", "cycles"]);
    refused.expect_code(1).expect_stderr(&[
        "there is no \"cycles\"",
        "cpu-clock, page-faults, alloc_space",
    ]);
}

#[test]
fn a_base_is_compared_event_by_event() {
    let Some(page) = open_file(&shop_of_events(), "") else {
        return;
    };
    let [new, base, both] =
        ["new.nspy", "base.nspy", "both.html"].map(|name| page.scratch.file(name));
    // The base has no allocations, and half of its faults are in `render`.
    let mut before = shop_of_events();
    before
        .samples
        .retain(|sample| sample.event != EventIndex(2));
    before.events.truncate(2);
    for sample in &mut before.samples {
        if sample.event == EventIndex(1) {
            sample.weight = 1;
        }
    }
    write(&before, &base);
    run_nodespy(&["convert", &new, &both, "--base", &base]).expect_code(0);
    page.browser
        .open(&format!("file://{both}#cmp=base&v=top&ev=1"));
    page.settle();
    let rows = page.texts("#top tbody tr");
    let walk = rows.iter().find(|row| row.contains("walk")).unwrap();
    assert!(walk.contains("+10.0 points"), "{walk}");
    page.press(&["E"]);
    expect_allocations(&page);
    assert_eq!(page.part("cmp"), "");
    assert!(page.texts("#chips button").is_empty());
    page.browser.expect_quiet_console();
}

#[test]
fn one_event_needs_no_control() {
    let Some(page) = open_file(&shop(1), "") else {
        return;
    };
    let is_hidden = "return document.querySelector('#event-choice').hidden";
    assert_eq!(page.browser.script(is_hidden), true);
    page.press(&["E"]);
    assert_eq!(page.text("#status"), "One event was recorded.");
    page.browser.expect_quiet_console();
}
