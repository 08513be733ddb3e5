//! `--embed-source` and `--source-maps`: code is taken along, and shown where it was written, when
//! asked for and not otherwise.

use std::path::Path;

use nodespy_formats::{ImportOptions, import_file};
use nodespy_model::{
    About, Category, Contents, FrameSpec, FunctionSpec, Notes, Process, Profile, ProfileBuilder,
    Thread, WeightUnit,
};

use crate::run::run_nodespy;
use crate::scratch::Scratch;

/// One sample in each of some files, in a function that starts at a column of line 1.
fn write_recording(path: &str, files: &[(&str, u32)]) {
    let mut builder = ProfileBuilder::new(WeightUnit::Samples);
    let process = builder.process(Process::default());
    let thread = builder.thread(Thread {
        process,
        ..Thread::default()
    });
    for &(file, column) in files {
        let frame = builder.frame(FrameSpec {
            function: FunctionSpec {
                name: "work",
                file,
                line: 1,
                column,
                category: Category::App,
            },
            ..FrameSpec::default()
        });
        let stack = builder.stack(None, frame);
        builder.sample(0, thread, Some(stack), 1);
    }
    let profile = builder.finish(About::default(), Notes::default());
    let mut output = std::fs::File::create(path).unwrap();
    nodespy_formats::export(&profile, "nspy", &mut output).unwrap();
}

fn read(path: &str) -> Profile {
    let recording = import_file(Path::new(path), &ImportOptions::default()).unwrap();
    match recording.contents {
        Contents::Named(profile) => *profile,
        other => panic!("{other:?}"),
    }
}

#[test]
fn source_is_taken_along_only_when_asked_for() {
    let scratch = Scratch::new();
    let root = scratch.path().join("root");
    std::fs::create_dir_all(root.join("srv")).unwrap();
    std::fs::write(root.join("srv/app.js"), "work();\n").unwrap();
    let [recording, plain, with, page] =
        ["in.nspy", "plain.nspy", "with.nspy", "with.html"].map(|name| scratch.file(name));
    let files = [("/srv/app.js", 1), ("/srv/gone.js", 1), ("node:fs", 1)];
    write_recording(&recording, &files);
    run_nodespy(&["convert", &recording, &plain]).expect_code(0);
    assert!(read(&plain).sources.is_empty());
    let root = root.to_str().unwrap();
    for output in [&with, &page] {
        let arguments = [
            "convert",
            &recording,
            output,
            "--embed-source",
            "--root",
            root,
        ];
        run_nodespy(&arguments).expect_code(0);
        let profile = read(output);
        assert_eq!(profile.sources.len(), 1);
        assert_eq!(profile.strings.get(profile.sources[0].file), "/srv/app.js");
        assert_eq!(profile.sources[0].text, "work();\n");
        assert_eq!(
            profile.notes.remarks,
            ["the source of 1 file is embedded; 1 file could not be read"]
        );
    }
    let folded = scratch.file("out.folded");
    let outcome = run_nodespy(&["convert", &with, &folded]);
    outcome
        .expect_code(0)
        .expect_stderr(&["no room for", "source code"]);
    assert!(
        !std::fs::read_to_string(&folded)
            .unwrap()
            .contains("work();")
    );
}

#[test]
fn recordings_of_any_time_are_shown_where_they_were_written_only_by_maps_that_are_given() {
    let scratch = Scratch::new();
    let dist = scratch.path().join("dist");
    std::fs::create_dir_all(&dist).unwrap();
    // `work` at column 5 of the only line is `price` in line 3 of cart.ts.
    let script = "var work=()=>1;\n//# sourceMappingURL=app.js.map\n";
    let map = r#"{"version":3,"sources":["../src/cart.ts"],"sourcesContent":["price();\n"],
        "names":["price"],"mappings":"IAEIA,KAAQ"}"#;
    std::fs::write(dist.join("app.js"), script).unwrap();
    std::fs::write(dist.join("app.js.map"), map).unwrap();
    let script = dist.join("app.js");
    let [recording, plain, with, other] =
        ["in.cpuprofile", "plain.nspy", "with.nspy", "other.nspy"].map(|name| scratch.file(name));
    write_recording(&other, &[(script.to_str().unwrap(), 10)]);
    run_nodespy(&["convert", &other, &recording]).expect_code(0);
    // The script and its map are on this very disk, but nothing proves that they are what ran.
    run_nodespy(&["convert", &recording, &plain]).expect_code(0);
    assert!(read(&plain).generated_places.is_empty());
    let given = dist.to_str().unwrap();
    let outcome = run_nodespy(&["report", &recording, "--source-maps", given]);
    let printed = &outcome.expect_code(0).stdout;
    assert!(printed.contains("price"), "{printed}");
    assert!(printed.contains("src/cart.ts:3"), "{printed}");
    let arguments = [
        "convert",
        &recording,
        &with,
        "--source-maps",
        given,
        "--embed-source",
    ];
    run_nodespy(&arguments).expect_code(0);
    let profile = read(&with);
    assert_eq!(profile.sources[0].text, "price();\n");
    let (function, place) = profile.generated_places[0];
    assert_eq!(profile.name_of(function), "price");
    let place = profile.strings.get(place);
    assert!(place.ends_with("/dist/app.js:1:10"), "{place}");
    let folded = scratch.file("out.folded");
    let outcome = run_nodespy(&["convert", &with, &folded]);
    outcome
        .expect_code(0)
        .expect_stderr(&["places in generated code"]);
}
