//! The values that filters take: patterns, times, shares, kinds.

use std::fmt;

use nodespy_model::{FunctionIndex, Nanoseconds, Profile};
use regex::Regex;

use crate::{Package, PackageKind};

/// A regular expression for functions. As in the page's search it is looked for in the name, in the
/// place (`file:line:column`) and in `name place`, so that `^` and `$` may mean the ends of any.
#[derive(Debug, Clone)]
pub struct Pattern {
    regex: Regex,
}

impl Pattern {
    /// Reads it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let regex = Regex::new(text).map_err(|error| match error {
            regex::Error::Syntax(message) => {
                let why = message.lines().last().unwrap_or_default();
                format!(
                    "not a regular expression ({}); an example is 'parse|/lib/cart/'",
                    why.trim_start_matches("error: ")
                )
            }
            error => error.to_string(),
        })?;
        Ok(Self { regex })
    }

    /// Whether it matches a function.
    pub fn is_match(&self, profile: &Profile, function: FunctionIndex) -> bool {
        let name = profile.name_of(function);
        let place = profile.location_of(function);
        let is_match = |text: &str| self.regex.is_match(text);
        is_match(name)
            || (!place.is_empty() && (is_match(&place) || is_match(&format!("{name} {place}"))))
    }

    /// Whether it matches a text.
    pub(crate) fn is_match_in(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.regex.as_str())
    }
}

/// A moment of a recording.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    After(Nanoseconds),
    Percent(f64),
}

impl Moment {
    fn parse(text: &str) -> Result<Self, String> {
        if let Some(percent) = text.strip_suffix('%') {
            let percent = percent.trim().parse().ok();
            let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
            return percent
                .map(Self::Percent)
                .ok_or_else(|| format!("{text:?} is not between 0% and 100%"));
        }
        let seconds = parse_seconds(text)?;
        Ok(Self::After((seconds * 1e9) as Nanoseconds))
    }

    fn in_profile(self, profile: &Profile) -> Nanoseconds {
        match self {
            Self::After(time) => time,
            Self::Percent(percent) => {
                let last = profile.samples.last().map_or(0, |sample| sample.time);
                let length = profile.about.duration.max(last);
                (length as f64 * percent / 100.0) as Nanoseconds
            }
        }
    }
}

/// A part of a recording: `3s..10s`, `3s..`, `..10s`, `25%..75%`.
#[derive(Debug, Clone)]
pub struct TimeRange {
    text: String,
    start: Option<Moment>,
    end: Option<Moment>,
}

impl TimeRange {
    /// Reads it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let example = "write a part of the recording as 3s..10s, 500ms.., ..2m or 25%..75%";
        let (start, end) = text.split_once("..").ok_or(example)?;
        let side = |text: &str| match text.trim() {
            "" => Ok(None),
            text => Moment::parse(text).map(Some),
        };
        let (start, end) = (side(start)?, side(end)?);
        let is_backwards = match (start, end) {
            (None, None) => return Err(example.to_owned()),
            (Some(Moment::After(start)), Some(Moment::After(end))) => start >= end,
            (Some(Moment::Percent(start)), Some(Moment::Percent(end))) => start >= end,
            _ => false,
        };
        match is_backwards {
            true => Err(format!("the end comes before the start; {example}")),
            false => Ok(Self {
                text: text.to_owned(),
                start,
                end,
            }),
        }
    }

    /// Its start and end in a recording.
    pub fn in_profile(&self, profile: &Profile) -> (Nanoseconds, Nanoseconds) {
        let at = |moment: Moment| moment.in_profile(profile);
        let end = match self.end {
            // The last sample is part of the whole.
            None | Some(Moment::Percent(100.0)) => Nanoseconds::MAX,
            Some(moment) => at(moment),
        };
        (self.start.map_or(0, at), end)
    }
}

impl fmt::Display for TimeRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// A share of the whole: `0.5%`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Share {
    percent: f64,
}

impl Share {
    /// Reads it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').and_then(|text| text.parse().ok());
        number
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map(|percent| Self { percent })
            .ok_or_else(|| "write a share as 0.5% or 2%".to_owned())
    }

    /// From 0 to 1.
    pub fn of_one(self) -> f64 {
        self.percent / 100.0
    }
}

impl fmt::Display for Share {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}%", self.percent)
    }
}

/// A label that processes must have: `container=web`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelFilter {
    /// Its key.
    pub key: String,
    /// The value of that.
    pub value: String,
}

impl LabelFilter {
    /// Reads it.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok(Self {
                key: key.to_owned(),
                value: value.to_owned(),
            }),
            _ => Err("write a label as container=web or worker=2".to_owned()),
        }
    }
}

impl fmt::Display for LabelFilter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.key, self.value)
    }
}

/// A number and what stands behind it.
fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let unit_at = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    Some((number.parse().ok()?, unit.trim()))
}

/// A length of time in seconds, written with a unit or without.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    let (number, unit) = number_and_unit(text)
        .ok_or_else(|| format!("{text:?} is not a time; write 30, 30s, 500ms or 2m"))?;
    match unit {
        "" | "s" => Ok(number),
        "ms" => Ok(number / 1e3),
        "m" | "min" => Ok(number * 60.0),
        "h" => Ok(number * 3600.0),
        unit => Err(format!("{unit:?} is not a unit of time; use ms, s, m or h")),
    }
}

/// Reads a number of bytes: `500KB`, `1GB`, `1.5GiB`, `4096`.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = number_and_unit(text)
        .ok_or_else(|| format!("{text:?} is not a size; write 500KB, 200MB or 1GB"))?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "kib" => f64::from(1 << 10),
        "mib" => f64::from(1 << 20),
        "gib" => f64::from(1 << 30),
        unit => return Err(format!("{unit:?} is not a unit of size; use KB, MB or GB")),
    };
    // A float that is too large becomes the largest number.
    Ok((number * factor) as u64)
}

/// Whether a package is one that `--fold` names.
pub(crate) fn is_folded(package: &Package, name: &str) -> bool {
    match name {
        "deps" => package.kind == PackageKind::Dependency,
        "node" => package.kind == PackageKind::Node,
        "v8" => package.kind == PackageKind::V8,
        name => package.name == name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        let range = |text: &str| TimeRange::parse(text).map(|range| (range.start, range.end));
        let after = |seconds: f64| Some(Moment::After((seconds * 1e9) as u64));
        assert_eq!(range("3s..10s"), Ok((after(3.0), after(10.0))));
        assert_eq!(range("500ms.."), Ok((after(0.5), None)));
        assert_eq!(range("..2m"), Ok((None, after(120.0))));
        assert_eq!(range("0..1"), Ok((after(0.0), after(1.0))));
        let percents = (Some(Moment::Percent(25.0)), Some(Moment::Percent(75.0)));
        assert_eq!(range("25%..75%"), Ok(percents));
        for bad in [
            "",
            "3s",
            "..",
            "10s..3s",
            "3x..",
            "a..b",
            "-1s..",
            "50%..200%",
            "9%..9%",
        ] {
            assert!(range(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_need_their_sign() {
        assert_eq!(Share::parse("0.5%").map(Share::of_one), Ok(0.005));
        for bad in ["", "%", "1", "101%", "-1%", "NaN%"] {
            assert!(Share::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_bad_pattern_says_what_is_wrong_and_shows_a_good_one() {
        let error = Pattern::parse("(a").unwrap_err();
        assert_eq!(
            error,
            "not a regular expression (unclosed group); an example is 'parse|/lib/cart/'"
        );
    }
}
