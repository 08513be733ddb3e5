//! One HTML file that holds the recording and draws it: no network, no server.
//!
//! The recording travels as `.nspy` bytes in base64. The page's own policy lets nothing run or
//! load but the script and the style in it, each by its hash.

use std::io::Write;

use nodespy_model::{Profile, printable};

use crate::sha256::sha256;
use crate::svg::escape;
use crate::{DrawError, DrawOptions, View, wording};

const TEMPLATE: &str = include_str!("../assets/page.html");
const STYLE: &str = include_str!("../assets/style.css");
/// The viewer, its parts in the order they need one another.
const SCRIPT_PARTS: &[&str] = &[
    include_str!("../assets/decode.js"),
    include_str!("../assets/count.js"),
    include_str!("../assets/wording.js"),
    include_str!("../assets/flame.js"),
    include_str!("../assets/panels.js"),
    include_str!("../assets/main.js"),
];

/// The HTML page.
pub(crate) struct Page;

impl View for Page {
    fn name(&self) -> &'static str {
        "html"
    }

    fn extension(&self) -> &'static str {
        "html"
    }

    fn draw(
        &self,
        profile: &Profile,
        options: &DrawOptions<'_>,
        output: &mut dyn Write,
    ) -> Result<(), DrawError> {
        if options.payload.is_empty() {
            return Err(DrawError::NoPayload);
        }
        let title = options.title.map_or_else(
            || wording::title(profile),
            |title| printable(title).into_owned(),
        );
        let confidence = wording::confidence(profile).join("; ");
        let script = script();
        let mut rest = TEMPLATE;
        while let Some((before, after)) = rest.split_once("{{") {
            let (slot, after) = after
                .split_once("}}")
                .expect("the template closes its slots");
            output.write_all(before.as_bytes())?;
            match slot {
                "title" => output.write_all(escape(&title).as_bytes())?,
                "how" => output.write_all(escape(&how(profile)).as_bytes())?,
                "confidence" => output.write_all(escape(&confidence).as_bytes())?,
                "remarks" => output.write_all(remarks(profile).as_bytes())?,
                "policy" => output.write_all(policy(&script).as_bytes())?,
                "style" => output.write_all(STYLE.as_bytes())?,
                "script" => output.write_all(script.as_bytes())?,
                "payload" => write_base64(options.payload, output)?,
                slot => unreachable!("the template has no slot {slot}"),
            }
            rest = after;
        }
        output.write_all(rest.as_bytes())?;
        Ok(())
    }
}

fn how(profile: &Profile) -> String {
    let parts = [wording::who(profile), wording::how(profile)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(", ")
}

/// The notes of a profile, folded away; nothing when there are none.
fn remarks(profile: &Profile) -> String {
    let remarks: Vec<&str> = profile.notes.other_remarks().collect();
    if remarks.is_empty() {
        return String::new();
    }
    let items: String = remarks
        .iter()
        .map(|remark| format!("<li dir=\"auto\">{}</li>", escape(&printable(remark))))
        .collect();
    let count = wording::counted(remarks.len() as u64, "note");
    format!("<details id=\"remarks\"><summary>{count}</summary><ul>{items}</ul></details>")
}

fn script() -> String {
    format!(
        "\"use strict\";\n(() => {{\n{}}})();\n",
        SCRIPT_PARTS.join("\n")
    )
}

/// What the page may do: run its own script, use its own style.
fn policy(script: &str) -> String {
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        base64(&sha256(script.as_bytes())),
        base64(&sha256(STYLE.as_bytes())),
    )
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn base64(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    write_base64(bytes, &mut text).expect("memory takes every byte");
    String::from_utf8(text).expect("base64 is plain text")
}

fn write_base64(bytes: &[u8], output: &mut dyn Write) -> Result<(), DrawError> {
    // A whole number of three-byte groups at a time, so only the last piece needs filling up.
    for piece in bytes.chunks(3 << 12) {
        let mut text = Vec::with_capacity(4 << 12);
        for group in piece.chunks(3) {
            let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
            let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
            for position in 0..4 {
                let value = bits >> (18 - 6 * position) & 63;
                text.push(match position <= group.len() {
                    true => BASE64[value as usize],
                    false => b'=',
                });
            }
        }
        output.write_all(&text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_as_the_rfc_has_it() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn a_hostile_title_stays_text() {
        let mut page = Vec::new();
        let options = DrawOptions {
            title: Some("</title><script>alert(1)</script>"),
            payload: b"x",
            ..DrawOptions::default()
        };
        Page.draw(&Profile::default(), &options, &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("&lt;/title&gt;&lt;script&gt;alert"));
        assert!(!page.contains("alert(1)</script>"));
        assert!(page.contains("<script type=\"application/nspy\" id=\"recording\">eA==</script>"));
    }

    #[test]
    fn the_assets_hold_nothing_that_would_end_their_element() {
        assert!(!script().contains("</script") && !script().contains("<!--"));
        assert!(!STYLE.contains("</style"));
    }
}
