//! Two recordings in one page.

use super::shop::shop;
use super::{Opened, convert, open_file, open_served, write};
use crate::run::run_nodespy;

#[test]
fn a_base_in_the_page_is_compared_with() {
    let Some(page) = open_file(&shop(3), "") else {
        return;
    };
    let [base, both] = ["old.nspy", "both.html"].map(|name| page.scratch.file(name));
    write(&shop(1), &base);
    let new = page.scratch.file("new.nspy");
    run_nodespy(&["convert", &new, &both, "--base", &base]).expect_code(0);
    page.browser.open(&format!("file://{both}#cmp=base"));
    page.settle();
    page.browser.screenshot("diff-flame");
    page.click("#tab-top");
    let head = page.text("#top thead");
    assert!(head.contains("Self change"), "{head}");
    let rows = page.texts("#top tbody tr");
    let render = rows.iter().find(|row| row.contains("render")).unwrap();
    assert!(render.contains('+'), "{render}");
    page.browser.screenshot("diff-top");
    page.browser.expect_quiet_console();
    let outcome = run_nodespy(&[
        "convert",
        &new,
        "--base",
        &base,
        &page.scratch.file("no.svg"),
    ]);
    outcome
        .expect_code(2)
        .expect_stderr(&["--base needs an HTML page"]);
}

/// Folded stacks of a program; `hash` is the weight of `hashInts`, `shift` what differs from run to run.
fn run_of(hash: u64, is_new: bool, shift: u64) -> String {
    let only = match is_new {
        true => "main /srv/app.js:1:1;render /srv/page.js:8:1;escape /srv/page.js:30:1 60",
        false => {
            "main /srv/app.js:1:1;render /srv/page.js:8:1;quote /srv/page.js:30:1;pad /srv/page.js:40:1 60"
        }
    };
    let wobble = |weight: u64, by: u64| weight + (shift * by) % 7;
    format!(
        "main /srv/app.js:1:1;hashInts /srv/hash.js:3:1 {}\nmain /srv/app.js:1:1;sort /srv/sort.js:1:1 {}\n\
         main /srv/app.js:1:1;render /srv/page.js:8:1 {}\nmain /srv/app.js:1:1;parse /srv/parse.js:9:1 {}\n{only}\n",
        wobble(hash, 1),
        wobble(500, 2),
        wobble(450, 4),
        wobble(400, 5),
    )
}

/// The page of five runs a side, of which the later ones spend more in `hashInts`.
fn compared() -> Option<Opened> {
    let page = convert(&shop(1))?;
    let runs = |name: &str, hash: u64, is_new: bool| -> Vec<String> {
        let run = |shift: u64| {
            let file = page.scratch.file(&format!("{name}{shift}.folded"));
            std::fs::write(&file, run_of(hash, is_new, shift)).unwrap();
            file
        };
        (1..=5).map(run).collect()
    };
    let (before, after) = (runs("a", 600, false), runs("b", 750, true));
    let html = page.scratch.file("diff.html");
    let mut line = vec!["diff"];
    line.extend(before.iter().map(String::as_str));
    line.push("--");
    line.extend(after.iter().map(String::as_str));
    line.extend(["-o", &html]);
    run_nodespy(&line).expect_code(0);
    Some(Opened {
        address: format!("file://{html}"),
        ..page
    })
}

#[test]
fn a_comparison_shows_what_is_sure() {
    let Some(page) = compared() else {
        return;
    };
    page.browser.open(&page.address);
    page.settle();
    assert_eq!(
        page.part("cmp"),
        "",
        "what a page opens with is not in its address"
    );
    assert!(
        page.text("#compared").contains("per run"),
        "{}",
        page.text("#chips")
    );
    page.browser.screenshot("diff-verdicts");
    page.click("#tab-top");
    let rows = page.texts("#top tbody tr");
    assert!(
        rows[0].contains("hashInts") && rows[0].contains("regression"),
        "{rows:?}"
    );
    let sort = rows.iter().find(|row| row.contains("sort")).unwrap();
    assert!(!sort.contains('['), "noise has no verdict: {sort}");
    page.click("#only-changed");
    let rows = page.texts("#top tbody tr");
    assert!(rows.iter().all(|row| !row.contains("sort.js")), "{rows:?}");
    assert!(
        rows.iter().any(|row| row.contains("pad")),
        "what is gone is there: {rows:?}"
    );
    page.browser.screenshot("diff-verdicts-top");
    page.browser.expect_quiet_console();
}

#[test]
fn widths_are_of_either_side_of_both_or_of_the_difference() {
    let Some(page) = compared() else {
        return;
    };
    for (widths, theme) in [("before", "light"), ("both", "dark"), ("change", "light")] {
        page.go(&format!("cmp=base&dw={widths}&theme={theme}&o=icicle"));
        assert_eq!(
            page.browser.text("document.querySelector('#widths').value"),
            widths
        );
        page.browser.screenshot(&format!("diff-widths-{widths}"));
    }
    page.press(&["W"]);
    assert_eq!(page.part("dw"), "");
    page.press(&["g"]);
    assert_eq!(page.part("chg"), "1");
    page.press(&["g"]);
    assert_eq!(page.part("chg"), "");
    page.go("cmp=base&dw=before&v=sandwich");
    page.browser.screenshot("diff-sandwich");
    page.browser.expect_quiet_console();
}

#[test]
fn a_file_given_to_a_served_page_becomes_its_base() {
    let Some(page) = open_served(&shop(3)) else {
        return;
    };
    let folded = page.scratch.file("old.folded");
    std::fs::write(&folded, "uv_run;parserOnIncoming;handle;render 40\n").unwrap();
    page.browser.choose_file("#base-file", &folded);
    page.browser
        .wait_for("document.querySelector('#status').innerText.startsWith('Compared with')");
    page.settle();
    assert_eq!(page.part("cmp"), "base");
    page.browser.screenshot("diff-served");
    page.browser.expect_quiet_console();
    let broken = page.scratch.file("broken.txt");
    std::fs::write(&broken, "no profile at all").unwrap();
    page.browser.choose_file("#base-file", &broken);
    page.browser
        .wait_for("document.querySelector('#status').innerText.includes('cannot be read')");
}
