//! Windows of one time apart where the clock was set back.
//!
//! A window is known by its series and its start: sent again, it changes nothing. When the clock is set back, times come again
//! that have their windows, and what is sampled then would pass for what is there. Such windows get a label, which makes
//! their series another one.

use std::ops::Range;

use nodespy_model::FastMap;
use nodespy_store::{Batch, UnixSeconds, WINDOW_SECONDS};

/// The label of windows of a time that was there before: how often the clock had been set.
pub(crate) const CLOCK_SET: &str = "clock-set";
/// How many times are remembered, the latest: a clock that is set more often than that is of no use.
const MAX_PAST: usize = 1000;

/// Which times have windows.
#[derive(Debug, Default)]
pub(crate) struct WindowTimes {
    /// How often the clock was set.
    steps: u64,
    /// Since it was last set.
    current: Option<Range<UnixSeconds>>,
    /// Before.
    past: Vec<Range<UnixSeconds>>,
}

impl WindowTimes {
    /// What comes from now on is by a clock that was set, forward or back: a small step leads into a window that is there.
    pub(crate) fn clock_was_set(&mut self) {
        self.steps += 1;
        self.past.extend(self.current.take());
        if self.past.len() > MAX_PAST {
            self.past.remove(0);
        }
    }

    /// Labels the windows of times that were there before the clock was set.
    pub(crate) fn tell_apart(&mut self, batch: &mut Batch) {
        let mut labelled: FastMap<usize, usize> = FastMap::default();
        for window in &mut batch.windows {
            let end = window.start.saturating_add(WINDOW_SECONDS);
            let known = self.current.take().unwrap_or(window.start..end);
            self.current = Some(known.start.min(window.start)..known.end.max(end));
            if self.past.iter().any(|past| past.contains(&window.start)) {
                let all = &mut batch.series;
                window.series = *labelled.entry(window.series).or_insert_with(|| {
                    let mut series = all[window.series].clone();
                    series.labels.set(CLOCK_SET, self.steps.to_string());
                    all.push(series);
                    all.len() - 1
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bad_days::batch;

    /// The label of a window that is written now.
    fn label_at(times: &mut WindowTimes, start: UnixSeconds) -> Option<String> {
        let mut batch = batch(start);
        times.tell_apart(&mut batch);
        let series = &batch.series[batch.windows[0].series];
        series.labels.get(CLOCK_SET).map(str::to_owned)
    }

    #[test]
    fn times_that_come_again_are_told_apart_and_no_others() {
        let mut times = WindowTimes::default();
        for start in [100, 110, 120] {
            assert_eq!(label_at(&mut times, start), None);
        }
        times.clock_was_set();
        let label = |times: &mut WindowTimes, start| label_at(times, start).unwrap_or_default();
        let labels = [90, 100, 110].map(|start| label(&mut times, start));
        assert_eq!(labels, ["", "1", "1"]);
        // Once more, by less.
        times.clock_was_set();
        let labels = [110, 120, 130, 140].map(|start| label(&mut times, start));
        assert_eq!(labels, ["2", "2", "", ""]);
        // A day ahead and back: what is in between was never there.
        times.clock_was_set();
        assert_eq!(label(&mut times, 86_500), "");
        times.clock_was_set();
        let labels = [150, 86_490, 86_500].map(|start| label(&mut times, start));
        assert_eq!(labels, ["", "", "4"]);
    }
}
