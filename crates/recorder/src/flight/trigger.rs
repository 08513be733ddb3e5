//! What makes a flight recorder write: `stall>200ms`, `cpu>90%/5s`, `rss>1GB`, `rundelay>20%`, `signal`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use nodespy_analysis::{parse_bytes, parse_seconds};

/// What shares are of, unless it is said.
const USUAL_WINDOW: Duration = Duration::from_secs(5);
/// A slice is a second: what is asked for less often is not seen.
const MIN_WINDOW: f64 = 1.0;
const MAX_WINDOW: f64 = 600.0;
/// More than any machine has CPUs.
const MAX_CPU_PERCENT: f64 = 1_000_000.0;
/// The triggers there are, for who has written another.
const EXAMPLES: &str = "stall>200ms, cpu>90%/5s, rss>1GB, rundelay>20%/5s or signal";

/// When what was recorded lately is worth a file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Trigger {
    /// An event loop was away from poll for as long.
    Stall(Duration),
    /// A process used more than so many percent of a CPU, on average over a time.
    Cpu {
        /// 100 is one CPU.
        percent: f64,
        /// The time.
        window: Duration,
    },
    /// More memory of a process is resident, in bytes.
    Rss(u64),
    /// The main thread of a process waited for a CPU for more than so many percent of a time.
    RunDelay {
        /// Of the time.
        percent: f64,
        /// The time.
        window: Duration,
    },
    /// SIGUSR2 was sent to nodespy.
    Signal,
}

impl Trigger {
    /// Whether samples have to show waiting as well.
    pub fn needs_waits(&self) -> bool {
        matches!(self, Self::Stall(_) | Self::RunDelay { .. })
    }
}

impl FromStr for Trigger {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "signal" {
            return Ok(Self::Signal);
        }
        let Some((name, amount)) = text.split_once('>') else {
            return Err(match text {
                // The shell took the rest for a file to write to.
                "stall" | "cpu" | "rss" | "rundelay" => format!(
                    "{text} has no limit; the shell takes > for itself, so put it between quotes: \
                     --trigger 'stall>200ms'"
                ),
                _ => unknown(text),
            });
        };
        let amount = amount.trim_start_matches('=').trim();
        match name.trim() {
            "stall" => {
                let seconds = parse_seconds(amount)?;
                match (0.001..=86_400.0).contains(&seconds) {
                    true => Ok(Self::Stall(Duration::from_secs_f64(seconds))),
                    false => Err(format!("{amount} is not between a millisecond and a day")),
                }
            }
            "cpu" => {
                let (percent, window) = share_and_window(amount, "cpu>90%/5s", MAX_CPU_PERCENT)?;
                Ok(Self::Cpu { percent, window })
            }
            "rundelay" => {
                let (percent, window) = share_and_window(amount, "rundelay>20%/5s", 100.0)?;
                Ok(Self::RunDelay { percent, window })
            }
            "rss" => parse_bytes(amount).map(Self::Rss),
            _ => Err(unknown(text)),
        }
    }
}

fn unknown(text: &str) -> String {
    format!("{text:?} is not a trigger; write {EXAMPLES}: --trigger 'stall>200ms'")
}

/// `90%/5s`, `90%`.
fn share_and_window(text: &str, example: &str, most: f64) -> Result<(f64, Duration), String> {
    let (share, window) = match text.split_once('/') {
        Some((share, window)) => (share.trim(), Some(window.trim())),
        None => (text, None),
    };
    let number = share.strip_suffix('%').unwrap_or(share).trim();
    let percent = number.parse::<f64>().ok();
    let percent = percent.filter(|percent| (0.0..=most).contains(percent));
    let percent =
        percent.ok_or_else(|| format!("{share:?} is not a share of the time; write {example}"))?;
    let Some(window) = window else {
        return Ok((percent, USUAL_WINDOW));
    };
    let seconds = parse_seconds(window)?;
    match (MIN_WINDOW..=MAX_WINDOW).contains(&seconds) {
        true => Ok((percent, Duration::from_secs_f64(seconds))),
        false => Err(format!(
            "{window} is not between a second and ten minutes; write {example}"
        )),
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stall(time) => write!(formatter, "stall>{}ms", time.as_millis()),
            Self::Cpu { percent, window } => {
                write!(formatter, "cpu>{percent}%/{}s", window.as_secs_f64())
            }
            Self::Rss(bytes) => write!(formatter, "rss>{}MB", *bytes as f64 / 1e6),
            Self::RunDelay { percent, window } => {
                write!(formatter, "rundelay>{percent}%/{}s", window.as_secs_f64())
            }
            Self::Signal => formatter.write_str("signal"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triggers_are_read() {
        let seconds = Duration::from_secs;
        for (text, trigger) in [
            ("stall>200ms", Trigger::Stall(Duration::from_millis(200))),
            ("stall >= 1s", Trigger::Stall(seconds(1))),
            (
                "cpu>90%/5s",
                Trigger::Cpu {
                    percent: 90.0,
                    window: seconds(5),
                },
            ),
            (
                "cpu>150",
                Trigger::Cpu {
                    percent: 150.0,
                    window: seconds(5),
                },
            ),
            ("rss>1GB", Trigger::Rss(1_000_000_000)),
            ("rss>512MiB", Trigger::Rss(512 << 20)),
            (
                "rundelay>20%/10s",
                Trigger::RunDelay {
                    percent: 20.0,
                    window: seconds(10),
                },
            ),
            ("signal", Trigger::Signal),
        ] {
            let read: Trigger = text.parse().unwrap();
            assert_eq!(read, trigger, "{text}");
            assert_eq!(read.to_string().parse(), Ok(trigger), "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_answered_with_an_example() {
        let refused = |text: &str| text.parse::<Trigger>().unwrap_err();
        assert!(refused("slow").contains("'stall>200ms'"));
        assert!(refused("load>3").contains("'stall>200ms'"));
        assert!(refused("stall").contains("quotes"));
        assert!(refused("cpu>much").contains("cpu>90%/5s"));
        assert!(refused("rundelay>120%").contains("rundelay>20%/5s"));
        assert!(refused("cpu>90%/1ms").contains("cpu>90%/5s"));
        assert!(refused("rss>1parsec").contains("GB"));
        assert!(refused("stall>0").contains("millisecond"));
        for text in ["", ">", "stall>", "cpu>/", "cpu>NaN%", "rss>-1"] {
            refused(text);
        }
    }
}
