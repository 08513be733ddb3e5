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
Takes every option of flamegraph.pl and inferno-flamegraph. Lines with two weights, as difffolded
writes them, are drawn as a difference: as wide as the second, red where it is more, blue where less.

Examples:
  perf script | nodespy collapse | nodespy flamegraph --color=js --hash > out.svg
  nodespy flamegraph --inverted --title 'Before the fix' --minwidth 0.5% out.folded > out.svg
  nodespy difffolded before.folded after.folded | nodespy flamegraph > diff.svg

In the picture: click zooms, Ctrl-F or F3 searches, Ctrl-I ignores case; ?x=…&y=…&s=… in the
address is what is shown."
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
    /// Width of the picture in pixels [default: as wide as its window, 1200 where that is unknown]
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub(crate) width: Option<u32>,
    /// Height of each frame in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) height: u32,
    /// Leave out smaller functions: pixels, or percent of the whole as 0.5%
    #[arg(long, value_name = "WIDTH", default_value = "0.1")]
    pub(crate) minwidth: MinWidth,
    /// Font
    #[arg(long, value_name = "FONT")]
    pub(crate) fonttype: Option<String>,
    /// Font size in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 12.0, value_parser = positive)]
    pub(crate) fontsize: f64,
    /// Average width of a letter as a part of the font size
    #[arg(long, value_name = "PART", default_value_t = 0.59, value_parser = positive)]
    pub(crate) fontwidth: f64,
    /// What is counted [default: samples]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) countname: Option<String>,
    /// What a box is, before its name
    #[arg(long, value_name = "TEXT", default_value = "Function:")]
    pub(crate) nametype: String,
    /// Encoding that the file says it has
    #[arg(long, value_name = "NAME", default_value = "UTF-8", value_parser = encoding)]
    pub(crate) encoding: String,
    /// A note inside the file, not drawn
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) notes: Option<String>,
    /// Attributes for boxes: lines of a function's name, a tab, and name=value parted by tabs
    #[arg(long, value_name = "FILE")]
    pub(crate) nameattr: Option<PathBuf>,
    /// Hang from the top instead of growing from the bottom
    #[arg(short, long, visible_alias = "icicle")]
    pub(crate) inverted: bool,
    /// Leave out the end of names that do not fit (the default)
    #[arg(long, overrides_with = "text_truncate_direction")]
    pub(crate) truncate_text_right: bool,
    /// Which end of names that do not fit is left out
    #[arg(long, value_name = "END", default_value = "right")]
    pub(crate) text_truncate_direction: End,
    /// Leave out the script: no zoom, no search
    #[arg(long)]
    pub(crate) no_javascript: bool,
    /// Write every element on a line of its own
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
    /// Background: yellow, blue, green, grey, #rrggbb [default: what goes with the palette]
    #[arg(long, value_name = "COLOUR")]
    pub(crate) bgcolors: Option<Background>,
    /// Shades by the start of the name, so that names that start alike look alike
    #[arg(long, conflicts_with_all = ["deterministic", "random"])]
    pub(crate) hash: bool,
    /// Shades by the name, the same in every picture (the default)
    #[arg(long, conflicts_with = "random")]
    pub(crate) deterministic: bool,
    /// Random shades
    #[arg(long)]
    pub(crate) random: bool,
    /// Keep the colours of names in ./palette.map, and take them from there
    #[arg(long)]
    pub(crate) cp: bool,
    /// The same with another file
    #[arg(long, value_name = "FILE")]
    pub(crate) palette_map: Option<PathBuf>,
    /// The wider the redder, whatever the name
    #[arg(long, conflicts_with = "colors")]
    pub(crate) colordiffusion: bool,
    /// Colour of what a search finds
    #[arg(long, value_name = "#RRGGBB", default_value = "#e600e6")]
    pub(crate) search_color: Rgb,
    /// Colour of a line around every box, or none
    #[arg(long, value_name = "#RRGGBB", default_value = "none")]
    pub(crate) stroke_color: Stroke,
    /// Colour of the text beside boxes
    #[arg(long, value_name = "#RRGGBB", default_value = "#000000")]
    pub(crate) uicolor: Rgb,
    /// Of two weights: blue for more, red for less
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
    /// Turn stacks around: leaves at the base
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Order of time instead of names, merging neighbours only
    #[arg(long, visible_alias = "flame-chart", conflicts_with_all = ["reverse", "no_sort"])]
    pub(crate) flamechart: bool,
    /// Leave siblings in the order they come in
    #[arg(long)]
    pub(crate) no_sort: bool,
    /// What the whole width stands for, if more than the sum of all stacks
    #[arg(long, value_name = "NUMBER", value_parser = positive)]
    pub(crate) total: Option<f64>,
    /// Multiply weights with this before they are shown
    #[arg(long, value_name = "NUMBER", default_value_t = 1.0, value_parser = positive)]
    pub(crate) factor: f64,
    /// Cut stacks below this function and drop stacks without it; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) base: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Writes `stack before after` for each stack of either side, sorted.

Examples:
  nodespy difffolded before.folded after.folded | nodespy flamegraph > diff.svg
  nodespy difffolded -n before.nspy after.nspy   as if both had run equally long")]
pub(crate) struct DifffoldedArgs {
    /// Make the first total equal to the second, so that only shares count
    #[arg(short, long)]
    pub(crate) normalize: bool,
    /// Take all addresses for the same: 0x45ef2 becomes 0x...
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
