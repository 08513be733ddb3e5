//! What is said of events that are not CPU time: in their own words, and nothing that makes sense
//! of time alone.

use nodespy_model::{
    About, Category, EventType, Notes, Process, Profile, ProfileBuilder, Sampling, Scheduling,
    Thread, ThreadRole, Tier, WeightUnit,
};

use crate::findings::findings;
use crate::sample::{Row, add, drawn};

const NODE: &str = "/usr/local/bin/node";
const MAIN: Row<'_> = ("main", "/app/main.js", 1, Category::App, Tier::Optimized);
const PARSE: Row<'_> = ("parse", "/app/work.js", 7, Category::App, Tier::Interpreted);
const READ: Row<'_> = (
    "readFileSync",
    "node:fs",
    400,
    Category::NodeCore,
    Tier::Optimized,
);
const BIND: Row<'_> = (
    "bind",
    "/app/node_modules/typescript/lib/_tsc.js",
    100,
    Category::Dependency,
    Tier::Optimized,
);
const ACCESS: Row<'_> = (
    "Builtins_LoadIC_Megamorphic",
    NODE,
    0,
    Category::Builtin,
    Tier::None,
);
const SCAVENGER: Row<'_> = (
    "v8::internal::Scavenger::Process",
    NODE,
    0,
    Category::Gc,
    Tier::None,
);
const FAULT: Row<'_> = (
    "asm_exc_page_fault",
    "[kernel]",
    0,
    Category::Kernel,
    Tier::None,
);

/// A program of which a CPU profile would have many things to say: it waits for a CPU, has a quota,
/// interprets, reads files at once, looks up properties of many shapes.
fn recorded(event: EventType, weight: u64) -> Profile {
    let mut builder = ProfileBuilder::new(event);
    let process = builder.process(Process {
        pid: 1,
        name: "app".to_owned(),
        ..Process::default()
    });
    let mut thread = |tid, role| {
        let mut thread = Thread {
            process,
            tid,
            name: "node".to_owned(),
            role,
            ..Thread::default()
        };
        thread.scheduling = Some(Scheduling {
            watched: 10_000_000_000,
            on_cpu: 500_000_000,
            run_delay: 6_100_000_000,
        });
        builder.thread(thread)
    };
    let main = thread(1, ThreadRole::Main);
    let helper = thread(2, ThreadRole::Platform);
    add(&mut builder, main, &[MAIN, PARSE], 1700);
    add(&mut builder, main, &[MAIN, PARSE, ACCESS], 300);
    add(&mut builder, main, &[MAIN, BIND], 800);
    add(&mut builder, main, &[MAIN, READ], 400);
    add(&mut builder, main, &[MAIN, FAULT], 400);
    add(&mut builder, helper, &[SCAVENGER], 400);
    let about = About {
        duration: 10_000_000_000,
        ..About::default()
    };
    let mut profile = builder.finish(about, Notes::default());
    profile
        .notes
        .add_quota("container web (0.50 CPUs) stopped it for 3.2 s of 10.0 s");
    for sample in &mut profile.samples {
        sample.weight = weight;
    }
    profile
}

/// All that views say of a profile.
fn said(profile: &Profile) -> String {
    let report: serde_json::Value = serde_json::from_str(&drawn(profile, "json")).unwrap();
    [
        drawn(profile, "text"),
        drawn(profile, "md"),
        report["findings"].to_string(),
    ]
    .concat()
}

/// What no word may be said of in a profile that is not of time.
fn assert_no_word_of_time(profile: &Profile) {
    let said = said(profile);
    for word in [
        " time",
        "CPU",
        "busy",
        "took",
        "takes",
        "take ",
        "egamorphic",
        "interprete",
        "quota",
        "Synchronous",
    ] {
        let names_it = |line: &&str| !line.contains("Builtins_LoadIC_Megamorphic");
        let mut lines = said.lines().filter(names_it);
        let found = lines.find(|line| line.contains(word));
        assert_eq!(found, None, "{word}");
    }
}

#[test]
fn a_cpu_profile_of_the_same_program_has_all_of_it() {
    let profile = recorded(
        EventType::new("cpu-clock", WeightUnit::Samples).at_rate(500),
        1,
    );
    for part in [
        "56 % of main-thread CPU time is in `parse`",
        "The dependency typescript takes",
        "Garbage collection takes 10 % of CPU time",
        "Megamorphic property accesses",
        "Synchronous file system calls take 11 % of main-thread CPU time",
        "interpreted still",
        "waited 61 % of the time for a CPU",
        "container web",
    ] {
        assert_eq!(findings(&profile, part).len(), 1, "{part}");
    }
}

#[test]
fn allocations_are_said_in_bytes() {
    let mut event = EventType::new("alloc_space", WeightUnit::Bytes);
    event.sampling = Sampling::Period(524_288);
    let profile = recorded(event, 1000);
    assert_eq!(
        findings(&profile, ""),
        [
            "56 % of allocated bytes on the main thread come from `parse` work.js:7 and the builtins \
             and native code it runs",
            "The dependency typescript accounts for 20 % of allocated bytes with what it runs (20 % \
             in its own code), 20 % in `bind` (typescript, _tsc.js:100)",
            "Garbage collection accounts for 10 % of allocated bytes (mostly scavenges of young \
             objects), all of it on V8's own threads",
        ]
    );
    assert_no_word_of_time(&profile);
    let text = drawn(&profile, "text");
    assert!(
        text.contains("4,000 samples, 4000 kB, alloc_space"),
        "{text}"
    );
    let expected = "your JavaScript, with the builtins and native code it runs";
    assert!(text.contains(expected), "{text}");
    let report = drawn(&profile, "md");
    assert!(
        report.starts_with("# Allocation profile of app"),
        "{report}"
    );
    assert!(report.contains("## Where memory was allocated"), "{report}");
}

#[test]
fn memory_that_was_not_freed_is_live() {
    for name in ["live allocations", "inuse_space"] {
        let profile = recorded(EventType::new(name, WeightUnit::Bytes), 1000);
        let found = findings(
            &profile,
            "of live bytes on the main thread come from `parse`",
        );
        assert_eq!(found.len(), 1, "{name}");
    }
}

#[test]
fn page_faults_are_said_as_page_faults() {
    // By number, by rate, and with weights that differ.
    let mut by_period = EventType::new("page-faults", WeightUnit::Samples);
    by_period.sampling = Sampling::Period(1);
    let by_rate = EventType::new("page-faults:u", WeightUnit::Samples).at_rate(99);
    let counted = EventType::new("page-faults", WeightUnit::Events);
    for event in [by_period, by_rate, counted] {
        let profile = recorded(event, 2);
        assert_eq!(
            findings(&profile, ""),
            [
                "56 % of page faults on the main thread come from `parse` work.js:7 and the builtins, \
                 native code and GC it runs",
                "The dependency typescript accounts for 20 % of page faults with what it runs (20 % in \
                 its own code), 20 % in `bind` (typescript, _tsc.js:100)",
                "Garbage collection accounts for 10 % of page faults (mostly scavenges of young \
                 objects), all of it on V8's own threads",
            ]
        );
        assert_no_word_of_time(&profile);
        let report = drawn(&profile, "md");
        let heading = "## Where the page faults come from";
        assert!(report.contains(heading), "{report}");
    }
    let counted = recorded(EventType::new("page-faults", WeightUnit::Events), 2);
    let text = drawn(&counted, "text");
    assert!(text.contains("4,000 samples, 8,000 page faults"), "{text}");
}

#[test]
fn wall_time_is_not_called_cpu_time() {
    let profile = recorded(EventType::new("wall", WeightUnit::Nanoseconds), 2_000_000);
    let found = findings(&profile, "56 % of main-thread wall time is in `parse`");
    assert_eq!(found.len(), 1);
    assert!(findings(&profile, "CPU time").is_empty());
}
