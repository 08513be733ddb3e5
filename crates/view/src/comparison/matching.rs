//! Which function of a picture a line of a comparison is about, and what it says of it in one word.

use std::collections::HashMap;

use nodespy_analysis::{Change, Comparison, FunctionChange, Verdict};

use super::{interval, percent_change};

/// Finds the change of a function by its name and place.
pub(crate) struct Matching<'a> {
    by_line: HashMap<(&'a str, &'a str, u32), &'a FunctionChange>,
    /// None where several go by it.
    by_file: HashMap<(&'a str, &'a str), Option<&'a FunctionChange>>,
}

impl<'a> Matching<'a> {
    pub(crate) fn of(comparison: &'a Comparison) -> Self {
        let mut by_line = HashMap::new();
        let mut by_file: HashMap<_, Option<_>> = HashMap::new();
        let mut add = |key, change: &'a FunctionChange| {
            let known = by_file.entry(key).or_insert(Some(change));
            if !known.is_some_and(|known| std::ptr::eq(known, change)) {
                *known = None;
            }
        };
        for change in &comparison.functions {
            let (name, file) = (change.id.name.as_str(), change.location.file.as_str());
            by_line.insert((name, file, change.location.line), change);
            add((name, file_name(file)), change);
            // The run of the earlier side still has it under its earlier name.
            if let Some(was) = &change.was {
                add((was.name.as_str(), file_name(&was.file)), change);
            }
        }
        Self { by_line, by_file }
    }

    /// The change of a function. Its folder and line may differ from those of the run that the comparison has them of.
    pub(crate) fn find(&self, name: &str, file: &str, line: u32) -> Option<&'a FunctionChange> {
        let exact = self.by_line.get(&(name, file, line)).copied();
        exact.or_else(|| {
            self.by_file
                .get(&(name, file_name(file)))
                .copied()
                .flatten()
        })
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// How a function's own cost stands: what a colour can say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Slower,
    Faster,
    LikelySlower,
    LikelyFaster,
    New,
    Gone,
    Moved,
    Noise,
}

impl Standing {
    pub(crate) fn of(function: &FunctionChange) -> Self {
        let own = &function.own;
        match own.verdict {
            Verdict::Regression => Self::Slower,
            Verdict::Improvement => Self::Faster,
            Verdict::LikelySlower => Self::LikelySlower,
            Verdict::LikelyFaster => Self::LikelyFaster,
            Verdict::New => Self::New,
            Verdict::Gone => Self::Gone,
            Verdict::Moved => Self::Moved,
            Verdict::NoChange => Self::Noise,
            Verdict::Untested => untested(own),
        }
    }

    /// Its name in data.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::LikelySlower => "likely_slower",
            Self::LikelyFaster => "likely_faster",
            Self::New => "new",
            Self::Gone => "gone",
            Self::Moved => "moved",
            Self::Noise => "noise",
        }
    }
}

/// Of too few runs there is no verdict; the widened interval still tells what may be noise.
fn untested(own: &Change) -> Standing {
    match own.interval {
        Some((low, _)) if low > 1.0 => Standing::LikelySlower,
        Some((_, high)) if high < 1.0 => Standing::LikelyFaster,
        _ => Standing::Noise,
    }
}

/// The change of a function in a few words: `+18.6 % [+17, +20], regression`.
pub(crate) fn change_words(function: &FunctionChange) -> String {
    let own = &function.own;
    let change = match (own.before > 0.0, own.after > 0.0) {
        (true, true) => percent_change(own.ratio),
        _ => String::new(),
    };
    let parts = [
        format!("{change} {}", interval(own)),
        super::verdict(function),
    ];
    let parts = parts.iter().map(|part| part.trim());
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    match parts.is_empty() {
        true => "not tested".to_owned(),
        false => parts.join(", "),
    }
}
