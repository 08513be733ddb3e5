//! What a flame graph can be asked for: everything flamegraph.pl and inferno know.

use std::str::FromStr;

use super::attributes::NameAttributes;
use super::palette::{Palette, Rgb, Shades};
use crate::labels::Names;
use crate::layout::Order;

/// How a flame graph is drawn.
#[derive(Debug, Clone)]
pub struct SvgOptions {
    /// The heading.
    pub title: String,
    /// A second line of the heading; none when empty.
    pub subtitle: String,
    /// How wide the picture is; as wide as its window when absent.
    pub width: Option<u32>,
    /// How high a box is.
    pub frame_height: u32,
    /// Boxes narrower than this are left out.
    pub min_width: MinWidth,
    /// The font.
    pub font_type: String,
    /// How high letters are.
    pub font_size: f64,
    /// How wide a letter is on average, as a part of its height.
    pub font_width: f64,
    /// What weights count.
    pub count_name: String,
    /// What a box is, before its name.
    pub name_type: String,
    /// How names are coloured.
    pub palette: Palette,
    /// Where the shade of a name comes from.
    pub shades: Shades,
    /// Whether the wider a box is the redder it is, whatever its name.
    pub is_colored_by_width: bool,
    /// The background; the palette's own when absent.
    pub background: Option<Background>,
    /// The colour of boxes that a search finds.
    pub search_color: Rgb,
    /// The colour of lines around boxes; none when absent.
    pub stroke_color: Option<Rgb>,
    /// The colour of everything written beside boxes.
    pub ui_color: Rgb,
    /// Whether it hangs from the top.
    pub is_inverted: bool,
    /// Whether blue means more where two profiles are compared.
    pub is_negated: bool,
    /// In which order boxes stand side by side.
    pub order: Order,
    /// What the whole width stands for, if it is more than the sum of weights.
    pub total: Option<f64>,
    /// What weights are multiplied with before they are shown.
    pub factor: f64,
    /// A note for readers of the file; not drawn.
    pub notes: String,
    /// The encoding that the file says it has. Text of others than UTF-8 is written so that any of
    /// them can read it.
    pub encoding: String,
    /// Attributes for the boxes of some functions.
    pub attributes: NameAttributes,
    /// Whether the picture zooms and searches.
    pub has_script: bool,
    /// Whether every element is on a line of its own.
    pub is_pretty: bool,
    /// Which end of a long name is left out.
    pub cut: Cut,
    /// How functions are called.
    pub names: Names,
    /// The most boxes there are.
    pub most_boxes: usize,
    /// The most rows there are.
    pub most_rows: u32,
}

impl Default for SvgOptions {
    fn default() -> Self {
        Self {
            title: "Flame Graph".to_owned(),
            subtitle: String::new(),
            width: None,
            frame_height: 16,
            min_width: MinWidth::Pixels(0.1),
            font_type: "Verdana".to_owned(),
            font_size: 12.0,
            font_width: 0.59,
            count_name: "samples".to_owned(),
            name_type: "Function:".to_owned(),
            palette: Palette::default(),
            shades: Shades::default(),
            is_colored_by_width: false,
            background: None,
            search_color: Rgb(230, 0, 230),
            stroke_color: None,
            ui_color: Rgb(0, 0, 0),
            is_inverted: false,
            is_negated: false,
            order: Order::default(),
            total: None,
            factor: 1.0,
            notes: String::new(),
            encoding: "UTF-8".to_owned(),
            attributes: NameAttributes::default(),
            has_script: true,
            is_pretty: false,
            cut: Cut::default(),
            names: Names::default(),
            most_boxes: usize::MAX,
            most_rows: u32::MAX,
        }
    }
}

/// Which end of a name is left out when it does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cut {
    /// The end, as flamegraph.pl does.
    #[default]
    Right,
    /// The start, as inferno does.
    Left,
}

/// How narrow a box may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MinWidth {
    /// In pixels of the picture.
    Pixels(f64),
    /// In percent of everything.
    Percent(f64),
}

impl FromStr for MinWidth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, unit): (_, fn(f64) -> Self) = match text.strip_suffix('%') {
            Some(number) => (number, Self::Percent),
            None => (text, Self::Pixels),
        };
        let number: f64 = number.trim().parse().unwrap_or(-1.0);
        match number.is_finite() && number >= 0.0 {
            true => Ok(unit(number)),
            false => Err(format!(
                "{text:?} is no width; write pixels, or percent as 0.5%"
            )),
        }
    }
}

/// What is behind the boxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// From one colour at the top to another at the bottom.
    Gradient(Rgb, Rgb),
    /// One colour.
    Flat(Rgb),
}

impl Background {
    const YELLOW: Self = Self::Gradient(Rgb(0xee, 0xee, 0xee), Rgb(0xee, 0xee, 0xb0));
    const BLUE: Self = Self::Gradient(Rgb(0xee, 0xee, 0xee), Rgb(0xe0, 0xe0, 0xff));
    const GREEN: Self = Self::Gradient(Rgb(0xee, 0xf2, 0xee), Rgb(0xe0, 0xff, 0xe0));
    const GREY: Self = Self::Gradient(Rgb(0xf8, 0xf8, 0xf8), Rgb(0xe8, 0xe8, 0xe8));

    /// The one that goes with a palette.
    pub(super) fn of(palette: Palette) -> Self {
        match palette {
            Palette::Mem => Self::GREEN,
            Palette::Io | Palette::Wakeup | Palette::Chain => Self::BLUE,
            Palette::Red
            | Palette::Green
            | Palette::Blue
            | Palette::Aqua
            | Palette::Yellow
            | Palette::Purple
            | Palette::Orange => Self::GREY,
            _ => Self::YELLOW,
        }
    }

    /// The colours at the top and at the bottom.
    pub(super) fn ends(self) -> (Rgb, Rgb) {
        match self {
            Self::Gradient(top, bottom) => (top, bottom),
            Self::Flat(color) => (color, color),
        }
    }
}

impl FromStr for Background {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "yellow" => Ok(Self::YELLOW),
            "blue" => Ok(Self::BLUE),
            "green" => Ok(Self::GREEN),
            "grey" | "gray" => Ok(Self::GREY),
            text => text.parse().map(Self::Flat).map_err(|_| {
                format!("{text:?} is no background; write yellow, blue, green, grey or #rrggbb")
            }),
        }
    }
}
