//! What the documents promise: each link leads to something, each command line is one that nodespy understands.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::examples::{MISUSED, NO_OPTION, NO_PID};
use crate::run::run_nodespy;

fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().unwrap()
}

/// Every Markdown file of the project, but the licences, which others have written.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_ours = !name.starts_with('.') && !["target", "node_modules"].contains(&name);
            if path.is_dir() && is_ours && !path.is_symlink() {
                folders.push(path);
            } else if name.ends_with(".md") && name != "THIRD-PARTY.md" {
                found.push(path);
            }
        }
    }
    found
}

/// The lines outside of code blocks, and those inside of them.
fn prose_and_code(text: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut prose, mut code) = (Vec::new(), Vec::new());
    let mut is_code = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            code.push(line);
        } else {
            prose.push(line);
        }
    }
    (prose, code)
}

/// What a heading is called in a link: small letters, without punctuation, with dashes for spaces.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = text
        .chars()
        .filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

/// The targets of the links in a line: what stands in `](…)`.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| {
        let target = rest.split(')').next()?;
        Some(target.split(' ').next().unwrap_or(target))
    })
}

#[test]
fn every_link_leads_to_a_file_and_every_anchor_to_a_heading() {
    let mut checked = 0;
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for target in prose_and_code(&text).0.into_iter().flat_map(links) {
            if target.contains("://") || target.contains('…') {
                continue;
            }
            let (file, wanted) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => path.clone(),
                file => path.parent().unwrap().join(file),
            };
            let from = path.display();
            assert!(file.exists(), "{from}: {target} leads nowhere");
            if !wanted.is_empty() {
                let text = fs::read_to_string(&file).unwrap();
                let headings = prose_and_code(&text).0;
                let headings = headings.iter().filter(|line| line.starts_with('#'));
                let anchors: HashSet<String> = headings.map(|line| anchor(line)).collect();
                assert!(anchors.contains(wanted), "{from}: {target} has no heading");
            }
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked}");
}

/// What stands between backticks in a line.
fn inline_code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The words of the first command of a line as a shell divides them: without what follows a comment, a pipe or a
/// redirection. None where it needs a shell to know.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut before = ' ';
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => word.push(letter),
            (None, '\'' | '"') => quote = Some(letter),
            (None, '#') if before == ' ' => break,
            (None, '|' | '>' | '<' | '&' | ';' | ')') => break,
            (None, '$' | '`' | '\\' | '…' | '[' | '{' | '*') => return None,
            (None, ' ') => words.push(std::mem::take(&mut word)),
            (None, _) => word.push(letter),
        }
        before = letter;
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    Some(words)
}

/// The arguments of a line of a code block that calls nodespy by its name. In tables of benchmarks a figure follows the name.
fn arguments(line: &str) -> Option<Vec<String>> {
    let line = line.trim_start();
    let line = line.strip_prefix("$ ").unwrap_or(line);
    let line = line.strip_prefix("sudo ").unwrap_or(line);
    let line = line.strip_prefix("npx ").unwrap_or(line);
    let mut words = words(line.strip_prefix("nodespy ")?)?;
    if words
        .first()?
        .starts_with(|letter: char| letter.is_ascii_digit())
    {
        return None;
    }
    // These two end before anything else is looked at.
    if words
        .iter()
        .any(|word| ["--help", "--version"].contains(&word.as_str()))
    {
        return None;
    }
    for word in &mut words {
        if ["PID", "1234"].contains(&word.as_str()) {
            *word = NO_PID.to_owned();
        }
    }
    Some(words)
}

#[test]
fn every_command_of_the_documents_is_understood() {
    let mut checked = HashSet::new();
    for path in documents() {
        // Which tells of commands as they were.
        let is_history = path.ends_with("CHANGELOG.md");
        let text = fs::read_to_string(&path).unwrap();
        let (prose, code) = prose_and_code(&text);
        let inline = prose.into_iter().flat_map(inline_code);
        for mut words in code.into_iter().chain(inline).filter_map(arguments) {
            if is_history || !checked.insert(words.clone()) {
                continue;
            }
            let end = words.iter().position(|word| word == "--");
            words.insert(end.unwrap_or(words.len()), NO_OPTION.to_owned());
            let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
            let outcome = run_nodespy(&arguments);
            let from = path.display();
            assert_eq!(
                outcome.status.code(),
                Some(MISUSED),
                "{from}: {words:?}: {outcome}"
            );
            assert!(
                outcome.stderr.contains(NO_OPTION),
                "{from}: {words:?}: {outcome}"
            );
        }
    }
    assert!(checked.len() > 60, "{}", checked.len());
}

#[test]
fn links_headings_and_commands_are_found_in_text() {
    assert_eq!(anchor("### Without perf events"), "without-perf-events");
    assert_eq!(anchor("## `a … b`; c?"), "a--b-c");
    let line = "see [a](b.md#c) and ![d](e.png \"f\")";
    assert_eq!(links(line).collect::<Vec<_>>(), ["b.md#c", "e.png"]);
    assert_eq!(
        inline_code("a `b c` or `d`").collect::<Vec<_>>(),
        ["b c", "d"]
    );
    let line = "$ sudo nodespy query x 'top 5  self' -p PID | less   # why";
    let expected = ["query", "x", "top 5  self", "-p", NO_PID];
    assert_eq!(arguments(line).unwrap(), expected);
    assert_eq!(arguments("nodespy report $(ls)"), None);
    assert_eq!(arguments("perf script | nodespy collapse"), None);
}
