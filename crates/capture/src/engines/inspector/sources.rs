//! The scripts that were seen, and their texts, asked for when nothing is sampled any more.

use std::collections::HashSet;
use std::time::Duration;

use nodespy_inspector::{InspectorError, Recipient, Session};
use nodespy_model::{LoadedScript, TextMark, file_of_url};
use serde::Deserialize;
use serde_json::json;

/// Longer texts are left out.
const MAX_SCRIPT_BYTES: usize = 8 << 20;
/// All texts of a thread together.
const MAX_TEXT_BYTES: usize = 64 << 20;

#[derive(Deserialize)]
struct Answer {
    #[serde(rename = "scriptSource", default)]
    text: String,
}

/// What is asked of a thread.
pub(super) struct Wish<'a> {
    pub(super) pid: u32,
    /// The files whose scripts are wanted.
    pub(super) files: &'a HashSet<String>,
    /// Whether their texts are wanted too.
    pub(super) has_texts: bool,
    pub(super) timeout: Duration,
}

/// What a thread reported.
#[derive(Default)]
pub(super) struct Fetched {
    pub(super) scripts: Vec<LoadedScript>,
    /// Texts by file.
    pub(super) texts: Vec<(String, String)>,
}

/// Asks a thread for its scripts.
pub(super) fn fetch(
    session: &mut Session,
    recipient: &Recipient,
    wish: &Wish<'_>,
) -> Result<Fetched, InspectorError> {
    let timeout = wish.timeout;
    session.call(recipient, "Debugger.enable", &json!({}), timeout)?;
    let mut fetched = Fetched::default();
    let mut bytes = 0;
    for script in session.new_scripts(recipient) {
        let file = file_of_url(&script.url);
        if !wish.files.contains(&*file) {
            continue;
        }
        fetched.scripts.push(LoadedScript {
            pid: wish.pid,
            file: file.clone().into_owned(),
            map_url: script.map_url,
            text: TextMark {
                units: script.length,
                hash: None,
            },
        });
        if !wish.has_texts || bytes > MAX_TEXT_BYTES {
            continue;
        }
        let params = json!({ "scriptId": script.id });
        let answer = session.call(recipient, "Debugger.getScriptSource", &params, timeout);
        let text = match answer {
            Ok(answer) => serde_json::from_str::<Answer>(&answer).map(|answer| answer.text),
            // Code that was thrown away meanwhile has no text any more.
            Err(InspectorError::Command { .. }) => continue,
            Err(error) => return Err(error),
        };
        if let Ok(text) = text
            && text.len() <= MAX_SCRIPT_BYTES
        {
            bytes += text.len();
            fetched.texts.push((file.into_owned(), text));
        }
    }
    session.call(recipient, "Debugger.disable", &json!({}), timeout)?;
    Ok(fetched)
}
