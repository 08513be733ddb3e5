//! The messages of docs/troubleshooting.md are those of nodespy.

use std::fs;
use std::path::{Path, PathBuf};

/// Shorter pieces are found anywhere.
const SHORTEST_PIECE: usize = 8;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of every source file, with strings that go over several lines put together.
fn sources() -> String {
    let mut text = String::new();
    let mut folders = vec![root().join("crates")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let is_source = path.components().any(|part| part.as_os_str() == "src");
            if path.is_dir() && !path.ends_with("node_modules") && !path.ends_with("tests") {
                folders.push(path);
            } else if is_source && path.extension().is_some_and(|end| end == "rs") {
                text.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }
    let mut joined = String::new();
    for (position, part) in text.split("\\\n").enumerate() {
        joined.push_str(if position == 0 {
            part
        } else {
            part.trim_start()
        });
    }
    joined
}

#[test]
fn every_message_is_one_that_nodespy_prints() {
    let page = fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    let sources = sources();
    let messages: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'))
        .collect();
    assert!(messages.len() > 10, "{messages:?}");
    for message in messages {
        let pieces = message.split('…').map(str::trim);
        for piece in pieces.filter(|piece| piece.len() >= SHORTEST_PIECE) {
            assert!(sources.contains(piece), "{message}: {piece}");
        }
    }
}
