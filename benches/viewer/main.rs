//! nodespy's page and other viewers on the same profiles, in a real browser: how much the main
//! thread of the page computes until there is a flame graph and until everything is there, how
//! large the file is and how much memory the page takes. See `benches/README.md`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a report on the terminal is what this program is for"
)]

mod browser;
mod contenders;
mod cpu;
mod frames;
mod profiles;
mod served;

use std::path::PathBuf;

use browser::Browser;
use contenders::Contender;

type Failure = Box<dyn std::error::Error>;

const HELP: &str = "\
Usage: viewer FOLDER [--rounds N] [--only NAME] [--nodespy FILE]

FOLDER holds bld.cpuprofile (benches/viewer/inputs.sh makes it) and gets the rest.
";

/// What is asked for.
pub(crate) struct Options {
    folder: PathBuf,
    rounds: usize,
    only: Option<String>,
    nodespy: PathBuf,
}

/// What a page took.
#[derive(Debug, Clone, Copy)]
struct Cost {
    first_ms: f64,
    all_ms: f64,
    memory_mb: f64,
}

fn main() -> Result<(), Failure> {
    let Some(options) = options(std::env::args().skip(1))? else {
        print!("{HELP}");
        return Ok(());
    };
    println!(
        "CPU time of the page's main thread to the first flame graph and until all is ready, memory of its\n\
         process: the least of {} rounds each, as a busy machine only adds",
        options.rounds
    );
    for profile in profiles::all(&options)? {
        if options
            .only
            .as_ref()
            .is_some_and(|only| !profile.name.contains(only))
        {
            continue;
        }
        println!("\n{}", profile.name);
        println!(
            "  {:<12} {:>10} {:>12} {:>12} {:>10}",
            "", "file", "first flame", "all ready", "memory"
        );
        let mut own: Option<Cost> = None;
        for contender in contenders::all(&options, &profile) {
            let cost = match measured(&options, &contender) {
                Ok(cost) => cost,
                Err(why) => {
                    println!("  {:<12} left out: {why}", contender.name);
                    continue;
                }
            };
            let ratio = match own {
                Some(own) => format!(
                    "  {:.1} x to first, {:.1} x to all, {:.1} x memory",
                    cost.first_ms / own.first_ms,
                    cost.all_ms / own.all_ms,
                    cost.memory_mb / own.memory_mb
                ),
                None => String::new(),
            };
            println!(
                "  {:<12} {:>7.2} MB {:>9.0} ms {:>9.0} ms {:>7.0} MB{ratio}",
                contender.name,
                contender.megabytes(),
                cost.first_ms,
                cost.all_ms,
                cost.memory_mb
            );
            if own.is_none() {
                println!(
                    "  {:<12} a frame of the main thread: {}",
                    "",
                    frames(&contender)?
                );
            }
            own = own.or(Some(cost));
        }
    }
    Ok(())
}

/// What moving over a page costs, in words.
fn frames(contender: &Contender) -> Result<String, Failure> {
    let browser = Browser::start()?;
    cpu::of_page(&browser, contender)?;
    let costs = frames::of_page(&browser)?;
    let words = costs
        .iter()
        .map(|(name, cost)| format!("{name} {cost:.1} ms"));
    Ok(words.collect::<Vec<_>>().join(", "))
}

/// The least of some rounds, each in a browser of its own.
fn measured(options: &Options, contender: &Contender) -> Result<Cost, Failure> {
    contender.make()?;
    let mut least: Option<Cost> = None;
    for _ in 0..options.rounds {
        let browser = Browser::start()?;
        let cost = cpu::of_page(&browser, contender)?;
        least = Some(match least {
            None => cost,
            Some(least) => Cost {
                first_ms: least.first_ms.min(cost.first_ms),
                all_ms: least.all_ms.min(cost.all_ms),
                memory_mb: least.memory_mb.min(cost.memory_mb),
            },
        });
    }
    least.ok_or_else(|| "no rounds".into())
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Option<Options>, Failure> {
    let mut folder = None;
    let mut options = Options {
        folder: PathBuf::new(),
        rounds: 3,
        only: None,
        nodespy: PathBuf::from("target/release/nodespy"),
    };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--help" | "-h" => return Ok(None),
            "--rounds" => options.rounds = value()?.parse()?,
            "--only" => options.only = Some(value()?),
            "--nodespy" => options.nodespy = value()?.into(),
            _ if word.starts_with('-') => return Err(format!("there is no option {word}").into()),
            _ => folder = Some(PathBuf::from(word)),
        }
    }
    let Some(folder) = folder else {
        return Ok(None);
    };
    options.folder = std::fs::canonicalize(folder)?;
    Ok(Some(options))
}
