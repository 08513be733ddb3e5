//! The texts of the scripts that were seen, asked for when nothing is sampled any more.

use std::collections::HashSet;
use std::time::Duration;

use nodespy_formats::file_of_url;
use nodespy_inspector::{InspectorError, Place, Session};
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

/// The texts of a thread's scripts whose files are wanted, by file.
pub(super) fn fetch(
    session: &mut Session,
    place: &Place,
    wanted: &HashSet<String>,
    patience: Duration,
) -> Result<Vec<(String, String)>, InspectorError> {
    session.call(place, "Debugger.enable", &json!({}), patience)?;
    let mut texts = Vec::new();
    let mut bytes = 0;
    for script in session.new_scripts(place) {
        let file = file_of_url(&script.url);
        if !wanted.contains(&*file) || bytes > MOST_TEXT {
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
            texts.push((file.into_owned(), text));
        }
    }
    session.call(place, "Debugger.disable", &json!({}), patience)?;
    Ok(texts)
}
