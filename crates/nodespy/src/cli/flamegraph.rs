//! The arguments of `nodespy flamegraph` and `nodespy difffolded`: the spellings of flamegraph.pl,
//! inferno-flamegraph and difffolded.pl.

use std::path::PathBuf;

use clap::Args;
use nodespy_view::svg::{Background, MinWidth, Palette, Rgb};

use super::{ReadArgs, ShowArgs};

#[derive(Debug, Args)]
#[command(
    infer_long_args = true,
    after_help = "\
Accepts every option of flamegraph.pl and inferno-flamegraph. Lines with two weights, as written by
difffolded, are drawn as a differential flame graph: the second weight is the width, red grew, blue
shrank.

Examples:
  perf script | nodespy collapse | nodespy flamegraph --color=js --hash > out.svg
  nodespy flamegraph --inverted --title 'Before the fix' --minwidth 0.5% out.folded > out.svg
  nodespy difffolded before.folded after.folded | nodespy flamegraph > diff.svg

In the SVG: click zooms, Ctrl-F or F3 searches, Ctrl-I ignores case; ?x=…&y=…&s=… in the URL restores
the view."
)]
pub(crate) struct FlamegraphArgs {
    /// Folded stacks, or any recording nodespy reads; `-` or none for standard input
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) picture: PictureArgs,
    #[command(flatten)]
    pub(crate) color: ColorArgs,
    #[command(flatten)]
    pub(crate) stacks: StackArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// What the picture looks like.
#[derive(Debug, Args)]
#[command(next_help_heading = "Picture")]
pub(crate) struct PictureArgs {
    /// Heading [default: Flame Graph, Icicle Graph or Flame Chart]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) title: Option<String>,
    /// Second line of the heading
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) subtitle: Option<String>,
    /// Width of the image in pixels [default: that of the window, or 1200 if unknown]
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(crate) width: Option<u32>,
    /// Height of each frame in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) height: u32,
    /// Leave out narrower boxes, in pixels, or in percent of the width: 0.5%
    #[arg(long, value_name = "WIDTH", default_value = "0.1")]
    pub(crate) minwidth: MinWidth,
    /// Font
    #[arg(long, value_name = "FONT")]
    pub(crate) fonttype: Option<String>,
    /// Font size in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 12.0, value_parser = positive)]
    pub(crate) fontsize: f64,
    /// Average character width relative to the font size
    #[arg(long, value_name = "PART", default_value_t = 0.59, value_parser = positive)]
    pub(crate) fontwidth: f64,
    /// The unit of the counts [default: samples]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) countname: Option<String>,
    /// The label before a box's name
    #[arg(long, value_name = "TEXT", default_value = "Function:")]
    pub(crate) nametype: String,
    /// Encoding to declare in the file
    #[arg(long, value_name = "NAME", default_value = "UTF-8", value_parser = encoding)]
    pub(crate) encoding: String,
    /// A comment to embed in the file
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) notes: Option<String>,
    /// Attributes of boxes: on each line a function's name and name=value pairs, separated by tabs
    #[arg(long, value_name = "FILE")]
    pub(crate) nameattr: Option<PathBuf>,
    /// Draw an icicle graph, with the root at the top
    #[arg(short, long, visible_alias = "icicle")]
    pub(crate) inverted: bool,
    /// Truncate the end of names that don't fit (the default)
    #[arg(long, overrides_with = "text_truncate_direction")]
    pub(crate) truncate_text_right: bool,
    /// Which end of names that don't fit to truncate
    #[arg(long, value_name = "END", default_value = "right")]
    pub(crate) text_truncate_direction: End,
    /// Leave out the script: no zoom, no search
    #[arg(long)]
    pub(crate) no_javascript: bool,
    /// Write each element on its own line
    #[arg(long)]
    pub(crate) pretty_xml: bool,
}

/// An end of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum End {
    Left,
    Right,
}

/// What the colours are.
#[derive(Debug, Args)]
#[command(next_help_heading = "Colours")]
pub(crate) struct ColorArgs {
    /// Palette: hot, mem, io, wakeup, chain, java, js, perl, python, rust, red, green, blue, aqua,
    /// yellow, purple, orange, category [default: hot for folded stacks, else category]
    #[arg(short, long, visible_alias = "color", value_name = "PALETTE")]
    pub(crate) colors: Option<Palette>,
    /// Background: yellow, blue, green, grey, #rrggbb [default: matches the palette]
    #[arg(long, value_name = "COLOUR")]
    pub(crate) bgcolors: Option<Background>,
    /// Choose shades by the start of the name, so that similar names look similar
    #[arg(long, conflicts_with_all = ["deterministic", "random"])]
    pub(crate) hash: bool,
    /// Choose shades by the name, the same in every image (the default)
    #[arg(long, conflicts_with = "random")]
    pub(crate) deterministic: bool,
    /// Random shades
    #[arg(long)]
    pub(crate) random: bool,
    /// Keep colours consistent across images, in ./palette.map
    #[arg(long)]
    pub(crate) cp: bool,
    /// Like --cp, with another file
    #[arg(long, value_name = "FILE")]
    pub(crate) palette_map: Option<PathBuf>,
    /// Colour by width: wider is redder
    #[arg(long, conflicts_with = "colors")]
    pub(crate) colordiffusion: bool,
    /// Colour of search matches
    #[arg(long, value_name = "#RRGGBB", default_value = "#e600e6")]
    pub(crate) search_color: Rgb,
    /// Colour of the outline of boxes, or none
    #[arg(long, value_name = "#RRGGBB", default_value = "none")]
    pub(crate) stroke_color: Stroke,
    /// Colour of the text beside boxes
    #[arg(long, value_name = "#RRGGBB", default_value = "#000000")]
    pub(crate) uicolor: Rgb,
    /// Swap red and blue in a differential flame graph
    #[arg(long)]
    pub(crate) negate: bool,
}

/// A colour or `none`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stroke(pub(crate) Option<Rgb>);

impl std::str::FromStr for Stroke {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self(None)),
            color => color.parse().map(|color| Self(Some(color))),
        }
    }
}

/// What is done with stacks.
#[derive(Debug, Args)]
#[command(next_help_heading = "Stacks")]
pub(crate) struct StackArgs {
    /// Reverse stacks, to merge from the leaf
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Draw a flame chart: in time order, merging only neighbours
    #[arg(long, visible_alias = "flame-chart", conflicts_with_all = ["reverse", "no_sort"])]
    pub(crate) flamechart: bool,
    /// Keep the order of the input
    #[arg(long)]
    pub(crate) no_sort: bool,
    /// The weight of the whole width, if more than the sum of all stacks
    #[arg(long, value_name = "NUMBER", value_parser = positive)]
    pub(crate) total: Option<f64>,
    /// Multiply weights by this
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0, value_parser = positive)]
    pub(crate) factor: f64,
    /// Start stacks at this function and drop those without it; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) base: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Writes `stack before after` for each stack of either input, sorted.

Examples:
  nodespy difffolded before.folded after.folded | nodespy flamegraph > diff.svg
  nodespy difffolded -n before.nspy after.nspy   normalized to the same total")]
pub(crate) struct DifffoldedArgs {
    /// Scale the first input to the total of the second
    #[arg(short, long)]
    pub(crate) normalize: bool,
    /// Treat all addresses as the same: 0x45ef2 becomes 0x...
    #[arg(short, long)]
    pub(crate) strip_hex: bool,
    /// The earlier stacks: folded, or any recording nodespy reads; `-` for standard input
    pub(crate) before: PathBuf,
    /// The later stacks
    pub(crate) after: PathBuf,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
        _ => Err(format!("{text:?} is not a number above zero")),
    }
}

fn encoding(text: &str) -> Result<String, String> {
    let mut bytes = text.bytes();
    let is_name = bytes
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic())
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    // Two bytes for a letter would need other bytes than those written.
    match is_name && !text.to_ascii_lowercase().starts_with("utf-16") {
        true => Ok(text.to_owned()),
        false => Err(format!("{text:?} is no encoding that ASCII is a part of")),
    }
}
