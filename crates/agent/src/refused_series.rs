//! Series of which a receiver has refused windows lately. What comes of them is split off before it is sent: to find them among the
//! others takes many requests, and a server that has as many series as it takes refuses them every ten seconds.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use nodespy_model::FastMap;
use nodespy_store::{Batch, Series, Symbols, Window};

/// For how long.
const REMEMBERED: Duration = Duration::from_secs(300);
/// How many at most.
const MAX_SERIES: usize = 1 << 14;

/// Series of which windows were refused lately.
#[derive(Debug, Default)]
pub(crate) struct RefusedSeries {
    /// Until when, by a hash: with their labels they would take kilobytes each.
    until: FastMap<u64, Instant>,
    hasher: RandomState,
}

impl RefusedSeries {
    /// One was refused. Where too many are remembered, others are found anew.
    pub(crate) fn remember(&mut self, series: &Series, now: Instant) {
        if self.until.len() >= MAX_SERIES {
            self.until.retain(|_, until| *until > now);
        }
        if self.until.len() < MAX_SERIES {
            let hash = self.hasher.hash_one(series);
            self.until.insert(hash, now + REMEMBERED);
        }
    }

    /// One is taken again.
    pub(crate) fn forget(&mut self, series: &Series) {
        self.until.remove(&self.hasher.hash_one(series));
    }

    /// The windows of other series, and those of these, if there are any.
    pub(crate) fn split_off(&self, batch: Batch, now: Instant) -> (Batch, Option<Batch>) {
        let is_refused = |series: &Series| {
            let until = self.until.get(&self.hasher.hash_one(series));
            until.is_some_and(|until| *until > now)
        };
        let refused: Vec<bool> = batch.series.iter().map(is_refused).collect();
        let is_of_refused = |window: &Window| refused.get(window.series) == Some(&true);
        if !batch.windows.iter().any(is_of_refused) {
            return (batch, None);
        }
        let of_refused = batch.windows.iter().filter(|it| is_of_refused(it));
        let others = batch.windows.iter().filter(|it| !is_of_refused(it));
        (part(&batch, others), Some(part(&batch, of_refused)))
    }
}

/// Some windows of a batch with their series and names alone: a server counts each series that it is sent.
fn part<'a>(batch: &Batch, windows: impl Iterator<Item = &'a Window>) -> Batch {
    let mut part = Batch {
        symbols: Symbols::clone(&batch.symbols),
        ..Batch::default()
    };
    let mut places: FastMap<usize, usize> = FastMap::default();
    for window in windows {
        let place = *places.entry(window.series).or_insert_with(|| {
            part.series.push(batch.series[window.series].clone());
            part.series.len() - 1
        });
        part.windows.push(Window {
            series: place,
            ..window.clone()
        });
    }
    let counts = part.windows.iter().flat_map(|window| &window.counts);
    let counted: Vec<_> = counts.map(|count| count.stack).collect();
    part.keep_names_of(&counted);
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pushes::batch;

    #[test]
    fn series_are_remembered_for_a_while_and_split_off_with_their_names() {
        let now = Instant::now();
        let mut refused = RefusedSeries::default();
        let batch = batch();
        let (shop, mail) = (&batch.series[0], &batch.series[1]);
        assert!(refused.split_off(batch.clone(), now).1.is_none());
        refused.remember(mail, now);
        let (others, of_refused) = refused.split_off(batch.clone(), now);
        let of_refused = of_refused.unwrap();
        assert_eq!(
            (&others.series[..], &of_refused.series[..]),
            (&[shop.clone()][..], &[mail.clone()][..])
        );
        let names = |batch: &Batch| {
            let functions = batch.symbols.functions.iter();
            functions.map(|it| it.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&others), ["serve", "parseOrders"]);
        assert_eq!(names(&of_refused), ["serve", "writeLetters"]);
        assert_eq!(of_refused.windows[0].series, 0);
        let later = now + REMEMBERED;
        assert!(refused.split_off(batch.clone(), later).1.is_none());
        refused.forget(mail);
        assert!(refused.split_off(batch.clone(), now).1.is_none());
        // Others make no room, those whose time is over do.
        for number in 0..=MAX_SERIES {
            let service = format!("service-{number}");
            refused.remember(
                &Series {
                    service,
                    ..shop.clone()
                },
                now,
            );
        }
        assert_eq!(refused.until.len(), MAX_SERIES);
        refused.remember(mail, later);
        assert_eq!(refused.until.len(), 1);
    }
}
