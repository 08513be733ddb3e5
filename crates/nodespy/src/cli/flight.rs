//! Arguments of recordings that go on for long: the flight recorder, and how much is written.

use std::time::Duration;

use clap::Args;
use nodespy_recorder::Trigger;

use super::values::{parse_duration, parse_size};
use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct FlightArgs {
    /// Write nothing but what was recorded around the moment that this happens: stall>200ms,
    /// cpu>90%/5s, rss>1GB, rundelay>20%/5s, or signal (SIGUSR2 to nodespy); may be repeated
    #[arg(long, value_name = "TRIGGER", value_parser = parse_trigger)]
    pub(crate) trigger: Vec<Trigger>,
    /// With --trigger: how much from before it is written [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) keep: Option<Duration>,
    /// With --trigger: how long nothing is written after a file [default: 60s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) hold_off: Option<Duration>,
    /// With --trigger: end after so many files [default: 10]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_files: Option<u32>,
    /// End when the files have so many bytes together [default: 100MB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) max_size: Option<u64>,
}

impl FlightArgs {
    /// Whether a flight recorder is asked for; an error where only a part of one is.
    pub(crate) fn is_flight(&self) -> Result<bool, Failure> {
        if !self.trigger.is_empty() {
            return Ok(true);
        }
        let alone = [
            ("--keep", self.keep.is_some()),
            ("--hold-off", self.hold_off.is_some()),
            ("--max-files", self.max_files.is_some()),
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
