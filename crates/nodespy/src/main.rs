//! The one binary: arguments in, the crates called in order.

#![forbid(unsafe_code)]

mod cli;
mod commands;
mod comparing;
mod confine;
mod failure;
mod folded_input;
mod format_list;
mod logger;
mod output;
mod output_file;
mod privileges;
mod save;
mod targets;
mod version;

use clap::Parser;

use cli::{Cli, Command};

fn main() -> std::process::ExitCode {
    let started = nodespy_capture::monotonic_now();
    let cli = Cli::parse_from(cli::with_after(std::env::args_os()));
    logger::start(cli.verbose);
    let done = match cli.command {
        None => commands::list::run(&cli.list),
        Some(Command::List(arguments)) => commands::list::run(&arguments),
        Some(Command::Record(arguments)) => commands::record::run(&arguments, started),
        Some(Command::Dump(arguments)) => commands::dump::run(&arguments),
        Some(Command::Top(arguments)) => commands::top::run(&arguments),
        Some(Command::Stalls(arguments)) => commands::stalls::run(&arguments),
        Some(Command::Agent(arguments)) => commands::agent::run(&arguments),
        Some(Command::Serve(arguments)) => commands::serve::run(&arguments),
        Some(Command::Regressions(arguments)) => commands::regressions::run(&arguments),
        Some(Command::Deploy(arguments)) => commands::deploy::run(&arguments),
        Some(Command::Store(arguments)) => commands::store::run(&arguments),
        Some(Command::Recover(arguments)) => commands::recover::run(&arguments),
        Some(Command::View(arguments)) => commands::view::run(&arguments),
        Some(Command::Convert(arguments)) => commands::convert::run(&arguments),
        Some(Command::Report(arguments)) => commands::report::run(&arguments),
        Some(Command::Query(arguments)) => commands::query::run(&arguments),
        Some(Command::Diff(arguments)) => commands::diff::run(&arguments),
        Some(Command::Ci(arguments)) => commands::ci::run(&arguments),
        Some(Command::Collapse(arguments)) => commands::collapse::run(&arguments),
        Some(Command::Flamegraph(arguments)) => commands::flamegraph::run(&arguments),
        Some(Command::Difffolded(arguments)) => commands::difffolded::run(&arguments),
        Some(Command::CloseAbandoned(arguments)) => commands::close_abandoned::run(&arguments),
        Some(Command::Check(arguments)) => commands::check::run(&arguments),
        Some(Command::Events(arguments)) => commands::events::run(&arguments),
        Some(Command::Completions(arguments)) => commands::completions::run(&arguments),
        Some(Command::Man(arguments)) => commands::man::run(&arguments),
        Some(Command::Mcp(arguments)) => commands::mcp::run(&arguments),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            output::error(&error);
            failure::exit_code(&error)
        }
    }
}
