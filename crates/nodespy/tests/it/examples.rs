//! Every example of every `--help` is one that works. Those that read files are run, on fixtures under the names of the
//! example; those that need a live process are understood, and refused for want of that process alone.

use std::fs;
use std::process::Command;

use nodespy_model::Profile;

use crate::fixture::{fixture, fixture_text};
use crate::routes;
use crate::run::{Outcome, nodespy, run, run_nodespy};
use crate::scratch::Scratch;

/// No process has it: `pid_max` is at most 2²².
pub(crate) const NO_PID: &str = "4194305";

/// An option that no command has. A command line that fails because of it was understood up to there.
pub(crate) const NO_OPTION: &str = "--no-such-option";

/// Exit codes of the binary: misused, and target gone.
pub(crate) const MISUSED: i32 = 2;
const GONE: i32 = 4;

/// Commands with nothing to add to their options.
const WITHOUT_EXAMPLES: [&str; 1] = ["list"];

/// What commands of an example are in the shell that runs it.
const SHELL: &str = "perf() { cat stacks.txt; }; less() { cat; }; jq() { cat; }; nodespy() { \"$NODESPY\" \"$@\"; }; ";

/// The command lines of a help text's examples, without what is said about them.
fn examples(help: &str) -> Vec<String> {
    let is_heading = |line: &&str| ["Examples:", "Example:"].contains(line);
    let lines = help.lines().skip_while(|line| !is_heading(line)).skip(1);
    let section = lines.take_while(|line| line.is_empty() || line.starts_with("  "));
    section
        .filter(|line| !line.is_empty())
        .map(|line| {
            let line = line.trim_start();
            line.split("  ").next().unwrap_or(line).to_owned()
        })
        .collect()
}

/// The subcommands that a help text lists.
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    lines
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Every example of a command and of those below it.
fn collect(command: &[String], found: &mut Vec<String>) {
    let mut arguments: Vec<&str> = command.iter().map(String::as_str).collect();
    arguments.push("--help");
    let outcome = run_nodespy(&arguments);
    outcome.expect_code(0);
    let examples = examples(&outcome.stdout);
    // The commands that only hold others have none.
    let is_leaf = subcommands(&outcome.stdout).is_empty();
    assert!(
        !examples.is_empty() || !is_leaf || WITHOUT_EXAMPLES.contains(&command.join(" ").as_str()),
        "{command:?} has no examples"
    );
    found.extend(examples);
    for name in subcommands(&outcome.stdout) {
        collect(&[command, &[name]].concat(), found);
    }
}

/// A recording that has what examples ask for: routes, and samples after the third second.
fn recording() -> Profile {
    let mut profile = routes::server();
    for sample in &mut profile.samples {
        sample.time *= 10;
    }
    profile.about.duration *= 10;
    profile
}

/// A folder with every file that examples name.
fn files() -> Scratch {
    let scratch = Scratch::new();
    let copy = |from: &str, to: &str| {
        fs::copy(fixture(from), scratch.file(to)).unwrap();
    };
    let profile = recording();
    for name in ["out.nspy", "before.nspy", "after.nspy"] {
        let mut file = fs::File::create(scratch.file(name)).unwrap();
        nodespy_formats::export(&profile, "nspy", &mut file).unwrap();
    }
    for folder in ["base", "new"] {
        fs::create_dir(scratch.file(folder)).unwrap();
        for run in 1..=6 {
            let copy = scratch.file(&format!("{folder}/{run}.nspy"));
            fs::copy(scratch.file("out.nspy"), copy).unwrap();
        }
    }
    for name in ["out.folded", "before.folded", "after.folded"] {
        copy("folded/py-spy.txt", name);
    }
    for name in ["out.html", "in.html"] {
        let arguments = [&scratch.file("out.nspy"), &scratch.file(name)];
        run_nodespy(&["convert", arguments[0], arguments[1]]).expect_code(0);
    }
    copy("perf_data/node20.perf.data", "perf.data");
    let write = |name: &str, text: String| fs::write(scratch.file(name), text).unwrap();
    // With the event and the function that examples ask for.
    let stacks = fixture_text("perf_script/dd.txt.gz")
        .replace(" cpu-clock:", " cycles:u:")
        .replace("ext4_invalidate_folio", "parse");
    write("stacks.txt", stacks);
    write(
        "isolate-0x…-v8.log",
        fixture_text("v8_log/node20-v8.log.gz"),
    );
    for folder in [
        "etc/nodespy",
        "etc/bash_completion.d",
        ".zfunc",
        ".config/fish/completions",
    ] {
        fs::create_dir_all(scratch.file(folder)).unwrap();
    }
    write("etc/nodespy/agent.toml", "rate = 19\n".to_owned());
    scratch
}

/// Runs an example as it is typed, with what lies outside of the folder put into it.
fn run_in_shell(example: &str, scratch: &Scratch) -> Outcome {
    let local = example
        .replace(" /etc/", " etc/")
        .replace("> ~/", "> ")
        .replace("/usr/local/", "");
    let mut command = Command::new("bash");
    command
        .args(["-o", "pipefail", "-c", &format!("{SHELL}{local}")])
        .current_dir(scratch.path())
        .env("NO_COLOR", "1")
        .env("NODESPY", env!("CARGO_BIN_EXE_nodespy"));
    run(command)
}

/// The words of a command line, with quotes taken off. No example has any other way to quote.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for letter in line.chars() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(letter),
        }
    }
    words
}

/// Checks the words of a command that needs something live.
fn check_live(example: &str) {
    let line = example.split(" | ").next().unwrap_or(example);
    let mut words = words(line);
    words.remove(0);
    if let Some(pid) = words.iter().position(|word| word == "-p") {
        words[pid + 1] = NO_PID.to_owned();
        let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
        let outcome = run_nodespy(&arguments);
        assert_eq!(outcome.status.code(), Some(GONE), "{example}: {outcome}");
        return;
    }
    // Not started: these would go on until they are stopped, or start other programs.
    let end = words.iter().position(|word| word == "--");
    words.insert(end.unwrap_or(words.len()), NO_OPTION.to_owned());
    let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
    let outcome = run(nodespy(&arguments));
    assert_eq!(outcome.status.code(), Some(MISUSED), "{example}: {outcome}");
    assert!(outcome.stderr.contains(NO_OPTION), "{example}: {outcome}");
}

/// Commands whose examples read files only, or nothing at all.
const ON_FILES: [&str; 10] = [
    "report",
    "convert",
    "query",
    "diff",
    "collapse",
    "flamegraph",
    "difffolded",
    "completions",
    "man",
    "events",
];

/// Whether an example of another command ends by itself, and changes nothing.
fn only_prints(example: &str) -> bool {
    let ends = [" --print", " --check-config"];
    example == "nodespy" || ends.iter().any(|end| example.ends_with(end))
}

#[test]
fn every_example_of_every_help_works() {
    let mut all = Vec::new();
    collect(&[], &mut all);
    assert!(all.len() > 50, "{all:?}");
    let scratch = files();
    for example in &all {
        let own = example
            .split(" | ")
            .find(|part| part.starts_with("nodespy"));
        let Some(own) = own else {
            // Addresses of a server that runs, and how another program starts nodespy.
            let is_known = ["curl ", "npx "]
                .iter()
                .any(|start| example.starts_with(start));
            assert!(is_known, "no command, or a wrapped line: {example}");
            continue;
        };
        let command = own.split_whitespace().nth(1).unwrap_or_default();
        if ON_FILES.contains(&command) || only_prints(own) {
            let outcome = run_in_shell(example, &scratch);
            assert!(outcome.status.success(), "{example}: {outcome}");
        } else {
            check_live(own);
        }
    }
}

#[test]
fn lines_of_help_are_not_wrapped_in_examples() {
    let help = "Examples:\n  nodespy report 'a  b'   what it says\n\n  curl x\n\nMore\n";
    assert_eq!(examples(help), ["nodespy report 'a", "curl x"]);
    assert_eq!(words("query x 'top 5 self'"), ["query", "x", "top 5 self"]);
}

#[test]
fn the_arguments_of_manifests_are_understood() {
    let mut found = 0;
    for name in ["compose", "daemonset", "sidecar"] {
        let path = format!("{}/../../deploy/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(path).unwrap();
        for line in text.lines() {
            let line = line.trim();
            let list = line.strip_prefix("args: ");
            let Some(list) = list.or_else(|| line.strip_prefix("command: ")) else {
                continue;
            };
            // A list of YAML in brackets, with every word quoted, is one of JSON.
            let mut words: Vec<String> = serde_json::from_str(list).unwrap();
            words.push(NO_OPTION.to_owned());
            let arguments: Vec<&str> = words.iter().map(String::as_str).collect();
            let outcome = run_nodespy(&arguments);
            assert_eq!(outcome.status.code(), Some(MISUSED), "{list}: {outcome}");
            assert!(outcome.stderr.contains(NO_OPTION), "{list}: {outcome}");
            found += 1;
        }
    }
    assert_eq!(found, 5);
}

/// The agent has the same capabilities wherever it is deployed.
#[test]
fn manifests_and_the_unit_name_the_same_capabilities() {
    let capabilities = |name: &str, start: &str| {
        let path = format!("{}/../../deploy/{name}", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(path).unwrap();
        let mut lines = text.lines();
        let list = lines
            .find_map(|line| line.trim().strip_prefix(start))
            .unwrap();
        let words = list.split([' ', ',', '[', ']']).filter(|it| !it.is_empty());
        let words = words.map(|it| it.trim_start_matches("CAP_").to_owned());
        words.collect::<std::collections::BTreeSet<String>>()
    };
    let unit = capabilities("nodespy-agent.service", "AmbientCapabilities=");
    assert!(
        unit.contains("PERFMON") && unit.contains("SYS_PTRACE"),
        "{unit:?}"
    );
    assert_eq!(
        unit,
        capabilities("nodespy-agent.service", "CapabilityBoundingSet=")
    );
    assert_eq!(unit, capabilities("daemonset.yaml", "add: "));
    assert_eq!(unit, capabilities("compose.yaml", "cap_add: "));
}

#[test]
fn the_recipe_of_a_daemonset_has_the_capabilities_of_the_manifest() {
    let read = |path: &str| {
        let path = format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"));
        fs::read_to_string(path).unwrap()
    };
    let manifest = read("deploy/daemonset.yaml");
    let line = manifest.lines().find(|line| line.contains("add: [PERFMON"));
    let list = line.and_then(|line| line.split_once("add: ")).unwrap().1;
    let recipes = read("docs/recipes.md").replace('\n', " ");
    assert!(recipes.contains(list), "{list}");
}
