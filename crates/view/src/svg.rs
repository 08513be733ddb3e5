//! A flame graph as one SVG file that zooms and searches by itself, drawn by inferno.

use std::io::{self, Write};

use inferno::flamegraph::color::{MultiPalette, Palette};
use inferno::flamegraph::{Direction, Options, TextTruncateDirection, from_lines};
use nodespy_model::{Profile, WeightUnit};

use crate::layout::Layout;
use crate::{DrawError, DrawOptions, View, wording};

/// More boxes make browsers slow: inferno's SVG of 31,326 frames took Chromium 156 seconds of CPU
/// time to open.
const MOST_BOXES: usize = 10_000;
/// Deeper rows are out of reach for anybody scrolling.
const MOST_ROWS: u32 = 500;
/// inferno adds weights without a check; halving keeps any sum in range.
const HEAVIEST_TOTAL: u64 = 1 << 52;

/// The flame graph.
pub(crate) struct Svg;

impl View for Svg {
    fn name(&self) -> &'static str {
        "svg"
    }

    fn extension(&self) -> &'static str {
        "svg"
    }

    fn draw(
        &self,
        profile: &Profile,
        options: &DrawOptions<'_>,
        output: &mut dyn Write,
    ) -> Result<(), DrawError> {
        let (layout, left_out) = Layout::of(profile).without_smallest(MOST_BOXES, MOST_ROWS);
        if layout.total == 0 {
            return draw_nothing(profile, options, output);
        }
        let halvings = halvings(layout.total);
        let lines = lines(profile, &layout, halvings);
        let mut drawing = Options::default();
        drawing.title = title(profile, options);
        drawing.subtitle = Some(subtitle(profile, left_out));
        drawing.colors = Palette::Multi(MultiPalette::Js);
        drawing.deterministic = true;
        // A label starts with the name and ends with the path: the name is the better half.
        drawing.text_truncate_direction = TextTruncateDirection::Right;
        drawing.factor = (1u64 << halvings) as f64;
        drawing.count_name = profile.unit.label().to_owned();
        if profile.unit == WeightUnit::Nanoseconds {
            drawing.factor /= 1000.0;
            drawing.count_name = "µs".to_owned();
        }
        if options.is_icicle {
            drawing.direction = Direction::Inverted;
        }
        // inferno takes its writer by value and ends by dropping it, so errors of a buffer of
        // its own would be lost; here they come back through the flush.
        let mut buffer = io::BufWriter::new(output);
        from_lines(&mut drawing, lines.iter().map(String::as_str), &mut buffer)?;
        buffer.flush()?;
        Ok(())
    }
}

fn title(profile: &Profile, options: &DrawOptions<'_>) -> String {
    options
        .title
        .map_or_else(|| wording::title(profile), str::to_owned)
}

fn subtitle(profile: &Profile, left_out: usize) -> String {
    let mut parts = vec![wording::how(profile)];
    parts.extend(wording::confidence(profile));
    if left_out > 0 {
        parts.push(format!(
            "the {} smallest boxes are left out",
            wording::count(left_out as u64)
        ));
    }
    parts.join("; ")
}

/// How often to halve weights so that they add up to no more than [`HEAVIEST_TOTAL`].
fn halvings(total: u64) -> u32 {
    let mut halvings = 0;
    while total >> halvings > HEAVIEST_TOTAL {
        halvings += 1;
    }
    halvings
}

/// Folded stacks of the boxes, sorted as inferno wants them.
fn lines(profile: &Profile, layout: &Layout, halvings: u32) -> Vec<String> {
    let labels: Vec<String> = (0..layout.boxes.len())
        .map(|position| layout.label(profile, position))
        .collect();
    let mut path = Vec::new();
    let mut lines = Vec::new();
    for (position, each) in layout.boxes.iter().enumerate() {
        let weight = each.self_weight >> halvings;
        if weight == 0 {
            continue;
        }
        path.clear();
        let mut next = Some(position);
        while let Some(position) = next {
            path.push(labels[position].as_str());
            next = layout.boxes[position].parent;
        }
        path.reverse();
        lines.push(format!("{} {weight}", path.join(";")));
    }
    lines.sort_unstable();
    lines
}

/// inferno calls an empty profile an error; for us it is a result like any other.
fn draw_nothing(
    profile: &Profile,
    options: &DrawOptions<'_>,
    output: &mut dyn Write,
) -> Result<(), DrawError> {
    write!(
        output,
        concat!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"90\" ",
            "viewBox=\"0 0 1200 90\" font-family=\"sans-serif\" text-anchor=\"middle\">\n",
            "<rect width=\"100%\" height=\"100%\" fill=\"#f8f8f8\"/>\n",
            "<text x=\"600\" y=\"30\" font-size=\"17\">{}</text>\n",
            "<text x=\"600\" y=\"60\" font-size=\"12\">no samples were recorded; {}</text>\n",
            "</svg>\n"
        ),
        escape(&title(profile, options)),
        escape(&subtitle(profile, 0)),
    )?;
    Ok(())
}

/// Text as XML and HTML want it.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
