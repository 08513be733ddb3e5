//! `nodespy flamegraph` and `nodespy difffolded` in place of the scripts they are named after.

use crate::run::run_nodespy;

/// A file of the corpus, as text for a command line.
fn corpus(name: &str) -> String {
    crate::corpus(name).to_str().unwrap().to_owned()
}

#[test]
fn the_corpus_is_drawn_whatever_its_encoding_and_line_ends() {
    let plain = run_nodespy(&["flamegraph", &corpus("folded/simple.txt")]);
    plain.expect_code(0);
    for name in ["simple-crlf", "simple-utf16-le", "simple-utf16-be"] {
        let outcome = run_nodespy(&["flamegraph", &corpus(&format!("folded/{name}.txt"))]);
        outcome.expect_code(0);
        assert_eq!(outcome.stdout, plain.stdout, "{name}");
    }
    for name in ["alternating", "recursion", "tall", "simple-with-invalids"] {
        run_nodespy(&["flamegraph", &corpus(&format!("folded/{name}.txt"))]).expect_code(0);
    }
}

/// The lines of a text, sorted: the originals print them in the order of a hash table.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn difffolded_agrees_with_the_original_line_by_line() {
    for (expected, before, options) in [
        ("default", "before", &[][..]),
        ("normalize", "before", &["-n"]),
        ("strip_hex", "before", &["-s"]),
        ("fractionals", "before_fractionals", &[]),
    ] {
        let before = corpus(&format!("diff-folded/{before}.txt"));
        let after = corpus("diff-folded/after.txt");
        let mut arguments = vec!["difffolded"];
        arguments.extend_from_slice(options);
        arguments.extend([before.as_str(), after.as_str()]);
        let outcome = run_nodespy(&arguments);
        outcome.expect_code(0);
        let path = corpus(&format!("diff-folded/expected/{expected}.txt"));
        let wanted = std::fs::read_to_string(path).unwrap();
        assert_eq!(
            outcome.stdout.lines().collect::<Vec<_>>(),
            sorted(&wanted),
            "{expected}"
        );
        assert_eq!(outcome.stdout.len(), wanted.len(), "{expected}");
    }
    let bad = corpus("diff-folded/bad_before.txt");
    let outcome = run_nodespy(&["difffolded", &bad, &corpus("diff-folded/after.txt")]);
    outcome.expect_code(0).expect_stderr(&["Ignored 1 lines"]);
}
