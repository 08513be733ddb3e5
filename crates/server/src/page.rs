//! The page of the server: services over time, and the viewer of what is selected.

use data_encoding::BASE64;
use sha2::{Digest, Sha256};

use nodespy_http::Answer;

const TEMPLATE: &str = include_str!("../assets/fleet.html");
const STYLE: &str = include_str!("../assets/fleet.css");
/// Built from crates/view/ui/src/fleet by `make viewer`.
const SCRIPT: &str = include_str!("../assets/fleet.js");

/// The page. It runs its own script and style, each by its hash, asks its own server, and frames its own server's viewer.
pub(crate) fn answer() -> Answer {
    let hash = |text: &str| BASE64.encode(&Sha256::digest(text));
    let policy = format!(
        "Content-Security-Policy: default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; \
         frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(SCRIPT),
        hash(STYLE)
    );
    let page = TEMPLATE
        .replace("{{style}}", STYLE)
        .replace("{{script}}", SCRIPT);
    Answer::ok("text/html; charset=utf-8", page.into_bytes()).with_header(policy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_assets_hold_nothing_that_would_end_their_element() {
        assert!(!SCRIPT.contains("</script") && !SCRIPT.contains("<!--"));
        assert!(!STYLE.contains("</style"));
    }

    #[test]
    fn the_page_allows_its_own_script_and_nothing_else() {
        let answer = answer();
        let policy = &answer.headers[0];
        assert!(policy.contains("default-src 'none'"), "{policy}");
        assert!(!policy.contains("unsafe"), "{policy}");
        let page = String::from_utf8(answer.body).unwrap();
        assert!(!page.contains("{{"));
    }
}
