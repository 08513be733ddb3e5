//! Values of arguments that are more than a word.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use nodespy_agent::MAX_KEY_BYTES;
use nodespy_analysis::{parse_bytes, parse_seconds};
use nodespy_model::{Labels, printable};

/// What rows are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum By {
    /// The functions that ran
    Function,
    /// The routes of the requests that they ran for
    Route,
}

/// What the rows of `top` are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TopBy {
    /// The functions that ran.
    Function,
    /// The routes of the requests that they ran for.
    Route,
    /// What a label says that samples have.
    Label(String),
}

impl TopBy {
    pub(super) fn parse(text: &str) -> Result<Self, std::convert::Infallible> {
        Ok(match text {
            "function" => Self::Function,
            "route" => Self::Route,
            label => Self::Label(label.to_owned()),
        })
    }
}

/// A time between samples in microseconds: `1000us`, `1ms`.
pub(super) fn parse_interval(text: &str) -> Result<u32, String> {
    let (number, factor) = match (text.strip_suffix("us"), text.strip_suffix("ms")) {
        (Some(number), _) => (number, 1),
        (_, Some(number)) => (number, 1000),
        _ => (text, 1),
    };
    number
        .trim()
        .parse::<u32>()
        .ok()
        .and_then(|number| number.checked_mul(factor))
        .filter(|interval| (50..=1_000_000).contains(interval))
        .ok_or_else(|| format!("{text:?} is not a time between 50us and 1000ms"))
}

/// `30`, `30s`, `1.5s`, `500ms`, `2m`, `1h`.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let seconds = parse_seconds(text)?;
    if !(0.001..=31_536_000.0).contains(&seconds) {
        return Err(format!("{text} is not between a millisecond and a year"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// An address that only this machine can reach.
pub(super) fn parse_loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| format!("{text:?} is not an address such as 127.0.0.1:4601"))?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(format!(
            "{address} can be reached from other machines: listen on 127.0.0.1"
        )),
    }
}

/// `pyroscope=http://pyro:4040`.
pub(super) fn parse_push(text: &str) -> Result<Push, String> {
    let (kind, url) = split_push(text, "URL")?;
    Ok(Push {
        kind,
        url: url.to_owned(),
    })
}

/// `pyroscope=/etc/nodespy/pyroscope`.
pub(super) fn parse_push_token(text: &str) -> Result<PushToken, String> {
    let (kind, file) = split_push(text, "FILE")?;
    Ok(PushToken {
        kind,
        file: PathBuf::from(file),
    })
}

fn split_push<'a>(text: &'a str, what: &str) -> Result<(PushKind, &'a str), String> {
    let (word, value) = text.split_once('=').unwrap_or_default();
    let kind = PushKind::ALL.into_iter().find(|kind| kind.word() == word);
    let kind = kind.ok_or_else(|| {
        format!("pyroscope={what}, otlp={what} and parca={what} are what can be pushed to")
    })?;
    Ok((kind, value))
}

/// Where an agent pushes to.
#[derive(Debug, Clone)]
pub(crate) struct Push {
    pub(crate) kind: PushKind,
    pub(crate) url: String,
}

/// What an agent proves itself with there.
#[derive(Debug, Clone)]
pub(crate) struct PushToken {
    pub(crate) kind: PushKind,
    pub(crate) file: PathBuf,
}

/// Whose wire it speaks there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushKind {
    Pyroscope,
    Otlp,
    Parca,
}

impl PushKind {
    const ALL: [Self; 3] = [Self::Pyroscope, Self::Otlp, Self::Parca];

    /// As it is written on the command line.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Pyroscope => "pyroscope",
            Self::Otlp => "otlp",
            Self::Parca => "parca",
        }
    }
}

/// The longest age.
const MAX_AGE_DAYS: f64 = 3660.0;

/// `7d`, `36h`: how long something is kept.
pub(super) fn parse_age(text: &str) -> Result<Duration, String> {
    let days = |days: &str| days.trim().parse::<f64>().ok().map(|days| days * 86_400.0);
    let seconds = match text.strip_suffix('d') {
        Some(number) => days(number).ok_or_else(|| format!("{text:?} is not a number of days"))?,
        None => parse_seconds(text)?,
    };
    if !(3600.0..=MAX_AGE_DAYS * 86_400.0).contains(&seconds) {
        return Err(format!("{text} is not between an hour and ten years"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// `key=value`.
pub(super) fn parse_label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let (key, value) = (key.trim(), value.trim());
    if key.is_empty() || value.is_empty() {
        return Err(format!("{text:?} is not KEY=VALUE"));
    }
    // As it is sent.
    let key_bytes = printable(key).len();
    if key_bytes > MAX_KEY_BYTES {
        let why = format!("the key has {key_bytes} bytes, and {MAX_KEY_BYTES} are taken");
        return Err(why);
    }
    let value_chars = value.chars().count();
    if value_chars > Labels::MAX_VALUE_CHARS {
        let most = Labels::MAX_VALUE_CHARS;
        let why = format!("the value has {value_chars} characters, and {most} are kept");
        return Err(why);
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// How the requests of processes are counted, one setting of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestSetting {
    /// The name of the counter.
    Metric(String),
    /// A port where processes serve it.
    Port(u16),
    /// The path of the page.
    Path(String),
}

/// `metric=http_requests_total`, `port=9464`, `path=/metrics`.
pub(super) fn parse_request_setting(text: &str) -> Result<RequestSetting, String> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let is_name = |it: char| it.is_ascii_alphanumeric() || "_:".contains(it);
    let is_metric = value.chars().all(is_name) && !value.starts_with(|it: char| it.is_numeric());
    match key.trim() {
        "metric" if !value.is_empty() && is_metric => Ok(RequestSetting::Metric(value.to_owned())),
        "metric" => Err(format!("{value:?} is not the name of a metric")),
        "port" => match value.parse() {
            Ok(port @ 1..) => Ok(RequestSetting::Port(port)),
            _ => Err(format!("{value:?} is not a port")),
        },
        "path" if value.starts_with('/') && value.chars().all(|it| it.is_ascii_graphic()) => {
            Ok(RequestSetting::Path(value.to_owned()))
        }
        "path" => Err(format!("{value:?} is not a path such as /metrics")),
        _ => Err("metric=NAME, port=PORT and path=PATH are the settings".to_owned()),
    }
}

/// A share of one CPU: `2%`, `0.5%`.
pub(super) fn parse_overhead(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percent: Option<f64> = number.parse().ok();
    percent
        .filter(|percent| (0.1..=100.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("{text} is not between 0.1% and 100% of a CPU"))
}

/// `500KB`, `200MB`, `1GB`.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    match parse_bytes(text)? {
        0 => Err(format!("{text} is nothing; write 500KB, 200MB or 1GB")),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overheads_are_percentages() {
        assert_eq!(parse_overhead("2%"), Ok(0.02));
        assert_eq!(parse_overhead("0.5 %"), Ok(0.005));
        for text in ["", "%", "0", "101%", "NaN", "-1%", "2x"] {
            assert!(parse_overhead(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("1.5MB"), Ok(1_500_000));
        assert_eq!(parse_size("1 GiB"), Ok(1 << 30));
        assert_eq!(parse_size("9999999999999GB"), Ok(u64::MAX));
        for text in ["", "0", "MB", "-1", "1 mile", "."] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ages_and_labels_are_read() {
        assert_eq!(parse_age("7d"), Ok(Duration::from_secs(604_800)));
        assert_eq!(parse_age("36h"), Ok(Duration::from_secs(129_600)));
        for text in ["", "d", "5m", "-1d", "9999d", "NaNd"] {
            assert!(parse_age(text).is_err(), "{text}");
        }
        let label = ("env".to_owned(), "a=b".to_owned());
        assert_eq!(parse_label("env=a=b"), Ok(label));
        assert!(parse_label("env").is_err() && parse_label("=x").is_err());
        // A server refuses a longer key, and all that is sent with it.
        let longest = format!("{}={}", "k".repeat(128), "v".repeat(512));
        assert!(parse_label(&longest).is_ok());
        let long_key = format!("k{longest}");
        assert!(parse_label(&long_key).unwrap_err().contains("129 bytes"));
        assert!(parse_label(&format!("{longest}v")).is_err());
    }

    #[test]
    fn settings_of_requests_are_read() {
        let metric = RequestSetting::Metric("http_requests_total".to_owned());
        let setting = parse_request_setting("metric=http_requests_total");
        assert_eq!(setting, Ok(metric));
        let port = parse_request_setting("port=9464");
        assert_eq!(port, Ok(RequestSetting::Port(9464)));
        for wrong in [
            "metric=",
            "metric=a b",
            "metric=7a",
            "metric=a{b=\"c\"}",
            "port=0",
            "port=65536",
            "path=metrics",
            "path=/a b",
            "host=example.org",
            "metric",
        ] {
            assert!(parse_request_setting(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn durations_are_read() {
        assert_eq!(parse_duration("30"), Ok(Duration::from_secs(30)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("1.5m"), Ok(Duration::from_secs(90)));
        assert!(parse_duration("0").is_err());
        assert!(parse_duration("soon").is_err());
        assert!(parse_duration("1e99s").is_err());
    }
}
