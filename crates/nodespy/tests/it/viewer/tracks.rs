//! Tracks over time: event loops with their stalls, libuv's pool, and what threads did.

use super::shop::{shop, shop_of_states};
use super::{Opened, open_file};

/// A place in a track, by the second.
fn at(page: &Opened, track: &str, tenth_of_second: i64) -> (i64, i64) {
    let [left, top, width, height] = page.place(&format!("#lane-{track} canvas"));
    (left + width * tenth_of_second / 100, top + height / 2)
}

#[test]
fn a_click_on_a_stall_shows_what_its_thread_did_meanwhile() {
    let Some(page) = open_file(&shop_of_states(), "v=top") else {
        return;
    };
    assert_eq!(
        page.texts(".lane .lane-name"),
        ["event loop", "libuv pool", "main thread", "libuv-worker"]
    );
    page.browser.hover(at(&page, "loop-0", 45));
    page.browser
        .wait_for("document.querySelector('#tooltip').innerText.includes('burst')");
    let said = page.text("#tooltip");
    assert!(
        said.starts_with("stall of 1.0 s or more at 4.00 s"),
        "{said}"
    );
    page.browser.screenshot("stall");
    page.browser.drag(&[at(&page, "loop-0", 45)]);
    page.settle();
    // To the look after it.
    assert_eq!(page.part("r"), "4000000000-5050000000");
    assert_eq!(page.part("t"), "0");
    assert!(page.text("#top tbody tr").contains("burst"));
    page.browser.expect_quiet_console();
}

#[test]
fn a_click_on_the_mark_of_a_gc_pause_shows_what_was_sampled_meanwhile() {
    let Some(page) = open_file(&shop_of_states(), "v=top") else {
        return;
    };
    let [left, top, width, height] = page.place("#lane-loop-0 canvas");
    let mark = (left + width * 71 / 100, top + height - 3);
    page.browser.hover(mark);
    let said = page.text("#tooltip");
    assert!(
        said.starts_with("GC pause of 250 ms at 7.00") && said.contains("mark-compact"),
        "{said}"
    );
    page.browser.screenshot("gc-pause");
    page.browser.drag(&[mark]);
    page.settle();
    assert_eq!(page.part("r"), "7000000000-7250000000");
    assert_eq!(page.part("t"), "0");
    let figures = page.texts("#lane-loop-0 .figure");
    assert!(figures.contains(&"2 GC pauses".to_owned()), "{figures:?}");
    page.browser.expect_quiet_console();
}

#[test]
fn time_is_chosen_in_a_track_as_in_the_heat_map() {
    let Some(page) = open_file(&shop_of_states(), "v=top") else {
        return;
    };
    let places = [20, 22, 30].map(|tenth| at(&page, "pool-0", tenth));
    page.browser.drag(&places);
    page.settle();
    let range = page.part("r");
    let (from, to) = range.split_once('-').unwrap();
    let [from, to] = [from, to].map(|time| time.parse::<f64>().unwrap() / 1e9);
    assert!(
        (from - 2.0).abs() < 0.1 && (to - 3.0).abs() < 0.1,
        "{range}"
    );
    page.browser.screenshot("range-in-a-track");
    page.browser.expect_quiet_console();
}

#[test]
fn figures_lead_to_tracks_stalls_and_states() {
    let Some(page) = open_file(&shop_of_states(), "v=top") else {
        return;
    };
    let said = page.texts("#waits li");
    assert!(
        said[0].starts_with(
            "event loop: 32.5 % utilised, 50 iterations/s; away from poll for 1000 ms"
        ),
        "{said:?}"
    );
    assert!(
        said[1].starts_with("libuv pool: 0.5 of 1 threads busy"),
        "{said:?}"
    );
    let leads = page.texts("#waits li:first-child .lead");
    assert_eq!(
        leads,
        ["event loop", "32.5 % utilised", "1000 ms", "1 time"]
    );
    page.click("#waits li:first-child .lead:nth-of-type(3)");
    assert_eq!(page.part("r"), "4000000000-5050000000");
    page.click("#waits li:nth-child(2) .lead");
    assert_eq!(
        (page.part("r"), page.part("t")),
        (String::new(), "1".to_owned())
    );
    // What the pool's thread waited for.
    page.click("#lane-thread-1 .figure");
    assert_eq!(
        (page.part("st"), page.part("t")),
        ("waiting".to_owned(), "1".to_owned())
    );
    page.click("#tab-top");
    assert!(page.text("#top tbody tr").contains("crypto::Hash"));
    assert!(
        page.texts("#chips .chip")
            .iter()
            .any(|chip| chip.contains("only waiting"))
    );
    page.browser.expect_quiet_console();
}

#[test]
fn boxes_have_the_colours_of_states() {
    let Some(page) = open_file(&shop_of_states(), "colors=state") else {
        return;
    };
    assert!(page.text("#legend").contains("mostly:"));
    let labels = page.texts(".lane-state");
    assert_eq!(
        labels,
        ["running", "GC", "waiting for file", "waiting for network"]
    );
    page.browser.screenshot("by-state");
    page.browser.prefer("prefers-color-scheme", "dark");
    page.settle();
    page.browser.screenshot("by-state-dark");
    page.browser.expect_quiet_console();
}

#[test]
fn tracks_are_there_only_where_something_is_known() {
    let Some(page) = open_file(&shop(1), "colors=state") else {
        return;
    };
    assert_eq!(page.texts(".lane"), [""; 0]);
    assert!(!page.text("#legend").contains("mostly:"));
    assert!(
        !page
            .texts("#colors option")
            .contains(&"by state".to_owned())
    );
    page.browser.expect_quiet_console();
}

#[test]
fn the_base_of_the_flame_graph_stays_in_sight_beside_tracks() {
    let Some(page) = super::convert(&shop_of_states()) else {
        return;
    };
    // So low that not every row has room once tracks have taken theirs.
    page.browser.resize(1100, 580);
    page.go("");
    page.browser.screenshot("flame-beside-tracks");
    let sizes = page.browser.script(
        "const { clientHeight, scrollTop, firstChild } = document.querySelector('#flame .flame-scroller');
         return [firstChild.offsetHeight - clientHeight, scrollTop];",
    );
    let [room, top] = [0, 1].map(|at| sizes[at].as_f64().unwrap());
    assert!(room > 0.0 && room - top < 1.0, "{sizes}");
}
