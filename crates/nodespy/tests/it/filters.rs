//! The switches that choose what is shown, on folded stacks and a stored recording.

use crate::run::{Outcome, Started, nodespy, run_nodespy};
use crate::scratch::Scratch;

/// A small web server: an app, express, a recursive function in two tiers, the kernel.
const STACKS: &str = "\
main /srv/app.js:1:1_[j];handle /srv/node_modules/express/router.js:10:3_[j];next /srv/node_modules/express/layer.js:5:3_[j];render /srv/page.js:8:1_[j] 40
main /srv/app.js:1:1_[j];handle /srv/node_modules/express/router.js:10:3_[j];render /srv/page.js:8:1_[j];write_[k] 20
main /srv/app.js:1:1_[j];LazyCompile:*fib /srv/fib.js:1:1;LazyCompile:~fib /srv/fib.js:1:1 30
uv_run;epoll_wait_[k] 10
";

/// Folded stacks after filters, with paths taken out: `name,name weight`.
fn shown(arguments: &str) -> Vec<String> {
    let outcome = converted(arguments);
    outcome.expect_code(0);
    let bare = |frame: &str| frame.split([' ', '_']).next().unwrap().to_owned();
    let line = |line: &str| {
        let (path, weight) = line.rsplit_once(' ').unwrap();
        let names: Vec<String> = path.split(';').map(bare).collect();
        format!("{} {weight}", names.join(","))
    };
    outcome.stdout.lines().map(line).collect()
}

fn converted(arguments: &str) -> Outcome {
    let mut line = vec!["convert", "-", "-", "--to", "folded"];
    line.extend(arguments.split(' ').filter(|word| !word.is_empty()));
    Started::new(nodespy(&line), STACKS).finish()
}

#[test]
fn samples_are_chosen_by_the_functions_of_their_stacks() {
    assert_eq!(
        shown("--focus render"),
        ["main,handle,next,render 40", "main,handle,render,write 20"]
    );
    assert_eq!(shown("--ignore render"), ["main,fib,fib 30", "uv,epoll 10"]);
    assert_eq!(
        shown("--focus express --focus next"),
        ["main,handle,next,render 40"]
    );
    assert_eq!(
        shown("--focus page.js:8 --ignore layer.js"),
        ["main,handle,render,write 20"]
    );
}

#[test]
fn a_pattern_may_be_anchored_to_the_name_the_place_or_both() {
    let rendered = shown("--focus render");
    for pattern in [
        "^render$",
        "^/srv/page.js:8:1$",
        "^render./srv/page.js:8:1$",
    ] {
        assert_eq!(shown(&format!("--focus {pattern}")), rendered, "{pattern}");
    }
    assert_eq!(
        shown("--hide ^express$").len(),
        4,
        "a part of a path is no name"
    );
    assert_eq!(shown("--show-from ^fib$"), ["fib,fib 30"]);
    assert_eq!(shown("--ignore ^main$"), ["uv,epoll 10"]);
    assert_eq!(shown("--ignore ^mai$").len(), 4);
}

#[test]
fn frames_go_and_their_time_stays() {
    assert_eq!(
        shown("--hide express|fib"),
        [
            "main 30",
            "main,render 40",
            "main,render,write 20",
            "uv,epoll 10"
        ]
    );
    assert_eq!(
        shown("--show-from handle"),
        ["handle,next,render 40", "handle,render,write 20"]
    );
    assert_eq!(shown("--only app"), ["main,fib,fib 30", "main,render 60"]);
    assert_eq!(shown("--only kernel"), ["epoll 10", "write 20"]);
    assert_eq!(
        shown("--min-share 25%"),
        [
            "[small] 10",
            "main,fib,fib 30",
            "main,handle 20",
            "main,handle,next,render 40"
        ]
    );
}

#[test]
fn frames_become_one_or_part() {
    assert_eq!(
        shown("--fold deps --focus render"),
        ["main,[express],render 40", "main,[express],render,write 20"]
    );
    assert_eq!(
        shown("--fold express --focus render"),
        shown("--fold deps --focus render")
    );
    assert_eq!(shown("--collapse-recursion --focus fib"), ["main,fib 30"]);
    assert_eq!(shown("--no-merge-tiers --focus fib"), ["main,*fib,~fib 30"]);
    assert_eq!(shown("--merge-tiers --focus fib"), ["main,fib,fib 30"]);
}

#[test]
fn filters_work_together_in_one_order() {
    // The share is of what is left: 20 of 60.
    let line = "--focus render --hide handle --fold deps --only js --min-share 40%";
    assert_eq!(shown(line), ["main 20", "main,[express],render 40"]);
}

#[test]
fn a_filter_that_leaves_nothing_is_named_and_ends_with_5() {
    let scratch = Scratch::new();
    let output = scratch.file("out.svg");
    let input = scratch.file("in.folded");
    std::fs::write(&input, STACKS).unwrap();
    for (filters, words) in [
        (
            &["--focus", "render", "--ignore", "main"][..],
            "--ignore main leaves nothing of the 60 samples",
        ),
        (&["--time", "3s..10s"], "which have no times"),
        (&["--pid", "77"], "--pid 77"),
        (
            &["--thread", "Thread-7"],
            "no thread is called \"Thread-7\"; there are",
        ),
        (&["--only", "native", "--focus", "fib"], "--only native"),
    ] {
        let arguments = [&["convert", &input, &output], filters].concat();
        run_nodespy(&arguments)
            .expect_code(5)
            .expect_stderr(&[words]);
    }
    assert_eq!(scratch.names(), ["in.folded"]);
}

#[test]
fn values_that_make_no_sense_end_with_2_and_an_example() {
    for (arguments, words) in [
        ("--focus (a", "an example is 'parse|/lib/cart/'"),
        ("--time 3s", "3s..10s"),
        ("--time 10s..3s", "the end comes before the start"),
        ("--min-share 5", "0.5%"),
        ("--only cobol", "[possible values: js, native, kernel, app]"),
    ] {
        converted(arguments).expect_code(2).expect_stderr(&[words]);
    }
}

#[test]
fn every_picture_says_that_it_is_a_part() {
    let scratch = Scratch::new();
    let input = scratch.file("in.folded");
    std::fs::write(&input, STACKS).unwrap();
    let words = "filtered: --focus render (60.0 % of the weight is left)";
    for kind in ["svg", "html", "txt"] {
        let output = scratch.file(&format!("out.{kind}"));
        run_nodespy(&["convert", &input, &output, "--focus", "render"]).expect_code(0);
        let text = std::fs::read_to_string(&output).unwrap().replace('\n', " ");
        assert!(text.contains(words), "{kind}");
    }
    // A stored part tells it too, and holds nothing of the rest.
    let part = scratch.file("part.nspy");
    run_nodespy(&["convert", &input, &part, "--focus", "render"]).expect_code(0);
    let report = run_nodespy(&["report", &part]);
    assert!(report.stdout.replace('\n', " ").contains(words), "{report}");
    let again = run_nodespy(&["convert", "--to", "folded", &part, "-"]);
    assert!(!again.stdout.contains("fib"), "{again}");
    assert_eq!(again.stdout.lines().count(), 2);
}

#[test]
fn what_a_format_has_no_room_for_is_said_only_when_there_is_some() {
    let outcome = converted("");
    assert_eq!(outcome.stderr, "The folded format has no room for tiers.\n");
    assert_eq!(converted("--ignore fib").stderr, "");
}

#[test]
fn the_help_lists_every_format() {
    let outcome = run_nodespy(&["convert", "--help"]);
    for importer in nodespy_formats::IMPORTERS {
        assert!(
            outcome.stdout.contains(importer.name()),
            "{}",
            importer.name()
        );
    }
    for exporter in nodespy_formats::EXPORTERS {
        let row = format!("  {} ", exporter.name());
        assert!(outcome.stdout.contains(&row), "{row}");
    }
    for view in nodespy_view::VIEWS {
        assert!(
            outcome.stdout.contains(&format!("  {} ", view.name())),
            "{outcome}"
        );
    }
}
