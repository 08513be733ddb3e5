//! `nodespy query`: tables, JSON, and errors that point at their place; `--where`, which speaks the same language.

use serde_json::Value;

use crate::run::{Outcome, Started, nodespy};

/// A small web server: the application, express in two files, a recursive function in two tiers, the kernel.
const STACKS: &str = "\
main /srv/app.js:1:1_[j];handle /srv/node_modules/express/router.js:10:3_[j];next /srv/node_modules/express/layer.js:5:3_[j];render /srv/page.js:8:1_[j] 40
main /srv/app.js:1:1_[j];handle /srv/node_modules/express/router.js:10:3_[j] 20
main /srv/app.js:1:1_[j];LazyCompile:*fib /srv/fib.js:1:1;LazyCompile:~fib /srv/fib.js:1:1 30
uv_run;epoll_wait_[k] 10
";

fn ask(query: &str, options: &[&str]) -> Outcome {
    let mut line = vec!["query", "-", query];
    line.extend(options);
    Started::new(nodespy(&line), STACKS).finish()
}

/// What a query prints, without the spaces that line it up.
fn table(query: &str) -> Vec<String> {
    let outcome = ask(query, &[]);
    outcome.expect_code(0);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    outcome.stdout.lines().map(words).collect()
}

#[test]
fn an_answer_is_a_table() {
    let outcome = ask("top 2 total where package = deps", &[]);
    outcome.expect_code(0);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(
        lines,
        [
            " share  total  function",
            "60.0 %     60  handle  /srv/node_modules/express/router.js:10",
            "40.0 %     40  next  /srv/node_modules/express/layer.js:5",
            "",
            "60 samples of 100 samples match, 60.0 %",
        ]
    );
    assert_eq!(
        table("top 1 self by package"),
        [
            "share self package",
            "70.0 % 70 app",
            "",
            "100 samples of 100 samples match, 100 %; 2 more rows"
        ]
    );
    assert_eq!(
        table("self by caller where function = fib or function ~ ^ren")[1..3],
        [
            "40.0 % 40 next /srv/node_modules/express/layer.js:5",
            "30.0 % 30 fib /srv/fib.js:1"
        ]
    );
    assert_eq!(table("self where function = nothing").len(), 3);
}

#[test]
fn json_is_versioned_and_has_every_part() {
    let outcome = ask("top 1 self under handle by function", &["--json"]);
    outcome.expect_code(0);
    let answer: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(
        (&answer["schema"], &answer["version"]),
        (&"nodespy.query".into(), &1.into())
    );
    assert_eq!(
        (&answer["matched"], &answer["total"]),
        (&60.into(), &100.into())
    );
    assert_eq!(
        (&answer["by"], &answer["unit"]),
        (&"function".into(), &"samples".into())
    );
    let row = &answer["rows"][0];
    assert_eq!(
        (&row["name"], &row["weight"], &row["percent"]),
        (&"render".into(), &40.into(), &40.0.into())
    );
    assert_eq!(
        (&row["file"], &row["function_line"]),
        (&"/srv/page.js".into(), &8.into())
    );
    assert_eq!(answer["rows_left_out"], 1);
}

#[test]
fn an_error_points_at_its_place() {
    let outcome = ask("top 10 self where pakage = express", &[]);
    outcome.expect_code(2).expect_stderr(&[
        "  top 10 self where pakage = express\n                    ^\n",
        "nodespy: column 19: expected a field (function, caller, line,",
        "did you mean package?",
    ]);
    ask("self", &["--where", "thread main"])
        .expect_code(2)
        .expect_stderr(&["column 8: expected =, !=, ~ or !~ after thread, found \"main\""]);
}

#[test]
fn filters_speak_the_same_language() {
    let convert = |condition: &str| {
        let line = ["convert", "-", "-", "--to", "folded", "--where", condition];
        Started::new(nodespy(&line), STACKS).finish()
    };
    let outcome = convert("package = express or under fib and tier = interpreted");
    outcome.expect_code(0);
    let weights: Vec<&str> = outcome
        .stdout
        .lines()
        .filter_map(|line| line.rsplit(' ').next())
        .collect();
    assert_eq!(weights, ["30", "20"]);
    convert("package = nothing")
        .expect_code(5)
        .expect_stderr(&["--where \"package = nothing\" leaves nothing of the 100 samples"]);
}
