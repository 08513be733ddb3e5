//! One HTML file that holds the recording and draws it: no network, no server.
//!
//! The recording travels as `.nspy` bytes in base64, in chunks after the script, so that the script
//! draws its preview while they are still being read. The page's own policy lets nothing run or
//! load but the script and the style in it, each by its hash, workers made by that script, and what
//! the server of the page answers.

use std::io::{Read, Write};
use std::sync::LazyLock;

use flate2::read::DeflateDecoder;
use nodespy_analysis::Holding;
use nodespy_model::{Profile, printable};

use crate::comparison::comparison_for_page;
use crate::svg::escape;
use crate::{DrawError, DrawOptions, View, base64, preview, wording};

const TEMPLATE: &str = include_str!("../assets/page.html");
/// Packed by build.rs, like the script.
static STYLE: LazyLock<String> =
    LazyLock::new(|| unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/style.css"))));
/// The viewer, built from crates/view/ui by `npm run build`.
static SCRIPT: LazyLock<String> =
    LazyLock::new(|| unpacked(include_bytes!(concat!(env!("OUT_DIR"), "/viewer.js"))));

/// What the page may do: run its own script and workers made by it, use its own style, show
/// pictures it made, and ask the server it came from; a page opened as a file has none.
const POLICY: &str = concat!(
    "default-src 'none'; script-src 'sha256-",
    env!("SCRIPT_SHA256"),
    "'; style-src 'sha256-",
    env!("STYLE_SHA256"),
    "'; worker-src blob:; img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'",
);

/// How much of a recording is in one element: 64 KiB of base64, the longest text that Chromium keeps
/// in one part. A whole number of groups of three, so that every chunk decodes to whole bytes.
const CHUNK_BYTES: usize = 3 << 14;

/// The HTML page.
pub(crate) struct Page;

impl View for Page {
    fn name(&self) -> &'static str {
        "html"
    }

    fn extension(&self) -> &'static str {
        "html"
    }

    fn holding(&self) -> Holding {
        Holding::Everything
    }

    fn carries_profiles(&self) -> bool {
        true
    }

    fn holds_events(&self) -> bool {
        true
    }

    fn draw(
        &self,
        profile: &Profile,
        options: &DrawOptions<'_>,
        output: &mut dyn Write,
    ) -> Result<(), DrawError> {
        if options.payload.profile.is_empty() {
            return Err(DrawError::NoPayload);
        }
        let title = options.title.map_or_else(
            || wording::title(&profile.first_event()),
            |title| printable(title).into_owned(),
        );
        let mut rest = TEMPLATE;
        while let Some((before, after)) = rest.split_once("{{") {
            let (slot, after) = after
                .split_once("}}")
                .expect("the template closes its slots");
            output.write_all(before.as_bytes())?;
            match slot {
                "title" => output.write_all(escape(&title).as_bytes())?,
                "policy" => output.write_all(POLICY.as_bytes())?,
                "style" => output.write_all(STYLE.as_bytes())?,
                "script" => output.write_all(SCRIPT.as_bytes())?,
                "preview" => output.write_all(preview::of(profile, &title).as_bytes())?,
                "comparison" => {
                    let text = options.comparison.map(comparison_for_page);
                    output.write_all(text.unwrap_or_default().as_bytes())?;
                }
                "payload" => {
                    write_chunks(options.payload.profile, "recording", output)?;
                    write_chunks(options.payload.base, "base", output)?;
                }
                slot => unreachable!("the template has no slot {slot}"),
            }
            rest = after;
        }
        output.write_all(rest.as_bytes())?;
        Ok(())
    }
}

fn unpacked(packed: &[u8]) -> String {
    let mut text = String::new();
    DeflateDecoder::new(packed)
        .read_to_string(&mut text)
        .expect("build.rs has packed it");
    text
}

/// Writes a recording as elements of the page, each with a chunk of it that decodes by itself. The
/// text of a template costs the reader of the page half of what that of a script does (Chromium,
/// 19 MB: 70 ms of its main thread instead of 160 ms), and is as little shown.
fn write_chunks(recording: &[u8], class: &str, output: &mut dyn Write) -> Result<(), DrawError> {
    for chunk in recording.chunks(CHUNK_BYTES) {
        write!(output, "<template class=\"{class}\">")?;
        base64::write(chunk, output)?;
        output.write_all(b"</template>\n")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use data_encoding::BASE64;
    use sha2::{Digest, Sha256};

    use super::*;
    use crate::Payload;

    #[test]
    fn a_hostile_title_stays_text() {
        let mut page = Vec::new();
        let options = DrawOptions {
            title: Some("</title><script>alert(1)</script>"),
            payload: Payload {
                profile: b"x",
                base: &[],
            },
            ..DrawOptions::default()
        };
        Page.draw(&Profile::default(), &options, &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert!(page.contains("&lt;/title&gt;&lt;script&gt;alert"));
        assert!(!page.contains("alert(1)</script>"));
        let chunk = "<template class=\"recording\">eA==</template>";
        assert!(page.contains(chunk));
        assert!(!page.contains("class=\"base\""));
    }

    #[test]
    fn long_recordings_are_cut_into_chunks_and_a_base_follows() {
        let mut page = Vec::new();
        let options = DrawOptions {
            payload: Payload {
                profile: &[0; CHUNK_BYTES + 1],
                base: b"foo",
            },
            ..DrawOptions::default()
        };
        Page.draw(&Profile::default(), &options, &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        let after_script = &page[page.rfind(SCRIPT.as_str()).unwrap()..];
        let opening = "<template class=\"recording\">";
        let chunks: Vec<&str> = after_script.split(opening).skip(1).collect();
        assert_eq!(chunks.len(), 2);
        assert!(chunks[1].starts_with("AA==</template>"));
        assert!(chunks[1].contains("<template class=\"base\">Zm9v</template>"));
    }

    #[test]
    fn the_assets_hold_nothing_that_would_end_their_element() {
        assert!(!SCRIPT.contains("</script") && !SCRIPT.contains("<!--"));
        assert!(!STYLE.contains("</style"));
    }

    #[test]
    fn the_policy_allows_the_script_and_the_style_of_the_page() {
        for text in [&SCRIPT, &STYLE] {
            let hash = BASE64.encode(&Sha256::digest(text.as_bytes()));
            assert!(POLICY.contains(&format!("'sha256-{hash}'")));
        }
    }
}
