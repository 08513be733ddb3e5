//! Finds out what V8 does not export of itself, and whether nodespy's table still says so.
//!
//! Release builds of Node can print their objects. The probe lets one compile a few functions in
//! every way, has V8 print where they are and what is in them (`%DebugPrint`, `--print-opt-code`,
//! `--print-bytecode`), and looks in the process's memory for the place of everything printed.
//! Who awaits what runs is asked of nodespy itself, in every way to await.
//! It starts the binaries it is given: only those of `tools/node.sh` by default.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nodespy_symbolize::v8_facts::{Exports, Facts, table};

use crate::{Failure, root};
use derive::derive;
use memory::Memory;
use printed::{Printed, Running};

mod awaited;
mod derive;
mod memory;
mod printed;

/// On this V8 the job of a rejection keeps its promise where no other version does.
const NOT_FOUND: ((u32, u32), &str) = ((9, 4), "catch:");

/// Looks at each binary (every listed version when there is none) and compares; with `is_check`
/// the rows are not printed.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let is_check = arguments.iter().any(|argument| argument == "--check");
    let mut binaries: Vec<PathBuf> = arguments
        .iter()
        .filter(|argument| !argument.starts_with("--"))
        .map(PathBuf::from)
        .collect();
    if binaries.is_empty() {
        binaries = listed_binaries()?;
    }
    let mut misfits = Vec::new();
    for binary in &binaries {
        let report = probe(binary).map_err(|error| format!("{}: {error}", binary.display()))?;
        println!("{}", report.text(is_check));
        let (misses, tried) = awaited::misses(binary)?;
        println!(
            "  async callers found in {} of {tried} ways to await",
            tried - misses.len()
        );
        misses.iter().for_each(|miss| println!("    {miss}"));
        let is_known = report.version == NOT_FOUND.0 && misses.len() == 1;
        let are_found = misses.is_empty() || (is_known && misses[0].starts_with(NOT_FOUND.1));
        if !report.fits() || !are_found {
            misfits.push(report.title());
        }
    }
    if misfits.is_empty() {
        return Ok(());
    }
    Err(format!("the table does not fit {}", misfits.join(", ")).into())
}

/// The binaries of the versions in `tools/node-versions`.
fn listed_binaries() -> Result<Vec<PathBuf>, Failure> {
    let output = Command::new(root().join("tools/node.sh"))
        .arg("--all")
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err("tools/node.sh could not install every version".into());
    }
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(PathBuf::from).collect())
}

/// What the probe says of a field.
enum Found {
    /// Its value, as Rust.
    Value(String),
    /// Why it can't be determined.
    Unknown(String),
}

/// What the probe says of a binary.
struct Report {
    binary: String,
    version: (u32, u32),
    row: Option<&'static Facts>,
    found: Vec<(&'static str, Found)>,
}

impl Report {
    fn title(&self) -> String {
        let (major, minor) = self.version;
        format!("{} (V8 {major}.{minor})", self.binary)
    }

    fn fits(&self) -> bool {
        let Some(row) = self.row else { return false };
        let known = fields(row);
        self.found.iter().all(|(field, found)| match found {
            Found::Value(value) => known.get(field) == Some(value),
            Found::Unknown(_) => true,
        })
    }

    fn text(&self, is_check: bool) -> String {
        let known = self.row.map(fields).unwrap_or_default();
        let mut text = format!("{}\n", self.title());
        for (field, found) in &self.found {
            let known = known.get(field).map_or("no row", String::as_str);
            text += &match found {
                Found::Value(value) if value == known => format!("  {field:18} {value}\n"),
                Found::Value(value) => {
                    format!("  {field:18} {value}   THE TABLE SAYS: {known}\n")
                }
                Found::Unknown(why) => {
                    format!("  {field:18} can't be determined: {why} (the table says: {known})\n")
                }
            };
        }
        text += match (self.row, self.fits()) {
            (None, _) => "  the table has no row for this version\n",
            (_, true) => "  the table fits\n",
            (_, false) => "  the table does not fit\n",
        };
        if !is_check {
            text += &self.rust(&known);
        }
        text
    }

    /// The row, as it would stand in the table.
    fn rust(&self, known: &BTreeMap<&'static str, String>) -> String {
        let (major, minor) = self.version;
        // What can't be told is most likely what the newest known version has.
        let newest = table().last().map(fields).unwrap_or_default();
        let runtime = self.row.map_or("Node.js …", |row| row.runtime);
        let mut text = format!(
            "    Facts {{\n        version: ({major}, {minor}),\n        runtime: \"{runtime}\",\n"
        );
        for (field, found) in &self.found {
            text += &match found {
                Found::Value(value) => format!("        {field}: {value},\n"),
                Found::Unknown(_) => {
                    let value = known.get(field).or_else(|| newest.get(field));
                    let value = value.map_or("0", String::as_str);
                    format!("        {field}: {value}, // can't be determined from outside\n")
                }
            };
        }
        text + "    },\n"
    }
}

/// The fields of a row, as Rust.
fn fields(facts: &Facts) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("code_start", format!("CodeStart::{:?}", facts.code_start)),
        ("code_deopt", facts.code_deopt.to_string()),
        ("code_positions", facts.code_positions.to_string()),
        ("code_flags", facts.code_flags.to_string()),
        ("code_size", facts.code_size.to_string()),
        ("kind_regexp", facts.kind_regexp.to_string()),
        ("kind_baseline", facts.kind_baseline.to_string()),
        ("kind_maglev", facts.kind_maglev.to_string()),
        ("kind_turbofan", facts.kind_turbofan.to_string()),
        ("bytecode_positions", facts.bytecode_positions.to_string()),
        ("bytecode_data", facts.bytecode_data.to_string()),
        ("bytecode_loop", facts.bytecode_loop.to_string()),
        ("deopt_literals", facts.deopt_literals.to_string()),
        ("deopt_function", facts.deopt_function.to_string()),
        ("deopt_inlining", facts.deopt_inlining.to_string()),
        (
            "positions",
            format!("PositionEncoding::{:?}", facts.positions),
        ),
        ("function_types", facts.function_types.to_string()),
        ("script_source_url", facts.script_source_url.to_string()),
        ("has_baseline_data", facts.has_baseline_data.to_string()),
        ("scope", format!("ScopeEncoding::{:?}", facts.scope)),
        ("wasm_kind_bits", facts.wasm_kind_bits.to_string()),
    ])
}

/// Looks at one binary.
fn probe(binary: &Path) -> Result<Report, Failure> {
    let exports = Exports::read(File::open(binary)?).ok_or("it holds no V8")?;
    let version = exports.version();
    let running = Running::start(binary)?;
    let memory = Memory::of(running.pid(), &exports)?;
    let printed = Printed::parse(&running.lines)?;
    let found = derive(&memory, &printed)
        .into_iter()
        .map(|(field, found)| {
            let found = match found {
                Ok(value) => Found::Value(value),
                Err(why) => Found::Unknown(why),
            };
            (field, found)
        })
        .collect();
    Ok(Report {
        binary: binary.display().to_string(),
        version,
        row: table().iter().find(|row| row.version == version),
        found,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs every listed version, as the other tests of `make test-all` do.
    mod matrix {
        use super::*;

        /// Facts that V8 prints nothing about. `kind_maglev` is one too where Maglev is not built.
        const UNPRINTED: [&str; 4] = [
            "script_source_url",
            "has_baseline_data",
            "scope",
            "wasm_kind_bits",
        ];

        #[test]
        fn the_table_fits_the_newest_release_of_each_major() {
            for binary in listed_binaries().unwrap() {
                let report = probe(&binary).unwrap();
                assert!(report.fits(), "{}", report.text(false));
                let is_unknown = |found: &Found| matches!(found, Found::Unknown(_));
                for (field, _) in report.found.iter().filter(|(_, found)| is_unknown(found)) {
                    let is_expected = UNPRINTED.contains(field) || *field == "kind_maglev";
                    assert!(is_expected, "{field}: {}", report.text(false));
                }
            }
        }
    }

    #[test]
    fn a_wrong_or_missing_row_does_not_fit() {
        let report = |row, value: &str| Report {
            binary: "node".to_owned(),
            version: (9, 4),
            row,
            found: vec![
                ("code_size", Found::Value(value.to_owned())),
                ("kind_maglev", Found::Unknown("no Maglev".to_owned())),
            ],
        };
        let row = &table()[0];
        let right = row.code_size.to_string();
        assert!(report(Some(row), &right).fits());
        assert!(!report(Some(row), "41").fits());
        assert!(
            report(Some(row), "41")
                .text(true)
                .contains("THE TABLE SAYS: 40")
        );
        assert!(!report(None, &right).fits());
        assert!(
            report(None, &right)
                .text(true)
                .contains("no row for this version")
        );
    }
}
