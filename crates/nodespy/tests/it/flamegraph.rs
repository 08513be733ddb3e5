//! `nodespy flamegraph` and `nodespy difffolded` in place of the scripts they are named after.

use std::path::Path;

use crate::fixture::fixture_text;
use crate::run::{Outcome, Started, nodespy, run_nodespy};
use crate::scratch::Scratch;

/// A file of `fixtures/`, as text for a command line.
fn fixture(name: &str) -> String {
    crate::fixture::fixture(name).to_str().unwrap().to_owned()
}

/// Runs `nodespy flamegraph` in a pipeline.
fn piped(arguments: &[&str], input: &str) -> Outcome {
    let mut all = vec!["flamegraph"];
    all.extend_from_slice(arguments);
    Started::new(nodespy(&all), input).finish()
}

fn drawn(arguments: &[&str], input: &str) -> String {
    let outcome = piped(arguments, input);
    outcome.expect_code(0);
    outcome.stdout
}

/// The tooltips of a picture.
fn titles(svg: &str) -> Vec<&str> {
    svg.split("<title>")
        .skip(1)
        .filter_map(|rest| rest.split("</title>").next())
        .collect()
}

/// An attribute of the box whose tooltip starts with `name`.
fn attribute<'a>(svg: &'a str, name: &str, attribute: &str) -> &'a str {
    let start = svg.find(&format!("<title>{name} (")).unwrap();
    let of_box = &svg[start..];
    let at = of_box.find(&format!(" {attribute}=\"")).unwrap() + attribute.len() + 3;
    of_box[at..].split('"').next().unwrap()
}

const SIMPLE: &str = "a;b;c 5\na;b 2\na;d_[k] 3\n";

#[test]
fn folded_stacks_become_a_flame_graph() {
    let svg = drawn(&[], SIMPLE);
    assert_eq!(
        titles(&svg),
        [
            "all (10 samples, 100%)",
            "a (10 samples, 100.00%)",
            "b (7 samples, 70.00%)",
            "c (5 samples, 50.00%)",
            "d (3 samples, 30.00%)",
        ]
    );
    assert!(svg.contains(">Flame Graph</text>"));
    assert!(svg.contains("<script"));
}

#[test]
fn every_option_of_the_originals_is_taken() {
    let scratch = Scratch::new();
    let attributes = scratch.file("attributes");
    std::fs::write(
        &attributes,
        "b\thref=https://example.com/?a=1&b=2\tclass=hot\n",
    )
    .unwrap();
    let map = scratch.file("map");
    for arguments in [
        &[
            "--title",
            "T",
            "--subtitle",
            "S",
            "--width=800",
            "--height",
            "20",
        ][..],
        &[
            "--minwidth",
            "0.5%",
            "--fonttype=Arial",
            "--fontsize",
            "10",
            "--fontwidth=0.5",
        ],
        &[
            "--countname",
            "bytes",
            "--nametype=Kind:",
            "--notes",
            "a--b",
            "--encoding=UTF-8",
        ],
        &["--color=js", "--hash", "--inverted", "--reverse"],
        &[
            "--colors",
            "rust",
            "--bgcolors=#102030",
            "--random",
            "--negate",
        ],
        &[
            "--flamechart",
            "--deterministic",
            "--total",
            "20",
            "--factor=0.5",
        ],
        &[
            "--no-sort",
            "--pretty-xml",
            "--truncate-text-right",
            "--colordiffusion",
        ],
        &[
            "--icicle",
            "--text-truncate-direction",
            "left",
            "--no-javascript",
        ],
        &[
            "--search-color",
            "#203040",
            "--stroke-color=#000000",
            "--uicolor",
            "#333333",
        ],
        &[
            "-i",
            "-c",
            "mem",
            "--base",
            "b",
            "--nameattr",
            &attributes,
            "--palette-map",
            &map,
        ],
        &["--flame-chart", "--minwidth=2", "--bgcol", "grey"],
    ] {
        let svg = drawn(arguments, SIMPLE);
        assert!(svg.ends_with("</svg>\n"), "{arguments:?}");
    }
    for palette in [
        "hot", "mem", "io", "wakeup", "chain", "java", "js", "perl", "python", "rust", "red",
        "green", "blue", "aqua", "yellow", "purple", "orange",
    ] {
        drawn(&[&format!("--color={palette}")], SIMPLE);
    }
}

#[test]
fn options_do_what_they_say() {
    let svg = drawn(
        &[
            "--reverse",
            "--title=<T>",
            "--countname",
            "ms",
            "--factor",
            "2",
        ],
        SIMPLE,
    );
    assert!(titles(&svg).contains(&"c (10 ms, 50.00%)"));
    assert!(svg.contains(">&lt;T&gt;</text>"));
    let svg = drawn(&["--inverted"], SIMPLE);
    assert!(svg.contains(">Icicle Graph</text>"));
    let top = |name: &str| attribute(&svg, name, "y").parse::<f64>().unwrap();
    assert!(top("a") < top("b"));
    let svg = drawn(&["--minwidth", "40%"], SIMPLE);
    assert!(!svg.contains("<title>d ("));
    let svg = drawn(&["--total", "20", "--no-javascript"], SIMPLE);
    assert!(svg.contains("<title>a (10 samples, 50.00%)"));
    assert!(!svg.contains("<script"));
    let svg = drawn(&["--base", "b"], SIMPLE);
    assert_eq!(
        titles(&svg)[..2],
        ["all (7 samples, 100%)", "b (7 samples, 100.00%)"]
    );
    let svg = drawn(&["--color=js"], SIMPLE);
    let fill = attribute(&svg, "d", "fill");
    assert!(
        fill.starts_with("rgb(") && fill.ends_with(",0)"),
        "orange: {fill}"
    );
    let svg = drawn(
        &["--search-color=#010203", "--nametype", "Sym\"</script>"],
        SIMPLE,
    );
    assert!(svg.contains("rgb(1,2,3)") && !svg.contains("Sym\"</script>"));
    let svg = drawn(&["--encoding", "ISO-8859-1"], "é;b 1\n");
    assert!(svg.is_ascii() && svg.contains("&#233; (1 samples"));
}

#[test]
fn a_chart_keeps_the_order_of_its_lines_from_the_last() {
    let svg = drawn(&["--flamechart"], "a;c 1\na;b 2\nz 1\na;b 1\n");
    let names: Vec<&str> = titles(&svg)
        .iter()
        .map(|title| title.split(' ').next().unwrap())
        .collect();
    assert_eq!(names, ["all", "a", "b", "z", "a", "b", "c"]);
}

#[test]
fn two_weights_are_drawn_as_a_difference() {
    let input = "a;more 1 4\na;less 4 2\na;same 2 2\n";
    let svg = drawn(&[], input);
    assert!(titles(&svg).contains(&"more (4 samples, 50.00%; +37.50%)"));
    assert!(titles(&svg).contains(&"less (2 samples, 25.00%; -25.00%)"));
    assert_eq!(attribute(&svg, "more", "fill"), "rgb(255,90,90)");
    assert_eq!(attribute(&svg, "same", "fill"), "rgb(250,250,250)");
    assert!(attribute(&svg, "less", "fill").ends_with(",255)"));
    let svg = drawn(&["--negate"], input);
    assert_eq!(attribute(&svg, "more", "fill"), "rgb(90,90,255)");
}

#[test]
fn fractions_are_not_rounded_away() {
    let svg = drawn(&[], "a;b 0.3\na;c 0.3\na;b 0.4\n");
    assert!(titles(&svg).contains(&"c (0 samples, 30.00%)"));
    assert!(titles(&svg).contains(&"a (1 samples, 100.00%)"));
}

#[test]
fn bad_lines_are_counted_and_nothing_but_bad_lines_is_an_error() {
    let outcome = piped(&[], "a;b 1\nno weight\nx y\n");
    outcome
        .expect_code(0)
        .expect_stderr(&["Ignored 2 lines with invalid format"]);
    let outcome = piped(&["--from", "folded"], "no weight\n");
    outcome.expect_code(1).expect_stderr(&["line 1"]);
    assert!(
        outcome.stdout.contains("no samples were recorded"),
        "{outcome}"
    );
    for (arguments, word) in [
        (&["--color=plaid"][..], "plaid"),
        (&["--bgcolors=nice"], "nice"),
        (&["--minwidth=wide"], "wide"),
        (&["--hash", "--random"], "--random"),
    ] {
        piped(arguments, SIMPLE)
            .expect_code(2)
            .expect_stderr(&[word]);
    }
}

#[test]
fn colours_are_kept_from_picture_to_picture() {
    let scratch = Scratch::new();
    let map = scratch.file("palette.map");
    std::fs::write(&map, "a->rgb(1,2,3)\n").unwrap();
    let mut command = nodespy(&["flamegraph", "--cp"]);
    command.current_dir(scratch.path());
    let outcome = Started::new(command, SIMPLE).finish();
    outcome.expect_code(0);
    assert_eq!(attribute(&outcome.stdout, "a", "fill"), "rgb(1,2,3)");
    let map = std::fs::read_to_string(map).unwrap();
    assert!(
        map.contains("a->rgb(1,2,3)\n") && map.contains("d_[k]->rgb("),
        "{map}"
    );
}

#[test]
fn hostile_names_stay_text() {
    let evil = "</title><script>alert(1)</script>;\"><a onclick='x'>&amp;;\u{1b}]0;x\u{7} 3\n";
    let svg = drawn(
        &[
            "--no-javascript",
            "--notes",
            "--><script>",
            "--fonttype",
            "\";}</style>",
        ],
        evil,
    );
    for markup in [
        "<script",
        "<a ",
        "onclick='",
        "\u{1b}",
        "}</style>\n</style>",
    ] {
        assert!(!svg.contains(markup), "{markup:?} in {svg}");
    }
    assert!(svg.contains("&lt;script&gt;alert(1)"));
}

#[test]
fn the_deepest_stacks_are_drawn() {
    let deep = vec!["f"; 5000].join(";") + " 1\n";
    let svg = drawn(&[], &deep);
    assert_eq!(titles(&svg).len(), 5001);
}

#[test]
fn folded_stacks_are_drawn_whatever_their_encoding_and_line_ends() {
    let plain = run_nodespy(&["flamegraph", &fixture("folded/py-spy.txt")]);
    plain.expect_code(0);
    let text = fixture_text("folded/py-spy.txt");
    let counts = text.lines().map(|line| line.rsplit_once(' ').unwrap().1);
    let total: u64 = counts.map(|count| count.parse::<u64>().unwrap()).sum();
    let all = format!("all ({total} samples, 100%)");
    let drawn = titles(&plain.stdout);
    assert!(drawn.contains(&&*all), "{all}: {drawn:?}");
    for name in ["py-spy-crlf", "py-spy-utf16le", "py-spy-utf16be"] {
        let outcome = run_nodespy(&["flamegraph", &fixture(&format!("folded/{name}.txt"))]);
        outcome.expect_code(0);
        assert_eq!(outcome.stdout, plain.stdout, "{name}");
    }
}

#[test]
fn recursion_and_deep_stacks_are_drawn_frame_by_frame() {
    for (name, boxes) in [("recursion", 9), ("tall", 403)] {
        let outcome = run_nodespy(&["flamegraph", &fixture(&format!("folded/{name}.txt"))]);
        outcome.expect_code(0);
        assert_eq!(titles(&outcome.stdout).len(), boxes, "{name}");
    }
}

#[test]
fn lines_that_are_no_stacks_are_left_out() {
    let outcome = run_nodespy(&["flamegraph", &fixture("folded/invalid-lines.txt")]);
    outcome.expect_code(0);
    let drawn = titles(&outcome.stdout);
    for name in ["a (3 samples", "b (2 samples", "c (4 samples"] {
        assert!(
            drawn.iter().any(|title| title.starts_with(name)),
            "{drawn:?}"
        );
    }
}

#[test]
fn recordings_of_other_formats_are_drawn_by_kind_of_code() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/nspy/v1-small.nspy");
    let outcome = run_nodespy(&["flamegraph", fixture.to_str().unwrap(), "--title", "Mine"]);
    outcome.expect_code(0);
    assert!(outcome.stdout.contains(">Mine</text>"));
    assert!(titles(&outcome.stdout).len() > 3);
}

#[test]
fn several_files_are_drawn_together() {
    let scratch = Scratch::new();
    let (one, two) = (scratch.file("one"), scratch.file("two"));
    std::fs::write(&one, "a;b 1").unwrap();
    std::fs::write(&two, "a;b 2\n").unwrap();
    let outcome = run_nodespy(&["flamegraph", &one, &two]);
    outcome.expect_code(0);
    assert!(titles(&outcome.stdout).contains(&"b (3 samples, 100.00%)"));
}

#[test]
fn difffolded_agrees_with_inferno_line_by_line() {
    for (expected, before, options) in [
        ("default", "before", &[][..]),
        ("normalize", "before", &["-n"]),
        ("strip-hex", "before", &["-s"]),
        ("fractions", "before-fractions", &[]),
    ] {
        let before = fixture(&format!("diff_folded/{before}.txt"));
        let after = fixture("diff_folded/after.txt");
        let mut arguments = vec!["difffolded"];
        arguments.extend_from_slice(options);
        arguments.extend([before.as_str(), after.as_str()]);
        let outcome = run_nodespy(&arguments);
        outcome.expect_code(0);
        let wanted = fixture_text(&format!("diff_folded/{expected}.expected.txt"));
        assert_eq!(outcome.stdout, wanted, "{expected}");
    }
    let bad = fixture("diff_folded/before-bad.txt");
    let outcome = run_nodespy(&["difffolded", &bad, &fixture("diff_folded/after.txt")]);
    outcome.expect_code(0).expect_stderr(&["Ignored 1 lines"]);
}

#[test]
fn difffolded_of_two_recordings_agrees_with_inferno() {
    let scratch = Scratch::new();
    let files = ["node16", "node20"].map(|name| {
        let file = scratch.file(name);
        let text = fixture_text(&format!("perf_data/{name}.collapsed-all.txt.gz"));
        std::fs::write(&file, text).unwrap();
        file
    });
    let outcome = run_nodespy(&["difffolded", "-n", &files[0], &files[1]]);
    outcome.expect_code(0);
    let wanted = fixture_text("diff_folded/node16-node20.expected.txt.gz");
    assert_eq!(outcome.stdout, wanted);
}

#[test]
fn a_difference_goes_through_a_pipe_into_a_picture() {
    let scratch = Scratch::new();
    let before = scratch.file("before");
    std::fs::write(&before, "a;b 1\na;gone 2\n").unwrap();
    let outcome = Started::new(nodespy(&["difffolded", &before, "-"]), "a;b 3\n").finish();
    outcome.expect_code(0);
    assert_eq!(outcome.stdout, "a;b 1 3\na;gone 2 0\n");
    let svg = drawn(&[], &outcome.stdout);
    assert!(titles(&svg).contains(&"b (3 samples, 100.00%; +66.67%)"));
}
