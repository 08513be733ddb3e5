//! Findings and subsystems lead to what they name.

use super::open_file;
use super::shop::shop_with_start;
use crate::run::run_nodespy;

#[test]
fn a_name_in_a_finding_leads_to_its_box() {
    let Some(page) = open_file(&shop_with_start(), "v=top&t=1&hide=0") else {
        return;
    };
    let names = page.texts("#findings .lead");
    assert_eq!(names[..2], ["levenshtein.get", "distance"]);
    page.click("#findings .lead");
    let status = page.text("#status");
    assert!(
        status.starts_with("levenshtein.get") && status.contains("total 34.3 %"),
        "{status}"
    );
    assert_eq!(page.part("v") + &page.part("t") + &page.part("hide"), "");
    // The keyboard goes on from there.
    page.press(&["ArrowDown"]);
    assert!(page.text("#status").starts_with("distance"));
    page.browser.screenshot("finding-followed");
    page.browser.expect_quiet_console();
}

#[test]
fn subsystems_have_the_terminals_figures_and_lead_to_their_boxes() {
    let Some(page) = open_file(&shop_with_start(), "v=top&t=1&hide=0") else {
        return;
    };
    let summary = run_nodespy(&["report", &page.scratch.file("new.nspy")]);
    let labels = page.texts("#subsystems li > .lead");
    let shares = page.texts("#subsystems .number");
    assert!(labels.len() > 4, "{labels:?}");
    for (label, share) in labels.iter().zip(&shares) {
        let figure = format!("{label} {share}");
        assert!(
            summary.stdout.contains(&figure),
            "{figure}: {}",
            summary.stdout
        );
    }
    // The search weighs what the table says, whatever was left out before.
    for (at, share) in shares.iter().enumerate() {
        page.click(&format!("#subsystems li:nth-child({}) > .lead", at + 1));
        assert_eq!(
            page.text("#matched"),
            format!("matched {share}"),
            "{}",
            labels[at]
        );
    }
    assert_eq!(page.part("v") + &page.part("t") + &page.part("hide"), "");
    let members = page.texts("#subsystems .dim .lead");
    assert!(!members.is_empty());
    page.click("#subsystems .dim .lead");
    assert_eq!(page.part("q"), format!("node_modules/{}/", members[0]));
    page.browser.screenshot("subsystems-light");
    page.go("theme=dark&q=in:dependencies");
    page.browser.screenshot("subsystems-dark");
    page.browser.expect_quiet_console();
}
