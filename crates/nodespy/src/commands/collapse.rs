//! `nodespy collapse`: `perf script` text in, folded stacks out, in place of
//! `stackcollapse-perf.pl`. Any other format is converted to folded stacks, and so is text that is to
//! be filtered: filters need threads, times and kinds of code, which the original throws away.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use nodespy_formats::{CollapseOptions, Collapsed, ImportError, Input, Limits, TextFormat, detect};
use nodespy_outputs::Output;
use nodespy_symbolize::Addr2line;

use crate::cli::{CollapseArgs, ReadArgs};
use crate::confine::Confinement;
use crate::failure::Failure;
use crate::output;
use crate::output_file::OutputFile;
use crate::save::{self, Destination};

pub(crate) fn run(arguments: &CollapseArgs) -> anyhow::Result<ExitCode> {
    let standard_input = [PathBuf::from("-")];
    let files = match &arguments.files[..] {
        [] => &standard_input[..],
        files => files,
    };
    let output = OutputFile::unless_standard(arguments.output.as_deref())?;
    Confinement::reading(files, &ReadArgs::default())
        .writing(output.as_ref().and_then(OutputFile::folder))
        .running_programs(arguments.inline)
        .apply();
    let mut inputs = Vec::new();
    for file in files {
        let input = save::open(file)?
            .unpacked(&Limits::default())
            .with_context(|| save::reading(file))?;
        inputs.push((input, file.as_path()));
    }
    if let Some(position) = inputs.iter().position(|(input, _)| is_other_format(input)) {
        let (input, file) = inputs.swap_remove(position);
        if !inputs.is_empty() {
            bail!(Failure::Usage(format!(
                "{} is no perf script text; several files are only read if all of them are",
                file.display()
            )));
        }
        return convert(input, file, arguments, output);
    }
    if arguments.show.filters().has_filters() {
        return filter(inputs, arguments, output);
    }
    let collapsed = collapse(&inputs, arguments)?;
    if collapsed.is_empty() {
        let (input, file) = &inputs[0];
        let error = match input.is_empty() {
            true => ImportError::Empty,
            false => ImportError::NoStacks,
        };
        return Err(anyhow::Error::from(error).context(save::reading(file)));
    }
    write(&collapsed, output.as_ref())?;
    report_what_is_missing(&collapsed, &inputs, arguments);
    Ok(ExitCode::SUCCESS)
}

/// Whether the content is surely something else; odd text is still tried.
fn is_other_format(input: &Input) -> bool {
    detect(input).is_some_and(|importer| importer.text_format() != Some(TextFormat::PerfScript))
}

/// Converts `perf script` text that is to be filtered.
fn filter(
    inputs: Vec<(Input, &Path)>,
    arguments: &CollapseArgs,
    output: Option<OutputFile>,
) -> anyhow::Result<ExitCode> {
    let of_lines = [
        ("--pid", arguments.pid),
        ("--tid", arguments.tid),
        ("--addrs", arguments.addrs),
        ("--inline", arguments.inline),
        ("--srcline", arguments.srcline),
        ("--skip-after", !arguments.skip_after.is_empty()),
        ("--no-tidy-generic", arguments.no_tidy_generic),
        ("--no-tidy-java", arguments.no_tidy_java),
    ];
    if let Some((option, _)) = of_lines.iter().find(|(_, is_given)| *is_given) {
        bail!(Failure::Usage(format!(
            "{option} is about the lines of stackcollapse-perf.pl, which have no filters; leave one of \
             them out (processes are chosen with --label pid=NUMBER, stacks cut with --show-from RE)"
        )));
    }
    match <[_; 1]>::try_from(inputs) {
        Ok([(input, file)]) => convert(input, file, arguments, output),
        Err(_) => bail!(Failure::Usage(
            "filters take one file; join several with cat".to_owned()
        )),
    }
}

fn convert(
    input: Input,
    file: &Path,
    arguments: &CollapseArgs,
    output: Option<OutputFile>,
) -> anyhow::Result<ExitCode> {
    let read = ReadArgs {
        event: arguments.event_filter.clone(),
        ..ReadArgs::default()
    };
    let destination = Destination::to(output, Output::folded(), &arguments.show.filters());
    let profile = save::read_input(input, file, &read)?;
    destination.write(&profile)?;
    Ok(ExitCode::SUCCESS)
}

fn collapse(inputs: &[(Input, &Path)], arguments: &CollapseArgs) -> anyhow::Result<Collapsed> {
    let options = CollapseOptions {
        with_pid: arguments.pid,
        with_tid: arguments.tid,
        mark_kernel: arguments.kernel || arguments.all,
        mark_jit: arguments.jit || arguments.all,
        with_addresses: arguments.addrs,
        has_source_lines: arguments.srcline,
        event: arguments
            .event_filter
            .clone()
            .filter(|event| !event.is_empty()),
        skip_after: arguments.skip_after.clone(),
        tidy_generic: !arguments.no_tidy_generic,
        tidy_java: !arguments.no_tidy_java,
    };
    let texts = inputs.iter().map(|(input, _)| &input[..]);
    if !arguments.inline {
        return Ok(nodespy_formats::collapse(texts, &options, None));
    }
    let mut addr2line = Addr2line::new(arguments.context);
    let mut ask =
        |address: &[u8], name: &[u8], module: &[u8]| addr2line.inlined(address, name, module);
    let collapsed = nodespy_formats::collapse(texts, &options, Some(&mut ask));
    addr2line
        .finish()
        .context("cannot start addr2line, which --inline needs (binutils has it)")?;
    Ok(collapsed)
}

/// Writes to the file that is asked for, or to standard output.
fn write(collapsed: &Collapsed, output: Option<&OutputFile>) -> anyhow::Result<()> {
    if let Some(file) = output {
        return file.write(|mut output| Ok(collapsed.write(&mut output)?));
    }
    match collapsed.write(&mut std::io::stdout().lock()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => Ok(done?),
    }
}

fn report_what_is_missing(
    collapsed: &Collapsed,
    inputs: &[(Input, &Path)],
    arguments: &CollapseArgs,
) {
    if let (0, 1.., Some(event)) = (
        arguments.event_filter.iter().count(),
        collapsed.left_out,
        &collapsed.event,
    ) {
        output::note(&format!(
            "nodespy: only {} is counted; {} samples of other events are left out (--event-filter=EVENT)",
            nodespy_model::printable(event),
            output::grouped(collapsed.left_out),
        ));
    }
    if let Some(odd) = &collapsed.first_odd {
        let file = inputs
            .get(odd.text)
            .map_or(Path::new("-"), |(_, file)| file);
        output::note(&format!(
            "nodespy: {} lines are not perf script text and left out, the first is line {} of {}: {}",
            output::grouped(collapsed.odd_lines),
            odd.line,
            file.display(),
            nodespy_model::printable(odd.start.trim()),
        ));
    }
}
