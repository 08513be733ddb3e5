//! One figure of every run of both sides, as logarithms and as means.

use super::judge::Terms;
use super::statistics::mean;
use super::table::{AFTER, BEFORE, Cost, Row, Table};
use super::{Change, Verdict};

pub(super) struct Figures {
    /// By side and run.
    pub(super) logs: [Vec<f64>; 2],
    /// By side.
    pub(super) means: [f64; 2],
}

impl Figures {
    /// Of what `cost` says of a run of a side.
    pub(super) fn of(table: &Table, terms: &Terms<'_>, cost: impl Fn(usize, usize) -> f64) -> Self {
        let side = |side: usize| -> (Vec<f64>, f64) {
            let costs = table.runs[side].iter().enumerate().map(|(index, run)| {
                let divisor = terms.divisor(run, side);
                let cost = cost(index, side);
                (
                    cost / divisor,
                    ((cost + run.per_sample / 2.0) / divisor).ln(),
                )
            });
            let (costs, logs): (Vec<f64>, Vec<f64>) = costs.unzip();
            (logs, mean(&costs))
        };
        let [(before, mean_before), (after, mean_after)] = [BEFORE, AFTER].map(side);
        Self {
            logs: [before, after],
            means: [mean_before, mean_after],
        }
    }

    pub(super) fn of_row(
        table: &Table,
        terms: &Terms<'_>,
        row: &Row,
        part: fn(&Cost) -> f64,
    ) -> Self {
        Self::of(table, terms, |run, side| part(&row.sides[side].costs[run]))
    }

    /// Of whole runs.
    pub(super) fn of_runs(table: &Table, terms: &Terms<'_>) -> Self {
        Self::of(table, terms, |run, side| table.runs[side][run].cost)
    }

    pub(super) fn change(&self, verdict: Verdict) -> Change {
        let difference = mean(&self.logs[AFTER]) - mean(&self.logs[BEFORE]);
        Change {
            before: self.means[BEFORE],
            after: self.means[AFTER],
            ratio: difference.exp(),
            interval: None,
            smallest_seen: None,
            verdict,
        }
    }

    /// The change where nothing is tested.
    pub(super) fn untested(&self) -> Change {
        self.change(match self.means.map(|mean| mean > 0.0) {
            [false, true] => Verdict::New,
            [true, false] => Verdict::Gone,
            _ => Verdict::Untested,
        })
    }

    /// Around the mean of all runs of both sides.
    pub(super) fn centred(mut self) -> Self {
        let all: Vec<f64> = self.logs.iter().flatten().copied().collect();
        let mean = mean(&all);
        for value in self.logs.iter_mut().flatten() {
            *value -= mean;
        }
        self
    }
}
