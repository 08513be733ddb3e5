//! A flame graph as one SVG file that zooms and searches by itself.
//!
//! It is drawn from the call tree, in the dialect of FlameGraph and inferno: the same look, keys
//! and address parameters, with a script of our own.

mod attributes;
mod difference;
mod ink;
mod options;
mod palette;
mod palette_map;
mod picture;

use std::io::Write;

use nodespy_analysis::{ProfilePair, without_idle_states};
use nodespy_model::{Profile, WeightUnit};

pub use attributes::NameAttributes;
pub use difference::draw_svg_comparison;
pub use options::{Background, Cut, MinWidth, SvgOptions};
pub use palette::{Palette, Rgb, Shades};
pub use palette_map::PaletteMap;

use crate::labels::Labels;
use crate::layout::Layout;
use crate::{DrawError, DrawOptions, View, wording};
use picture::{Picture, least_share};

/// More boxes make browsers slow and can't be seen.
const MAX_BOXES: usize = 10_000;
/// Deeper rows are out of reach for anybody scrolling.
const MAX_ROWS: u32 = 500;

/// The flame graph.
pub(crate) struct Svg;

impl View for Svg {
    fn name(&self) -> &'static str {
        "svg"
    }

    fn extension(&self) -> &'static str {
        "svg"
    }

    fn shows_functions_only(&self) -> bool {
        true
    }

    fn draw(
        &self,
        profile: &Profile,
        options: &DrawOptions<'_>,
        output: &mut dyn Write,
    ) -> Result<(), DrawError> {
        let mut drawing = options_for(profile);
        if let Some(title) = options.title {
            drawing.title = title.to_owned();
        }
        drawing.is_inverted = options.is_icicle;
        draw_svg(&without_idle_states(profile), &drawing, None, output)
    }
}

/// How a profile that nodespy knows all about is drawn: coloured by kind of code, headed by what
/// was recorded and how.
pub fn options_for(profile: &Profile) -> SvgOptions {
    let mut parts = vec![wording::how(profile)];
    parts.extend(wording::confidence(profile));
    let mut options = SvgOptions {
        title: wording::title(profile),
        subtitle: parts.join("; "),
        font_type: "monospace".to_owned(),
        palette: Palette::Category,
        count_name: profile.unit().label().to_owned(),
        most_boxes: MAX_BOXES,
        most_rows: MAX_ROWS,
        ..SvgOptions::default()
    };
    if profile.unit() == WeightUnit::Nanoseconds {
        options.factor = 1e-3;
        options.count_name = "µs".to_owned();
    }
    options
}

/// Draws a profile. Names take their colours from `palette_map` and leave them there.
pub fn draw_svg(
    profile: &Profile,
    options: &SvgOptions,
    palette_map: Option<&mut PaletteMap>,
    output: &mut dyn Write,
) -> Result<(), DrawError> {
    let labels = Labels::of(profile, options.names);
    let layout = Layout::of(profile, &labels, options.order, least_share(options));
    draw_layout(
        profile,
        &labels,
        layout,
        options,
        Difference::None,
        palette_map,
        output,
    )
}

/// Draws two profiles: as wide as the later one, coloured by how much each box grew by itself.
pub fn draw_svg_difference(
    pair: &ProfilePair,
    options: &SvgOptions,
    palette_map: Option<&mut PaletteMap>,
    output: &mut dyn Write,
) -> Result<(), DrawError> {
    let labels = Labels::of(&pair.after, options.names);
    let share = least_share(options);
    let layout = Layout::of_difference(&pair.tree(), &labels, options.order, share);
    draw_layout(
        &pair.after,
        &labels,
        layout,
        options,
        Difference::Growth,
        palette_map,
        output,
    )
}

/// What two profiles differ by, where there are two.
enum Difference<'a> {
    None,
    /// How much boxes grew.
    Growth,
    /// The same, and what a comparison says of it.
    Comparison(&'a difference::FunctionMarks),
}

fn draw_layout(
    profile: &Profile,
    labels: &Labels<'_>,
    layout: Layout,
    options: &SvgOptions,
    difference: Difference<'_>,
    palette_map: Option<&mut PaletteMap>,
    output: &mut dyn Write,
) -> Result<(), DrawError> {
    if layout.total == 0 {
        return draw_nothing(options, output);
    }
    let (layout, left_out) = layout.without_smallest(options.most_boxes, options.most_rows);
    let mut options = std::borrow::Cow::Borrowed(options);
    if left_out > 0 {
        let count = wording::count(left_out as u64);
        let sentence = format!("the {count} smallest boxes are left out");
        let subtitle = &mut options.to_mut().subtitle;
        if !subtitle.is_empty() {
            subtitle.push_str("; ");
        }
        subtitle.push_str(&sentence);
    }
    let picture = Picture {
        profile,
        labels,
        layout: &layout,
        options: &options,
        is_difference: !matches!(difference, Difference::None),
        marks: match difference {
            Difference::Comparison(marks) => Some(marks),
            _ => None,
        },
    };
    Ok(picture.draw(palette_map, output)?)
}

/// A picture that says that there is nothing to see.
fn draw_nothing(options: &SvgOptions, output: &mut dyn Write) -> Result<(), DrawError> {
    let mut ink = ink::Ink::default();
    ink.raw(concat!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1200\" height=\"90\" ",
        "viewBox=\"0 0 1200 90\" font-family=\"sans-serif\" text-anchor=\"middle\">\n",
        "<rect width=\"100%\" height=\"100%\" fill=\"#f8f8f8\"/>\n",
        "<text x=\"600\" y=\"30\" font-size=\"17\">",
    ));
    ink.text(&options.title);
    ink.raw("</text>\n<text x=\"600\" y=\"60\" font-size=\"12\">no samples were recorded");
    if !options.subtitle.is_empty() {
        ink.raw("; ").text(&options.subtitle);
    }
    ink.raw("</text>\n</svg>\n");
    output.write_all(&ink.bytes)?;
    Ok(())
}

/// Text as XML and HTML want it.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
