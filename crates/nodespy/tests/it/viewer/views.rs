//! Every view, and what the page says of the recording.

use super::shop::{hostile, shop};
use super::{open_file, open_served};

#[test]
fn a_page_says_what_was_recorded_and_what_stands_out() {
    let Some(page) = open_file(&shop(1), "") else {
        return;
    };
    assert_eq!(page.text("#title"), "shop");
    let how = page.text("#how");
    assert!(how.contains("node v22.14.0, pid 4242"), "{how}");
    assert!(how.contains("1,050 samples at 99 Hz"), "{how}");
    assert!(page.text("#confidence").contains("all stacks complete"));
    let findings = page.texts("#findings li");
    assert_eq!(
        findings[0],
        "36 % of main-thread CPU time is in levenshtein.get (fast-levenshtein, levenshtein.js:24), most at line 25, called from distance cart.js:13"
    );
    page.click("#facts summary");
    let facts = page.text("#fact-list");
    for fact in [
        "node server.js --port 8080",
        "box",
        "99 Hz",
        "perf events",
        "2023-11-14T22:13:20Z",
    ] {
        assert!(facts.contains(fact), "no {fact} in {facts}");
    }
    page.browser.screenshot("details");
    page.browser.expect_quiet_console();
}

#[test]
fn every_view_shows_the_same_recording() {
    let Some(page) = open_file(&shop(1), "") else {
        return;
    };
    page.browser.screenshot("flame");
    page.press(&["i"]);
    assert_eq!(page.part("o"), "icicle");
    page.browser.screenshot("icicle");
    page.press(&["i", "v"]);
    assert_eq!(page.part("leaf"), "1");
    page.browser.screenshot("from-the-leaf");
    page.press(&["v"]);

    page.click("#tab-top");
    let first = page.text("#top tbody tr");
    assert!(
        first.contains("levenshtein.get") && first.contains("34.3 %"),
        "{first}"
    );
    assert_eq!(page.texts("#top tbody tr").len(), 11);
    page.browser.screenshot("top");

    page.click("#tab-tree");
    let rows = page.texts("#tree [role=row]").join("\n");
    assert!(
        rows.contains("parserOnIncoming") && rows.contains("95.2 %"),
        "{rows}"
    );
    page.browser.screenshot("call-tree");

    page.click("#tab-time");
    page.browser.screenshot("time-order");

    page.click("#tab-sandwich");
    let bar = page.text("#sandwich .view-bar");
    assert!(
        bar.contains("levenshtein.get") && bar.contains("34.3 %"),
        "{bar}"
    );
    page.browser.screenshot("sandwich");

    page.click("#tab-source");
    page.browser.script(
        "const file = document.querySelector('#source-file');
         file.value = [...file.options].find((each) => each.text.includes('cart.js')).value;
         file.dispatchEvent(new Event('change'))",
    );
    page.settle();
    let source = page.text("#source");
    assert!(source.contains("// </script><b>not bold</b>"), "{source}");
    page.browser.screenshot("source");
    page.browser.expect_quiet_console();
}

#[test]
fn a_served_page_is_the_same_page() {
    let Some(page) = open_served(&shop(1)) else {
        return;
    };
    assert!(page.address.starts_with("http://127.0.0.1:"));
    assert_eq!(page.text("#title"), "shop");
    page.click("#tab-top");
    assert!(page.text("#top tbody tr").contains("levenshtein.get"));
    page.browser.screenshot("served");
    page.browser.expect_quiet_console();
}

#[test]
fn names_are_text_whatever_they_hold() {
    let Some(page) = open_file(&hostile(), "") else {
        return;
    };
    page.browser.screenshot("hostile-flame");
    for view in ["time", "sandwich", "top", "tree", "source", "flame"] {
        page.click(&format!("#tab-{view}"));
        page.browser.screenshot(&format!("hostile-{view}"));
    }
    page.press(&[
        "t", "?", "Escape", "ArrowUp", "ArrowUp", "ArrowUp", "s", "h",
    ]);
    assert_eq!(page.browser.text("String(window.hacked)"), "undefined");
    assert_eq!(
        page.browser
            .text("document.querySelectorAll('img, b i').length"),
        "0"
    );
    assert!(
        page.browser
            .text("document.title")
            .starts_with("</script><script>")
    );
    page.browser.expect_quiet_console();
}
