//! `nodespy diff`: verdicts, exit codes and what bad input gets.

use serde_json::Value;

use crate::run::run_nodespy;
use crate::scratch::Scratch;

/// Folded stacks of a program of seven functions; `hash` is the weight of `hashInts`, `shift` what differs from run
/// to run.
fn folded(hash: u64, shift: u64) -> String {
    let wobble = |weight: u64, by: u64| weight + (shift * by) % 7;
    format!(
        "main;hashInts {}\nmain;sort {}\nmain;sort;compare {}\nmain;render {}\nmain;parse {}\nmain;parse;scan {}\nmain {}\n",
        wobble(hash, 1),
        wobble(500, 2),
        wobble(700, 3),
        wobble(450, 4),
        wobble(400, 5),
        wobble(300, 6),
        wobble(150, 1),
    )
}

/// Files of five runs.
fn runs(scratch: &Scratch, name: &str, hash: u64) -> Vec<String> {
    let run = |number: u64| {
        let file = scratch.file(&format!("{name}{number}.folded"));
        std::fs::write(&file, folded(hash, number)).unwrap();
        file
    };
    (1..=5).map(run).collect()
}

fn diff(options: &[&str], before: &[String], after: &[String]) -> crate::run::Outcome {
    let mut arguments = vec!["diff"];
    arguments.extend(before.iter().map(String::as_str));
    arguments.push("--");
    arguments.extend(after.iter().map(String::as_str));
    arguments.extend_from_slice(options);
    run_nodespy(&arguments)
}

#[test]
fn a_regression_is_named_and_fails_the_gate_only_when_asked() {
    let scratch = Scratch::new();
    let (before, after) = (runs(&scratch, "a", 600), runs(&scratch, "b", 750));
    let outcome = diff(&[], &before, &after);
    outcome.expect_code(0);
    let regression = outcome
        .stdout
        .lines()
        .find(|line| line.contains("hashInts"))
        .unwrap();
    assert!(
        regression.starts_with("+2") && regression.ends_with("regression"),
        "{outcome}"
    );
    diff(&["--fail-on", "function +3%"], &before, &after).expect_code(10);
    diff(&["--fail-on", "function +40%"], &before, &after).expect_code(0);
    diff(&["--fail-on", "total +3%"], &before, &after).expect_code(10);
    diff(&["--fail-on", "function +3%", "--strict"], &before, &before).expect_code(0);
    // Of shares nothing is sure.
    diff(&["--share", "--fail-on", "function +3%"], &before, &after).expect_code(0);
    diff(
        &["--share", "--fail-on", "function +3%", "--strict"],
        &before,
        &after,
    )
    .expect_code(11);
}

#[test]
fn equal_runs_have_no_change_and_say_what_could_have_been_seen() {
    let scratch = Scratch::new();
    let before = runs(&scratch, "a", 600);
    let outcome = diff(&["--fail-on", "total +1%"], &before, &before);
    outcome.expect_code(0);
    assert!(outcome.stdout.contains("No function changed"), "{outcome}");
    assert!(
        outcome
            .stdout
            .contains("the smallest that could have been seen is +"),
        "{outcome}"
    );
}

#[test]
fn outputs_say_the_same() {
    let scratch = Scratch::new();
    let (before, after) = (runs(&scratch, "a", 600), runs(&scratch, "b", 750));
    let files = ["diff.html", "diff.md", "diff.json", "diff.txt"].map(|name| scratch.file(name));
    let options: Vec<&str> = files
        .iter()
        .flat_map(|file| ["-o", file.as_str()])
        .collect();
    diff(&options, &before, &after).expect_code(0);
    let [html, markdown, json, text] = files.map(|file| std::fs::read_to_string(file).unwrap());
    assert!(html.starts_with("<!DOCTYPE html>") || html.starts_with("<!doctype html>"));
    assert!(
        markdown.contains("### nodespy: 1 regression") && markdown.lines().count() < 60,
        "{markdown}"
    );
    assert!(text.contains("hashInts"));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["schema"], &json["version"]),
        (&"nodespy.diff".into(), &1.into())
    );
    let first = &json["functions"][0];
    assert_eq!(
        (&first["name"], &first["self"]["verdict"]),
        (&"hashInts".into(), &"regression".into())
    );
    assert!(
        first["self"]["low"].as_f64().unwrap() > 1.2
            && first["self"]["high"].as_f64().unwrap() < 1.3
    );
}

#[test]
fn the_picture_says_the_same_without_colours() {
    let scratch = Scratch::new();
    let (before, after) = (runs(&scratch, "a", 600), runs(&scratch, "b", 750));
    let add = |files: &[String], line: &str| {
        for file in files {
            let text = std::fs::read_to_string(file).unwrap();
            std::fs::write(file, format!("{text}{line}\n")).unwrap();
        }
    };
    add(&before, "main;render;quote 200");
    add(&after, "main;render;escape 90");
    let svg = scratch.file("diff.svg");
    diff(&["-o", &svg], &before, &after).expect_code(0);
    let svg = std::fs::read_to_string(svg).unwrap();
    let title = |name: &str| {
        let found = svg.lines().find(|line| line.contains(&format!("{name} (")));
        found.unwrap_or_else(|| panic!("{name} is not drawn"))
    };
    assert!(title("hashInts").contains("<title>+ hashInts ("));
    assert!(title("hashInts").contains(", regression)"));
    assert!(title("quote").contains("<title>gone: quote ("));
    assert!(title("quote").contains("fill=\"url(#gone)\""));
    assert!(title("escape").contains("<title>new: escape ("));
    assert!(title("sort").contains("<title>sort ("), "{}", title("sort"));
    assert!(title("sort").contains("fill=\"rgb(228,228,228)\""));
    assert!(svg.contains("grey: may be noise"));
    assert!(svg.contains("id=\"gone\""));
}

#[test]
fn every_base_is_compared_in_the_same_way() {
    let scratch = Scratch::new();
    let file = |name: &str, hash: u64| {
        let file = scratch.file(name);
        std::fs::write(&file, folded(hash, 1)).unwrap();
        file
    };
    let (before, after) = (file("a.folded", 600), file("b.folded", 1200));
    let direct = run_nodespy(&["diff", &before, &after]);
    let report = run_nodespy(&["report", &after, "--base", &before]);
    report.expect_code(0);
    let (_, compared) = report
        .stdout
        .split_once("Compared with the base\n")
        .unwrap();
    let figures = |text: &str| {
        let line = text.lines().find(|line| line.contains("hashInts")).unwrap();
        line.split_whitespace()
            .take(4)
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(figures(compared), figures(&direct.stdout));
    let json = run_nodespy(&["report", &after, "--base", &before, "--format", "json"]);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["difference"]["schema"], "nodespy.diff");
    let markdown = run_nodespy(&["report", &after, "--base", &before, "--format", "md"]);
    assert!(
        markdown.stdout.contains("## Compared with the base"),
        "{markdown}"
    );
    run_nodespy(&["report", &after, "--base", &before, "--format", "prof"])
        .expect_code(2)
        .expect_stderr(&["--format prof has no room for a base"]);
    let page = scratch.file("both.html");
    run_nodespy(&["convert", &after, &page, "--base", &before]).expect_code(0);
    let page = std::fs::read_to_string(page).unwrap();
    let (_, held) = page.split_once("id=\"comparison\">").unwrap();
    assert!(held.starts_with("{\"before\":"), "{}", &held[..60]);
    // Two recordings without a function in common can still be looked at.
    let other = scratch.file("c.folded");
    std::fs::write(&other, "x;y 100\n").unwrap();
    run_nodespy(&["report", &after, "--base", &other])
        .expect_code(0)
        .expect_stderr(&[
            "No verdicts on the difference: the two sides have no function in common",
        ]);
}

#[test]
fn work_per_request_is_what_is_compared_when_requests_are_known() {
    let scratch = Scratch::new();
    let (before, after) = (runs(&scratch, "a", 600), runs(&scratch, "b", 600));
    let outcome = diff(&["--per", "requests=1000,500"], &before, &after);
    outcome.expect_code(0);
    assert!(outcome.stdout.contains("samples per request"), "{outcome}");
    assert!(outcome.stdout.contains("+100 %"), "{outcome}");
}

#[test]
fn two_rates_are_compared_as_time_and_said() {
    let scratch = Scratch::new();
    let run = |name: &str, micros: u64, samples: usize| {
        let file = scratch.file(name);
        let ids = vec!["2"; samples].join(",");
        let deltas = vec![micros.to_string(); samples].join(",");
        let frame = |name: &str| {
            format!(
                r#"{{"functionName":"{name}","scriptId":"1","url":"file:///a/b.js","lineNumber":1,"columnNumber":0}}"#
            )
        };
        let text = format!(
            r#"{{"nodes":[{{"id":1,"callFrame":{},"children":[2]}},{{"id":2,"callFrame":{},"children":[]}}],"startTime":0,"endTime":{},"samples":[{ids}],"timeDeltas":[{deltas}]}}"#,
            frame("(root)"),
            frame("work"),
            micros * samples as u64
        );
        std::fs::write(&file, text).unwrap();
        file
    };
    let (fine, coarse) = (
        run("a.cpuprofile", 1000, 1000),
        run("b.cpuprofile", 10_000, 100),
    );
    let outcome = run_nodespy(&["diff", &fine, &coarse, "--format", "json"]);
    outcome.expect_code(0);
    let json: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let ratio = json["total"]["ratio"].as_f64().unwrap();
    assert!((ratio - 1.0).abs() < 0.02, "{outcome}");
}

#[test]
fn equal_runs_pass_their_own_check() {
    let scratch = Scratch::new();
    let before = runs(&scratch, "a", 600);
    let more = runs(&scratch, "b", 600);
    let mut arguments = vec!["diff", "--self-check"];
    arguments.extend(before.iter().chain(&more).map(String::as_str));
    let outcome = run_nodespy(&arguments);
    outcome.expect_code(0);
    assert!(
        outcome
            .stdout
            .contains("of 200 random splits into 5 against 5 runs"),
        "{outcome}"
    );
}

#[test]
fn bad_input_gets_a_sentence() {
    let scratch = Scratch::new();
    let file = |name: &str, content: &str| {
        let file = scratch.file(name);
        std::fs::write(&file, content).unwrap();
        file
    };
    let good = file("good.folded", &folded(600, 1));
    let other = file("other.folded", "x;y 100\nx;z 50\n");
    let bytes = file(
        "heap.heapprofile",
        r#"{"head":{"callFrame":{"functionName":"main","scriptId":"0","url":"","lineNumber":0,"columnNumber":0},"selfSize":64,"id":1,"children":[]},"samples":[]}"#,
    );
    let timed = file(
        "timed.cpuprofile",
        r#"{"nodes":[{"id":1,"callFrame":{"functionName":"(root)","scriptId":"0","url":"","lineNumber":0,"columnNumber":0},"children":[2]},{"id":2,"callFrame":{"functionName":"main","scriptId":"1","url":"file:///a/b.js","lineNumber":1,"columnNumber":0},"children":[]}],"startTime":0,"endTime":2000,"samples":[2,2],"timeDeltas":[1000,1000]}"#,
    );
    let empty = file("empty.folded", "");
    let missing = scratch.file("missing.nspy");
    for (arguments, code, sentence) in [
        (
            vec![good.as_str()],
            2,
            "one recording has nothing to be compared with",
        ),
        (
            vec![&good, &good, &good],
            2,
            "which of them are the later ones",
        ),
        (vec![&good, &missing], 1, "there is no file"),
        (
            vec![&good, &good, "--", &missing, "typo.nspy"],
            1,
            "missing.nspy, typo.nspy",
        ),
        (vec![&good, &empty], 1, "empty.folded"),
        (
            vec![&good, &timed],
            1,
            "does not say how often it was sampled",
        ),
        (
            vec![&good, &good, "--per-label", "request"],
            1,
            "has the label request",
        ),
        (vec![&good, &good, "--fail-no", "total +3%"], 2, "--fail-on"),
        (vec![&good, &other], 1, "no function in common"),
        (vec![&good, &bytes], 1, "count different things"),
        (
            vec![&good, &good, "--fail-on", "package +3%"],
            2,
            "to fail on",
        ),
        (
            vec![&good, &good, "-o", "diff.png"],
            2,
            ".html, .svg, .md, .json or .txt",
        ),
        (vec!["--self-check", &good], 1, "give at least 6"),
    ] {
        let mut whole = vec!["diff"];
        whole.extend(arguments);
        run_nodespy(&whole)
            .expect_code(code)
            .expect_stderr(&[sentence]);
    }
    run_nodespy(&["diff", &good, &good]).expect_code(0);
}
