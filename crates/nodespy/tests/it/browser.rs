//! The flame graph in a browser: zoom, search and the state in the address, on a file of its own.

use crate::run::{Started, nodespy};
use crate::scratch::Scratch;
use crate::webdriver::Browser;

/// Opens the flame graph of `folded` with a script at its end, and returns what the script left
/// in the document as lines. None where there is no browser.
fn opened(folded: &str, query: &str, script: &str) -> Option<Vec<String>> {
    let browser = Browser::start()?;
    let outcome = Started::new(nodespy(&["flamegraph"]), folded).finish();
    outcome.expect_code(0);
    let scratch = Scratch::for_other_users();
    let file = scratch.file("flame.svg");
    let helpers = r##"
const lines = [];
const group = (name) => Array.from(document.querySelectorAll("#frames g"))
  .find((each) => each.querySelector("title").textContent.startsWith(name + " ("));
const rect = (name) => group(name).querySelector("rect");
const percent = (name) => Math.round(parseFloat(rect(name).getAttribute("width")));
const click = (element) => element.dispatchEvent(new MouseEvent("click", { bubbles: true }));
const press = (key, ctrlKey) => dispatchEvent(new KeyboardEvent("keydown", { key, ctrlKey }));
const shown = () => Array.from(document.querySelectorAll("#frames g:not(.hide)"),
  (each) => each.querySelector("title").textContent.split(" ")[0]).join(" ");
const say = (text) => lines.push(text);
const isHidden = (id) => document.getElementById(id).classList.contains("hide");
const text = (id) => document.getElementById(id).textContent;
"##;
    let tail = format!(
        "<script><![CDATA[{helpers}{script}\n\
         document.getElementById(\"details\").textContent = \"@@\" + lines.join(\"@\") + \"@@\";]]></script>\n</svg>\n"
    );
    let svg = outcome.stdout.strip_suffix("</svg>\n").unwrap().to_owned() + &tail;
    std::fs::write(&file, svg).unwrap();
    browser.open(&format!("file://{file}{query}"));
    let said = browser.text("document.getElementById('details').textContent");
    let said = said.split("@@").nth(1);
    let said = said
        .unwrap_or_else(|| panic!("the script did not run to its end: {:?}", browser.console()));
    Some(said.split('@').map(str::to_owned).collect())
}

const STACKS: &str = "main;serve;parse 4\nmain;serve;render 3\nmain;idle 3\nother 10\n";

#[test]
fn a_click_zooms_and_a_search_tells_how_much_it_found() {
    let script = r#"
click(group("serve"));
say(shown());
say([percent("serve"), percent("main"), percent("parse")].join(" "));
say(group("main").classList.contains("below") + " " + isHidden("unzoom"));
say(location.search.replace(/y=[0-9.]+/, "y=Y"));
click(document.getElementById("unzoom"));
say(percent("main") + " " + isHidden("unzoom") + location.search);
window.prompt = () => "^PARSE$|serve";
press("f", true);
say(text("matched") + " " + rect("parse").getAttribute("fill"));
press("i", true);
say(text("matched") + " " + (rect("parse").getAttribute("fill") === rect("serve").getAttribute("fill")));
say(text("search"));
click(document.getElementById("search"));
say(text("matched").trim() + text("search"));
window.prompt = () => "a(";
press("F3");
say(text("matched"));
group("idle").dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
say(text("details"));
"#;
    let Some(said) = opened(STACKS, "", script) else {
        return;
    };
    assert_eq!(said[0], "all main serve parse render");
    assert_eq!(said[1], "100 100 57");
    assert_eq!(said[2], "true false");
    assert_eq!(said[3], "?x=3&y=Y");
    assert_eq!(said[4], "50 true");
    assert!(said[5].starts_with("Matched: 35.0% rgb("), "{said:?}");
    assert_eq!(said[6], "Matched: 35.0% true");
    assert_eq!(said[7], "Reset Search");
    assert_eq!(said[8], "Search");
    assert_eq!(said[9], "Matched: 0.0%");
    assert_eq!(said[10], "Function: idle (3 samples, 15.00%)");
}

#[test]
fn an_address_shows_what_its_sender_saw() {
    let script = r#"say(shown()); say(text("matched"));"#;
    let Some(said) = opened(STACKS, "?s=parse|idle", script) else {
        return;
    };
    assert_eq!(
        said,
        ["all main idle serve parse render other", "Matched: 35.0%"]
    );
    // `serve` starts after `idle` and stands in the second row from the base of four.
    let y = 36 + 16;
    let said = opened(STACKS, &format!("?x=3&y={y}&s=render"), script).unwrap();
    assert_eq!(said, ["all main serve parse render", "Matched: 42.9%"]);
}

#[test]
fn names_are_cut_to_what_fits_and_are_never_markup() {
    let long = "a_very_long_name_that_is_longer_than_any_window_".repeat(20);
    let stacks = format!("<b>&x;{long} 999\n<b>&x;tiny 1\n");
    let script = r##"
const tiny = group("tiny");
say(String(tiny.querySelector("text")));
click(tiny);
say(tiny.querySelector("text").textContent);
click(document.getElementById("unzoom"));
const label = document.querySelectorAll("#frames g")[2].querySelector("text");
say(label.textContent.endsWith("..") + " " + (label.getBoundingClientRect().right < innerWidth));
say(document.querySelectorAll("#frames g")[1].querySelector("text").textContent);
say(String(document.querySelectorAll("b").length));
"##;
    let Some(said) = opened(&stacks, "", script) else {
        return;
    };
    assert_eq!(said, ["null", "tiny", "true true", "<b>&x", "0"]);
}
