//! `--embed-source`: code is taken along when asked for, and not otherwise.

use std::path::Path;

use nodespy_formats::{ImportOptions, import_file};
use nodespy_model::{
    About, Category, Contents, FrameSpec, FunctionSpec, Notes, Process, Profile, ProfileBuilder,
    Thread, WeightUnit,
};

use crate::run::run_nodespy;
use crate::scratch::Scratch;

/// One sample in each of some files.
fn write_recording(path: &str, files: &[&str]) {
    let mut builder = ProfileBuilder::new(WeightUnit::Samples);
    let process = builder.process(Process::default());
    let thread = builder.thread(Thread {
        process,
        ..Thread::default()
    });
    for file in files {
        let frame = builder.frame(FrameSpec {
            function: FunctionSpec {
                name: "work",
                file,
                line: 1,
                column: 1,
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
    write_recording(&recording, &["/srv/app.js", "/srv/gone.js", "node:fs"]);
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
