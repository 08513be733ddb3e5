//! Output that changes only on purpose. `cargo xtask golden` rewrites the files.

use std::path::Path;

use nodespy_view::labels::{Labels, Names};
use nodespy_view::layout::{Layout, Order};
use nodespy_view::svg::{SvgOptions, draw_svg, options_for};

use crate::sample::{drawn, shop};

/// Compares with a file under `fixtures/`, or writes it when asked to.
pub(crate) fn check(name: &str, actual: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures")
        .join(name);
    if std::env::var_os("NODESPY_REWRITE_GOLDEN").is_some() {
        std::fs::write(&path, actual).unwrap();
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, pair) in expected.lines().zip(actual.lines()).enumerate() {
        assert_eq!(pair.0, pair.1, "{name}, line {}", number + 1);
    }
    assert_eq!(expected, actual, "{name}");
}

#[test]
fn golden_layout() {
    let profile = shop();
    let labels = Labels::of(&profile, Names::Marked);
    let layout = Layout::of(&profile, &labels, Order::Weight, 0.0);
    let lines: Vec<String> = layout
        .boxes
        .iter()
        .enumerate()
        .map(|(position, each)| {
            let label = layout.label(&labels, position);
            let indent = "  ".repeat(each.depth as usize);
            let (start, weight, own) = (each.start, each.weight, each.self_weight);
            format!("{indent}{label} | {start} + {weight}, self {own}\n")
        })
        .collect();
    check("view/shop.layout.txt", &lines.concat());
}

#[test]
fn golden_flame_graph() {
    let options = SvgOptions {
        has_script: false,
        ..options_for(&shop())
    };
    let mut svg = Vec::new();
    draw_svg(&shop(), &options, None, &mut svg).unwrap();
    check("view/shop.svg", &String::from_utf8(svg).unwrap());
}

#[test]
fn golden_summary_fits_a_terminal() {
    let text = drawn(&shop(), "text");
    assert!(text.lines().count() <= 40);
    assert!(text.lines().all(|line| line.chars().count() <= 80));
    check("view/shop.summary.txt", &text);
}

#[test]
fn golden_reports() {
    check("view/shop.report.md", &drawn(&shop(), "md"));
    check("view/shop.report.json", &drawn(&shop(), "json"));
}
