use super::*;
use nodespy_model::{
    About, FrameSpec, ImageBytes, ImageRefused, JitFile, Mapping, Notes, Process, ProfileBuilder,
    SourceFile, TextMark, Thread, WeightUnit,
};
use std::fs::File;
use std::path::Path;

/// A process whose root is a folder.
struct InFolder {
    folder: tempfile::TempDir,
    is_older: bool,
}

impl InFolder {
    fn with(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Self {
            folder,
            is_older: true,
        }
    }
}

impl Origin for InFolder {
    fn open_image(&self, _: &Mapping) -> Result<ImageBytes, ImageRefused> {
        unreachable!("no mapping")
    }

    fn open_debug_file(&self, _: u32, _: &[u8]) -> Option<File> {
        None
    }

    fn open_jit_file(&self, _: u32, _: Option<&Mapping>) -> Option<JitFile> {
        None
    }

    fn open_source(&self, _: u32, path: &Path) -> Result<SourceFile, ImageRefused> {
        let below = path.strip_prefix("/").unwrap();
        let file = File::open(self.folder.path().join(below));
        let is_older = self.is_older;
        file.map(|file| SourceFile { file, is_older })
            .map_err(|error| ImageRefused {
                why: error.to_string(),
            })
    }

    fn read_memory(&self, _: u32, _: u64, _: &mut [u8]) -> usize {
        0
    }

    fn describe(&self, _: u32) -> Option<Process> {
        None
    }
}

const SCRIPT: &str = "function a(e){return e}var b=e=>e;\n//# sourceMappingURL=min.js.map\n";
/// `a` at 0:9 is `price` of line 3 of shop.ts, its parameter starts at 0:10; `b` at 0:27 is
/// `stock` of line 0 of lodash, its arrow starts at 0:29.
const MAP: &str = r#"{"version":3,"sources":["webpack://shop/./shop.ts","webpack://shop/./node_modules/lodash/x.js"],
        "sourcesContent":["shop","lodash"],"names":["price","item","stock","each"],
        "mappings":"AAGA,SAASA,CAAM,CAACC,gBCAZC,EAAIC"}"#;

/// Functions a and b of `/min.js`, b in line 1, and what runs when it is loaded.
fn profile() -> Profile {
    let mut builder = ProfileBuilder::new(WeightUnit::Samples);
    let process = builder.process(Process::default());
    let thread = builder.thread(Thread {
        process,
        ..Thread::default()
    });
    for (name, column, current) in [("a", 11, 14), ("b", 30, 0), ("(anonymous)", 1, 1)] {
        let frame = builder.frame(FrameSpec {
            function: FunctionSpec {
                name,
                file: "/min.js",
                line: 1,
                column,
                category: Category::App,
            },
            line: 1,
            column: current,
            ..FrameSpec::default()
        });
        let stack = builder.stack(None, frame);
        builder.sample(0, thread, Some(stack), 1);
    }
    builder.finish(About::default(), Notes::default())
}

fn loaded(text: &str, map_url: &str) -> Vec<LoadedScript> {
    vec![LoadedScript {
        pid: 0,
        file: "/min.js".to_owned(),
        map_url: map_url.to_owned(),
        text: TextMark::of(text.encode_utf16()),
    }]
}

fn places(profile: &Profile) -> Vec<String> {
    (0..profile.functions.len() as u32)
        .map(FunctionIndex)
        .map(|index| format!("{} {}", profile.name_of(index), profile.location_of(index)))
        .collect()
}

const WRITTEN: [&str; 3] = [
    "price webpack://shop/shop.ts:4:16",
    "stock webpack://shop/node_modules/lodash/x.js:4:9",
    "(anonymous) /min.js:1:1",
];

#[test]
fn functions_get_their_names_places_and_packages_back() {
    let origin = InFolder::with(&[("min.js", SCRIPT), ("min.js.map", MAP)]);
    let options = SourceMapOptions {
        embeds_sources: true,
        ..SourceMapOptions::default()
    };
    let scripts = loaded(SCRIPT, "min.js.map");
    let mapped = map_sources(profile(), &scripts, Some(&origin), &options);
    assert_eq!(places(&mapped), WRITTEN);
    assert_eq!(mapped.functions[1].category, Category::Dependency);
    assert_eq!(mapped.frames[0].line, 4);
    // The line has code of two files: which of them ran is not known.
    assert_eq!(mapped.frames[1].line, 0);
    let generated: Vec<&str> = mapped
        .generated_places
        .iter()
        .map(|(_, place)| mapped.strings.get(*place))
        .collect();
    assert_eq!(generated, ["/min.js:1:11", "/min.js:1:30"]);
    let texts: Vec<&str> = mapped
        .sources
        .iter()
        .map(|each| each.text.as_str())
        .collect();
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert_eq!(
        mapped.notes.remarks,
        ["source maps: 2 functions are shown where they were written, by /min.js.map"]
    );
}

#[test]
fn a_script_has_to_be_the_one_that_runs() {
    let mut origin = InFolder::with(&[("min.js", SCRIPT), ("min.js.map", MAP)]);
    let options = SourceMapOptions::default();
    let remark = |scripts: &[LoadedScript], origin: &InFolder| {
        let mapped = map_sources(profile(), scripts, Some(origin), &options);
        match mapped.generated_places.is_empty() {
            true => mapped.notes.remarks.join("; "),
            false => "mapped".to_owned(),
        }
    };
    let same = loaded(SCRIPT, "min.js.map");
    let other = loaded("other", "min.js.map");
    assert_eq!(remark(&[], &origin), "mapped");
    assert!(remark(&other, &origin).contains("is not the text that runs"));
    assert!(remark(&[&same[..], &other].concat(), &origin).contains("different texts"));
    // Younger than the process: only its text can prove it.
    origin.is_older = false;
    assert_eq!(remark(&same, &origin), "mapped");
    assert!(remark(&[], &origin).contains("was written after the process started"));
    let mut length_only = same.clone();
    length_only[0].text.hash = None;
    assert!(remark(&length_only, &origin).contains("was written after"));
    origin.is_older = true;
    assert_eq!(remark(&length_only, &origin), "mapped");
    std::fs::remove_file(origin.folder.path().join("min.js.map")).unwrap();
    assert!(remark(&same, &origin).contains("/min.js.map can't be opened"));
    std::fs::remove_file(origin.folder.path().join("min.js")).unwrap();
    assert!(remark(&same, &origin).contains("the script can't be read"));
    assert_eq!(remark(&[], &origin), "");
}

#[test]
fn dependencies_without_their_maps_are_one_remark() {
    let refused = |count: usize, folder: &str| -> Vec<String> {
        let files: Vec<String> = (0..count)
            .map(|each| format!("{folder}/{each}.js"))
            .collect();
        let refused = files.iter().map(|file| (file.as_str(), "gone".to_owned()));
        remarks_of(refused.collect())
    };
    assert_eq!(
        refused(30, "/app/node_modules/npm"),
        [
            "source maps: 30 scripts of dependencies are shown as they run, such as \
         /app/node_modules/npm/0.js: gone"
        ]
    );
    assert_eq!(
        refused(1, "/app/node_modules/npm"),
        ["source maps: /app/node_modules/npm/0.js is shown as it runs: gone"]
    );
    assert_eq!(refused(2, "/app").len(), 2);
    assert!(refused(0, "").is_empty());
}

#[test]
fn v8_has_maps_that_no_file_has() {
    let inline: String = MAP.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let scripts = loaded("in memory", &format!("data:application/json,{inline}"));
    let options = SourceMapOptions::default();
    let mapped = map_sources(profile(), &scripts, None, &options);
    // Without the text of the script no word is known to be a function's name.
    assert_eq!(places(&mapped)[0], "a webpack://shop/shop.ts:4:16");
    assert!(mapped.sources.is_empty());
}

#[test]
fn maps_that_are_given_need_no_process() {
    let given = InFolder::with(&[("min.js", SCRIPT), ("min.js.map", MAP)]);
    let options = SourceMapOptions {
        given: vec![given.folder.path().to_owned()],
        ..SourceMapOptions::default()
    };
    let mapped = map_sources(profile(), &[], None, &options);
    assert_eq!(places(&mapped), WRITTEN);
    let unmapped = map_sources(profile(), &[], None, &SourceMapOptions::default());
    assert_eq!(unmapped, profile());
    let other = loaded("other", "");
    let refused = map_sources(profile(), &other, None, &options);
    assert!(refused.notes.remarks[0].contains("is not the one that runs"));
}
