//! Fingers instead of a mouse, and what leaves the page: paper and pictures.

use serde_json::json;

use super::shop::{hostile, shop};
use super::{Opened, open_file};

#[test]
fn fingers_tap_pinch_and_press_long() {
    let Some(page) = open_file(&shop(1), "o=icicle&ov=none") else {
        return;
    };
    let [left, top, width, _] = page.place("#flame canvas");
    let drawn = "document.querySelector('#flame canvas').toDataURL()";
    let before = page.browser.text(drawn);
    let middle = left + width / 2;
    page.browser.touch(&[
        &[(middle - 20, top + 60), (middle - 200, top + 60)],
        &[(middle + 20, top + 60), (middle + 200, top + 60)],
    ]);
    page.settle();
    assert!(
        page.browser.text(drawn) != before,
        "a pinch changed nothing"
    );
    page.press(&["Escape"]);
    assert!(page.browser.text(drawn) == before, "Escape zooms out again");
    page.browser.touch(&[&[(left + width / 4, top + 50)]]);
    page.settle();
    assert!(!page.part("x").is_empty(), "a tap zooms: {}", page.hash());
    page.press(&["0"]);
    let place = (left + width / 4, top + 50);
    page.browser.touch_long(place);
    page.settle();
    assert!(!page.texts("#menu:not([hidden]) [role=menuitem]").is_empty());
    page.browser.expect_quiet_console();
}

#[test]
fn on_paper_there_is_the_whole_graph_and_no_button() {
    let Some(page) = open_file(&shop(1), "") else {
        return;
    };
    let media = |name: &str| {
        let parameters = json!({ "media": name });
        page.browser
            .devtools("Emulation.setEmulatedMedia", parameters);
    };
    media("print");
    let shown = "getComputedStyle(document.querySelector('#toolbar')).display";
    assert_eq!(page.browser.text(shown), "none");
    // As wide as the paper, not as the window it was drawn for.
    page.browser
        .script("document.querySelector('#views').style.width = '500px'");
    assert_eq!(page.place("#flame canvas")[2], 500);
    page.browser.screenshot("print");
    media("");
    let printed = page
        .browser
        .devtools("Page.printToPDF", json!({ "landscape": true }));
    assert!(printed["data"].as_str().unwrap().starts_with("JVBERi")); // %PDF-
    page.browser.expect_quiet_console();
}

#[test]
fn pictures_are_saved_with_names_as_text() {
    for profile in [shop(1), hostile()] {
        let Some(page) = open_file(&profile, "") else {
            return;
        };
        let svg = "
            const text = await window.saved.text();
            const picture = new DOMParser().parseFromString(text, 'image/svg+xml');
            return [window.saved.type, picture.querySelectorAll('parsererror, script').length,
                picture.querySelectorAll('g > title').length > 3 && picture.querySelectorAll('rect').length > 3]";
        assert_eq!(
            saved(&page, "Save as SVG", svg),
            json!(["image/svg+xml", 0, true])
        );
        let png = "
            const picture = await createImageBitmap(window.saved);
            const canvas = document.querySelector('#flame canvas');
            return [window.saved.type, picture.width === canvas.width, picture.height === canvas.height]";
        assert_eq!(
            saved(&page, "Save as PNG", png),
            json!(["image/png", true, true])
        );
        page.browser.expect_quiet_console();
    }
}

/// Runs a command of the palette that saves a file, and asks a script about `window.saved`.
fn saved(page: &Opened, command: &str, ask: &str) -> serde_json::Value {
    page.browser.script(
        "window.saved = null;
         window.made ??= URL.createObjectURL;
         URL.createObjectURL = (blob) => { window.saved = blob; return made.call(URL, blob); };
         HTMLAnchorElement.prototype.click = () => {};",
    );
    page.browser.press_holding("Control", &["k"]);
    page.settle();
    page.browser.write(command);
    page.settle();
    page.press(&["Enter"]);
    page.browser.wait_for("window.saved");
    page.browser
        .script(&format!("return (async () => {{ {ask} }})()"))
}
