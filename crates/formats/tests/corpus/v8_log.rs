//! Logs of `node --prof`.

use nodespy_formats::detect;
use nodespy_model::{Category, Tier};

use crate::convert::read;
use crate::corpus;

#[test]
fn logs_of_node_8_to_24_are_recognized_and_read_whole() {
    for (name, ticks) in [
        ("node8-isolate-v8.log", 93),
        ("node18-v8.log", 1103),
        ("node20-v8.log", 1406),
        ("node24-v8.log", 1418),
    ] {
        let bytes = corpus(&format!("v8-log/{name}"));
        assert_eq!(detect(&bytes).unwrap().name(), "v8-log", "{name}");
        let profile = read(&bytes).unwrap();
        assert_eq!(profile.samples.len(), ticks, "{name}");
        assert_eq!(profile.notes.remarks, [""; 0], "{name}");
        let named = profile.notes.confidence().jit_named;
        assert!(named > 0.86, "{name}: {named}");
    }
}

#[test]
fn names_in_quotes_are_read_as_node_8_wrote_them() {
    let profile = read(&corpus("v8-log/node8-isolate-v8.log")).unwrap();
    let mut functions = profile.functions.iter();
    let found = functions.find(|function| {
        profile.strings.get(function.name) == "d" && function.category == Category::App
    });
    assert_eq!(found.map(|function| function.line), Some(20));
    assert!(
        profile
            .frames
            .iter()
            .any(|frame| frame.tier == Tier::Interpreted)
    );
}

#[test]
fn copied_builtins_of_node_20_have_names() {
    let profile = read(&corpus("v8-log/node20-v8.log")).unwrap();
    let ticks = |name| crate::in_words::self_weight(&profile, name);
    assert_eq!(ticks("ArrayTimSort"), 210);
    // What is left are ticks without an address.
    assert_eq!(ticks("[unknown]"), 62);
}
