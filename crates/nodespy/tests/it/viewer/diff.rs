//! Two recordings in one page.

use super::shop::shop;
use super::{open_file, open_served, write};
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
