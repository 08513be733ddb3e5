//! Where and as what processes ran, through every format that has room for it.

use nodespy_formats::{Detail, EXPORTERS};
use nodespy_model::{
    About, Category, EventType, Frame, FrameKind, FunctionSpec, Labels, Process, Profile,
    ProfileBuilder, Thread, Tier, WeightUnit, label_key,
};

use crate::sample::{read, written};

/// The formats that hold labels.
const HOLD: [&str; 7] = [
    "nspy",
    "pprof",
    "firefox",
    "speedscope",
    "perf-script",
    "chrome-trace",
    "cpuprofile",
];

fn labels_of(worker: &str) -> Labels {
    let mut labels = Labels::default();
    labels.set(label_key::CONTAINER, "web");
    labels.set(
        label_key::IMAGE,
        "registry.example:5000/shop/api:3, the newest of all: yes",
    );
    labels.set(label_key::PM2, "api = \"größe\"");
    labels.set(label_key::WORKER, worker);
    labels
}

/// A process for each of these workers; the first is the busiest.
fn profile_of(workers: &[&str]) -> Profile {
    let mut builder = ProfileBuilder::new(EventType::from(WeightUnit::Samples).at_rate(100));
    let function = builder.function(FunctionSpec {
        name: "total",
        file: "/shop/cart.js",
        line: 17,
        column: 1,
        category: Category::App,
    });
    let frame = builder.frame_of(Frame {
        function,
        line: 18,
        column: 2,
        tier: Tier::Optimized,
        kind: FrameKind::Physical,
    });
    let stack = builder.stack(None, frame);
    for (position, worker) in workers.iter().enumerate() {
        let pid = 700 + position as u32;
        let process = builder.process(Process {
            pid,
            name: format!("shop worker {worker}"),
            labels: labels_of(worker),
            ..Process::default()
        });
        let thread = builder.thread(Thread {
            process,
            tid: pid,
            name: "node".to_owned(),
            ..Thread::default()
        });
        for time in 0..10 - position as u64 {
            builder.sample(time * 10_000_000, thread, Some(stack), 1);
        }
    }
    let about = About {
        app: "shop".to_owned(),
        host: "tokyo-3".to_owned(),
        duration: 1_000_000_000,
        ..About::default()
    };
    builder.finish(about, Default::default())
}

#[test]
fn labels_come_back_from_every_format_that_holds_them() {
    let profile = profile_of(&["1", "2"]);
    for format in HOLD {
        let back = read(&written(&profile, format)).unwrap();
        assert_eq!(back.about.host, "tokyo-3", "{format}");
        assert_eq!(back.about.app, "shop", "{format}");
        // A .cpuprofile has one thread, and no numbers of processes.
        let expected: &[&str] = match format {
            "cpuprofile" => &["1"],
            _ => &["1", "2"],
        };
        let labels: Vec<&Labels> = back.processes.iter().map(|each| &each.labels).collect();
        let expected: Vec<Labels> = expected.iter().map(|worker| labels_of(worker)).collect();
        assert_eq!(labels, expected.iter().collect::<Vec<_>>(), "{format}");
    }
}

#[test]
fn formats_without_room_for_labels_say_so() {
    for exporter in EXPORTERS {
        let says_so = exporter.leaves_out().contains(&Detail::Labels);
        let holds = HOLD.contains(&exporter.name());
        assert_eq!(says_so, !holds, "{}", exporter.name());
    }
    let with = profile_of(&["1"]);
    assert!(Detail::Labels.is_in(&with));
    assert!(!Detail::Labels.is_in(&Profile::default()));
}

#[test]
fn a_hostile_number_of_labels_is_not_kept() {
    let mut text = String::from("# nodespy\n");
    for number in 0..1000 {
        text.push_str(&format!(
            "# label {number} of 7: x\n# label of of of 7: y\n"
        ));
    }
    text.push_str("# label of x: y\n# label : z\n#\n");
    text.push_str("node 7/7 1.000000000: 1 cpu-clock: \n\t1 total (/shop)\n\n");
    let back = read(text.as_bytes()).unwrap();
    assert_eq!(back.processes.len(), 1);
    assert!(back.processes[0].labels.iter().len() <= 64);
}

#[test]
fn readers_of_pprof_and_trace_events_see_labels_in_their_own_places() {
    use std::io::Read;
    let profile = profile_of(&["1"]);
    let mut plain = Vec::new();
    let packed = written(&profile, "pprof");
    let mut unpacked = flate2::read::GzDecoder::new(&*packed);
    unpacked.read_to_end(&mut plain).unwrap();
    // Each of them is in the table of strings by itself.
    for text in ["container", "web", "host", "tokyo-3"] {
        let mut field = vec![6 << 3 | 2, text.len() as u8];
        field.extend(text.as_bytes());
        assert!(
            plain.windows(field.len()).any(|window| window == field),
            "{text}"
        );
    }
    let trace: serde_json::Value =
        serde_json::from_slice(&written(&profile, "chrome-trace")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let event = events.iter().find(|it| it["name"] == "process_labels");
    let shown = event.unwrap()["args"]["labels"].as_str().unwrap();
    assert!(shown.starts_with("container web, "), "{shown}");
}
