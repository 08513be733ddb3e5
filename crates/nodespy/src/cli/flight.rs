//! Arguments of recordings that go on for long: the flight recorder, and how much is written.

use std::time::Duration;

use clap::Args;
use nodespy_recorder::Trigger;

use super::values::{parse_duration, parse_size};
use crate::failure::Failure;

/// Slices are a second.
const MIN_EVERY: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct FlightArgs {
    /// Keep recent samples in memory, and write them only when this happens: stall>200ms,
    /// cpu>90%/5s, rss>1GB, rundelay>20%/5s, or signal (SIGUSR2 to nodespy); may be repeated
    #[arg(long, value_name = "TRIGGER", value_parser = parse_trigger)]
    pub(crate) trigger: Vec<Trigger>,
    /// With --trigger: how much time before the trigger to write [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) keep: Option<Duration>,
    /// With --trigger: ignore further triggers for this long after writing a file [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) hold_off: Option<Duration>,
    /// Write a numbered file every TIME and keep recording, without gaps
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) every: Option<Duration>,
    /// With --trigger or --every: stop after this many files [default with --trigger: 10]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_files: Option<u32>,
    /// Stop after recording this many bytes, or writing them with --trigger or --every: 200MB
    /// [default with --trigger: 100MB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_size: Option<u64>,
}

impl FlightArgs {
    /// Whether a flight recorder is asked for; an error where only a part of one is.
    pub(crate) fn is_flight(&self) -> Result<bool, Failure> {
        match (self.trigger.is_empty(), self.every) {
            (false, Some(_)) => {
                return Err(Failure::Usage(
                    "--every writes everything and --trigger only what led to something: record \
                     twice, or leave out one: nodespy record --trigger 'stall>200ms' -p PID"
                        .to_owned(),
                ));
            }
            (false, None) => return Ok(true),
            (true, Some(every)) if every < MIN_EVERY => {
                return Err(Failure::Usage(
                    "--every takes a second at least: nodespy record --every 60s -p PID".to_owned(),
                ));
            }
            (true, _) => {}
        }
        let has_many = self.every.is_some();
        let alone = [
            ("--keep", self.keep.is_some()),
            ("--hold-off", self.hold_off.is_some()),
            ("--max-files", self.max_files.is_some() && !has_many),
        ];
        match alone.iter().find(|(_, is_given)| *is_given) {
            Some((option, _)) => Err(Failure::Usage(format!(
                "{option} needs a --trigger: nodespy record --trigger 'stall>200ms' --keep 30s -p PID"
            ))),
            None => Ok(false),
        }
    }
}

fn parse_trigger(text: &str) -> Result<Trigger, String> {
    text.parse()
}
