//! The page opens where the graph branches, and shows JavaScript alone if that is asked for.

use super::shop::{shop, shop_with_start};
use super::{Opened, open_file};

const BAR: &str = "6 frames of node's start and event loop: total 95.2 %, self 0 %";

/// Height of a box.
const ROW: i64 = 18;

/// Clicks on a row of the flame graph, counted from the root at its bottom.
fn click_row(page: &Opened, row: i64) {
    let [left, top, width, height] = page.place("#flame canvas");
    let place = (left + width / 4, top + height - row * ROW - ROW / 2);
    page.browser.press_button(place, 0);
    page.settle();
}

#[test]
fn what_lies_below_the_first_branch_is_one_bar_until_it_is_clicked() {
    let Some(page) = open_file(&shop_with_start(), "") else {
        return;
    };
    page.press(&["ArrowUp", "ArrowUp"]);
    assert_eq!(page.text("#status"), BAR);
    page.press(&["ArrowUp"]);
    assert!(page.text("#status").starts_with("handle"));
    // The pool runs no JavaScript: its frames are no start.
    page.press(&["ArrowDown", "ArrowDown", "ArrowUp", "ArrowRight"]);
    assert!(page.text("#status").starts_with("clone3"));
    page.browser.screenshot("start-folded");
    click_row(&page, 1);
    assert_eq!(page.part("start"), "1");
    page.browser.screenshot("start-open");
    page.press(&["Escape", "ArrowUp", "ArrowUp"]);
    assert!(page.text("#status").starts_with("_start"));
    assert_eq!(page.texts("#chips bdi"), ["every frame of the start"]);
    page.click("#chips .chip button");
    assert_eq!(page.part("start"), "");
    page.press(&["ArrowUp", "ArrowUp", "Enter"]);
    assert_eq!(page.part("start"), "1", "Enter opens it too");
    page.press(&["b"]);
    click_row(&page, 2);
    assert_eq!(page.part("x").split('.').count(), 7, "{}", page.hash());
    page.press(&["ArrowUp", "ArrowDown"]);
    assert_eq!(page.text("#status"), BAR);
    page.press(&["ArrowDown"]);
    assert_eq!(page.text("#status"), "all: total 100 %");
    page.go("theme=dark&o=icicle");
    page.browser.screenshot("start-folded-dark");
    page.browser.expect_quiet_console();
}

#[test]
fn a_search_finds_what_is_inside_of_the_bar() {
    let Some(page) = open_file(&shop_with_start(), "q=node::Start") else {
        return;
    };
    assert_eq!(page.text("#matched"), "matched 95.2 %");
    page.press(&["n"]);
    assert_eq!(page.text("#status"), BAR);
    page.browser.expect_quiet_console();
}

#[test]
fn few_frames_at_the_start_are_shown_one_by_one() {
    let Some(page) = open_file(&shop(1), "") else {
        return;
    };
    page.press(&["ArrowUp", "ArrowUp"]);
    assert!(page.text("#status").starts_with("uv_run"));
    page.press(&["b"]);
    assert!(page.texts("#chips bdi").is_empty());
}

#[test]
fn javascript_alone_has_the_time_of_what_it_calls() {
    let Some(page) = open_file(&shop_with_start(), "v=top") else {
        return;
    };
    page.click("#only-javascript");
    let shown: Vec<(String, String)> = page
        .texts("#top tbody .name")
        .into_iter()
        .zip(page.texts("#top tbody tr td:first-child"))
        .collect();
    // Of 1,050 samples: 270 of `render` and 90 of its garbage, 90 of `handle` in the kernel, 100 of
    // `burst`. The pool runs no JavaScript.
    let expected = [
        ("render", "34.3 %"),
        ("levenshtein.get", "34.3 %"),
        ("burst", "9.5 %"),
        ("handle", "8.6 %"),
        ("walk", "8.6 %"),
        ("parserOnIncoming", "–"),
        ("distance", "–"),
    ];
    let mut expected = expected.map(|(name, share)| (name.to_owned(), share.to_owned()));
    let mut found = shown.clone();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    let legend = page.text("#share-legend");
    assert!(
        legend.contains("JS 95.2 %") && legend.contains("other code 4.8 %"),
        "{legend}"
    );
    assert!(!legend.contains("unknown"), "{legend}");
    page.click("#tab-flame");
    page.browser.script("document.activeElement.blur()");
    page.press(&["ArrowUp"]);
    assert_eq!(page.text("#status"), "all: total 100 %, other code 4.8 %");
    page.browser.screenshot("only-javascript");
    page.press(&["z"]);
    page.browser.screenshot("only-javascript-dark");
    page.press(&["o"]);
    let pressed = "return ['only-mine', 'only-javascript'].map((id) => document.getElementById(id).ariaPressed)";
    let pressed = page.browser.script(pressed);
    assert_eq!(pressed, serde_json::json!(["true", "false"]));
    page.press(&["j", "j"]);
    assert_eq!(page.part("hide"), "");
    page.browser.expect_quiet_console();
}
