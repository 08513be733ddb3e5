//! Dark pages, narrow screens, and no samples.

use nodespy_model::Profile;

use super::shop::shop;
use super::{convert, open_file};

#[test]
fn the_page_is_dark_where_the_system_is() {
    let Some(page) = open_file(&shop(1), "") else {
        return;
    };
    let brightness = "(() => { const [r, g, b] = getComputedStyle(document.body).backgroundColor\
        .match(/\\d+/g).map(Number); return r + g + b; })()";
    let light: u32 = page.browser.text(brightness).parse().unwrap();
    page.browser.prefer("prefers-color-scheme", "dark");
    page.settle();
    let dark: u32 = page.browser.text(brightness).parse().unwrap();
    assert!(light > 600 && dark < 200, "{light} {dark}");
    for view in ["flame", "time", "sandwich", "top", "tree", "source"] {
        page.click(&format!("#tab-{view}"));
        page.browser.screenshot(&format!("dark-{view}"));
    }
    page.browser.expect_quiet_console();
}

#[test]
fn buttons_stand_in_one_row_also_when_there_is_something_to_zoom_out_of() {
    let Some(page) = open_file(&shop(1), "") else {
        return;
    };
    let height = page.place("#toolbar")[3];
    assert!(height < 45, "{height}");
    page.press(&["ArrowUp", "ArrowUp", "ArrowUp", "Enter"]);
    assert!(page.place("#zoom-out")[2] > 0);
    assert_eq!(page.place("#toolbar")[3], height);
    page.browser.expect_quiet_console();
}

#[test]
fn the_choice_of_an_overview_stands_beside_it_where_there_is_room() {
    let Some(page) = open_file(&shop(1), "") else {
        return;
    };
    page.browser.resize(1400, 800);
    page.settle();
    let [left, top, width, _] = page.place(".overview-tabs");
    let [heat_left, heat_top, ..] = page.place(".heat canvas");
    assert!(left + width <= heat_left && top <= heat_top);
    page.browser.resize(800, 800);
    page.settle();
    let [_, top, _, height] = page.place(".overview-tabs");
    assert!(top + height <= page.place(".heat canvas")[1]);
    page.browser.expect_quiet_console();
}

#[test]
fn the_function_with_most_self_time_stands_out_on_demand() {
    let Some(page) = open_file(&shop(1), "colors=self") else {
        return;
    };
    let has = |red: u8, green: u8, blue: u8| {
        page.browser.text(&format!(
            "(() => {{ const canvas = document.querySelector('#flame canvas');
               const {{ data }} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
               for (let at = 0; at < data.length; at += 4)
                   if (data[at] === {red} && data[at + 1] === {green} && data[at + 2] === {blue}) return true;
               return false; }})()"
        ))
    };
    assert!(page.text("#legend").contains("self time of the function"));
    assert_eq!(has(0xcf, 0x5a, 0x17), "true");
    page.browser.prefer("prefers-color-scheme", "dark");
    page.settle();
    // Chromium advises against reading pixels twice.
    page.browser.expect_quiet_console();
    assert_eq!(has(0xd0, 0x74, 0x2a), "true");
}

#[test]
fn a_narrow_screen_has_room_for_everything() {
    let Some(page) = open_file(&shop(1), "") else {
        return;
    };
    page.browser.resize(390, 844);
    page.go("");
    for view in ["flame", "time", "sandwich", "top", "tree", "source"] {
        page.click(&format!("#tab-{view}"));
        page.browser.screenshot(&format!("narrow-{view}"));
        let width = page
            .browser
            .text("document.documentElement.scrollWidth - innerWidth");
        assert_eq!(width, "0", "{view} is too wide");
    }
    page.browser.expect_quiet_console();
}

#[test]
fn a_page_without_samples_says_so() {
    let Some(page) = convert(&Profile::default()) else {
        return;
    };
    page.browser.open(&page.address);
    page.browser.wait_for("document.body.dataset.failed");
    assert_eq!(page.text("#message"), "No samples were recorded.");
    page.browser.screenshot("empty");
    page.browser.expect_quiet_console();
}
