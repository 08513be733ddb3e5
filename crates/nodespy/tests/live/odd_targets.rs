//! Node as it is found in the wild: stripped, renamed, deleted, replaced, in a namespace of its own,
//! or not Node at all. Each works, or nodespy says why not; none makes it fall over.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nodespy_model::{NameSource, Tier};

use super::ebpf::expect_rare;
use super::recorded::{Recorded, record, record_pids, share};
use super::versions::on_every_node;
use super::workload::{Running, children_of, node, script};
use super::{is_root, live};
use crate::run::{nodespy, run};
use crate::scratch::Scratch;
use crate::skip::skip;

/// A copy of a Node under a name of its own.
fn copy_of_node(version: &str, folder: &Scratch, name: &str) -> String {
    folder.copy_program(node(version).unwrap(), name)
}

fn start_split(binary: &str) -> Running {
    let mut command = Command::new(binary);
    command.arg(script("split.js"));
    Running::new(command)
}

/// Fails the test unless the two functions of `split.js` are named by the heap walk.
#[track_caller]
fn expect_names(recorded: &Recorded) {
    let notes = &recorded.profile.notes;
    let walked = notes.jit_named[NameSource::HeapWalk.at()];
    let unnamed = notes.jit_frames - walked;
    assert!(notes.jit_frames > 100, "{}", recorded.describe());
    expect_rare(recorded, "without a name", unnamed, notes.jit_frames, 0.001);
    let both = recorded.self_share("seventyPercent") + recorded.self_share("thirtyPercent");
    assert!(both > 0.85, "{}", recorded.describe());
}

/// Removes everything `strip` removes from a copy of Node and records it.
fn expect_names_of_stripped(version: &str) {
    let Some(_live) = live() else { return };
    let folder = Scratch::new();
    let copy = copy_of_node(version, &folder, "node");
    match Command::new("strip").arg(&copy).status() {
        Ok(status) => assert!(status.success(), "strip ended with {status}"),
        Err(error) => {
            skip(&format!(
                "strip can't be started ({error}); it is part of binutils"
            ));
            return;
        }
    }
    let target = start_split(&copy);
    let recorded = record(&target, &["-d", "2", "-F", "499"]);
    expect_names(&recorded);
    drop(target);
    expect_builtins(&copy, builtins_of(Path::new(&node(version).unwrap())));
    if version.parse::<u32>().unwrap() >= 24 {
        expect_lines_of_baseline_code(&copy);
    }
}

/// Which line baseline code is at is found by how long bytecodes are, and the file has no symbol for that.
fn expect_lines_of_baseline_code(binary: &str) {
    let mut command = Command::new(binary);
    command.args(["--no-maglev", "--no-turbofan"]);
    command.arg(script("split.js"));
    let recorded = record(&Running::new(command), &["-d", "2", "-F", "499"]);
    let profile = &recorded.profile;
    let mut frames = profile.frames.iter().filter(|frame| {
        profile.name_of(frame.function) == "seventyPercent" && frame.tier == Tier::Baseline
    });
    let has_line = frames.any(|frame| frame.line > 0);
    assert!(has_line, "{}", recorded.describe());
}

/// Sorting and regular expressions run V8's builtins, for which the file has no symbols. All of them are
/// named, whatever has no name beside them.
fn expect_builtins(binary: &str, builtins: std::ops::Range<u64>) {
    let mut command = Command::new(binary);
    command.arg(script("mix.js"));
    let recorded = record(&Running::new(command), &["-d", "2", "-F", "499"]);
    let profile = &recorded.profile;
    let share_of = |keep: &dyn Fn(&str) -> bool| {
        let all = recorded.weights().into_iter();
        let kept = all.filter(|weights| keep(profile.name_of(weights.function)));
        share(
            kept.map(|weights| weights.self_weight).sum(),
            profile.total_weight(),
        )
    };
    let is_unnamed_builtin = |name: &str| {
        let address = name
            .strip_prefix("[node+0x")
            .and_then(|rest| rest.strip_suffix(']'));
        let address = address.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        address.is_some_and(|address| builtins.contains(&address))
    };
    let named = share_of(&|name| name.starts_with("Builtins_"));
    let unnamed = share_of(&is_unnamed_builtin);
    let described = recorded.describe();
    assert!(named > 0.1, "{named} named\n{described}");
    assert!(
        unnamed <= 0.01 * named,
        "{unnamed} unnamed, {named} named\n{described}"
    );
}

/// Where the builtins are, by the symbols of a file that is not stripped.
fn builtins_of(binary: &Path) -> std::ops::Range<u64> {
    let symbols = Command::new("nm").arg(binary).output().unwrap();
    let symbols = String::from_utf8_lossy(&symbols.stdout).into_owned();
    let addresses: Vec<u64> = symbols
        .lines()
        .filter(|line| line.contains(" Builtins_"))
        .filter_map(|line| u64::from_str_radix(line.split(' ').next()?, 16).ok())
        .collect();
    assert!(addresses.len() > 1000, "{} builtins", addresses.len());
    *addresses.iter().min().unwrap()..addresses.iter().max().unwrap() + 1
}

on_every_node! {{
    a_stripped_node_shows_its_functions(expect_names_of_stripped);
}}

#[test]
fn node_under_another_name_shows_its_functions() {
    let Some(_live) = live() else { return };
    let folder = Scratch::new();
    let target = start_split(&copy_of_node("26", &folder, "my-server"));
    expect_names(&record(&target, &["-d", "2", "-F", "499"]));
}

#[test]
fn a_node_whose_file_was_deleted_shows_its_functions() {
    let Some(_live) = live() else { return };
    let folder = Scratch::new();
    let copy = copy_of_node("26", &folder, "node");
    let target = start_split(&copy);
    fs::remove_file(&copy).unwrap();
    expect_names(&record(&target, &["-d", "2", "-F", "499"]));
}

#[test]
fn a_node_whose_file_was_replaced_by_another_version_shows_its_own_functions() {
    let Some(_live) = live() else { return };
    let folder = Scratch::new();
    let copy = copy_of_node("20", &folder, "node");
    let target = start_split(&copy);
    // As package managers do it: another file takes the name.
    let other = copy_of_node("26", &folder, "node.new");
    fs::rename(other, &copy).unwrap();
    expect_names(&record(&target, &["-d", "2", "-F", "499"]));
}

#[test]
fn node_in_namespaces_of_its_own_shows_its_functions() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root can make the namespaces");
        return;
    }
    let folder = Scratch::for_other_users();
    let copy = copy_of_node("26", &folder, "node");
    let inside = folder.file("split.js");
    fs::copy(script("split.js"), &inside).unwrap();
    // The files are below a mount that only the target can see.
    let mut command = Command::new("unshare");
    command
        .args(["--fork", "--pid", "--mount", "--kill-child", "--mount-proc"])
        .args(["sh", "-c"])
        .arg("mount --bind \"$1\" /mnt && exec /mnt/node /mnt/split.js")
        .args(["sh", folder.path().to_str().unwrap()]);
    let outer = Running::new(command);
    drop(copy);
    let [pid] = children_of(outer.pid())[..] else {
        panic!("unshare has no child");
    };
    expect_names(&record_pids(&pid.to_string(), &["-d", "2", "-F", "499"]));
}

/// Something busy that is not Node, in a file called `node`: recorded without a crash, and nothing is
/// claimed of it.
#[test]
fn a_program_that_is_only_called_node_is_recorded_as_what_it_is() {
    let Some(_live) = live() else { return };
    let folder = Scratch::new();
    let shell = ["/bin/bash", "/bin/dash", "/bin/sh"]
        .into_iter()
        .find(|path| Path::new(path).exists())
        .unwrap();
    let copy = folder.copy_program(fs::canonicalize(shell).unwrap(), "node");
    let mut command = Command::new(&copy);
    command.args(["-c", "echo ready; while :; do :; done"]);
    let target = Running::new(command);
    let recorded = record(&target, &["-d", "1", "-F", "499"]);
    let notes = &recorded.profile.notes;
    assert_eq!(notes.jit_named, [0; 5], "{}", recorded.describe());
    assert!(
        recorded.profile.samples.len() > 20,
        "{}",
        recorded.describe()
    );
}

#[test]
fn an_idle_program_that_is_only_called_node_has_no_samples_and_says_so() {
    let Some(_live) = live() else { return };
    let folder = Scratch::new();
    let copy = folder.copy_program("/bin/sleep", "node");
    let mut child = Command::new(&copy)
        .arg("60")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let outcome = run(nodespy(&[
        "record",
        "-p",
        &pid,
        "-d",
        "1",
        "-o",
        &folder.file("out.svg"),
    ]));
    let _ = child.kill();
    let _ = child.wait();
    assert!(!outcome.status.success(), "{outcome}");
    outcome.expect_stderr(&["no samples"]);
    assert!(!outcome.stderr.contains("panicked"), "{outcome}");
}
