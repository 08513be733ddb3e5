//! Licences of all dependencies against the list in `deny.toml`: the part of `cargo deny` that has to
//! work on every machine, without installing it. And the file of notices that is shipped.

use serde_json::Value;

use crate::{Failure, cargo, root, third_party};

/// What `deny.toml` allows.
#[derive(Debug, Default, PartialEq)]
struct Allowed {
    everywhere: Vec<String>,
    /// A crate and a licence that is allowed for it only.
    exceptions: Vec<(String, String)>,
}

/// Fails when a dependency has a licence that is not allowed, or when the notices are not those of what the binary contains;
/// `--write` writes them.
pub(crate) fn run(options: &[String]) -> Result<(), Failure> {
    let is_check = match options {
        [] => true,
        [option] if option == "--write" => false,
        other => return Err(format!("there is no option {other:?}: --write").into()),
    };
    let allowed = read_allowed(&std::fs::read_to_string(root().join("deny.toml"))?);
    let output = cargo()
        .args(["metadata", "--format-version=1", "--locked"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("no packages")?;
    let mut refused = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let licence = package["license"].as_str().unwrap_or("none");
        let is_allowed = |licence: &str| {
            allowed.everywhere.iter().any(|known| known == licence)
                || allowed
                    .exceptions
                    .iter()
                    .any(|(which, known)| which == name && known == licence)
        };
        if !satisfies(licence, &is_allowed) {
            refused.push(format!("{name}: {licence}"));
        }
    }
    if !refused.is_empty() {
        return Err(format!("not allowed by deny.toml: {}", refused.join(", ")).into());
    }
    third_party::run(&metadata, is_check)?;
    println!(
        "{} packages have licences that deny.toml allows",
        packages.len()
    );
    Ok(())
}

/// Reads the two lists of `[licenses]`. `deny.toml` is ours, so its shape is known.
fn read_allowed(text: &str) -> Allowed {
    let mut allowed = Allowed::default();
    let (mut section, mut exception, mut in_list) = ("", String::new(), false);
    for line in text.lines().map(str::trim) {
        let quoted = || line.split('"').skip(1).step_by(2).map(str::to_owned);
        if line.starts_with('[') && !in_list {
            section = line.trim_matches(['[', ']']);
        } else if section == "licenses.exceptions" && line.starts_with("crate") {
            exception = quoted().next().unwrap_or_default();
        } else if section == "licenses.exceptions" && line.starts_with("allow") {
            allowed
                .exceptions
                .extend(quoted().map(|licence| (exception.clone(), licence)));
        } else if section == "licenses" && (line.starts_with("allow") || in_list) {
            allowed.everywhere.extend(quoted());
            in_list = !line.ends_with(']');
        }
    }
    allowed
}

/// Whether an SPDX expression can be met with allowed licences. `/` is an old way to write OR.
pub(crate) fn satisfies(expression: &str, is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ")
        // One word, as it is one licence.
        .replace(" WITH ", "\u{1}");
    let words: Vec<String> = spaced
        .split_whitespace()
        .map(|word| word.replace('\u{1}', " WITH "))
        .collect();
    let mut rest = words.as_slice();
    either(&mut rest, is_allowed) && rest.is_empty()
}

fn either(words: &mut &[String], is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut met = both(words, is_allowed);
    while words.first().is_some_and(|word| word == "OR") {
        *words = &words[1..];
        met |= both(words, is_allowed);
    }
    met
}

fn both(words: &mut &[String], is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let mut met = one(words, is_allowed);
    while words.first().is_some_and(|word| word == "AND") {
        *words = &words[1..];
        met &= one(words, is_allowed);
    }
    met
}

fn one(words: &mut &[String], is_allowed: &dyn Fn(&str) -> bool) -> bool {
    let Some((first, rest)) = words.split_first() else {
        return false;
    };
    *words = rest;
    if first != "(" {
        return is_allowed(first);
    }
    let met = either(words, is_allowed);
    match words.split_first() {
        Some((last, rest)) if last == ")" => {
            *words = rest;
            met
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_met_when_one_way_through_it_is_allowed() {
        let is_allowed = |licence: &str| {
            ["MIT", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"].contains(&licence)
        };
        for met in [
            "MIT",
            "MIT OR GPL-3.0",
            "GPL-3.0/MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR Apache-2.0",
        ] {
            assert!(satisfies(met, &is_allowed), "{met}");
        }
        for refused in ["GPL-3.0", "MIT AND GPL-3.0", "none", "", "(MIT", "MIT MIT"] {
            assert!(!satisfies(refused, &is_allowed), "{refused}");
        }
    }

    #[test]
    fn the_lists_of_our_own_file_are_read() {
        let allowed = read_allowed(include_str!("../../deny.toml"));
        assert!(allowed.everywhere.contains(&"MIT".to_owned()));
        assert!(allowed.everywhere.contains(&"Zlib".to_owned()));
        assert!(!allowed.everywhere.contains(&"CDDL-1.0".to_owned()));
        assert_eq!(
            allowed.exceptions,
            [("inferno".to_owned(), "CDDL-1.0".to_owned())]
        );
    }
}
