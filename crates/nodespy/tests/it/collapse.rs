//! `nodespy collapse` in place of `stackcollapse-perf.pl`: the same bytes for the same text.

use std::fs;
use std::path::Path;

use crate::corpus::corpus;
use crate::run::{Started, nodespy, run_nodespy};
use crate::scratch::Scratch;

/// What nodespy prints for a file with some options.
fn collapsed(options: &[&str], file: &Path) -> String {
    let mut arguments = vec!["collapse"];
    arguments.extend(options);
    arguments.push(file.to_str().unwrap());
    let outcome = run_nodespy(&arguments);
    outcome.expect_code(0);
    outcome.stdout
}

#[test]
fn every_file_and_option_gives_the_original_s_bytes() {
    let mut compared = 0;
    for entry in fs::read_dir(corpus("perf-script/expected")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let (input, option) = name.split_once("-collapsed").unwrap();
        let option = format!("-{option}");
        let options: &[&str] = if option == "-" { &[] } else { &[&option] };
        let input = corpus("perf-script").join(format!("{input}.txt"));
        let expected = fs::read_to_string(&path).unwrap();
        assert_eq!(collapsed(options, &input), expected, "{name}");
        compared += 1;
    }
    assert!(compared >= 40, "only {compared} files");
}

#[test]
fn what_perf_says_of_node_gives_the_original_s_bytes() {
    for version in ["node18", "node20", "node24"] {
        let folder = corpus("perf-data/expected");
        let input = folder.join(format!("{version}.perf-script.txt"));
        let expected = fs::read_to_string(folder.join(format!("{version}.collapsed-all.txt")));
        assert_eq!(
            collapsed(&["--all"], &input),
            expected.unwrap(),
            "{version}"
        );
    }
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
