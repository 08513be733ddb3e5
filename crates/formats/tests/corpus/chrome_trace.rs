//! Chrome's trace events.

use nodespy_model::ThreadRole;

use crate::chrome_trace_claims::{comes_back_as_it_was, profiles_have_all_their_time};
use crate::convert::read;
use crate::corpus;
use crate::in_words::{path, samples, self_weight};

#[test]
fn the_cpu_profiles_of_real_traces_have_all_their_time() {
    for (name, threads) in [("chrome69-simple", 1), ("chrome70-worker", 2)] {
        let bytes = corpus(&format!("chrome-trace/{name}.json"));
        profiles_have_all_their_time(name, &bytes, threads);
    }
}

#[test]
fn threads_have_the_names_of_the_file() {
    let profile = read(&corpus("chrome-trace/chrome70-worker.json")).unwrap();
    let names: Vec<_> = profile
        .threads
        .iter()
        .map(|thread| (thread.tid, &*thread.name, thread.role))
        .collect();
    assert_eq!(
        names,
        [
            (775, "CrRendererMain", ThreadRole::Main),
            (7443, "DedicatedWorker thread", ThreadRole::Worker)
        ]
    );
    assert_eq!(profile.processes[0].name, "Renderer");
    assert_eq!(profile.processes[0].pid, 29018);
    let simple = read(&corpus("chrome-trace/chrome69-simple.json")).unwrap();
    for name in ["alpha", "beta", "gamma", "delta"] {
        assert!(self_weight(&simple, name) > 0, "{name}");
    }
}

#[test]
fn events_with_a_length_become_stacks() {
    let expected = [
        (0, 1000, "alpha  (app) at 0"),
        (1000, 1000, "alpha  (app);beta  (app) at 0"),
        (2000, 5000, "alpha  (app);beta  (app);gamma  (app) at 0"),
        (7000, 4000, "alpha  (app);beta  (app);epsilon  (app) at 0"),
        (11000, 2000, "alpha  (app);beta  (app) at 0"),
        (13000, 1000, "alpha  (app) at 0"),
    ];
    let expected = expected.map(|(time, weight, path)| (time, weight, path.to_owned()));
    // The second file lacks its last bracket.
    for name in ["event-simple", "event-simple-partial"] {
        let profile = read(&corpus(&format!("chrome-trace/{name}.json"))).unwrap();
        assert_eq!(samples(&profile), expected, "{name}");
        assert_eq!(profile.notes.remarks, [""; 0]);
        assert_eq!(profile.about.duration, 14000);
    }
}

#[test]
fn every_thread_of_every_process_is_a_thread() {
    let profile = read(&corpus("chrome-trace/event-multiprocess.json")).unwrap();
    assert_eq!((profile.processes.len(), profile.threads.len()), (4, 8));
    assert_eq!(profile.threads[3].name, "p1t1");
    assert_eq!(profile.total_weight(), 8000);
}

#[test]
fn samples_beside_the_events_are_read() {
    let profile = read(&corpus("chrome-trace/event-simple-with-samples.json")).unwrap();
    // From 11552125241 to 11552189951 µs; the last sample lasts as long as the others do.
    let last = profile.samples.last().unwrap().weight;
    assert_eq!(profile.total_weight() - last, 64_710_000);
    assert_eq!(self_weight(&profile, "function1"), 13_326_000);
    let paths: Vec<String> = profile
        .samples
        .iter()
        .map(|sample| path(&profile, sample))
        .collect();
    assert!(
        paths[3].starts_with("[root]  (native);function2 http://localhost"),
        "{}",
        paths[3]
    );
    assert!(paths[5].ends_with("[GC Young Gen]  (GC) at 0"));
    assert_eq!(profile.threads[0].name, "mqt_js");
    let many = read(&corpus("chrome-trace/event-multi-thread-with-samples.json")).unwrap();
    assert_eq!((many.threads.len(), many.samples.len()), (2, 8));
}

#[test]
fn recorded_files_come_back_as_they_were() {
    for name in [
        "cpuprofile/node20.cpuprofile",
        "chrome-trace/chrome70-worker.json",
    ] {
        comes_back_as_it_was(name, &corpus(name));
    }
}
