//! CPU time by route: the table that a summary ends with, and the report that is about nothing else.

use nodespy_model::{
    About, Category, EventType, FrameSpec, FunctionSpec, Labels, Notes, Process, Profile,
    ProfileBuilder, Sample, Thread, WeightUnit, label_key,
};
use nodespy_view::{DrawOptions, draw};

use crate::sample::drawn;

/// A server of so many routes: route 1 has 1 sample in `handler1`, route 2 has 2, and so on; ten are in
/// no request.
fn server(routes: u64) -> Profile {
    let mut builder = ProfileBuilder::new(EventType::new("cpu-clock", WeightUnit::Samples));
    let process = builder.process(Process::default());
    let thread = builder.thread(Thread {
        process,
        ..Thread::default()
    });
    for number in 0..=routes {
        let name = format!("handler{number}");
        let frame = builder.frame(FrameSpec {
            function: FunctionSpec {
                name: &name,
                file: "/srv/app.js",
                line: number as u32 + 1,
                category: Category::App,
                ..FunctionSpec::default()
            },
            ..FrameSpec::default()
        });
        let stack = builder.stack(None, frame);
        let mut labels = Labels::default();
        if number > 0 {
            labels.set(label_key::ROUTE, format!("GET /r{number}/:id"));
        }
        let context = builder.context(labels);
        for _ in 0..if number == 0 { 10 } else { number } {
            builder.add_sample(Sample {
                thread,
                stack: Some(stack),
                weight: 1,
                context,
                ..Sample::default()
            });
        }
    }
    builder.finish(About::default(), Notes::default())
}

fn by_route(profile: &Profile, view: &str) -> String {
    let options = DrawOptions {
        by_route: true,
        ..DrawOptions::default()
    };
    let mut output = Vec::new();
    draw(profile, view, &options, &mut output).unwrap();
    String::from_utf8(output).unwrap()
}

#[test]
fn a_summary_ends_with_the_heaviest_routes() {
    let text = drawn(&server(14), "text");
    let lines: Vec<&str> = text.lines().collect();
    let start = lines
        .iter()
        .position(|line| line.starts_with("CPU by route"));
    let table = &lines[start.unwrap()..];
    assert_eq!(table[0], "CPU by route, of all CPU time of the recording");
    assert_eq!(table[1], " share   samples  route");
    assert_eq!(table[2], " 12.2%        14  GET /r14/:id");
    assert_eq!(table[11], "  4.3%         5  GET /r5/:id");
    assert_eq!(table[12], "  8.7%        10  4 more");
    assert_eq!(table[13], "  8.7%        10  (no request)");
    assert_eq!(table.len(), 14);
    let markdown = drawn(&server(2), "md");
    let has = |row: &str| assert!(markdown.contains(row), "{markdown}");
    has("## CPU by route, of all CPU time of the recording");
    has("| 15.4 % |       2 | `GET /r2/:id` |");
}

#[test]
fn a_recording_without_routes_has_no_table() {
    for view in ["text", "md", "json"] {
        let text = drawn(&server(0), view);
        assert!(!text.contains("oute"), "{text}");
    }
}

#[test]
fn a_report_by_route_has_all_of_them_with_their_functions() {
    let text = by_route(&server(14), "text");
    assert!(text.contains("  0.9%         1  GET /r1/:id\n"), "{text}");
    assert!(
        text.contains("\n 12.2%              handler14  /srv/app.js:15\n"),
        "{text}"
    );
    assert!(!text.contains("more"), "{text}");
    assert!(by_route(&server(14), "md").contains("`handler14`"));
}

#[test]
fn the_json_has_routes_and_what_is_in_none() {
    let json = drawn(&server(120), "json");
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    let routes = report["routes"].as_array().unwrap();
    assert_eq!(routes.len(), 101);
    assert_eq!(routes[0]["route"], "GET /r120/:id");
    assert_eq!(routes[0]["functions"][0]["name"], "handler120");
    assert_eq!(routes[0]["samples"], 120);
    assert!(routes[100].get("route").is_none());
    assert_eq!(report["routes_left_out"], 20);
}
