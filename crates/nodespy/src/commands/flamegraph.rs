//! `nodespy flamegraph`: folded stacks, or any recording, to a flame graph. What flamegraph.pl and
//! inferno-flamegraph do, with their options.

use std::borrow::Cow;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use nodespy_analysis::{Filters, Holding, filtered, shown_event};
use nodespy_formats::{FoldedStacks, ImportError};
use nodespy_model::{FunctionIndex, Profile};
use nodespy_view::DrawError;
use nodespy_view::labels::Names;
use nodespy_view::layout::Order;
use nodespy_view::svg::{
    Cut, NameAttributes, PaletteMap, Shades, SvgOptions, draw_svg, draw_svg_difference, options_for,
};

use crate::cli::{End, FlamegraphArgs, ReadArgs, StackArgs};
use crate::confine::Confinement;
use crate::folded_input::{self, FoldedOr};
use crate::output;
use crate::output_file::OutputFile;

const USUAL_PALETTE_MAP: &str = "palette.map";

pub(crate) fn run(arguments: &FlamegraphArgs) -> anyhow::Result<ExitCode> {
    nodespy_capture::keep_freed_memory();
    let reading = ReadArgs {
        functions_only: !arguments.show.no_merge_tiers,
        ..arguments.read.clone()
    };
    let picture = OutputFile::unless_standard(arguments.output.as_deref())?;
    let map = map_path(arguments);
    let map_file = map.as_deref().map(OutputFile::named).transpose()?;
    let outputs = [&picture, &map_file].into_iter().flatten();
    Confinement::reading(&arguments.files, &reading)
        .writing(outputs.filter_map(OutputFile::folder))
        .apply();
    let read = folded_input::read(&arguments.files, &reading, &str::to_owned);
    let content = match read {
        Err(error) if holds_nothing(&error) => {
            // A picture that says so, as its makers' pipelines expect one.
            let options = plain_options(arguments);
            draw(picture.as_ref(), |output| {
                draw_svg(&Profile::default(), &options, None, output)
            })?;
            return Err(error);
        }
        content => content?,
    };
    let mut palette_map = map.as_deref().map(read_palette_map).transpose()?;
    let (picture, colors) = (picture.as_ref(), palette_map.as_mut());
    match content {
        FoldedOr::Folded(folded) => draw_folded(arguments, picture, *folded, colors)?,
        FoldedOr::Profile(profile) => draw_profile(arguments, picture, *profile, colors)?,
    }
    if let (Some(file), Some(map)) = (&map_file, &palette_map) {
        file.write(|output| Ok(output.write_all(map.to_text().as_bytes())?))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Where colors are kept from picture to picture, if they are.
fn map_path(arguments: &FlamegraphArgs) -> Option<PathBuf> {
    match (&arguments.color.palette_map, arguments.color.cp) {
        (Some(path), _) => Some(path.clone()),
        (None, true) => Some(PathBuf::from(USUAL_PALETTE_MAP)),
        (None, false) => None,
    }
}

fn draw_folded(
    arguments: &FlamegraphArgs,
    picture: Option<&OutputFile>,
    folded: FoldedStacks,
    palette_map: Option<&mut PaletteMap>,
) -> anyhow::Result<()> {
    if folded.bad_lines > 0 {
        let count = folded.bad_lines;
        output::note(&format!("Ignored {count} lines with invalid format"));
    }
    let mut options = plain_options(arguments);
    set_given(&mut options, arguments)?;
    options.names = Names::AsWritten;
    options.factor /= folded.weight_factor as f64;
    options.total = options
        .total
        .map(|total| total * folded.weight_factor as f64);
    let mut pair = folded.pair;
    if arguments.stacks.flamechart {
        // Lines of folded stacks with times come last first.
        pair.after.samples.reverse();
    }
    let mut failed = None;
    // Names as they are written mean stacks as they are written: nothing is hidden unasked.
    let show = Filters {
        raw: true,
        ..arguments.show.filters()
    };
    let pair = pair.map(|profile| match shown(profile, &show, &arguments.stacks) {
        Ok(profile) => profile,
        Err(error) => {
            failed = Some(error);
            Profile::default()
        }
    });
    if let Some(error) = failed {
        return Err(error);
    }
    warn_about_total(&pair.after, &options);
    draw(picture, |output| {
        match folded.has_before && !arguments.stacks.flamechart {
            true => draw_svg_difference(&pair, &options, palette_map, output),
            false => draw_svg(&pair.after, &options, palette_map, output),
        }
    })
}

fn draw_profile(
    arguments: &FlamegraphArgs,
    picture: Option<&OutputFile>,
    profile: Profile,
    palette_map: Option<&mut PaletteMap>,
) -> anyhow::Result<()> {
    let profile = shown(profile, &arguments.show.filters(), &arguments.stacks)?;
    let mut options = options_for(&profile);
    set_given(&mut options, arguments)?;
    warn_about_total(&profile, &options);
    draw(picture, |output| {
        draw_svg(&profile, &options, palette_map, output)
    })
}

/// What is left of a profile after the filters and with stacks as they are wanted.
fn shown(profile: Profile, show: &Filters, stacks: &StackArgs) -> anyhow::Result<Profile> {
    let shown = shown_event(Cow::Owned(profile));
    let shown = filtered(shown, show, Holding::WhatIsShown)?;
    let mut profile = shown.into_owned();
    let base = &stacks.base;
    if !base.is_empty() {
        let is_base = |profile: &Profile, function: FunctionIndex| {
            base.iter().any(|name| name == profile.name_of(function))
        };
        profile = nodespy_analysis::show_from(profile, is_base);
    }
    if stacks.reverse {
        profile = nodespy_analysis::reverse(profile);
    }
    Ok(profile)
}

/// The options of a picture of folded stacks by default.
fn plain_options(arguments: &FlamegraphArgs) -> SvgOptions {
    let title = match (arguments.stacks.flamechart, arguments.picture.inverted) {
        (true, _) => "Flame Chart",
        (_, true) => "Icicle Graph",
        _ => "Flame Graph",
    };
    SvgOptions {
        title: title.to_owned(),
        ..SvgOptions::default()
    }
}

/// Puts what the arguments say into the options.
fn set_given(options: &mut SvgOptions, arguments: &FlamegraphArgs) -> anyhow::Result<()> {
    let (picture, color, stacks) = (&arguments.picture, &arguments.color, &arguments.stacks);
    let set = |text: &mut String, given: &Option<String>| {
        if let Some(given) = given {
            text.clone_from(given);
        }
    };
    set(&mut options.title, &picture.title);
    set(&mut options.subtitle, &picture.subtitle);
    set(&mut options.font_type, &picture.fonttype);
    set(&mut options.count_name, &picture.countname);
    set(&mut options.notes, &picture.notes);
    options.name_type.clone_from(&picture.nametype);
    options.encoding.clone_from(&picture.encoding);
    options.width = picture.width;
    options.frame_height = picture.height;
    options.min_width = picture.minwidth;
    options.font_size = picture.fontsize;
    options.font_width = picture.fontwidth;
    options.is_inverted = picture.inverted;
    options.has_script = !picture.no_javascript;
    options.is_pretty = picture.pretty_xml;
    options.cut = match picture.text_truncate_direction {
        End::Left => Cut::Left,
        End::Right => Cut::Right,
    };
    if let Some(path) = &picture.nameattr {
        options.attributes = NameAttributes::parse(&read_text(path)?);
    }
    if let Some(palette) = color.colors {
        options.palette = palette;
    }
    options.background = color.bgcolors;
    options.shades = match (color.hash, color.random) {
        (true, _) => Shades::Start,
        (_, true) => Shades::Chance,
        _ => Shades::Name,
    };
    options.is_colored_by_width = color.colordiffusion;
    options.search_color = color.search_color;
    options.stroke_color = color.stroke_color.0;
    options.ui_color = color.uicolor;
    options.is_negated = color.negate;
    options.order = match (stacks.flamechart, stacks.no_sort) {
        (true, _) => Order::Time,
        (_, true) => Order::Found,
        _ => Order::Name,
    };
    options.total = stacks.total;
    options.factor *= stacks.factor;
    options.most_boxes = usize::MAX;
    options.most_rows = u32::MAX;
    Ok(())
}

fn warn_about_total(profile: &Profile, options: &SvgOptions) {
    let sum = profile.total_weight() as f64;
    if options.total.is_some_and(|total| total < sum) {
        output::note("The --total is less than the sum of all stacks and was not used.");
    }
}

/// Whether an error means that there was not a single stack.
fn holds_nothing(error: &anyhow::Error) -> bool {
    let cause = error.chain().find_map(|cause| cause.downcast_ref());
    matches!(
        cause,
        Some(ImportError::Empty | ImportError::NoStacks | ImportError::BadLine { .. })
    )
}

fn read_palette_map(path: &Path) -> anyhow::Result<PaletteMap> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(PaletteMap::parse(&text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(PaletteMap::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Draws to the file, or to standard output.
fn draw(
    file: Option<&OutputFile>,
    picture: impl FnOnce(&mut dyn Write) -> Result<(), DrawError>,
) -> anyhow::Result<()> {
    match file {
        Some(file) => file.write(|output| Ok(picture(output)?)),
        None => {
            let mut output = std::io::stdout().lock();
            let drawn = picture(&mut output).and_then(|()| Ok(output.flush()?));
            match drawn {
                // Whoever reads has seen enough.
                Err(DrawError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
                drawn => Ok(drawn?),
            }
        }
    }
}
