//! Ranges of time, threads, and the heat map that both are chosen in.

use super::open_file;
use super::shop::shop;

#[test]
fn a_range_shows_only_what_ran_in_it() {
    let Some(page) = open_file(&shop(1), "v=top&r=4000000000-5000000000") else {
        return;
    };
    let first = page.text("#top tbody tr");
    assert!(
        first.contains("burst") && first.contains("95.2 %"),
        "{first}"
    );
    assert_eq!(page.texts("#chips .chip").len(), 1);
    page.browser.screenshot("range");
    page.press(&["u"]);
    assert!(page.text("#top tbody tr").contains("levenshtein.get"));
    page.browser.expect_quiet_console();
}

#[test]
fn dragging_over_the_heat_map_chooses_a_range_and_a_second_one_to_compare_with() {
    let Some(page) = open_file(&shop(1), "v=top&ov=heat") else {
        return;
    };
    page.browser.screenshot("heat-map");
    let [left, top, width, height] = page.place(".heat canvas");
    let at = |tenth: i64| (left + width * tenth / 10 + 3, top + height / 2);
    page.browser.drag(&[at(4), at(4), at(5)]);
    page.settle();
    let range = page.part("r");
    let (from, to) = range.split_once('-').unwrap();
    let [from, to] = [from, to].map(|time| time.parse::<f64>().unwrap() / 1e9);
    assert!(
        (3.5..5.0).contains(&from) && (4.5..6.5).contains(&to),
        "{range}"
    );
    page.browser.drag_holding("Control", &[at(1), at(1), at(2)]);
    page.settle();
    assert!(page.part("cmp").contains('-'), "{}", page.hash());
    page.click("#tab-flame");
    page.browser.screenshot("two-ranges");
    page.browser.expect_quiet_console();
}

#[test]
fn threads_are_chosen_one_by_one() {
    let Some(page) = open_file(&shop(1), "v=top&ov=threads") else {
        return;
    };
    let tracks = page.texts(".track");
    assert_eq!(tracks.len(), 2);
    assert!(
        tracks[0].contains("95.2 %") && tracks[1].contains("libuv-worker"),
        "{tracks:?}"
    );
    page.browser.screenshot("threads");
    page.click(".track:last-of-type button");
    assert_eq!(page.texts("#top tbody tr").len(), 2);
    assert_eq!(page.part("t"), "1");
    page.browser.expect_quiet_console();
}
