//! The scripts that were seen, and their texts, asked for when nothing is sampled any more.

use std::collections::HashSet;
use std::time::Duration;

use nodespy_formats::file_of_url;
use nodespy_inspector::{InspectorError, Place, Session};
use nodespy_model::{LoadedScript, TextMark};
use serde::Deserialize;
use serde_json::json;

/// Longer texts are left out: nobody reads them.
const LONGEST_TEXT: usize = 8 << 20;
/// All texts of a thread together.
const MOST_TEXT: usize = 64 << 20;

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
    pub(super) patience: Duration,
}

/// What a thread told.
#[derive(Default)]
pub(super) struct Fetched {
    pub(super) scripts: Vec<LoadedScript>,
    /// Texts by file.
    pub(super) texts: Vec<(String, String)>,
}

/// Asks a thread for its scripts.
pub(super) fn fetch(
    session: &mut Session,
    place: &Place,
    wish: &Wish<'_>,
) -> Result<Fetched, InspectorError> {
    let patience = wish.patience;
    session.call(place, "Debugger.enable", &json!({}), patience)?;
    let mut fetched = Fetched::default();
    let mut bytes = 0;
    for script in session.new_scripts(place) {
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
        if !wish.has_texts || bytes > MOST_TEXT {
            continue;
        }
        let params = json!({ "scriptId": script.id });
        let answer = session.call(place, "Debugger.getScriptSource", &params, patience);
        let text = match answer {
            Ok(answer) => serde_json::from_str::<Answer>(&answer).map(|answer| answer.text),
            // Code that was thrown away meanwhile has no text any more.
            Err(InspectorError::Command { .. }) => continue,
            Err(error) => return Err(error),
        };
        if let Ok(text) = text
            && text.len() <= LONGEST_TEXT
        {
            bytes += text.len();
            fetched.texts.push((file.into_owned(), text));
        }
    }
    session.call(place, "Debugger.disable", &json!({}), patience)?;
    Ok(fetched)
}
