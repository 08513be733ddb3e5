//! Profiles nobody hopes for.

use nodespy_model::{
    About, Category, ExitReason, Notes, Process, Profile, ProfileBuilder, Thread, ThreadIndex,
    Tier, WeightUnit,
};
use nodespy_view::{DrawError, DrawOptions, Terminal, VIEWS, draw, view_for_path};

use crate::sample::{Row, add, drawn, shop};

fn with_one_thread(unit: WeightUnit) -> (ProfileBuilder, ThreadIndex) {
    let mut builder = ProfileBuilder::new(unit);
    let process = builder.process(Process::default());
    let thread = builder.thread(Thread {
        process,
        ..Thread::default()
    });
    (builder, thread)
}

fn every_view(profile: &Profile) -> Vec<String> {
    VIEWS
        .iter()
        .map(|view| drawn(profile, view.name()))
        .collect()
}

#[test]
fn an_empty_profile_says_that_nothing_was_recorded() {
    let all = every_view(&Profile::default());
    assert!(
        all.iter()
            .any(|text| text.contains("no samples were recorded"))
    );
}

#[test]
fn samples_without_stacks_and_weights_are_drawn() {
    let (mut builder, thread) = with_one_thread(WeightUnit::Bytes);
    builder.sample(0, thread, None, 1);
    builder.sample(0, thread, None, 0);
    every_view(&builder.finish(About::default(), Notes::default()));
    let (mut builder, thread) = with_one_thread(WeightUnit::Samples);
    builder.sample(0, thread, None, 0);
    every_view(&builder.finish(About::default(), Notes::default()));
}

#[test]
fn the_deepest_stacks_and_the_heaviest_weights_are_drawn() {
    let rows: Vec<Row<'_>> = vec![("f", "/a.js", 1, Category::App, Tier::None); 5000];
    let (mut builder, thread) = with_one_thread(WeightUnit::Nanoseconds);
    for depth in [1, 2500, 5000] {
        add(&mut builder, thread, &rows[..depth], 1);
    }
    let mut profile = builder.finish(About::default(), Notes::default());
    for sample in &mut profile.samples {
        sample.weight = u64::MAX / 3;
    }
    profile.about.duration = u64::MAX;
    profile.events[0].sampling = nodespy_model::Sampling::Rate(u32::MAX);
    profile.notes.jit_frames = 1;
    profile.notes.jit_named = [u64::MAX / 4; 5];
    profile.notes.lost_samples = u64::MAX;
    every_view(&profile);
}

#[test]
fn hostile_names_stay_text() {
    let evil = [
        "</script><script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "a;b;c 12",
        "]]>-->",
        "\u{202e}gnihton\u{1b}[2J",
    ];
    let long = "x".repeat(10_000);
    let rows: Vec<Row<'_>> = evil
        .iter()
        .copied()
        .chain([long.as_str(), ""])
        .map(|name| (name, name, 1, Category::App, Tier::None))
        .collect();
    let (mut builder, thread) = with_one_thread(WeightUnit::Samples);
    add(&mut builder, thread, &rows, 3);
    let mut profile = builder.finish(About::default(), Notes::default());
    profile.about.app = evil[0].to_owned();
    profile.notes.remark(evil[1]);
    for text in every_view(&profile) {
        let is_markup = text.starts_with("<!") || text.starts_with("<?");
        for element in ["<script>alert", "<img"] {
            let found = text.find(element).filter(|_| is_markup);
            assert_eq!(found.map(|at| &text[at.saturating_sub(80)..at]), None);
        }
        assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
    }
    let summary = drawn(&profile, "text");
    assert!(summary.lines().all(|line| line.chars().count() <= 80));
}

#[test]
fn colours_are_on_request_and_change_no_text() {
    let options = DrawOptions {
        terminal: Terminal {
            has_color: true,
            width_columns: 80,
        },
        ..DrawOptions::default()
    };
    let mut colored = Vec::new();
    draw(&shop(), "text", &options, &mut colored).unwrap();
    let colored = String::from_utf8(colored).unwrap();
    let plain: String = colored
        .split('\u{1b}')
        .enumerate()
        .map(|(position, piece)| match position {
            0 => piece,
            _ => piece.split_once('m').unwrap().1,
        })
        .collect();
    assert!(colored.len() > plain.len());
    let trimmed: Vec<&str> = plain.lines().map(str::trim_end).collect();
    assert_eq!(trimmed, drawn(&shop(), "text").lines().collect::<Vec<_>>());
}

#[test]
fn a_flame_graph_is_the_same_every_time_and_shows_what_it_should() {
    let first = drawn(&shop(), "svg");
    assert_eq!(first, drawn(&shop(), "svg"));
    assert!(first.contains("totalOfCart /srv/shop/lib/cart/total.js:17 (238 samples, 59.50%)"));
    assert!(first.contains("400 samples at 99 Hz"));
}

#[test]
fn views_are_found_by_name_and_extension() {
    assert_eq!(view_for_path("a/b.SVG".as_ref()).unwrap().name(), "svg");
    assert!(view_for_path("a/b.nspy".as_ref()).is_none());
    let error = draw(&shop(), "gif", &DrawOptions::default(), &mut Vec::new()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("nodespy draws html, svg, text, md, json, prof")
    );
    let error = draw(&shop(), "html", &DrawOptions::default(), &mut Vec::new()).unwrap_err();
    assert!(matches!(error, DrawError::NoPayload));
}

#[test]
fn processes_have_rows_with_their_share_title_and_end() {
    let mut builder = ProfileBuilder::new(WeightUnit::Samples);
    let samples = [(10, "npm", "node", 16, 0), (11, "shop", "webpack", 74, 2)];
    for (pid, name, title, weight, status) in samples {
        let process = builder.process(Process {
            pid,
            name: name.to_owned(),
            node_version: Some("v22.1.0".to_owned()),
            exit: Some(ExitReason::Status(status)),
            ..Process::default()
        });
        let thread = builder.thread(Thread {
            process,
            tid: pid,
            name: title.to_owned(),
            ..Thread::default()
        });
        builder.sample(0, thread, None, weight);
    }
    let profile = builder.finish(About::default(), Notes::default());
    let text = drawn(&profile, "text");
    for row in [
        " 82.2%  shop  webpack, pid 11, node v22.1.0, exit status 2",
        " 17.8%  npm   pid 10, node v22.1.0, exit status 0",
    ] {
        assert!(text.lines().any(|line| line == row), "{text}");
    }
    assert!(!drawn(&shop(), "text").contains("process"));
}
