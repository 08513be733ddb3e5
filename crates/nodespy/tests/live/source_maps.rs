//! Source maps: is minified TypeScript shown where it was written, and only if that is certain?

use std::fs;
use std::path::Path;
use std::process::Command;

use nodespy_model::{Category, FunctionIndex};

use super::recorded::{Recorded, expect_share, record, record_enough, record_with, share};
use super::workload::{Running, USUAL_NODE, node, root};
use super::{is_root, live};
use crate::run::run_nodespy;
use crate::scratch::Scratch;
use crate::skip::skip;

/// Bundles and minifies `workloads/typescript` into `dist/bundle.js` of a folder.
fn bundle(folder: &Path, arguments: &[&str]) {
    let mut installer = Command::new(root().join("tools/packages.sh"));
    assert!(installer.arg("typescript").status().unwrap().success());
    let app = root().join("workloads/typescript").canonicalize().unwrap();
    // Beside the bundle, so that the map's sources are where the process has them.
    fs::create_dir_all(folder.join("src")).unwrap();
    for name in ["main.ts", "orders.ts", "stock.ts"] {
        fs::copy(app.join("src").join(name), folder.join("src").join(name)).unwrap();
    }
    let mut command = Command::new(node(USUAL_NODE).unwrap());
    command
        .arg(app.join("node_modules/esbuild/bin/esbuild"))
        .args(["src/main.ts", "--bundle", "--minify", "--platform=node"])
        .args(["--target=node16", "--outfile=dist/bundle.js"])
        .args(["--log-level=warning"])
        .args(arguments)
        .current_dir(folder);
    assert!(command.status().unwrap().success(), "{command:?}");
}

/// The bundle, made in a folder of its own and started there.
fn started(version: &str, arguments: &[&str]) -> (Scratch, Running) {
    let folder = Scratch::new();
    bundle(folder.path(), arguments);
    let mut command = Command::new(node(version).unwrap());
    command.arg(folder.path().join("dist/bundle.js"));
    (folder, Running::new(command))
}

/// The lines of a file of the workload that are marked as hot, from 1.
fn hot_line(name: &str) -> u32 {
    let text = fs::read_to_string(root().join("workloads/typescript/src").join(name)).unwrap();
    let found = text.lines().position(|line| line.ends_with("// HOT"));
    found.unwrap() as u32 + 1
}

/// The function of this name, which there has to be.
#[track_caller]
fn function(recorded: &Recorded, name: &str) -> FunctionIndex {
    let profile = &recorded.profile;
    (0..profile.functions.len() as u32)
        .map(FunctionIndex)
        .find(|index| profile.name_of(*index) == name)
        .unwrap_or_else(|| panic!("no {name}\n{}", recorded.describe()))
}

/// Seventy to thirty, in the files and lines that people wrote.
#[track_caller]
fn expect_typescript(recorded: &Recorded, folder: &str) {
    let profile = &recorded.profile;
    let told = recorded.describe();
    let (prices, stock) = ("priceOrders", "countStock");
    let total = |name| recorded.total_share(name);
    let all = total(prices) + total(stock);
    assert!(all > 0.9, "{told}");
    expect_share(prices, total(prices) / all, 0.7, recorded);
    for (name, file) in [(prices, "orders.ts"), (stock, "stock.ts")] {
        let index = function(recorded, name);
        let row = profile.function(index);
        assert_eq!(profile.file_of(index), format!("{folder}/src/{file}"));
        assert!(row.line > 3 && row.line < hot_line(file), "{told}");
        assert_eq!(row.category, Category::App);
        let is_here = |(function, _): &&(FunctionIndex, _)| *function == index;
        let (_, place) = profile.generated_places.iter().find(is_here).unwrap();
        let place = profile.strings.get(*place);
        assert!(place.contains("/dist/bundle.js:1:"), "{place}");
        // V8's own profiler tells no columns, and the bundle is one line.
        if profile.about.engine != "V8 inspector" {
            expect_hot_line(recorded, index, hot_line(file));
        }
    }
    let remarks = profile.notes.remarks.join("\n");
    assert!(
        remarks.contains("shown where they were written"),
        "{remarks}"
    );
}

/// Nearly all of a function's time is in one line.
#[track_caller]
fn expect_hot_line(recorded: &Recorded, function: FunctionIndex, line: u32) {
    let profile = &recorded.profile;
    let (mut all, mut hot) = (0, 0);
    for sample in &profile.samples {
        let Some(stack) = sample.stack else { continue };
        let frame = profile.frame(profile.stacks[stack.at()].frame);
        if frame.function == function && frame.line > 0 {
            all += 1;
            // The loop's head is a line of its own.
            hot += u64::from(frame.line.abs_diff(line) <= 1);
        }
    }
    assert!(
        share(hot, all) > 0.9,
        "{hot} of {all}\n{}",
        recorded.describe()
    );
}

/// Nothing but what V8 says.
#[track_caller]
fn expect_as_it_runs(recorded: &Recorded, why: &str) {
    let profile = &recorded.profile;
    assert!(
        profile.generated_places.is_empty(),
        "{}",
        recorded.describe()
    );
    let is_written = |text: &str| text.ends_with(".ts") || text.contains("HostSecret");
    let written: Vec<&str> = profile
        .strings
        .iter()
        .filter(|text| is_written(text))
        .collect();
    assert!(written.is_empty(), "{written:?}");
    let remarks = profile.notes.remarks.join("\n");
    assert!(remarks.contains(why), "{remarks}");
}

fn expect_bundle(version: &str, arguments: &[&str]) {
    let Some(_live) = live() else { return };
    let (folder, target) = started(version, arguments);
    let recorded = record_enough(&target, 2, &["-F", "499"], 400);
    expect_typescript(&recorded, &folder.path().display().to_string());
}

#[test]
fn a_minified_bundle_is_shown_in_its_typescript_on_node_20() {
    expect_bundle("20", &["--sourcemap"]);
}

#[test]
fn a_minified_bundle_is_shown_in_its_typescript_on_node_26() {
    expect_bundle("26", &["--sourcemap"]);
}

#[test]
fn a_map_inside_the_bundle_is_used_on_node_16() {
    expect_bundle("16", &["--sourcemap=inline"]);
}

#[test]
fn the_inspector_engine_shows_typescript_too() {
    let Some(_live) = live() else { return };
    let folder = Scratch::new();
    bundle(folder.path(), &["--sourcemap"]);
    // From the start: of code that was optimized before, V8's profiler does not know what it inlined.
    let script = folder.file("dist/bundle.js");
    let recorded = record_with(&[
        "record",
        "--engine",
        "inspector",
        "-d",
        "3",
        "--",
        &node(USUAL_NODE).unwrap(),
        &script,
    ]);
    expect_typescript(&recorded, &folder.path().display().to_string());
}

#[test]
fn top_shows_typescript_too() {
    let Some(_live) = live() else { return };
    let (_folder, target) = started(USUAL_NODE, &["--sourcemap"]);
    let top = |arguments: &[&str]| {
        let pid = target.pid_text();
        let mut all = vec!["top", "-p", &pid, "-d", "3"];
        all.extend(arguments);
        let outcome = run_nodespy(&all);
        outcome.expect_code(0);
        outcome.stdout
    };
    let mapped = top(&[]);
    assert!(mapped.contains("priceOrders"), "{mapped}");
    assert!(mapped.contains("src/orders.ts:"), "{mapped}");
    let as_it_runs = top(&["--no-source-maps"]);
    assert!(!as_it_runs.contains("orders.ts"), "{as_it_runs}");
    assert!(as_it_runs.contains("bundle.js"), "{as_it_runs}");
}

#[test]
fn perf_maps_are_shown_in_typescript_too() {
    let Some(_live) = live() else { return };
    let folder = Scratch::new();
    bundle(folder.path(), &["--sourcemap"]);
    let mut command = Command::new(node("20").unwrap());
    command
        .args(super::workload::PERF_MAP_FLAGS)
        .arg(folder.path().join("dist/bundle.js"));
    let target = Running::new(command);
    let recorded = record(&target, &["-d", "2", "-F", "499", "--names", "map"]);
    let index = function(&recorded, "priceOrders");
    assert!(recorded.profile.file_of(index).ends_with("/src/orders.ts"));
}

#[test]
fn a_map_kept_apart_is_used_when_it_is_given_and_never_by_itself() {
    let Some(_live) = live() else { return };
    let (folder, target) = started("20", &["--sourcemap=external"]);
    let maps = Scratch::new();
    let kept = maps.file("bundle.js.map");
    fs::rename(folder.path().join("dist/bundle.js.map"), &kept).unwrap();
    let recorded = record(&target, &["-d", "1", "--no-source-maps"]);
    expect_as_it_runs(&recorded, "");
    let recorded = record(&target, &["-d", "2", "-F", "499", "--source-maps", &kept]);
    // Without the script beside the map it is not known which word is a function's name.
    let is_priced = |file: &str| file.ends_with("/src/orders.ts");
    assert!(
        recorded.profile.strings.iter().any(is_priced),
        "{}",
        recorded.describe()
    );
    fs::copy(folder.path().join("dist/bundle.js"), maps.file("bundle.js")).unwrap();
    let given = maps.path().to_str().unwrap();
    let arguments = ["-F", "499", "--source-maps", given];
    let recorded = record_enough(&target, 2, &arguments, 400);
    expect_typescript(&recorded, &folder.path().display().to_string());
}

#[test]
fn a_script_that_changed_on_disk_is_shown_as_it_runs() {
    let Some(_live) = live() else { return };
    let (folder, target) = started("20", &["--sourcemap"]);
    let script = folder.path().join("dist/bundle.js");
    let text = fs::read_to_string(&script).unwrap();
    fs::write(&script, format!("/* new */{text}")).unwrap();
    let recorded = record(&target, &["-d", "1"]);
    expect_as_it_runs(&recorded, "is not the text that runs");
    let recorded = record(&target, &["-d", "1", "--engine", "inspector"]);
    expect_as_it_runs(&recorded, "was written after the process started");
    // The same text again is the text that runs, whenever it was written.
    fs::write(&script, text).unwrap();
    let recorded = record_enough(&target, 2, &["-F", "499"], 400);
    expect_typescript(&recorded, &folder.path().display().to_string());
}

#[test]
fn source_is_taken_along_as_it_was_written() {
    let Some(_live) = live() else { return };
    let (folder, target) = started("20", &["--sourcemap"]);
    // Only the map has it.
    fs::remove_dir_all(folder.path().join("src")).unwrap();
    for engine in ["perf", "inspector"] {
        let recorded = record(&target, &["-d", "2", "--embed-source", "--engine", engine]);
        let profile = &recorded.profile;
        let sources: Vec<(&str, &str)> = profile
            .sources
            .iter()
            .map(|source| (profile.strings.get(source.file), source.text.as_str()))
            .collect();
        let files: Vec<&str> = sources.iter().map(|(file, _)| *file).collect();
        let main = fs::read_to_string(root().join("workloads/typescript/src/main.ts")).unwrap();
        let is_main = |(file, text): &(&str, &str)| file.ends_with("/src/main.ts") && *text == main;
        assert!(sources.iter().any(is_main), "{engine}: {files:?}");
        let is_bundle = |file: &&str| file.ends_with("bundle.js");
        assert!(!files.iter().any(is_bundle), "{engine}: {files:?}");
    }
}

/// Starts the bundle in a root of its own, which holds nothing else of the host but programs.
fn start_in_root(folder: &Scratch) -> Running {
    let node = node(USUAL_NODE).unwrap();
    let install = Path::new(&node).ancestors().nth(2).unwrap();
    let install = install.canonicalize().unwrap();
    let line = "set -e; cd \"$1\"; mkdir -p usr node proc; \
         for name in bin lib lib64; do ln -sfn usr/$name $name; done; \
         mount --rbind /usr usr; mount --bind \"$2\" node; mount -t proc proc proc; \
         exec chroot . /node/bin/node /app/dist/bundle.js";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", line, "sh"])
        .arg(folder.path())
        .arg(install);
    Running::new(command)
}

#[test]
fn in_a_root_of_its_own_the_map_is_the_one_inside() {
    let Some(_live) = live() else { return };
    if !is_root() {
        skip("only root makes namespaces everywhere");
        return;
    }
    let folder = Scratch::new();
    let app = folder.path().join("app");
    bundle(&app, &["--sourcemap"]);
    let target = start_in_root(&folder);
    let recorded = record_enough(&target, 2, &["-F", "499"], 400);
    expect_typescript(&recorded, "/app");
    // A map that would name every place in the bundle.
    let secret = Scratch::for_other_users();
    let everything = r#"{"version":3,"sources":["/HostSecret.ts"],"names":[],"mappings":"AAAA"}"#;
    fs::write(secret.file("secret.map"), everything).unwrap();
    let map = app.join("dist/bundle.js.map");
    let map = map.to_str().unwrap();
    let secret = secret.file("secret.map");
    for (line, why) in [
        (format!("ln -s {secret} {map}"), "can't be opened"),
        (
            format!("ln -s ../../../../../../../../../..{secret} {map}"),
            "can't be opened",
        ),
        (format!("mkfifo {map}"), "a FIFO"),
        (format!("mkdir {map}"), "a folder"),
        (format!("truncate -s 10G {map}"), "more than 256 MiB"),
        (
            format!("printf '{{\"version\":3,\"mappings\":\"AAAA' > {map}"),
            "is not JSON",
        ),
        (
            format!("printf '{{\"version\":3,\"sources\":[\"x\"],\"mappings\":\"!\"}}' > {map}"),
            "damaged at byte 0",
        ),
        (
            format!("printf '%0.s[' $(seq 100000) > {map}"),
            "is not JSON",
        ),
        (format!("printf '{{\"version\":2}}' > {map}"), "version 2"),
        (format!("rm -f {map}"), "can't be opened"),
    ] {
        let replaced = Command::new("sh")
            .args(["-c", &format!("rm -rf {map}; {line}")])
            .status();
        assert!(replaced.unwrap().success(), "{line}");
        let recorded = record(&target, &["-d", "500ms", "-F", "499"]);
        eprintln!("{line}");
        expect_as_it_runs(&recorded, why);
        assert!(recorded.outcome.took.as_secs() < 30, "{line}");
    }
}
