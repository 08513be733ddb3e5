//! Windows that are not over yet.
//!
//! A store takes a window once and whole. What is sampled comes in slices, which do not end where windows do: what belongs to a
//! window that goes on waits here for the rest of it.

use nodespy_model::{FastMap, FastSet, SmallSort};

use crate::symbols::{StackHash, SymbolBuilder};
use crate::window::{Batch, Count, Series, UnixSeconds, WINDOW_SECONDS, Window};

/// The windows that still grow, with the names of their stacks.
#[derive(Debug, Default)]
pub struct OpenWindows {
    open: Batch,
    /// Windows that started before this were handed out.
    handed_out_before: UnixSeconds,
}

impl OpenWindows {
    /// Adds what was seen. Counts of a window that was handed out already go to the first one that was not: the clocks
    /// of two slices may disagree by a little.
    pub fn add(&mut self, mut batch: Batch) {
        for window in &mut batch.windows {
            window.start = window.start.max(self.handed_out_before);
        }
        let old = std::mem::take(&mut self.open);
        self.open = merged([old, batch], |_| true);
    }

    /// What is in windows that end at `time` or before.
    pub fn take_ended(&mut self, time: UnixSeconds) -> Batch {
        let start = time / WINDOW_SECONDS * WINDOW_SECONDS;
        self.handed_out_before = self.handed_out_before.max(start);
        let open = std::mem::take(&mut self.open);
        let ended = merged([open.clone()], |window| window.start < start);
        self.open = merged([open], |window| window.start >= start);
        ended
    }

    /// Windows that started before this were handed out.
    pub fn handed_out_before(&self) -> UnixSeconds {
        self.handed_out_before
    }

    /// Everything, whether it is whole or not: nothing follows, or the clock was set and what follows is at other times.
    pub fn take_all(&mut self) -> Batch {
        self.handed_out_before = 0;
        std::mem::take(&mut self.open)
    }
}

/// Some windows of batches as one batch, each with its counts added up and the stacks it counts named once.
pub(crate) fn merged<const N: usize>(batches: [Batch; N], keep: impl Fn(&Window) -> bool) -> Batch {
    let mut series: FastMap<Series, usize> = FastMap::default();
    let mut windows: FastMap<(usize, UnixSeconds), Vec<Count>> = FastMap::default();
    let mut symbols = SymbolBuilder::default();
    let mut named: FastSet<StackHash> = FastSet::default();
    let mut all_series = Vec::new();
    for batch in batches {
        let hashes = batch.symbols.hashes();
        let mut positions: FastMap<StackHash, usize> = FastMap::default();
        positions.extend(hashes.into_iter().zip(0..));
        for window in batch.windows.into_iter().filter(&keep) {
            let of = &batch.series[window.series];
            let index = *series.entry(of.clone()).or_insert_with(|| {
                all_series.push(of.clone());
                all_series.len() - 1
            });
            for count in &window.counts {
                if let (Some(position), true) =
                    (positions.get(&count.stack), named.insert(count.stack))
                {
                    symbols.stack_of(&batch.symbols, *position);
                }
            }
            let counts = windows.entry((index, window.start)).or_default();
            counts.extend(window.counts);
        }
    }
    let windows = windows.into_iter();
    let mut windows: Vec<Window> = windows
        .map(|((series, start), counts)| Window {
            series,
            start,
            counts: added_up(counts),
        })
        .collect();
    windows.small_sort_by_key(|window| (window.start, window.series));
    Batch {
        series: all_series,
        windows,
        symbols: symbols.symbols,
    }
}

/// The same counts, each stack and role once.
pub(crate) fn added_up(mut counts: Vec<Count>) -> Vec<Count> {
    counts.sort_unstable();
    counts.dedup_by(|next, kept| {
        let is_same = (next.stack, next.role_number()) == (kept.stack, kept.role_number());
        if is_same {
            kept.count = kept.count.saturating_add(next.count);
        }
        is_same
    });
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::{StoredFrame, StoredFunction, Symbols};
    use nodespy_model::{Labels, ThreadRole, WeightUnit};

    /// A window of one function, seen so often.
    fn seen(start: UnixSeconds, function: &str, count: u64) -> Batch {
        let symbols = Symbols {
            functions: vec![StoredFunction {
                name: function.to_owned(),
                ..StoredFunction::default()
            }],
            frames: vec![StoredFrame::default()],
            stacks: vec![vec![0]],
        };
        let hash = symbols.hashes()[0];
        Batch {
            series: vec![Series {
                service: "shop".to_owned(),
                event: "cpu".to_owned(),
                unit: WeightUnit::Nanoseconds,
                period: 1,
                labels: Labels::default(),
            }],
            windows: vec![Window {
                series: 0,
                start,
                counts: vec![Count::new(hash, ThreadRole::Main, count)],
            }],
            symbols,
        }
    }

    /// Start and total of each window, and how many stacks are named.
    fn outline(batch: &Batch) -> (Vec<(UnixSeconds, u64)>, usize) {
        let total = |window: &Window| window.counts.iter().map(|count| count.count).sum();
        let windows = batch.windows.iter();
        (
            windows.map(|it| (it.start, total(it))).collect(),
            batch.symbols.stacks.len(),
        )
    }

    #[test]
    fn a_window_is_handed_out_once_it_is_over() {
        let mut open = OpenWindows::default();
        open.add(seen(100, "parse", 3));
        open.add(seen(110, "parse", 1));
        assert_eq!(outline(&open.take_ended(109)), (vec![], 0));
        open.add(seen(110, "parse", 4));
        open.add(seen(110, "render", 2));
        assert_eq!(outline(&open.take_ended(110)), (vec![(100, 3)], 1));
        assert_eq!(outline(&open.take_ended(120)), (vec![(110, 7)], 2));
        assert_eq!(outline(&open.take_all()), (vec![], 0));
    }

    #[test]
    fn counts_of_one_stack_are_added_up() {
        let mut open = OpenWindows::default();
        open.add(seen(100, "parse", 3));
        open.add(seen(100, "parse", 4));
        let batch = open.take_all();
        assert_eq!(batch.series.len(), 1);
        assert_eq!(batch.windows[0].counts.len(), 1);
        assert_eq!(batch.windows[0].counts[0].count, 7);
    }

    #[test]
    fn what_comes_too_late_for_its_window_is_in_the_next() {
        let mut open = OpenWindows::default();
        open.take_ended(110);
        open.add(seen(100, "parse", 3));
        assert_eq!(outline(&open.take_ended(120)), (vec![(110, 3)], 1));
    }
}
