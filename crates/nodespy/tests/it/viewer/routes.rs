//! Routes of requests and async callers on the page: chosen, grouped by, hidden, and kept in the address.

use super::shop::shop;
use super::{Opened, open_file};
use crate::routes::server;

const IS_HIDDEN: &str =
    "['#route', '#by-route', '#async'].map((it) => document.querySelector(it).hidden)";

fn functions(page: &Opened) -> Vec<String> {
    page.texts("#top tbody .name")
}

#[test]
fn a_route_is_chosen_and_stacks_are_grouped_by_it() {
    let Some(page) = open_file(&server(), "v=top&sort=total") else {
        return;
    };
    assert_eq!(
        page.texts("#route option"),
        [
            "All routes",
            "60.0 %  GET /users/:id",
            "30.0 %  POST /orders",
            "10.0 %  (no request)"
        ]
    );
    page.browser
        .script("document.querySelector('#route').focus()");
    page.press(&["ArrowDown", "ArrowDown"]);
    page.settle();
    assert_eq!(page.part("route"), "POST /orders");
    assert_eq!(functions(&page), ["parse"]);
    page.click("#chips button");
    page.settle();
    assert_eq!(page.part("route"), "");
    page.click("#by-route");
    page.settle();
    assert_eq!(page.part("by"), "route");
    let listed = functions(&page);
    for name in ["GET /users/:id", "POST /orders", "(no request)", "render"] {
        assert!(listed.iter().any(|each| each == name), "{listed:?}");
    }
    page.browser.expect_quiet_console();
}

#[test]
fn async_callers_are_hidden_and_come_back() {
    let Some(page) = open_file(&server(), "v=top&sort=total") else {
        return;
    };
    assert!(functions(&page).contains(&"handle".to_owned()));
    page.click("#async");
    page.settle();
    assert_eq!(page.part("async"), "0");
    assert!(!functions(&page).contains(&"handle".to_owned()));
    page.click("#async");
    page.settle();
    assert!(functions(&page).contains(&"handle".to_owned()));
    page.browser.expect_quiet_console();
}

#[test]
fn a_recording_without_routes_and_async_callers_has_no_such_controls() {
    let Some(page) = open_file(&shop(1), "by=route&route=GET+%2Fx&async=0") else {
        return;
    };
    let hidden = page.browser.text(&format!("String({IS_HIDDEN})"));
    assert_eq!(hidden, "true,true,true");
    assert_eq!(page.texts("#chips .chip"), [] as [&str; 0]);
    page.browser.expect_quiet_console();
}
