//! Costs that only went from one function to another.

use std::collections::{BTreeSet, HashMap};

use super::judge::MIN_SAMPLES;
use super::table::Table;
use super::{Change, Verdict};

/// How much of what one function gained another must have lost, and at most.
const SHARE: std::ops::Range<f64> = 0.5..2.0;

/// Finds costs that moved and calls them so: what one function gained another lost, and a caller of both, or one of
/// them as the caller of the other, costs the same with what it calls. Returns by row what the cost moved to or from.
pub(super) fn find(table: &Table, own: &mut [Change], total: &[Change]) -> Vec<Option<usize>> {
    let mut moves = vec![None; own.len()];
    let mut falls = Falls::of(table, own);
    for rise in rises(table, own) {
        let gain = own[rise].after - own[rise].before;
        let anchors = [Some(rise), table.main_callers[rise]];
        let is_steady = |anchor: &usize| total[*anchor].verdict == Verdict::NoChange;
        let steady = anchors.into_iter().flatten().filter(is_steady);
        if let Some(fall) = steady
            .into_iter()
            .find_map(|anchor| falls.take(anchor, gain))
        {
            (moves[rise], moves[fall]) = (Some(fall), Some(rise));
            own[rise].verdict = Verdict::Moved;
            own[fall].verdict = Verdict::Moved;
        }
    }
    moves
}

fn rises(table: &Table, own: &[Change]) -> Vec<usize> {
    let is_rise = |row: &usize| {
        matches!(
            own[*row].verdict,
            Verdict::Regression | Verdict::LikelySlower | Verdict::New
        ) && table.samples(&table.rows[*row], |cost| cost.own) >= MIN_SAMPLES
    };
    (0..own.len()).filter(is_rise).collect()
}

/// Functions that cost less, by the functions whose total would not show it: themselves and their callers. Each list
/// is in the order of what was lost, so that the nearest to a gain is found without going through all.
struct Falls {
    by_anchor: HashMap<usize, BTreeSet<(u64, usize)>>,
    anchors: HashMap<usize, [Option<usize>; 2]>,
}

impl Falls {
    fn of(table: &Table, own: &[Change]) -> Self {
        let mut falls = Self {
            by_anchor: HashMap::new(),
            anchors: HashMap::new(),
        };
        for (row, change) in own.iter().enumerate() {
            let is_fall = matches!(
                change.verdict,
                Verdict::Improvement | Verdict::LikelyFaster | Verdict::Gone
            );
            if !is_fall {
                continue;
            }
            let anchors = [Some(row), table.main_callers[row]];
            for anchor in anchors.into_iter().flatten() {
                let entry = (order(change.before - change.after), row);
                falls.by_anchor.entry(anchor).or_default().insert(entry);
            }
            falls.anchors.insert(row, anchors);
        }
        falls
    }

    /// The fall below `anchor` that is nearest to a gain, which no other gain gets any more.
    fn take(&mut self, anchor: usize, gain: f64) -> Option<usize> {
        let losses = self.by_anchor.get(&anchor)?;
        let (least, most) = (order(SHARE.start * gain), order(SHARE.end * gain));
        let middle = order(gain).clamp(least, most);
        let below = losses.range((least, 0)..(middle, 0)).next_back();
        let above = losses.range((middle, 0)..(most, 0)).next();
        let distance = |entry: &&(u64, usize)| (f64::from_bits(entry.0) - gain).abs();
        let &entry = below
            .into_iter()
            .chain(above)
            .min_by(|left, right| distance(left).total_cmp(&distance(right)))?;
        let anchors = self.anchors.remove(&entry.1).unwrap_or_default();
        for anchor in anchors.into_iter().flatten() {
            if let Some(losses) = self.by_anchor.get_mut(&anchor) {
                losses.remove(&entry);
            }
        }
        Some(entry.1)
    }
}

/// Floats that are not negative are in the order of their bits.
fn order(cost: f64) -> u64 {
    cost.max(0.0).to_bits()
}
