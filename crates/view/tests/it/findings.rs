//! Findings on profiles whose right answer is known: each sentence with its true share, and no
//! sentence where there is nothing to say.

use nodespy_model::{
    About, Category, EventType, Notes, Process, Profile, ProfileBuilder, Scheduling, Thread,
    ThreadIndex, ThreadRole, Tier, WeightUnit,
};

use crate::sample::{Row, add, drawn};

const RATE_HZ: u32 = 100;
const SECONDS: u64 = 10;

const MAIN: Row<'_> = ("main", "/app/main.js", 1, Category::App, Tier::Optimized);
const COLLECTOR: Row<'_> = (
    "v8::internal::Scavenger::Process",
    "node",
    0,
    Category::Gc,
    Tier::None,
);

/// A function of the application.
fn app(name: &str) -> Row<'_> {
    (name, "/app/work.js", 7, Category::App, Tier::Optimized)
}

/// A recording of ten seconds at 100 Hz with one process; `fill` adds the samples of threads.
fn recorded(
    fill: impl FnOnce(
        &mut ProfileBuilder,
        &mut dyn FnMut(&mut ProfileBuilder, ThreadRole, &str) -> ThreadIndex,
    ),
) -> Profile {
    let mut builder =
        ProfileBuilder::new(EventType::new("cpu-clock", WeightUnit::Samples).at_rate(RATE_HZ));
    let process = builder.process(Process {
        pid: 1,
        name: "app".to_owned(),
        ..Process::default()
    });
    let mut tid = 0;
    let mut thread = |builder: &mut ProfileBuilder, role, name: &str| {
        tid += 1;
        builder.thread(Thread {
            process,
            tid,
            name: name.to_owned(),
            role,
            ..Thread::default()
        })
    };
    fill(&mut builder, &mut thread);
    let about = About {
        duration: SECONDS * 1_000_000_000,
        ..About::default()
    };
    builder.finish(about, Notes::default())
}

/// The findings of a profile about a subject.
pub(crate) fn findings(profile: &Profile, about: &str) -> Vec<String> {
    let report: serde_json::Value = serde_json::from_str(&drawn(profile, "json")).unwrap();
    let all = report["findings"].as_array().unwrap().iter();
    all.map(|finding| finding.as_str().unwrap().to_owned())
        .filter(|finding| finding.contains(about))
        .collect()
}

#[test]
fn garbage_is_charged_to_a_caller_with_its_true_share_only() {
    let with_callers = |heaviest: u64| {
        recorded(|builder, thread| {
            let main = thread(builder, ThreadRole::Main, "node");
            add(builder, main, &[MAIN, app("parse"), COLLECTOR], heaviest);
            for name in [
                "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n",
            ] {
                add(builder, main, &[MAIN, app(name), COLLECTOR], 10);
            }
            add(builder, main, &[MAIN, app("parse")], 300);
        })
    };
    let found = findings(&with_callers(60), "Garbage");
    assert_eq!(
        found,
        [
            "Garbage collection takes 40 % of CPU time (mostly scavenges of young objects), 30 % of it under \
          `parse` work.js:7"
        ]
    );
    let found = findings(&with_callers(12), "Garbage");
    assert_eq!(
        found,
        ["Garbage collection takes 34 % of CPU time (mostly scavenges of young objects)"]
    );
}

#[test]
fn garbage_that_v8_collects_on_its_own_threads_is_not_charged_to_a_caller() {
    let profile = recorded(|builder, thread| {
        let main = thread(builder, ThreadRole::Main, "node");
        let helper = thread(builder, ThreadRole::Platform, "node");
        add(builder, main, &[MAIN, app("parse"), COLLECTOR], 5);
        add(builder, helper, &[COLLECTOR], 95);
        add(builder, main, &[MAIN, app("parse")], 300);
    });
    let found = findings(&profile, "Garbage");
    assert_eq!(
        found,
        [
            "Garbage collection takes 25 % of CPU time (mostly scavenges of young objects), 95 % of it on \
          V8's own threads"
        ]
    );
}

#[test]
fn a_process_waits_only_when_no_thread_computes() {
    let idle = "The main thread was busy at most 1 % of the time";
    let with = |role, name: &'static str, samples: u64| {
        recorded(|builder, thread| {
            let main = thread(builder, ThreadRole::Main, "node");
            add(builder, main, &[MAIN], 10);
            let other = thread(builder, role, name);
            add(builder, other, &[app("transform")], samples);
        })
    };
    assert_eq!(
        findings(
            &with(ThreadRole::Pool, "libuv-worker", 20),
            "The main thread"
        ),
        [format!(
            "{idle}: what is slow waits for something else than the CPU"
        )]
    );
    assert_eq!(
        findings(
            &with(ThreadRole::Worker, "worker 1", 970),
            "The main thread"
        ),
        [format!("{idle}, `worker 1` 97 %")]
    );
    assert_eq!(
        findings(&with(ThreadRole::Worker, "minify", 970), "The main thread"),
        [format!("{idle}, worker `minify` 97 %")]
    );
    assert_eq!(
        findings(
            &with(ThreadRole::Pool, "libuv-worker", 400),
            "The main thread"
        ),
        [format!("{idle}; all threads together used 41 % of a CPU")]
    );
}

const NODE: &str = "/usr/local/bin/node";

/// A function of Node's own JavaScript.
fn core<'a>(name: &'a str, file: &'a str) -> Row<'a> {
    (name, file, 10, Category::NodeCore, Tier::Optimized)
}

/// A function of a package.
fn dependency<'a>(name: &'a str, file: &'a str) -> Row<'a> {
    (name, file, 100, Category::Dependency, Tier::Optimized)
}

/// A native function of the node binary.
fn native(name: &str) -> Row<'_> {
    (name, NODE, 0, Category::Native, Tier::None)
}

/// One of V8's builtins.
fn builtin(name: &str) -> Row<'_> {
    (name, NODE, 0, Category::Builtin, Tier::None)
}

/// A main thread with these stacks.
fn on_main(stacks: &[(&[Row<'_>], u64)]) -> Profile {
    recorded(|builder, thread| {
        let main = thread(builder, ThreadRole::Main, "node");
        for (rows, samples) in stacks {
            add(builder, main, rows, *samples);
        }
    })
}

#[test]
fn the_strongest_finding_comes_first() {
    let profile = on_main(&[
        (&[MAIN, app("parse")], 300),
        (&[MAIN, app("render"), COLLECTOR], 600),
    ]);
    let all = findings(&profile, "");
    assert!(all[0].contains("`render` work.js:7"), "{all:?}");
    let garbage = all.iter().position(|each| each.starts_with("Garbage"));
    assert_eq!(garbage, Some(1), "{all:?}");
}

#[test]
fn a_hot_function_has_what_it_runs_and_that_is_named() {
    let sort = builtin("Builtins_ArrayPrototypeSort");
    let with = |own: u64, sorting: u64| {
        on_main(&[
            (&[MAIN, app("order")], own),
            (&[MAIN, app("order"), sort], sorting),
            (&[MAIN], 1000 - own - sorting),
        ])
    };
    let found = |profile: &Profile| findings(profile, "is in `order`");
    assert_eq!(
        found(&with(100, 500)),
        [
            "60 % of main-thread CPU time is in `order` work.js:7, 83 % of it in \
          `Builtins_ArrayPrototypeSort` (V8 builtin)"
        ]
    );
    assert_eq!(
        found(&with(590, 10)),
        ["60 % of main-thread CPU time is in `order` work.js:7 itself"]
    );
    assert!(found(&with(20, 40)).is_empty());
}

#[test]
fn a_hot_function_of_a_package_has_its_caller() {
    let get = dependency("get", "/app/node_modules/levenshtein/index.js");
    let profile = on_main(&[
        (&[MAIN, app("distance"), get], 480),
        (&[MAIN, get], 120),
        (&[MAIN], 400),
    ]);
    assert_eq!(
        findings(&profile, "is in `get`"),
        [
            "60 % of main-thread CPU time is in `get` (levenshtein, index.js:100), mostly called from \
          `distance` work.js:7"
        ]
    );
}

#[test]
fn a_dependency_has_its_own_time_and_what_it_runs() {
    let check = dependency("check", "/app/node_modules/typescript/lib/_tsc.js");
    let bind = dependency("bind", "/app/node_modules/typescript/lib/_tsc.js");
    let with = |own: u64, run: u64| {
        on_main(&[
            (&[MAIN, check], own - own / 4),
            (&[MAIN, bind], own / 4),
            (&[MAIN, bind, builtin("Builtins_LoadIC")], run),
            (&[MAIN], 1000 - own - run),
        ])
    };
    assert_eq!(
        findings(&with(400, 220), "dependency"),
        [
            "The dependency typescript takes 62 % of CPU time with what it runs (40 % in its own \
          code), 32 % in `bind` (typescript, _tsc.js:100)"
        ]
    );
    assert!(findings(&with(40, 50), "dependency").is_empty());
    // A package that is one function has had its sentence.
    let one = on_main(&[(&[MAIN, check], 600), (&[MAIN], 400)]);
    assert!(findings(&one, "dependency").is_empty());
}

#[test]
fn wrappers_that_only_pass_on_are_not_the_widest_function() {
    let profile = on_main(&[
        (&[app("outer"), app("middle"), app("left"), app("a")], 400),
        (&[app("outer"), app("middle"), app("right"), app("b")], 380),
        (&[MAIN], 220),
    ]);
    let widest = findings(&profile, "and what it calls");
    assert_eq!(
        widest,
        ["78 % of main-thread CPU time is in `middle` work.js:7 and what it calls"]
    );
}

#[test]
fn megamorphic_accesses_are_named_with_their_caller() {
    let access = builtin("Builtins_LoadIC_Megamorphic");
    let with = |samples: u64| {
        on_main(&[
            (&[MAIN, app("visit"), access], samples),
            (&[MAIN, app("visit"), builtin("Builtins_LoadIC")], 100),
            (&[MAIN], 900 - samples),
        ])
    };
    assert_eq!(
        findings(&with(80), "Megamorphic"),
        [
            "Megamorphic property accesses (objects of many shapes at one place) take 8.0 % of CPU \
          time, all of it under `visit` work.js:7"
        ]
    );
    assert!(findings(&with(30), "Megamorphic").is_empty());
}

#[test]
fn compilation_is_told_apart_from_native_code() {
    let compiler = native("v8::internal::compiler::PipelineImpl::Run()");
    let with = |compiling: u64| {
        recorded(|builder, thread| {
            let main = thread(builder, ThreadRole::Main, "node");
            let helper = thread(builder, ThreadRole::Platform, "V8Worker");
            add(
                builder,
                main,
                &[MAIN, native("node::Write()")],
                1000 - compiling,
            );
            add(builder, helper, &[compiler, native("malloc")], compiling);
        })
    };
    assert_eq!(
        findings(&with(200), "JIT"),
        ["JIT compilation takes 20 % of CPU time, all of it on V8's own threads"]
    );
    assert!(findings(&with(40), "JIT").is_empty());
}

#[test]
fn synchronous_calls_on_the_main_thread_are_named_with_their_callers() {
    let load = app("load");
    let read = core("readFileSync", "node:fs");
    let stat = core("stat", "node:fs");
    let unzip = core("zlibBufferSync", "node:zlib");
    let hash = core("update", "node:internal/crypto/hash");
    let json = builtin("Builtins_JsonParse");
    let profile = on_main(&[
        (&[MAIN, load, read, native("uv_fs_read")], 100),
        (&[MAIN, load, unzip, native("inflate")], 90),
        (&[MAIN, load, hash, native("EVP_DigestUpdate")], 80),
        (
            &[
                MAIN,
                load,
                json,
                native("v8::internal::JsonParser::Parse()"),
            ],
            70,
        ),
        (&[MAIN], 660),
    ]);
    for sentence in [
        "Synchronous file system calls take 10 % of main-thread CPU time, all of it `readFileSync`, \
         all of it under `load` work.js:7",
        "Synchronous zlib calls take 9.0 % of main-thread CPU time, all of it `zlibBufferSync`, all \
         of it under `load` work.js:7",
        "Crypto takes 8.0 % of main-thread CPU time, all of it `update`, all of it under `load` \
         work.js:7",
        "JSON takes 7.0 % of main-thread CPU time, all of it `JSON.parse`, all of it under \
         `load` work.js:7",
    ] {
        assert_eq!(findings(&profile, sentence), [sentence]);
    }
    // A callback's own work is its own, asynchronous calls are none, and a pool does not block.
    let profile = recorded(|builder, thread| {
        let main = thread(builder, ThreadRole::Main, "node");
        let pool = thread(builder, ThreadRole::Pool, "libuv-worker");
        add(builder, main, &[MAIN, json, app("reviver")], 500);
        add(builder, main, &[MAIN, stat, native("uv_fs_stat")], 500);
        add(builder, pool, &[native("inflate")], 400);
    });
    for word in ["Synchronous", "JSON", "Crypto", "zlib"] {
        assert!(findings(&profile, word).is_empty(), "{word}");
    }
}

#[test]
fn synchronous_child_processes_are_named_with_their_callers() {
    let build = app("build");
    let with = |name: &str, samples: u64| {
        let spawn = core(name, "node:child_process");
        let fork = native("node::SyncProcessRunner::Spawn()");
        on_main(&[(&[MAIN, build, spawn, fork], samples), (&[MAIN], 900)])
    };
    assert_eq!(
        findings(&with("execFileSync", 100), "child processes"),
        [
            "Synchronous child processes take 10 % of main-thread CPU time, all of it `execFileSync`, all \
          of it under `build` work.js:7"
        ]
    );
    assert!(findings(&with("execFileSync", 30), "child processes").is_empty());
    // One that is not waited for blocks nothing.
    assert!(findings(&with("spawn", 500), "child processes").is_empty());
}

#[test]
fn the_kernel_is_named_with_its_caller() {
    let kernel = ("copy_to_user", "[kernel]", 0, Category::Kernel, Tier::None);
    let with = |own: u64, of_others: u64| {
        on_main(&[
            (&[MAIN, app("load"), native("uv_fs_read"), kernel], own),
            (&[native("uv__io_poll"), kernel], of_others),
            (&[MAIN], 1000 - own - of_others),
        ])
    };
    assert_eq!(
        findings(&with(300, 100), "The kernel"),
        ["The kernel takes 40 % of CPU time, 75 % of it under `load` work.js:7"]
    );
    assert_eq!(
        findings(&with(20, 380), "The kernel"),
        ["The kernel takes 40 % of CPU time"]
    );
    assert!(findings(&with(200, 0), "The kernel").is_empty());
}

#[test]
fn reading_a_module_is_loading_it() {
    let load = core("Module._load", "node:internal/modules/cjs/loader");
    let read = core("readFileSync", "node:fs");
    let profile = on_main(&[
        (&[MAIN, load, read, native("uv_fs_read")], 200),
        (&[MAIN, load, app("top")], 800),
    ]);
    assert_eq!(
        findings(&profile, "Loading"),
        [
            "Loading modules (finding, reading and compiling them) takes 20 % of main-thread CPU time, \
          all of it under `main` main.js:1"
        ]
    );
    assert!(findings(&profile, "Synchronous").is_empty());
}

#[test]
fn one_match_that_does_not_end_is_told_from_many_short_ones() {
    let expression: Row<'_> = ("RegExp: ^(a+)+$", "", 0, Category::RegExp, Tier::None);
    let entry = builtin("Builtins_RegExpPrototypeExec");
    let valid = app("isValid");
    // Two milliseconds a sample.
    let long = on_main(&[
        (&[MAIN, valid, expression], 300),
        (&[MAIN], 400),
        (&[MAIN, valid, expression], 300),
    ]);
    assert_eq!(
        findings(&long, "regular expression"),
        [
            "60 % of CPU time is in the regular expression `RegExp: ^(a+)+$` under `isValid` work.js:7, \
          one match for 598 ms on end: it backtracks, or its text is very long"
        ]
    );
    let short = recorded(|builder, thread| {
        let main = thread(builder, ThreadRole::Main, "node");
        for _ in 0..10 {
            add(builder, main, &[MAIN, valid, expression], 60);
            add(builder, main, &[MAIN, valid, entry], 4);
            add(builder, main, &[MAIN], 36);
        }
    });
    assert!(findings(&short, "on end").is_empty());
    assert_eq!(
        findings(&short, "Regular expressions"),
        ["Regular expressions take 64 % of CPU time, all of it under `isValid` work.js:7"]
    );
    let few = on_main(&[(&[MAIN, valid, expression], 20), (&[MAIN], 980)]);
    assert!(findings(&few, "egular expression").is_empty());
}

#[test]
fn a_hot_function_that_stays_in_the_interpreter_is_named() {
    // Samples are two milliseconds apart: V8 has had three seconds after 1,500 of them.
    let with = |tier: Tier| {
        let slow: Row<'_> = ("slow", "/app/work.js", 7, Category::App, tier);
        on_main(&[(&[MAIN], 1600), (&[MAIN, slow], 400)])
    };
    assert_eq!(
        findings(&with(Tier::Interpreted), "interpreted still"),
        ["20 % of CPU time is in `slow` work.js:7, interpreted still after 4.0 s"]
    );
    assert!(findings(&with(Tier::Optimized), "interpreted still").is_empty());
    let early: Row<'_> = ("slow", "/app/work.js", 7, Category::App, Tier::Interpreted);
    let warming_up = on_main(&[(&[MAIN, early], 400), (&[MAIN], 1600)]);
    assert!(findings(&warming_up, "interpreted still").is_empty());
}

#[test]
fn a_function_that_keeps_losing_its_optimized_code_is_named() {
    let fast: Row<'_> = ("mixed", "/app/work.js", 7, Category::App, Tier::Optimized);
    let slow: Row<'_> = ("mixed", "/app/work.js", 7, Category::App, Tier::Interpreted);
    let times = |count: usize| {
        recorded(|builder, thread| {
            let main = thread(builder, ThreadRole::Main, "node");
            for _ in 0..count {
                add(builder, main, &[MAIN, fast], 30);
                add(builder, main, &[MAIN, slow], 20);
            }
            add(builder, main, &[MAIN], 100);
        })
    };
    assert_eq!(
        findings(&times(4), "fell back"),
        [
            "`mixed` work.js:7 fell back from optimized code at least 4 times: 40 % of its time ran without"
        ]
    );
    assert!(findings(&times(1), "fell back").is_empty());
}

#[test]
fn the_busiest_worker_is_named_beside_a_busy_main_thread() {
    let with = |samples: u64| {
        recorded(|builder, thread| {
            let main = thread(builder, ThreadRole::Main, "node");
            let worker = thread(builder, ThreadRole::Worker, "worker 1");
            add(builder, main, &[MAIN], 600);
            add(builder, worker, &[app("minify")], samples);
        })
    };
    assert_eq!(
        findings(&with(400), "worker"),
        ["`worker 1` takes 40 % of CPU time, 100 % of it in `minify` work.js:7"]
    );
    assert!(findings(&with(100), "worker").is_empty());
}

#[test]
fn a_worker_that_is_idle_is_not_the_busiest() {
    let idle = ("(idle)", "", 0, Category::Idle, Tier::None);
    let profile = recorded(|builder, thread| {
        let main = thread(builder, ThreadRole::Main, "node");
        let idler = thread(builder, ThreadRole::Worker, "worker 1");
        let worker = thread(builder, ThreadRole::Worker, "worker 2");
        add(builder, main, &[MAIN], 600);
        add(builder, idler, &[idle], 5000);
        add(builder, worker, &[app("minify")], 400);
    });
    let found = findings(&profile, "worker");
    assert!(found[0].starts_with("`worker 2` takes 40 %"), "{found:?}");
    assert_eq!(found.len(), 1);
}

#[test]
fn native_modules_are_named_also_without_symbols() {
    let module = "/app/node_modules/sharp/libvips-cpp.so.42";
    let with = |category: Category, samples: u64| {
        let inside: Row<'_> = ("vips_resize", module, 0, category, Tier::None);
        on_main(&[
            (&[MAIN, app("shrink"), inside], samples),
            (&[MAIN], 1000 - samples),
        ])
    };
    assert_eq!(
        findings(&with(Category::Unknown, 260), "libvips"),
        [
            "The native module `libvips-cpp.so.42` (no symbols) takes 26 % of CPU time, all of it under \
          `shrink` work.js:7"
        ]
    );
    assert_eq!(
        findings(&with(Category::Native, 260), "libvips"),
        [
            "The native module `libvips-cpp.so.42` takes 26 % of CPU time, all of it under `shrink` \
          work.js:7"
        ]
    );
    assert!(findings(&with(Category::Native, 60), "libvips").is_empty());
}

#[test]
fn code_without_a_name_is_said_with_its_module() {
    let unnamed: Row<'_> = ("[node+0x10]", NODE, 0, Category::Unknown, Tier::None);
    let with = |samples: u64| on_main(&[(&[unnamed], samples), (&[MAIN], 1000 - samples)]);
    assert_eq!(
        findings(&with(120), "without a name"),
        ["12 % of CPU time is in code without a name, all of it in `node`"]
    );
    assert!(findings(&with(20), "without a name").is_empty());
}

#[test]
fn what_a_cpu_quota_takes_away_is_said_first() {
    let mut profile = on_main(&[(&[MAIN], 900)]);
    let said = "he CPU quota of container web (0.50 CPUs) stopped it for 3.2 s of 10.0 s";
    assert!(findings(&profile, said).is_empty());
    let of_whom = said.strip_prefix("he CPU quota of ").unwrap();
    profile.notes.add_quota(of_whom);
    assert_eq!(findings(&profile, "")[0], format!("T{said}"));
}

#[test]
fn why_a_flight_recorder_wrote_is_said_before_all_else() {
    let mut profile = on_main(&[(&[MAIN], 900)]);
    profile.notes.add_quota("container web");
    profile.notes.add_trigger("the event loop was away");
    assert_eq!(
        findings(&profile, "")[0],
        "Written because the event loop was away"
    );
}

#[test]
fn requests_wait_only_where_there_are_any() {
    let serve = core("parserOnIncoming", "node:_http_server");
    let busy = |rows: &[Row<'_>]| findings(&on_main(&[(rows, 950)]), "requests wait");
    assert_eq!(
        busy(&[serve, MAIN]),
        ["The main thread was busy 95 % of the time: requests wait for the CPU"]
    );
    assert!(busy(&[MAIN]).is_empty());
    // Who only loads the module serves nobody.
    let loaded = on_main(&[(&[MAIN, serve], 50), (&[MAIN], 900)]);
    assert!(findings(&loaded, "requests wait").is_empty());
}

#[test]
fn a_thread_that_waited_for_a_cpu_is_not_called_idle() {
    let with = |role, samples: u64, on_cpu: u64, run_delay: u64| {
        let mut profile = recorded(|builder, thread| {
            let main = thread(builder, role, "node");
            add(builder, main, &[MAIN], samples);
        });
        profile.threads[0].scheduling = Some(Scheduling {
            watched: 10_000_000_000,
            on_cpu,
            run_delay,
        });
        profile
    };
    let waiting = with(ThreadRole::Main, 50, 500_000_000, 6_100_000_000);
    assert_eq!(
        findings(&waiting, " CPU and ran "),
        [
            "The main thread waited 61 % of the time for a CPU and ran 5 %: other threads had the CPUs \
             it may use, or a quota held it back"
        ]
    );
    assert!(findings(&waiting, "something else than the CPU").is_empty());
    let text = drawn(&waiting, "text");
    let expected = "main thread on CPU 5 %, waiting for a CPU 61 % of the time";
    assert!(text.contains(expected), "{text}");
    let idle = with(ThreadRole::Main, 50, 500_000_000, 100_000_000);
    assert!(findings(&idle, "for a CPU").is_empty());
    assert_eq!(findings(&idle, "something else than the CPU").len(), 1);
    assert!(drawn(&idle, "text").contains("main thread busy 5 % of the time"));
    // A thread of V8's own waits for nothing that a request needs.
    let platform = with(ThreadRole::Platform, 50, 500_000_000, 6_100_000_000);
    assert!(findings(&platform, "for a CPU").is_empty());
    let worker = with(ThreadRole::Worker, 50, 500_000_000, 6_100_000_000);
    assert_eq!(findings(&worker, "Worker `node` waited 61 %").len(), 1);
}

#[test]
fn time_without_work_is_no_function() {
    let idle = ("(idle)", "", 0, Category::Idle, Tier::None);
    let profile = recorded(|builder, thread| {
        let main = thread(builder, ThreadRole::Main, "node");
        add(builder, main, &[idle], 900);
        add(builder, main, &[MAIN, app("work")], 100);
    });
    let text = drawn(&profile, "text");
    assert!(text.contains("work") && !text.contains("(idle)"), "{text}");
    let report: serde_json::Value = serde_json::from_str(&drawn(&profile, "json")).unwrap();
    for list in ["functions_by_self", "functions_by_total"] {
        let rows = report[list].to_string();
        assert!(rows.contains("work") && !rows.contains("(idle)"), "{rows}");
    }
}
