//! The scripts that were seen, and their texts, asked for when nothing is sampled any more.

use std::collections::HashSet;
use std::time::{Duration, Instant};

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
    /// How long an answer may take.
    pub(super) timeout: Duration,
    /// When all threads together have had their time.
    pub(super) deadline: Instant,
}

impl Wish<'_> {
    /// How long the next answer may take.
    fn time_left(&self) -> Duration {
        let left = self.deadline.saturating_duration_since(Instant::now());
        left.min(self.timeout)
    }
}

/// What a thread reported.
#[derive(Default)]
pub(super) struct Fetched {
    pub(super) scripts: Vec<LoadedScript>,
    /// Texts by file.
    pub(super) texts: Vec<(String, String)>,
}

/// Asks a thread for its scripts. What it reported before it failed to answer is kept.
pub(super) fn fetch(
    session: &mut Session,
    recipient: &Recipient,
    wish: &Wish<'_>,
    fetched: &mut Fetched,
) -> Result<(), InspectorError> {
    let enable = "Debugger.enable";
    session.call(recipient, enable, &json!({}), wish.time_left())?;
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
        let answer = session.call(
            recipient,
            "Debugger.getScriptSource",
            &params,
            wish.time_left(),
        );
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
    let disable = "Debugger.disable";
    session.call(recipient, disable, &json!({}), wish.time_left())?;
    Ok(())
}
