//! `nodespy collapse` in place of `stackcollapse-perf.pl`: the same bytes for the same text.

use std::collections::BTreeMap;
use std::fs;

use crate::collapsed::collapsed;
use crate::fixture::{fixture, fixture_text};
use crate::run::{Started, nodespy, run_nodespy};
use crate::scratch::Scratch;

/// inferno's output as the original would print it: inferno keeps quotes, and of arguments those
/// inside of template arguments.
fn as_the_original(inferno: &str) -> String {
    let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
    for line in inferno.lines() {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        let frames: Vec<String> = stack.split(';').map(without_arguments).collect();
        *stacks.entry(frames.join(";")).or_default() += count.parse::<u64>().unwrap();
    }
    let lines = stacks
        .iter()
        .map(|(stack, count)| format!("{stack} {count}\n"));
    lines.collect()
}

fn without_arguments(frame: &str) -> String {
    let marks = ["_[k]", "_[j]", "_[i]"];
    let mark = marks
        .into_iter()
        .find(|mark| frame.ends_with(mark))
        .unwrap_or("");
    let name = frame.strip_suffix(mark).unwrap();
    let is_argument = |at: &usize| !name[at + 1..].starts_with("anonymous namespace)");
    let mut openings = name.match_indices('(').map(|(at, _)| at);
    let name = &name[..openings.find(is_argument).unwrap_or(name.len())];
    name.replace(['"', '\''], "") + mark
}

#[test]
fn every_text_and_option_gives_inferno_s_bytes() {
    let mut compared = 0;
    for entry in fs::read_dir(fixture("perf_script")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Some((input, option)) = name.split_once("-collapsed") else {
            continue;
        };
        let option = format!("-{}", option.strip_suffix(".txt.gz").unwrap());
        let options: &[&str] = if option == "-" { &[] } else { &[&option] };
        let input = match input.starts_with("node") {
            true => fixture(&format!("perf_data/{input}.perf-script.txt.gz")),
            false => fixture(&format!("perf_script/{input}.txt.gz")),
        };
        let expected = fixture_text(&format!("perf_script/{name}"));
        // Only names of V8 have what inferno prints in its own way.
        let expected = match name.starts_with("node") {
            true => as_the_original(&expected),
            false => expected,
        };
        assert_eq!(collapsed(options, &input), expected, "{name}");
        compared += 1;
    }
    assert!(compared >= 60, "only {compared} files");
}

#[test]
fn text_comes_from_a_pipe_and_several_files_are_one_text() {
    let scratch = Scratch::new();
    let text = "node 7/7 1.5: cycles:\n\t1 a+0x1 (/bin/node)\n\n";
    let outcome = Started::new(nodespy(&["collapse", "--tid"]), text).finish();
    outcome.expect_code(0);
    assert_eq!(outcome.stdout, "node-7/7;a 1\n");
    let (file, output) = (scratch.file("a.txt"), scratch.file("out.folded"));
    fs::write(&file, text).unwrap();
    run_nodespy(&["collapse", &file, &file, "-o", &output]).expect_code(0);
    assert_eq!(fs::read_to_string(output).unwrap(), "node;a 2\n");
}

#[test]
fn other_events_and_odd_lines_are_told() {
    let text = "node 7 1.5: cycles:\n\t1 a (m)\n\tweird\n\nnode 7 1.6: faults:\n\t1 b (m)\n\n";
    let outcome = Started::new(nodespy(&["collapse"]), text).finish();
    outcome
        .expect_code(0)
        .expect_stderr(&["only cycles is counted", "line 3", "weird"]);
    assert_eq!(outcome.stdout, "node;a 1\n");
    let arguments = ["collapse", "--event-filter=faults"];
    let outcome = Started::new(nodespy(&arguments), text).finish();
    assert_eq!(outcome.stdout, "node;b 1\n");
}

#[test]
fn other_formats_are_converted() {
    let outcome = Started::new(nodespy(&["collapse"]), "a;b 2\na;c 1\n").finish();
    outcome.expect_code(0);
    assert_eq!(outcome.stdout, "a;b 2\na;c 1\n");
}

const TWO_THREADS: &str = "\
node 7/7 1.5: cycles:
\t1 parse+0x1 (/bin/node)
\t2 main+0x1 (/bin/node)

pool 7/8 2.5: cycles:
\t1 hash+0x1 (/bin/node)
\t2 main+0x1 (/bin/node)

";

#[test]
fn text_is_filtered_by_what_the_original_throws_away() {
    let shown = |options: &[&str]| {
        let arguments = [&["collapse"], options].concat();
        let outcome = Started::new(nodespy(&arguments), TWO_THREADS).finish();
        outcome.expect_code(0);
        outcome.stdout
    };
    assert_eq!(shown(&[]), "node;main;parse 1\npool;main;hash 1\n");
    for options in [
        ["--focus", "^parse$"],
        ["--thread", "7"],
        ["--time", "..500ms"],
    ] {
        assert_eq!(shown(&options), "node;main;parse 1\n", "{options:?}");
    }
    let hidden = shown(&["--hide", "main", "--all"]);
    assert_eq!(hidden, "node;parse 1\npool;hash 1\n");
    let arguments = ["collapse", "--tid", "--focus", "parse"];
    Started::new(nodespy(&arguments), TWO_THREADS)
        .finish()
        .expect_code(2)
        .expect_stderr(&["--tid is about the lines of stackcollapse-perf.pl"]);
    let arguments = ["collapse", "--focus", "nowhere"];
    Started::new(nodespy(&arguments), TWO_THREADS)
        .finish()
        .expect_code(5);
}

#[test]
fn nothing_to_fold_is_an_error() {
    for text in ["", "# ========\n#\n"] {
        Started::new(nodespy(&["collapse"]), text)
            .finish()
            .expect_code(1)
            .expect_stderr(&["reading standard input"]);
    }
}

#[test]
fn the_help_lists_the_original_s_options() {
    let outcome = run_nodespy(&["collapse", "--help"]);
    for option in [
        "--pid",
        "--tid",
        "--inline",
        "--all",
        "--kernel",
        "--jit",
        "--context",
        "--srcline",
        "--addrs",
        "--event-filter",
        "--skip-after",
    ] {
        assert!(outcome.stdout.contains(option), "no {option} in {outcome}");
    }
}

#[test]
fn inlined_functions_come_from_addr2line() {
    let scratch = Scratch::new();
    let source = scratch.file("inlined.c");
    let program = scratch.file("inlined");
    let code = "static inline __attribute__((always_inline)) int twice(int x) {\n\
        for (int i = 0; i < x; i++) __asm__ volatile(\"inlined_here:\" : : : \"memory\");\n\
        return x; }\nint main(int argc, char **argv) { return twice(argc); }\n";
    fs::write(&source, code).unwrap();
    let compiled = std::process::Command::new("cc")
        .args(["-g", "-O1", "-no-pie", "-o", &program, &source])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("skipped: no C compiler");
        return;
    }
    let listed = std::process::Command::new("nm").arg(&program).output();
    let listed = String::from_utf8(listed.unwrap().stdout).unwrap();
    let address = listed
        .lines()
        .find_map(|line| line.strip_suffix(" t inlined_here"))
        .unwrap();
    let text = format!("it 7 1.5: cycles:\n\t{address} main+0x1 ({program})\n\n");
    let arguments = ["collapse", "--inline", "--context"];
    let outcome = Started::new(nodespy(&arguments), &text).finish();
    assert_eq!(
        outcome.stdout, "it;main:inlined.c:4;twice:inlined.c:2 1\n",
        "{outcome}"
    );
}
