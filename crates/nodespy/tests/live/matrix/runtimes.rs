//! Programs that run JavaScript and are not the Node of nodejs.org: Bun, Deno, Debian's Node, Node with
//! musl.

use std::process::Command;

use nodespy_model::{Category, NameSource};

use crate::ebpf::expect_rare;
use crate::live;
use crate::recorded::{Recorded, expect_share, record, record_enough, share};
use crate::run::run_nodespy;
use crate::scratch::Scratch;
use crate::workload::{Running, forget_perf_map, root, script};

/// The binary of a runtime, installed when it is missing.
fn runtime(name: &str) -> String {
    let output = Command::new(root().join("tools/runtime.sh"))
        .arg(name)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Starts `split.js`, which is CommonJS, whatever the runtime takes a `.js` for.
fn start(name: &str, words: &[&str], environment: &[(&str, &str)]) -> Running {
    let folder = Scratch::new();
    let program = folder.file("split.cjs");
    std::fs::copy(script("split.js"), &program).unwrap();
    let mut command = Command::new(runtime(name));
    command.args(words).arg(program);
    command.envs(environment.iter().copied());
    Running::in_folder(command, folder)
}

/// Where names come from a file that the runtime writes, 70 % are 70 %.
fn expect_split(recorded: &Recorded) {
    let seventy = recorded.self_share("seventyPercent");
    let thirty = recorded.self_share("thirtyPercent");
    expect_share(
        "seventyPercent",
        seventy / (seventy + thirty),
        0.7,
        recorded,
    );
}

/// What is said of a process whose JavaScript has no names: by whom it is run, why there are none, how
/// to get some. It lives on: it is sent no signal.
fn expect_said(mut target: Running, name: &str, why: &str) {
    let pid = target.pid_text();
    let check = run_nodespy(&["check", "-p", &pid]);
    check.expect_code(0);
    assert!(check.stdout.contains(name), "{}", check.stdout);
    assert!(check.stdout.contains(why), "{}", check.stdout);
    assert!(!check.stdout.contains("V8's heap and"), "{}", check.stdout);
    let list = run_nodespy(&["list"]);
    assert!(list.stdout.contains(name), "{}", list.stdout);
    let recorded = record(&target, &["-d", "2"]);
    let said = &recorded.outcome.stdout;
    assert!(said.contains(name), "{said}");
    let remarks = &recorded.profile.notes.remarks;
    assert!(
        remarks.iter().any(|remark| remark.contains(why)),
        "{remarks:?}"
    );
    let dump = run_nodespy(&["dump", "-p", &pid]);
    assert!(dump.stdout.contains(name), "{}", dump.stdout);
    let refused = run_nodespy(&["record", "--engine", "inspector", "-d", "1", "-p", &pid]);
    assert_ne!(refused.status.code(), Some(0));
    refused.expect_stderr(&[name, "is not Node.js"]);
    assert!(target.is_alive());
}

#[test]
fn bun_is_said_by_name_and_never_signalled() {
    let Some(_live) = live() else { return };
    expect_said(start("bun", &[], &[]), "Bun 1.", "JavaScriptCore");
}

#[test]
fn functions_of_bun_are_named_by_its_jitdump() {
    let Some(_live) = live() else { return };
    let dumps = Scratch::new();
    let folder = dumps.path().to_str().unwrap().to_owned();
    let environment = [
        ("BUN_JSC_useJITDump", "1"),
        ("BUN_JSC_jitDumpDirectory", folder.as_str()),
    ];
    let target = start("bun", &[], &environment);
    expect_split(&record(&target, &["-d", "4", "-F", "499"]));
}

/// Its V8 exports nothing, but is known by its version.
#[test]
fn functions_of_deno_are_named_by_its_heap_and_it_is_never_signalled() {
    let Some(_live) = live() else { return };
    let mut target = start("deno", &["run", "-A"], &[]);
    let pid = target.pid_text();
    let check = run_nodespy(&["check", "-p", &pid]);
    check.expect_code(0);
    assert!(check.stdout.contains("Deno 2."), "{}", check.stdout);
    assert!(check.stdout.contains("from V8's heap"), "{}", check.stdout);
    let recorded = record(&target, &["-d", "4", "-F", "499"]);
    expect_split(&recorded);
    let (notes, described) = (&recorded.profile.notes, recorded.describe());
    let named = share(notes.jit_named[NameSource::HeapWalk.at()], notes.jit_frames);
    assert!(named > 0.99, "{named} named\n{described}");
    let profile = &recorded.profile;
    let seventy = profile
        .functions
        .iter()
        .find(|row| profile.strings.get(row.name) == "seventyPercent");
    let file = seventy
        .and_then(|row| row.file)
        .map_or("", |file| profile.strings.get(file));
    assert!(file.ends_with("split.cjs"), "{file}\n{described}");
    let refused = run_nodespy(&["record", "--engine", "inspector", "-d", "1", "-p", &pid]);
    assert_ne!(refused.status.code(), Some(0));
    refused.expect_stderr(&["Deno 2.", "is not Node.js"]);
    assert!(target.is_alive());
}

#[test]
fn functions_of_deno_are_named_by_its_perf_map() {
    let Some(_live) = live() else { return };
    let flags = "--v8-flags=--perf-basic-prof,--interpreted-frames-native-stack";
    let target = start("deno", &["run", "-A", flags], &[]);
    let recorded = record(&target, &["-d", "4", "-F", "499"]);
    forget_perf_map(target.pid());
    expect_split(&recorded);
}

/// As on Alpine: functions of libc have neither unwind tables nor frame pointers, and V8's compiler, which
/// `deopt.js` keeps busy, spends much of its time in them.
#[test]
fn stacks_of_a_node_with_musl_are_whole() {
    let Some(_live) = live() else { return };
    for (program, libc_share) in [("split.js", 0.0), ("mix.js", 0.005), ("deopt.js", 0.02)] {
        let mut command = Command::new(runtime("musl"));
        command.arg(script(program));
        let recorded = record_enough(&Running::new(command), 3, &["-F", "499"], 700);
        let (notes, described) = (&recorded.profile.notes, recorded.describe());
        let (incomplete, all) = (notes.incomplete_stacks, notes.unwound_stacks);
        expect_rare(&recorded, "incomplete", incomplete, all, 0.02);
        // Code that is deoptimized may be gone before it is looked at, whatever the libc.
        let named = share(notes.jit_named[NameSource::HeapWalk.at()], notes.jit_frames);
        let least = if program == "deopt.js" { 0.9 } else { 0.99 };
        assert!(named > least, "{program}: {named} named\n{described}");
        let libc = share_with_file(&recorded, "ld-musl");
        assert!(libc >= libc_share, "{program}: {libc} in libc\n{described}");
    }
}

/// The share of samples that have a function of a file in their stack.
fn share_with_file(recorded: &Recorded, start: &str) -> f64 {
    let profile = &recorded.profile;
    let is_of_file = |frame| {
        let file = profile.function(profile.frame(frame).function).file;
        file.is_some_and(|file| profile.strings.get(file).starts_with(start))
    };
    let has_file = |stack| profile.frames_of(stack).any(is_of_file);
    let samples = profile.samples.iter();
    let with = samples.filter(|sample| sample.stack.is_some_and(has_file));
    share(with.count() as u64, profile.samples.len() as u64)
}

#[test]
fn builtins_of_debians_node_have_names() {
    let Some(_live) = live() else { return };
    let mut command = Command::new(runtime("debian"));
    command.arg(script("mix.js"));
    let target = Running::new(command);
    let recorded = record_enough(&target, 4, &["-F", "499"], 700);
    let profile = &recorded.profile;
    let version = profile.processes[0].node_version.as_deref();
    assert!(
        version.is_some_and(|version| version.starts_with('v')),
        "{version:?}"
    );
    let mut unnamed = 0.0;
    let mut builtins = 0.0;
    for weights in recorded.weights() {
        let row = &profile.functions[weights.function.at()];
        let file = row.file.map_or("", |file| profile.strings.get(file));
        let weight = share(weights.self_weight, profile.total_weight());
        if row.category == Category::Unknown && file.starts_with("libnode") {
            unnamed += weight;
        }
        if row.category == Category::Builtin {
            builtins += weight;
        }
    }
    let described = recorded.describe();
    assert!(builtins > 0.05, "{builtins}\n{described}");
    // C++ that the library does not export has no name (1 to 2 %); builtins would be a third of all.
    assert!(unnamed < 0.05, "{unnamed}\n{described}");
    let notes = &profile.notes;
    let (incomplete, all) = (notes.incomplete_stacks, notes.unwound_stacks);
    expect_rare(&recorded, "incomplete", incomplete, all, 0.02);
}
