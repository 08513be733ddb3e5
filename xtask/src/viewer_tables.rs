//! What the page shares with Rust: tables as TypeScript, and test vectors for the rules that both
//! sides apply. `--check` compares the committed files instead of writing them.

use std::fs;

use nodespy_analysis::{Package, PackageKind, Subsystem, shares};
use nodespy_model::{
    About, Category, EventType, FrameSpec, FunctionIndex, FunctionSpec, Notes, Process, Profile,
    ProfileBuilder, Thread, ThreadRole, Tier, WeightUnit,
};
use nodespy_view::wording::{self, SHARE_PARTS};
use serde_json::{Value, json};

use crate::{Failure, root};

const TABLES: &str = "crates/view/ui/src/model/tables.ts";
const VECTORS: &str = "crates/view/ui/test/vectors.json";

pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let is_check = match arguments {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => return Err("the only argument is --check".into()),
    };
    for (path, text) in [(TABLES, tables()), (VECTORS, vectors())] {
        let file = root().join(path);
        if !is_check {
            fs::write(&file, text).map_err(|error| format!("{path}: {error}"))?;
        } else if fs::read_to_string(&file).map_err(|error| format!("{path}: {error}"))? != text {
            return Err(format!(
                "{path} is not what Rust's tables give; run: cargo run -p xtask -- viewer-tables"
            )
            .into());
        }
    }
    Ok(())
}

fn tables() -> String {
    let mut text = String::from(
        "// Written by `cargo run -p xtask -- viewer-tables` from Rust's tables, which are the place to edit.\n",
    );
    codes(
        &mut text,
        "Category",
        "Kinds of code, by their code in a recording.",
        &Category::ALL.map(|category| format!("{category:?}")),
    );
    labels(
        &mut text,
        "CATEGORY_LABELS",
        &Category::ALL.map(Category::label),
    );
    codes(
        &mut text,
        "Tier",
        "V8's compilers, by their code in a recording.",
        &Tier::ALL.map(|tier| format!("{tier:?}")),
    );
    labels(&mut text, "TIER_LABELS", &Tier::ALL.map(Tier::label));
    codes(
        &mut text,
        "ThreadRole",
        "What threads are for, by their code in a recording.",
        &ThreadRole::ALL.map(|role| format!("{role:?}")),
    );
    labels(
        &mut text,
        "ROLE_LABELS",
        &ThreadRole::ALL.map(ThreadRole::label),
    );
    codes(
        &mut text,
        "Subsystem",
        "Parts of a running Node, by their letter in the page's preview.",
        &Subsystem::ALL.map(|subsystem| format!("{subsystem:?}")),
    );
    labels(
        &mut text,
        "SUBSYSTEM_KEYS",
        &Subsystem::ALL.map(Subsystem::key),
    );
    codes(
        &mut text,
        "PackageKind",
        "Kinds of owners of code.",
        &PackageKind::ALL.map(|kind| format!("{kind:?}")),
    );
    labels(
        &mut text,
        "PACKAGE_KIND_LABELS",
        &PackageKind::ALL.map(PackageKind::label),
    );
    text.push_str("\n// The category of a box that stands for a whole package, by its kind.\n");
    text.push_str("export const PACKAGE_KIND_CATEGORIES: readonly Category[] = [\n");
    for kind in PackageKind::ALL {
        text.push_str(&format!("  Category.{:?},\n", kind.category()));
    }
    text.push_str("];\n");
    share_tables(&mut text);
    text
}

/// Names for the numbers from 0 on. An enum, because the bundler puts its numbers in their places.
fn codes(text: &mut String, name: &str, about: &str, variants: &[String]) {
    text.push_str(&format!("\n// {about}\nexport enum {name} {{\n"));
    for (code, variant) in variants.iter().enumerate() {
        text.push_str(&format!("  {variant} = {code},\n"));
    }
    text.push_str("}\n");
}

fn labels(text: &mut String, name: &str, labels: &[&str]) {
    text.push_str(&format!("export const {name}: readonly string[] = [\n"));
    lines(text, labels);
}

/// The rest of an array of strings.
fn lines(text: &mut String, strings: &[&str]) {
    for string in strings {
        text.push_str(&format!("  {},\n", json!(string)));
    }
    text.push_str("];\n");
}

/// What samples were doing: the parts, and the part of each category.
fn share_tables(text: &mut String) {
    let keys = SHARE_PARTS.map(|part| json!(part.key).to_string());
    text.push_str(&format!("\nexport type ShareKey = {};\n", keys.join(" | ")));
    text.push_str("// What samples do, in the order it is shown; `category` lends its colour.\n");
    text.push_str(
        "export const SHARE_PARTS: readonly { key: ShareKey; label: string; category: Category }[] = [\n",
    );
    for part in SHARE_PARTS {
        text.push_str(&format!(
            "  {{ key: {}, label: {}, category: Category.{:?} }},\n",
            json!(part.key),
            json!(part.label),
            part.category
        ));
    }
    text.push_str("];\n// What a sample does whose leaf is of this category.\n");
    text.push_str("export const SHARE_OF_CATEGORY: readonly ShareKey[] = [\n");
    lines(text, &Category::ALL.map(|category| share_of(&[category])));
}

fn vectors() -> String {
    let counts = [0, 7, 999, 1000, 1_234_567];
    let vectors = json!({
        "count": counts.map(|value| json!([value, wording::count(value)])),
        "percent": percent_vectors(),
        "weight": weight_vectors(),
        "occurrences": occurrence_vectors(),
        "package": package_vectors(),
        "share": share_vectors(),
    });
    // A line for each vector, so that a diff shows which one changed.
    let mut text = String::from("{\n");
    let groups = vectors.as_object().expect("vectors are grouped by name");
    for (at, (name, group)) in groups.iter().enumerate() {
        let lines: Vec<String> = group
            .as_array()
            .expect("a group is a list")
            .iter()
            .map(|vector| format!("    {vector}"))
            .collect();
        let comma = if at + 1 < groups.len() { "," } else { "" };
        text.push_str(&format!(
            "  {}: [\n{}\n  ]{comma}\n",
            json!(name),
            lines.join(",\n")
        ));
    }
    text.push_str("}\n");
    text
}

fn percent_vectors() -> Vec<Value> {
    let pairs: [(u64, u64); 14] = [
        (0, 0),
        (0, 7),
        (7, 7),
        (1, 100_000),
        (1, 1000),
        (1, 3),
        (1, 8),
        (1, 400),
        (3, 400),
        (49, 400),
        (998, 1000),
        (999, 1000),
        (9995, 10_000),
        (99_999, 100_000),
    ];
    pairs
        .iter()
        .map(|(part, whole)| {
            json!([
                part,
                whole,
                wording::percent(wording::percent_of(*part, *whole))
            ])
        })
        .collect()
}

fn weight_vectors() -> Vec<Value> {
    let units = [
        ("samples", WeightUnit::Samples),
        ("nanoseconds", WeightUnit::Nanoseconds),
        ("bytes", WeightUnit::Bytes),
    ];
    let values: [u64; 16] = [
        0,
        1,
        2,
        1500,
        2500,
        9_999,
        10_000,
        999_499,
        1_250_000,
        9_999_999,
        10_250_000,
        999_400_000,
        1_250_000_000,
        119_000_000_000,
        121_000_000_000,
        7_300_000_000_000,
    ];
    let of_unit = |(name, unit): (&'static str, WeightUnit)| {
        values.map(|value| json!([value, name, wording::weight(value, &unit.into())]))
    };
    units.into_iter().flat_map(of_unit).collect()
}

/// What is not time is counted in the event's own words.
fn occurrence_vectors() -> Vec<Value> {
    let names = [
        "",
        "page-faults:u",
        "cs",
        "cpu_core/cache-misses/",
        "sched:sched_switch",
        "cycles:",
        "/branches/",
    ];
    let of_name = |name: &'static str| {
        let event = EventType::new(name, WeightUnit::Events);
        [1, 1500].map(|value| json!([value, name, wording::weight(value, &event)]))
    };
    names.into_iter().flat_map(of_name).collect()
}

/// Whose code is whose, for every category with names and files that decide differently.
fn package_vectors() -> Vec<Value> {
    const CODE: [(&str, &str); 22] = [
        ("f", ""),
        ("f", "/srv/app.js"),
        ("f", "/a/node_modules/express/lib/x.js"),
        ("f", "/a/node_modules/@babel/core/x.js"),
        ("f", "/a/node_modules/@babel"),
        (
            "f",
            "/a/node_modules/.pnpm/qs@6/node_modules/qs/lib/parse.js",
        ),
        ("f", "C:\\a\\node_modules\\@x\\y\\i.js"),
        ("f", "C:\\a\\node_modules\\qs/i.js"),
        ("f", "/a/node_modules/qs/node_modules\\x\\i.js"),
        ("f", "node_modules/left-pad.js"),
        ("f", "/srv/node_modules/"),
        ("f", "/a/node_modules/qs/node_modules/"),
        ("f", "/a/node_modules//x.js"),
        ("f", "/a/node_modules/v8/index.js"),
        ("f", "node:internal/modules/cjs/loader"),
        ("v8::Function::Call", ""),
        ("void v8::internal::Run()", "/usr/bin/node"),
        ("cppgc::internal::Sweeper", ""),
        ("Builtins_ArrayMap", "/usr/bin/node"),
        ("uv_run", "/usr/bin/node"),
        ("node::Start", ""),
        ("memcpy", "/lib/libc.so.6"),
    ];
    let mut vectors = Vec::new();
    for category in Category::ALL {
        for (name, file) in CODE {
            let profile = profile_of(&[(name, file, category)]);
            let package = Package::of(&profile, FunctionIndex(0));
            vectors.push(json!([
                category as u8,
                name,
                file,
                package.kind as u8,
                package.name
            ]));
        }
    }
    vectors
}

/// What a sample does, by the categories of its frames from the root.
fn share_vectors() -> Vec<Value> {
    let pairs = Category::ALL
        .iter()
        .flat_map(|outer| Category::ALL.map(|inner| [*outer, inner]));
    pairs
        .map(|path| json!([path.map(|category| category as u8), share_of(&path)]))
        .collect()
}

/// What one sample with frames of these categories counts as.
fn share_of(path: &[Category]) -> &'static str {
    let frames: Vec<(&str, &str, Category)> =
        path.iter().map(|category| ("f", "", *category)).collect();
    let sums = shares(&profile_of(&frames), |_| true);
    let part = SHARE_PARTS.iter().find(|part| (part.weight)(&sums) > 0);
    part.expect("a sample counts as something").key
}

/// A profile of one sample, whose frames are given from the root as name, file and category.
fn profile_of(frames: &[(&str, &str, Category)]) -> Profile {
    let mut builder = ProfileBuilder::new(WeightUnit::Samples);
    let process = builder.process(Process::default());
    let thread = builder.thread(Thread {
        process,
        ..Thread::default()
    });
    let mut stack = None;
    for (name, file, category) in frames {
        let frame = builder.frame(FrameSpec {
            function: FunctionSpec {
                name,
                file,
                category: *category,
                ..FunctionSpec::default()
            },
            ..FrameSpec::default()
        });
        stack = Some(builder.stack(stack, frame));
    }
    builder.sample(0, thread, stack, 1);
    builder.finish(About::default(), Notes::default())
}
