//! The steps of action.yml, run as GitHub's runner runs them, on the binary under test.

use std::fs;
use std::process::Command;

use crate::live;
use crate::run::{Outcome, run};
use crate::scratch::Scratch;
use crate::workload::{USUAL_NODE, node, root, script};

/// What `run:` and `env:` of action.yml say, one entry a step that has a script.
fn steps() -> Vec<(String, Vec<(String, String)>)> {
    let text = fs::read_to_string(root().join("action.yml")).unwrap();
    let mut steps: Vec<(String, Vec<(String, String)>)> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(script) = line.strip_prefix("run: ") {
            steps.push((script.to_owned(), Vec::new()));
        } else if let (Some((name, value)), Some(step)) = (line.split_once(": "), steps.last_mut())
            && let Some(input) = value.strip_prefix("${{ inputs.")
            && name.chars().all(|letter| letter.is_ascii_uppercase())
        {
            let input = input.strip_suffix(" }}").unwrap();
            step.1.push((name.to_owned(), input.to_owned()));
        }
    }
    steps
}

/// A runner with an empty folder for its files.
struct Runner(Scratch);

impl Runner {
    /// Runs a step with the inputs of a workflow.
    fn step(&self, at: usize, inputs: &[(&str, &str)]) -> Outcome {
        let (script, env) = &steps()[at];
        let mut command = Command::new("bash");
        command
            .args(["-c", script])
            .current_dir(self.0.path())
            .env("GITHUB_ACTION_PATH", root())
            .env("GITHUB_ACTION_REPOSITORY", "owner/nodespy")
            .env("RUNNER_TEMP", self.0.path());
        for name in ["GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"] {
            command.env(name, self.0.file(name));
        }
        // As the runner does between steps.
        let added = fs::read_to_string(self.0.file("GITHUB_PATH")).unwrap_or_default();
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", added.trim()));
        for (name, input) in env {
            let given = inputs.iter().find(|(key, _)| key == input);
            command.env(name, given.map_or("", |(_, value)| *value));
        }
        run(command)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.file(name)).unwrap_or_default()
    }

    /// An archive as `make dist` makes it, not packed: the binary of the tests is large.
    fn archive(&self) -> String {
        let folder = "nodespy-0.0.0-x86_64-linux";
        fs::create_dir(self.0.file(folder)).unwrap();
        let binary = self.0.file(&format!("{folder}/nodespy"));
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_nodespy"), binary).unwrap();
        let archive = self.0.file("package.tar");
        let mut tar = Command::new("tar");
        tar.args(["--create", "--dereference", "--file", &archive, folder]);
        tar.current_dir(self.0.path());
        run(tar).expect_code(0);
        archive
    }
}

#[test]
fn the_action_installs_records_and_ends_as_the_command_did() {
    let Some(_live) = live() else { return };
    let runner = Runner(Scratch::new());
    let archive = runner.archive();
    runner.step(0, &[("package", &archive)]).expect_code(0);
    assert!(runner.text("GITHUB_PATH").contains("nodespy/bin"));
    let command = format!(
        "STATUS=3 {} {}",
        node(USUAL_NODE).unwrap(),
        script("exits.js")
    );
    let inputs = [("command", command.as_str()), ("options", "-F 499")];
    runner.step(1, &inputs).expect_code(3);
    let summary = runner.text("GITHUB_STEP_SUMMARY");
    assert!(summary.contains("lastWords"), "{summary}");
    let outputs = runner.text("GITHUB_OUTPUT");
    for (name, start) in [("page", "<!doctype html>"), ("recording", "")] {
        let path = outputs
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}=")));
        let bytes = fs::read(path.unwrap()).unwrap();
        let head = String::from_utf8_lossy(&bytes[..start.len()]).to_lowercase();
        assert_eq!(head, start);
    }
}

#[test]
fn the_action_says_what_it_could_not_install() {
    let Some(_live) = live() else { return };
    let runner = Runner(Scratch::new());
    let nothing = runner.step(0, &[]);
    nothing.expect_code(1);
    assert!(nothing.stdout.contains("::error::"), "{nothing}");
    let other = runner.0.file("other.tar");
    let mut tar = Command::new("tar");
    tar.args(["--create", "--file", &other, "--files-from", "/dev/null"]);
    run(tar).expect_code(0);
    let empty = runner.step(0, &[("package", &other)]);
    empty.expect_code(1);
    assert!(
        empty.stdout.contains("other.tar holds no binary"),
        "{empty}"
    );
}
