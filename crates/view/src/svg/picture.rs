//! Boxes to SVG: where everything is and how it is written.
//!
//! Boxes have percentages for places and widths, so that the script can make the picture as wide
//! as its window; the file's own size is fixed, for programs that run no scripts. `fg:x` and
//! `fg:w` hold exact weights under inferno's names, for tools that know them.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};

use nodespy_model::{Category, FunctionIndex, Profile};

use super::attributes::BoxAttributes;
use super::difference::{FunctionMarks, Sign};
use super::ink::Ink;
use super::options::{Cut, MinWidth, SvgOptions};
use super::palette::{Palette, Rgb, color, growth_color};
use super::palette_map::PaletteMap;
use crate::labels::Labels;
use crate::layout::{Content, FlameBox, Layout};

mod document;

/// How wide the file is by default.
const USUAL_WIDTH: u32 = 1200;
/// Free space at the left and right.
const SIDE: f64 = 10.0;
/// Free space between a box and its text.
const INDENT: f64 = 3.0;
/// Fewer letters than this are no help.
const LEAST_LETTERS: usize = 3;

/// The colour of a box whose change may be noise.
const NOISE: Rgb = Rgb(228, 228, 228);
/// How much is written at once: a picture can be larger than the memory it is worth.
const CHUNK_BYTES: usize = 128 << 10;

/// The share of everything that a box must have to be drawn.
pub(super) fn least_share(options: &SvgOptions) -> f64 {
    match options.min_width {
        MinWidth::Percent(percent) => percent / 100.0,
        MinWidth::Pixels(pixels) => pixels / Frame::of(options, 0).inner_width,
    }
}

/// Where the parts of the picture are.
struct Frame {
    width: f64,
    inner_width: f64,
    height: f64,
    top: f64,
    row: f64,
    rows: u32,
    is_inverted: bool,
    /// Where the line about a box is.
    details: f64,
}

impl Frame {
    fn of(options: &SvgOptions, rows: u32) -> Self {
        let width = f64::from(options.width.unwrap_or(USUAL_WIDTH).max(100));
        let line = options.font_size;
        let headings = if options.subtitle.is_empty() {
            3.0
        } else {
            5.0
        };
        let row = f64::from(options.frame_height.max(1));
        let details_height = line * 2.0 + 10.0;
        let boxes = row * f64::from(rows);
        // Where the base is at the top, so is the line that describes boxes.
        let top = line * headings
            + if options.is_inverted {
                details_height
            } else {
                0.0
            };
        let bottom = if options.is_inverted {
            SIDE
        } else {
            details_height
        };
        Self {
            width,
            inner_width: width - SIDE * 2.0,
            height: top + boxes + bottom,
            top,
            row,
            rows,
            is_inverted: options.is_inverted,
            details: match options.is_inverted {
                true => top - details_height / 2.0,
                false => top + boxes + details_height / 2.0,
            },
        }
    }

    /// The upper edge of a row, counted from the base.
    fn row_top(&self, depth: u32) -> f64 {
        let from_top = match self.is_inverted {
            true => depth,
            false => self.rows - 1 - depth,
        };
        self.top + self.row * f64::from(from_top)
    }
}

/// A picture that is being drawn.
pub(super) struct Picture<'a> {
    pub(super) profile: &'a Profile,
    pub(super) labels: &'a Labels<'a>,
    pub(super) layout: &'a Layout,
    pub(super) options: &'a SvgOptions,
    /// Whether boxes are coloured by how much they grew.
    pub(super) is_difference: bool,
    /// What a comparison says of functions, where that decides.
    pub(super) marks: Option<&'a FunctionMarks>,
}

/// What is the same for every box of one label.
struct Stamp {
    /// The label without its mark.
    name: String,
    /// The same as markup.
    escaped: Vec<u8>,
    color: Rgb,
}

/// What is the same for all boxes.
struct Scale {
    frame: Frame,
    /// The weight of the whole width.
    whole: f64,
    most_growth: u64,
    letters_per_pixel: f64,
    chance: u64,
}

impl Picture<'_> {
    /// Draws it all.
    pub(super) fn draw(
        &self,
        mut palette_map: Option<&mut PaletteMap>,
        output: &mut dyn Write,
    ) -> io::Result<()> {
        let options = self.options;
        // The row of everything is below all others.
        let frame = Frame::of(options, self.layout.depth() + 1);
        let sum = self.layout.total.max(1) as f64;
        let letter = (options.font_size * options.font_width).max(0.1);
        let growths = self.layout.boxes.iter().map(|each| each.growth);
        let scale = Scale {
            whole: options.total.map_or(sum, |total| total.max(sum)),
            most_growth: growths.map(i64::unsigned_abs).max().unwrap_or(0),
            letters_per_pixel: letter.recip(),
            chance: RandomState::new().hash_one(0u8),
            frame,
        };
        let mut ink = Ink {
            bytes: Vec::with_capacity(CHUNK_BYTES * 2),
            is_ascii: !options.encoding.eq_ignore_ascii_case("utf-8"),
        };
        self.start(&mut ink, &scale);
        self.everything(&mut ink, &scale, palette_map.as_deref_mut());
        let mut stamps: Vec<Option<Stamp>> = Vec::new();
        stamps.resize_with(self.profile.functions.len(), || None);
        for (position, each) in self.layout.boxes.iter().enumerate() {
            let other;
            let stamp = match each.content {
                Content::Function(function) => stamps[function.at()].get_or_insert_with(|| {
                    let text = self.labels.text(function);
                    self.stamp(
                        text,
                        Some(function),
                        &ink,
                        &scale,
                        palette_map.as_deref_mut(),
                    )
                }),
                _ => {
                    let text = self.layout.label(self.labels, position);
                    other = self.stamp(text, None, &ink, &scale, palette_map.as_deref_mut());
                    &other
                }
            };
            self.place_box(&mut ink, &scale, each, each.depth + 1, stamp);
            if ink.bytes.len() > CHUNK_BYTES {
                output.write_all(&ink.bytes)?;
                ink.bytes.clear();
            }
        }
        self.end(&mut ink);
        output.write_all(&ink.bytes)
    }

    fn stamp(
        &self,
        label: &str,
        function: Option<FunctionIndex>,
        like: &Ink,
        scale: &Scale,
        palette_map: Option<&mut PaletteMap>,
    ) -> Stamp {
        let name = without_mark(label);
        let mut escaped = Ink {
            bytes: Vec::with_capacity(name.len()),
            is_ascii: like.is_ascii,
        };
        escaped.text(name);
        let category = function.map(|function| self.profile.function(function).category);
        Stamp {
            name: name.to_owned(),
            escaped: escaped.bytes,
            color: self.color(label, category, scale, palette_map),
        }
    }

    fn color(
        &self,
        label: &str,
        category: Option<Category>,
        scale: &Scale,
        palette_map: Option<&mut PaletteMap>,
    ) -> Rgb {
        let (palette, shades) = (self.options.palette, self.options.shades);
        let make = || color(palette, shades, label, category, scale.chance);
        match palette_map {
            Some(map) => map.color(label, make),
            None => make(),
        }
    }

    /// The box below all others.
    fn everything(&self, ink: &mut Ink, scale: &Scale, palette_map: Option<&mut PaletteMap>) {
        let mut stamp = self.stamp("all", None, ink, scale, palette_map);
        if self.options.palette == Palette::Category {
            stamp.color = Rgb(225, 225, 225);
        }
        let each = FlameBox {
            content: Content::NoStack,
            parent: None,
            depth: 0,
            start: 0,
            weight: scale.whole as u64,
            self_weight: 0,
            growth: 0,
            before: 0,
            gone: 0,
        };
        self.place_box(ink, scale, &each, 0, &stamp);
    }

    fn place_box(&self, ink: &mut Ink, scale: &Scale, each: &FlameBox, depth: u32, stamp: &Stamp) {
        let attributes = match self.options.attributes.is_empty() {
            true => None,
            false => self.options.attributes.of(&stamp.name),
        };
        let attributes = attributes.unwrap_or_default();
        let newline = if self.options.is_pretty { "\n  " } else { "" };
        self.open_group(ink, &attributes);
        ink.raw(newline).raw("<title>");
        match attributes.title {
            Some(title) => drop(ink.text(title)),
            None => self.title(ink, scale, each, depth, stamp),
        }
        ink.raw("</title>").raw(newline);
        let left = each.start as f64 / scale.whole;
        let share = each.weight as f64 / scale.whole;
        let top = scale.frame.row_top(depth);
        ink.raw("<rect x=\"").number(left * 100.0);
        ink.raw("%\" y=\"").number(top);
        ink.raw("\" width=\"").number(share * 100.0);
        ink.raw("%\" height=\"").number(scale.frame.row - 1.0);
        ink.raw("\" fill=\"");
        match self.marks.is_some() && each.is_gone() {
            true => ink.raw("url(#gone)"),
            false => ink.color(self.box_color(scale, each, share, stamp)),
        };
        ink.raw("\" fg:x=\"").whole(each.start);
        ink.raw("\" fg:w=\"").whole(each.weight).raw("\"/>");
        let pixels = share * scale.frame.inner_width;
        let letters = ((pixels - INDENT) * scale.letters_per_pixel) as usize;
        // Most boxes are too narrow for text: the script adds it where zooming makes room.
        if letters >= LEAST_LETTERS {
            let text_left = left * 100.0 + INDENT / scale.frame.inner_width * 100.0;
            let baseline = top + self.baseline();
            ink.raw(newline).raw("<text x=\"").number(text_left);
            ink.raw("%\" y=\"").number(baseline).raw("\">");
            let prefix = self.prefix(each, depth);
            match letters.saturating_sub(prefix.chars().count()) {
                left if left >= LEAST_LETTERS => {
                    ink.text(prefix);
                    self.fitted(ink, stamp, left);
                }
                // The tooltip has the sign.
                _ => self.fitted(ink, stamp, letters),
            }
            ink.raw("</text>");
        }
        if self.options.is_pretty {
            ink.raw("\n");
        }
        ink.raw(if attributes.has_link() {
            "</a></g>\n"
        } else {
            "</g>\n"
        });
    }

    /// How far below the upper edge of a box its text stands.
    fn baseline(&self) -> f64 {
        f64::from(self.options.frame_height) / 2.0 + self.options.font_size / 4.0 + 0.5
    }

    fn open_group(&self, ink: &mut Ink, attributes: &BoxAttributes<'_>) {
        let write = |ink: &mut Ink, pairs: &[(&str, &str)]| {
            for (name, value) in pairs {
                ink.raw(" ").raw(name).raw("=\"").text(value).raw("\"");
            }
        };
        ink.raw("<g");
        write(ink, &attributes.group);
        ink.raw(">");
        if attributes.has_link() {
            ink.raw("<a");
            write(ink, &attributes.link);
            ink.raw(">");
        }
    }

    fn box_color(&self, scale: &Scale, each: &FlameBox, share: f64, stamp: &Stamp) -> Rgb {
        if self.options.is_colored_by_width {
            let most = 1u64 << 32;
            return growth_color((share * most as f64) as i64, most);
        }
        if !self.is_difference || matches!(stamp.name.as_str(), "-" | "--") {
            return stamp.color;
        }
        if self.marks.is_some() && self.sign(each) == Sign::Noise {
            return NOISE;
        }
        let growth = match self.options.is_negated {
            true => each.growth.saturating_neg(),
            false => each.growth,
        };
        growth_color(growth, scale.most_growth)
    }

    /// What a comparison says of the function of a box.
    fn sign(&self, each: &FlameBox) -> Sign {
        match (self.marks, each.content) {
            (Some(marks), Content::Function(function)) => marks.sign(function),
            _ => Sign::Noise,
        }
    }

    /// What stands before the name of a box, for readers who see no colours.
    fn prefix(&self, each: &FlameBox, depth: u32) -> &'static str {
        if self.marks.is_none() || depth == 0 {
            return "";
        }
        match self.sign(each) {
            _ if each.is_gone() => "gone: ",
            Sign::Noise => "",
            Sign::Moved => "moved: ",
            Sign::New => "new: ",
            Sign::Changed if each.growth > 0 => "+ ",
            Sign::Changed if each.growth < 0 => "− ",
            Sign::Changed => "",
        }
    }

    /// What the tooltip says: `name (1,234 samples, 5.67%; +0.12%)`.
    fn title(&self, ink: &mut Ink, scale: &Scale, each: &FlameBox, depth: u32, stamp: &Stamp) {
        let options = self.options;
        // What is gone has a width, but no weight.
        let whole = self.marks.map_or(scale.whole, FunctionMarks::whole);
        let weight = match (self.marks, depth) {
            (Some(_), 0) => whole as u64,
            _ => each.weight - each.gone.min(each.weight),
        };
        let percent = |weight: f64| weight / whole * 100.0;
        ink.text(self.prefix(each, depth));
        ink.ready(&stamp.escaped).raw(" (");
        let shown = weight as f64 * options.factor;
        match options.factor == 1.0 {
            true => ink.grouped(weight),
            false => ink.grouped(shown.abs().round() as u64),
        };
        ink.raw(" ").text(&options.count_name).raw(", ");
        if depth == 0 {
            ink.raw("100%");
        } else {
            ink.hundredths(percent(weight as f64)).raw("%");
        }
        if self.is_difference && depth > 0 {
            let growth = match options.is_negated {
                true => -percent(each.growth as f64),
                false => percent(each.growth as f64),
            };
            if self.marks.is_some() {
                let before = percent(each.before as f64);
                ink.raw("; before ").hundredths(before).raw("%; self");
            }
            let sign = match (growth > 0.0, self.marks) {
                (true, Some(_)) => " +",
                (false, Some(_)) => " ",
                (true, None) => "; +",
                (false, None) => "; ",
            };
            ink.raw(sign).hundredths(growth).raw("%");
            if let (Some(marks), Content::Function(function)) = (self.marks, each.content) {
                // The script takes the last parenthesis off to have the name.
                let words = marks.words(function).replace(['(', ')'], "");
                if !words.is_empty() {
                    ink.raw("; ").text(&words);
                }
            }
        }
        ink.raw(")");
    }

    /// As much of a name as `letters` letters hold.
    fn fitted(&self, ink: &mut Ink, stamp: &Stamp, letters: usize) {
        let name = &stamp.name;
        // There are never more letters than bytes.
        if name.len() <= letters || name.chars().nth(letters).is_none() {
            ink.ready(&stamp.escaped);
            return;
        }
        let kept = letters - 2;
        match self.options.cut {
            Cut::Right => {
                name.chars().take(kept).for_each(|each| ink.character(each));
                ink.raw("..");
            }
            Cut::Left => {
                ink.raw("..");
                let start = name.char_indices().rev().nth(kept - 1);
                ink.text(&name[start.map_or(0, |(at, _)| at)..]);
            }
        }
    }
}

/// A name without FlameGraph's mark of the kind of code.
fn without_mark(label: &str) -> &str {
    let marks = ["_[k]", "_[w]", "_[i]", "_[j]"];
    let bare = marks.iter().find_map(|mark| label.strip_suffix(mark));
    bare.unwrap_or(label)
}
