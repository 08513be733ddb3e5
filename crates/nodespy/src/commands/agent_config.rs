//! The settings of `nodespy agent` in a file: its long options as TOML, each judged as on the command line, which wins.

use std::ffi::OsString;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, anyhow};
use clap::{ArgAction, Args, Parser};
use toml::de::{DeTable, DeValue};

use crate::cli::{AgentArgs, Cli, Command};
use crate::failure::Failure;

/// The largest file.
const MAX_BYTES: u64 = 1 << 20;
/// What makes no sense in a file.
const NOT_SETTINGS: [&str; 3] = ["config", "check-config", "help"];

/// A setting alone, to judge it by.
#[derive(Debug, Parser)]
#[command(name = "agent", args_override_self = true)]
struct Alone {
    #[command(flatten)]
    _agent: AgentArgs,
}

/// The arguments with those of a file before them.
pub(super) fn with_file(path: &Path) -> anyhow::Result<Box<AgentArgs>> {
    let mut text = String::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text))
        .with_context(|| format!("reading {}", path.display()))?;
    let settings = settings(&text).map_err(|wrong| {
        let line = text[..wrong.at.min(text.len())].matches('\n').count() + 1;
        Failure::Usage(format!("{}:{line}: {}", path.display(), wrong.why))
    })?;
    let given: Vec<OsString> = std::env::args_os().collect();
    let command = given.iter().position(|word| word == "agent");
    let (before, after) = given.split_at(command.map_or(given.len(), |at| at + 1));
    let words = before.iter().cloned();
    let words = words.chain(settings.into_iter().map(OsString::from));
    let parsed = Cli::try_parse_from(words.chain(after.iter().cloned()));
    match parsed
        .map_err(|error| Failure::Usage(in_a_line(&error)))?
        .command
    {
        Some(Command::Agent(arguments)) => Ok(arguments),
        _ => Err(anyhow!("{} is for nodespy agent", path.display())),
    }
}

/// What is wrong with a file, and at which byte.
#[derive(Debug)]
struct Wrong {
    at: usize,
    why: String,
}

/// The settings of a file as words of a command line.
fn settings(text: &str) -> Result<Vec<String>, Wrong> {
    let table = DeTable::parse(text).map_err(|error| Wrong {
        at: error.span().map_or(0, |span| span.start),
        why: error.message().to_owned(),
    })?;
    let mut words = Vec::new();
    for (key, value) in table.get_ref() {
        let of_key =
            words_of(key.get_ref(), value.get_ref()).map_err(|why| wrong(key.span(), why))?;
        let alone = ["agent".to_owned()].into_iter().chain(of_key.clone());
        Alone::try_parse_from(alone).map_err(|error| wrong(value.span(), in_a_line(&error)))?;
        words.extend(of_key);
    }
    Ok(words)
}

fn wrong(span: Range<usize>, why: String) -> Wrong {
    Wrong {
        at: span.start,
        why,
    }
}

/// The words that a setting stands for.
fn words_of(key: &str, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let option = key.replace('_', "-");
    let command = AgentArgs::augment_args(clap::Command::new("agent"));
    let known = command.get_arguments().find(|known| {
        known.get_long() == Some(&*option) && !NOT_SETTINGS.contains(&option.as_str())
    });
    let known = known.ok_or_else(|| format!("there is no setting {key:?}"))?;
    let takes_many = matches!(known.get_action(), ArgAction::Append);
    let word = |value: &str| format!("--{option}={value}");
    let scalar = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) => Ok(number.as_str().to_owned()),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        DeValue::Boolean(value) => Ok(value.to_string()),
        _ => Err(format!("{key:?} takes text or a number")),
    };
    match (value, known.get_action()) {
        (DeValue::Boolean(true), ArgAction::SetTrue) => Ok(vec![format!("--{option}")]),
        (DeValue::Boolean(false), ArgAction::SetTrue) => Ok(Vec::new()),
        (_, ArgAction::SetTrue) => Err(format!("{key:?} is true or false")),
        (DeValue::Array(values), _) if takes_many => {
            let values = values.iter();
            values
                .map(|value| scalar(value.get_ref()).map(|value| word(&value)))
                .collect()
        }
        (DeValue::Table(rows), _) if takes_many => {
            let mut words = Vec::new();
            for (name, value) in rows {
                let named = |value: &DeValue<'_>| {
                    scalar(value).map(|value| word(&format!("{}={value}", name.get_ref())))
                };
                match value.get_ref() {
                    DeValue::Array(values) => {
                        for value in values {
                            words.push(named(value.get_ref())?);
                        }
                    }
                    value => words.push(named(value)?),
                }
            }
            Ok(words)
        }
        (value, _) => scalar(value).map(|value| vec![word(&value)]),
    }
}

/// The first line of what clap says, without what it starts with.
fn in_a_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn settings_are_the_long_options() {
        let text = "adaptive = false\nrate = 49\nstore = '/srv/x'\nno-kernel = true\nno_ebpf = false\nkeep = \"3d\"\n\
                    [label]\nenv = 'prod'\nteam = 'shop'\n";
        let mut words = settings(text).unwrap();
        words.sort();
        let expected = [
            "--adaptive=false",
            "--keep=3d",
            "--label=env=prod",
            "--label=team=shop",
            "--no-kernel",
            "--rate=49",
            "--store=/srv/x",
        ];
        assert_eq!(words, expected);
        assert!(settings("").unwrap().is_empty());
        let text = "[requests]\nmetric = 'http_requests_total'\nport = [3000, 9464]\n";
        let mut words = settings(text).unwrap();
        words.sort();
        let expected = [
            "--requests=metric=http_requests_total",
            "--requests=port=3000",
            "--requests=port=9464",
        ];
        assert_eq!(words, expected);
        Alone::command().debug_assert();
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, line, why) in [
            ("rate = 19\nrat = 20\n", 2, "no setting \"rat\""),
            ("rate = 0\n", 1, "0"),
            ("rate = true\n", 1, "true"),
            ("adaptive = 'often'\n", 1, "often"),
            ("\n\nkeep = 'soon'\n", 3, "soon"),
            ("no-kernel = 'yes'\n", 1, "true or false"),
            ("rate = [1, 2]\n", 1, "text or a number"),
            ("store = \n", 1, ""),
            ("config = 'other.toml'\n", 1, "no setting"),
            ("\n[requests]\nport = 0\n", 2, "not a port"),
        ] {
            let wrong = settings(text).unwrap_err();
            let found = text[..wrong.at.min(text.len())].matches('\n').count() + 1;
            assert_eq!(found, line, "{text:?}: {wrong:?}");
            assert!(wrong.why.contains(why), "{text:?}: {wrong:?}");
        }
    }
}
