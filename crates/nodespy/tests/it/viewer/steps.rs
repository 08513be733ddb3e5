//! Search, zoom, steps and their undoing, all of it by keyboard too, and the address that keeps it.

use super::open_file;
use super::shop::shop;

#[test]
fn a_search_tells_how_much_it_found() {
    let Some(page) = open_file(&shop(1), "") else {
        return;
    };
    page.press(&["/"]);
    page.browser.write("render");
    page.settle();
    assert_eq!(page.text("#matched"), "matched 34.3 %");
    page.browser.screenshot("search");
    assert_eq!(page.part("q"), "render");
    page.click("#is-regexp");
    let again = "const query = document.querySelector('#query'); query.focus(); query.select()";
    page.browser.script(again);
    page.browser.write("^(walk|burst)\\b");
    page.settle();
    assert_eq!(page.text("#matched"), "matched 18.1 %");
    page.browser.script(again);
    page.browser.write("(");
    page.settle();
    let matched = page.text("#matched");
    assert!(
        !matched.is_empty() && !matched.starts_with("matched"),
        "{matched}"
    );
    page.browser.expect_quiet_console();
}

#[test]
fn the_keyboard_walks_zooms_and_comes_back_and_the_address_remembers() {
    let Some(page) = open_file(&shop(1), "") else {
        return;
    };
    page.press(&["ArrowUp"]);
    let mut steps = 0;
    while !page.text("#status").starts_with("handle") && steps < 10 {
        page.press(&["ArrowUp"]);
        steps += 1;
    }
    assert_eq!(
        page.text("#status"),
        "handle (cart.js:3): total 95.2 %, self 0 %"
    );
    page.press(&["ArrowUp"]);
    let heaviest = page.text("#status");
    page.press(&["ArrowRight"]);
    let next = page.text("#status");
    assert_ne!(heaviest, next);
    page.press(&["ArrowLeft", "Enter"]);
    let hash = page.hash();
    assert!(hash.contains("x="), "{hash}");
    page.browser.screenshot("zoomed");
    page.go(&page.part_of_address());
    assert_eq!(page.hash(), hash);
    page.press(&["0"]);
    assert_eq!(page.part("x"), "");
    page.browser.expect_quiet_console();
}

#[test]
fn steps_are_shown_undone_and_kept_in_the_address() {
    let Some(page) = open_file(&shop(1), "q=walk&v=top") else {
        return;
    };
    // The row of `walk` is the only one; its key starts the step.
    page.browser
        .script("document.querySelector('#top tbody tr button').focus()");
    page.press(&["x"]);
    assert_eq!(page.texts("#chips .chip").len(), 1);
    assert!(page.part("tf").starts_with('x'), "{}", page.hash());
    page.press(&["u"]);
    assert_eq!(page.texts("#chips .chip").len(), 0);
    page.browser
        .script("document.querySelector('#top tbody tr button').focus()");
    page.press(&["f"]);
    let focused = page.hash();
    assert!(page.part("tf").starts_with('f'), "{focused}");
    page.go(&page.part_of_address());
    assert_eq!(page.hash(), focused);
    assert!(page.text("#top tbody tr").contains("100 %"));
    page.browser.screenshot("focused");
    page.click("#chips .chip button");
    assert_eq!(page.part("tf"), "");
    page.browser.expect_quiet_console();
}

#[test]
fn the_menu_of_a_box_lists_what_can_be_done_with_it() {
    let Some(page) = open_file(&shop(1), "o=icicle&ov=none") else {
        return;
    };
    let [left, top, width, _] = page.place("#flame canvas");
    let place = (left + width / 4, top + 50);
    page.browser.hover(place);
    page.settle();
    assert!(!page.text("#tooltip").is_empty());
    page.browser.screenshot("tooltip");
    page.browser.press_button(place, 2);
    page.settle();
    let items = page.texts("#menu [role=menuitem]");
    assert!(
        items
            .iter()
            .any(|item| item.starts_with("Merge into the callers")),
        "{items:?}"
    );
    page.browser.screenshot("menu");
    page.press(&["Escape"]);
    assert!(page.texts("#menu:not([hidden])").is_empty());
    page.browser.press_holding("Control", &["k"]);
    page.settle();
    page.browser.write("call tree");
    page.settle();
    page.browser.screenshot("palette");
    page.press(&["Enter"]);
    assert_eq!(page.part("v"), "tree");
    page.press(&["?"]);
    page.browser.screenshot("help");
    page.press(&["Escape"]);
    page.browser.expect_quiet_console();
}

#[test]
fn categories_can_be_switched_off() {
    let Some(page) = open_file(&shop(1), "v=top") else {
        return;
    };
    page.press(&["o"]);
    let names = page.texts("#top tbody tr").join("\n");
    assert!(
        names.contains("distance") && !names.contains("levenshtein"),
        "{names}"
    );
    let shares = page.texts("#share-legend li").join("\n");
    assert!(
        shares.contains("other code") && !shares.contains("unknown"),
        "{shares}"
    );
    page.browser.screenshot("only-mine");
    page.press(&["o"]);
    let shares = page.texts("#share-legend li").join("\n");
    assert!(!shares.contains("other code"), "{shares}");
    page.click("#legend .category");
    assert!(!page.part("hide").is_empty());
    page.browser.expect_quiet_console();
}

impl super::Opened {
    /// The state in the address, as it is written there.
    fn part_of_address(&self) -> String {
        self.browser.text("location.hash.slice(1)")
    }
}
