//! The flame graph of a comparison: as wide as the later side, red and blue where a change can be told from noise, grey
//! elsewhere, hatched where a frame is gone; signs before names say the same without colours.

use std::io::Write;

use nodespy_analysis::{Basis, Comparison, ProfilePair};
use nodespy_model::FunctionIndex;

use super::picture::least_share;
use super::{Difference, draw_layout, options_for};
use crate::DrawError;
use crate::comparison::{Matching, Standing, change_words, headline};
use crate::labels::Labels;
use crate::layout::Layout;

/// What a box is marked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Changed,
    New,
    Moved,
    Noise,
}

/// What a comparison says of every function of a picture.
pub(super) struct FunctionMarks {
    signs: Vec<Sign>,
    words: Vec<String>,
    whole: f64,
}

impl FunctionMarks {
    fn of(comparison: &Comparison, pair: &ProfilePair, whole: u64) -> Self {
        let profile = &pair.after;
        let matching = Matching::of(comparison);
        let functions = (0..profile.functions.len() as u32).map(FunctionIndex);
        let (signs, words) = functions
            .map(|function| {
                let name = profile.name_of(function);
                let line = profile.function(function).line;
                let change = matching.find(name, profile.file_of(function), line);
                let sign = match change.map(Standing::of) {
                    None | Some(Standing::Noise) => Sign::Noise,
                    Some(Standing::Moved) => Sign::Moved,
                    Some(Standing::New) => Sign::New,
                    Some(_) => Sign::Changed,
                };
                (sign, change.map_or_else(String::new, change_words))
            })
            .unzip();
        Self {
            signs,
            words,
            whole: whole.max(1) as f64,
        }
    }

    pub(super) fn sign(&self, function: FunctionIndex) -> Sign {
        self.signs[function.at()]
    }

    /// The weight of the later side, which shares are of.
    pub(super) fn whole(&self) -> f64 {
        self.whole
    }

    /// What is said of a function; empty where it has no cost of its own.
    pub(super) fn words(&self, function: FunctionIndex) -> &str {
        &self.words[function.at()]
    }
}

/// Draws one run of each side with what a comparison of all runs says. The runs are filtered as they are to be shown.
pub fn draw_svg_comparison(
    comparison: &Comparison,
    pair: &ProfilePair,
    output: &mut dyn Write,
) -> Result<(), DrawError> {
    let tree = pair.tree();
    let whole = tree.after.total_weight();
    let factor = scale(comparison, tree.before_total(), whole);
    let (tree, gone) = tree.with_gone(factor);
    let mut options = options_for(&pair.after);
    options.subtitle = format!(
        "{}; grey: may be noise; hatched: gone, as wide as before",
        headline(comparison)
    );
    let labels = Labels::of(&pair.after, options.names);
    let layout = Layout::of_comparison(&tree, &gone, &labels, least_share(&options));
    let marks = FunctionMarks::of(comparison, pair, whole);
    draw_layout(
        &pair.after,
        &labels,
        layout,
        &options,
        Difference::Comparison(&marks),
        None,
        output,
    )
}

/// What a weight of the earlier run is in weights of the later: such that both runs are the mean ones of their sides.
fn scale(comparison: &Comparison, before: u64, after: u64) -> f64 {
    let same_size = after as f64 / before.max(1) as f64;
    let ratio = match comparison.basis {
        Basis::Share => 1.0,
        Basis::Run | Basis::Work => comparison.total.before / comparison.total.after,
    };
    match ratio.is_finite() && ratio > 0.0 {
        true => same_size * ratio,
        false => same_size,
    }
}
