//! Findings lead to what they name.

use super::open_file;
use super::shop::shop_with_start;

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
