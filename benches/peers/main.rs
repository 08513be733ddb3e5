//! nodespy and its peers on the same inputs: CPU time and peak memory of whole commands, in
//! interleaved rounds. See `benches/README.md` for how to read the numbers.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a report on the terminal is what this program is for"
)]

mod cases;
mod command;
mod options;
#[path = "../overhead/statistics.rs"]
mod statistics;

use std::io::IsTerminal;

use cases::{Case, Contender};
use command::Cost;
use options::Options;
use statistics::{Spread, median};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let Some(options) = Options::from_arguments(std::env::args().skip(1))? else {
        print!("{}", options::HELP);
        return Ok(());
    };
    std::fs::create_dir_all(&options.output)?;
    println!(
        "CPU seconds (user and system) and the largest process, medians of {} interleaved rounds; ratios are\n\
         medians of the ratios within each round",
        options.rounds
    );
    let mut has_missed = false;
    for case in cases::all(&options) {
        if options
            .only
            .as_ref()
            .is_some_and(|only| !case.name.contains(only))
        {
            continue;
        }
        has_missed |= measure(&options, &case)?;
    }
    match has_missed && options.is_strict {
        true => Err("a goal was missed".into()),
        false => Ok(()),
    }
}

/// Runs every contender of a case in every round, and tells whether a goal was missed.
fn measure(options: &Options, case: &Case) -> Result<bool, Failure> {
    println!("\n{} ({:.1} MB)", case.name, case.input_megabytes());
    if !case.input.exists() {
        println!("  left out: {} is missing", case.input.display());
        return Ok(true);
    }
    let contenders: Vec<&Contender> = case
        .contenders
        .iter()
        .filter(|contender| {
            let is_there = contender.is_installed();
            if !is_there {
                println!("  {:<28} left out: not installed", contender.name);
            }
            is_there
        })
        .collect();
    let mut costs: Vec<Vec<Cost>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..options.rounds {
        for step in 0..contenders.len() {
            let at = (round + step) % contenders.len();
            costs[at].push(command::run(&contenders[at].command)?);
        }
        if std::io::stderr().is_terminal() {
            eprint!("\rround {} of {}\x1b[K\r", round + 1, options.rounds);
        }
    }
    Ok(print_table(case, &contenders, &costs))
}

fn print_table(case: &Case, contenders: &[&Contender], costs: &[Vec<Cost>]) -> bool {
    let ours = &costs[0];
    let mut has_missed = false;
    for (contender, costs) in contenders.iter().zip(costs) {
        let mut line = format!(
            "  {:<28} {:>9.3} s {:>7.0} MB",
            contender.name,
            median(costs.iter().map(|cost| cost.cpu_seconds)),
            median(costs.iter().map(|cost| cost.memory_megabytes)),
        );
        if costs.iter().any(|cost| !cost.is_success) {
            line += "   it failed";
        }
        if let Some(goal) = contender.goal {
            let ratios = Spread::of(
                ours.iter()
                    .zip(costs)
                    .map(|(ours, theirs)| ours.cpu_seconds / theirs.cpu_seconds),
            );
            let is_met = ratios.median <= goal;
            has_missed |= !is_met;
            line += &format!(
                "   nodespy takes {ratios} of it (goal {goal}: {})",
                if is_met { "met" } else { "MISSED" }
            );
        }
        println!("{line}");
    }
    if let Some(samples) = case.samples {
        let beyond = median(ours.iter().map(|cost| cost.memory_megabytes)) - case.input_megabytes();
        let each = beyond / samples as f64 * 1e6 / 1000.0;
        println!(
            "  memory beyond the file: {each:.2} GB per million samples (goal 0.4, {samples} samples)"
        );
        has_missed |= each > 0.4;
    }
    has_missed
}
