//! Windows into the file, with the names that are new, in one transaction.

use nodespy_model::{FastMap, FastSet, label_key};
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::stacks::StackCache;
use super::{dropped_before, labels_text, sweep};
use crate::block::{self, Key};
use crate::engine::{Appended, Detail};
use crate::error::StoreError;
use crate::symbols::{StackHash, SymbolHasher, Symbols};
use crate::window::{
    Batch, HOUR_SECONDS, MAX_COUNTS, Series, UnixSeconds, WINDOW_SECONDS, Window, unit_number,
    unit_of,
};

/// How many series are remembered.
const MAX_SERIES: usize = 1 << 16;

/// Where a series is in the file.
#[derive(Debug, Clone, Copy)]
struct Place {
    scope: i64,
    series: i64,
}

/// What a writer remembers of the file between transactions; all of it can be looked up again.
#[derive(Debug, Default)]
pub(super) struct Cache {
    /// SQLite's number for what other connections wrote.
    data_version: Option<i64>,
    stacks: StackCache,
    series: FastMap<Series, Place>,
    /// The latest hour of each scope that has blocks; 0 if none has.
    newest_hours: FastMap<i64, UnixSeconds>,
    /// Windows before this are refused: their hours have been dropped.
    oldest: Option<UnixSeconds>,
    /// Whether names are being swept, which has to spare the stacks that are counted meanwhile.
    is_sweeping: Option<bool>,
    /// Stacks that were noted for that.
    spared: FastSet<u32>,
}

/// What becomes of a window that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Present {
    /// It stays as it is.
    Stays,
    /// Counts are added to it.
    Grows,
}

/// A batch on its way into the file.
struct Appending<'a> {
    present: Present,
    transaction: &'a Transaction<'a>,
    cache: &'a mut Cache,
    symbols: &'a Symbols,
    hasher: SymbolHasher,
    /// Stacks that the batch names.
    named: FastMap<StackHash, usize>,
    unknown: usize,
    appended: Appended,
}

pub(super) fn append(
    connection: &mut Connection,
    cache: &mut Cache,
    batch: &Batch,
    present: Present,
) -> Result<Appended, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = transaction.pragma_query_value(None, "data_version", |row| row.get(0))?;
    if cache.data_version != Some(version) {
        *cache = Cache {
            data_version: Some(version),
            ..Cache::default()
        };
    }
    let hasher = SymbolHasher::new(&batch.symbols);
    let stacks = batch.symbols.stacks.iter();
    let named = stacks.map(|stack| hasher.stack(stack)).zip(0..).collect();
    let mut appending = Appending {
        present,
        transaction: &transaction,
        cache,
        symbols: &batch.symbols,
        hasher,
        named,
        unknown: 0,
        appended: Appended::default(),
    };
    for window in &batch.windows {
        appending.window(&batch.series[window.series], window)?;
    }
    if appending.unknown > 0 {
        return Err(StoreError::UnknownStacks(appending.unknown));
    }
    let appended = appending.appended;
    transaction.commit()?;
    Ok(appended)
}

impl Appending<'_> {
    fn window(&mut self, series: &Series, window: &Window) -> Result<(), StoreError> {
        if window.start < self.oldest()? {
            self.appended.too_old += 1;
            return Ok(());
        }
        let place = self.place(series, window.start)?;
        if self.is_in_an_hour(place, window.start)? {
            self.appended.repeated += 1;
            return Ok(());
        }
        let start = window.start as i64;
        let mut counts = Vec::with_capacity(window.counts.len());
        if self.present == Present::Grows {
            self.take_counts(place, start, &mut counts)?;
        }
        for count in &window.counts {
            let Some(stack) = self.stack(count.stack)? else {
                self.unknown += 1;
                continue;
            };
            counts.push((Key::new(stack, count.role_number()), count.count));
        }
        let total = counts.iter().map(|(_, count)| *count);
        let total = total.fold(0, u64::saturating_add);
        let total = i64::try_from(total)
            .map_err(|_| StoreError::Refused("a window counts less than 2^63"))?;
        let block = block::encode_window(&mut counts);
        if counts.len() > MAX_COUNTS {
            return Err(StoreError::Refused("a window has at most 65,536 counts"));
        }
        let mut statement = self
            .transaction
            .prepare_cached("INSERT OR IGNORE INTO recent VALUES (?, ?, ?, ?, ?)")?;
        match statement.execute(params![place.scope, start, place.series, total, block])? {
            0 => self.appended.repeated += 1,
            _ => self.appended.windows += 1,
        }
        Ok(())
    }

    /// Takes the counts of a window out of the file, if it is there.
    fn take_counts(
        &self,
        place: Place,
        start: i64,
        counts: &mut Vec<(Key, u64)>,
    ) -> Result<(), StoreError> {
        let sql = "DELETE FROM recent WHERE scope = ? AND start = ? AND series = ? RETURNING block";
        let block: Option<Vec<u8>> = self
            .transaction
            .prepare_cached(sql)?
            .query_row(params![place.scope, start, place.series], |row| row.get(0))
            .optional()?;
        if let Some(block) = block {
            block::decode_window(&block, |key, count| counts.push((key, count)))?;
        }
        Ok(())
    }

    /// The id of a stack, which is stored if the batch names it.
    fn stack(&mut self, hash: StackHash) -> Result<Option<u32>, StoreError> {
        if let Some(known) = self.cache.stacks.find(self.transaction, hash)? {
            self.spare(known)?;
            return Ok(Some(known));
        }
        let Some(position) = self.named.get(&hash) else {
            return Ok(None);
        };
        let frames = &self.symbols.stacks[*position];
        let stacks = &mut self.cache.stacks;
        let added = stacks.add(self.transaction, hash, frames, self.symbols, &self.hasher)?;
        self.spare(added)?;
        Ok(Some(added))
    }

    /// Keeps a sweep from deleting a stack: it may have looked before this window was there.
    fn spare(&mut self, stack: u32) -> Result<(), StoreError> {
        let is_sweeping = match self.cache.is_sweeping {
            Some(is_sweeping) => is_sweeping,
            None => *(self.cache.is_sweeping).insert(sweep::is_sweeping(self.transaction)?),
        };
        match is_sweeping && self.cache.spared.insert(stack) {
            true => sweep::spare(self.transaction, stack),
            false => Ok(()),
        }
    }

    fn oldest(&mut self) -> Result<UnixSeconds, StoreError> {
        if let Some(oldest) = self.cache.oldest {
            return Ok(oldest);
        }
        let hours = dropped_before(self.transaction, Detail::Hours)?;
        let oldest = hours.max(dropped_before(self.transaction, Detail::Rollups)?);
        self.cache.oldest = Some(oldest);
        Ok(oldest)
    }

    /// Whether a window came before its hour was made a block, and is part of that.
    fn is_in_an_hour(&mut self, place: Place, start: UnixSeconds) -> Result<bool, StoreError> {
        let hour = start / HOUR_SECONDS * HOUR_SECONDS;
        let newest = match self.cache.newest_hours.get(&place.scope) {
            Some(newest) => *newest,
            None => {
                let sql = "SELECT max(hour) FROM hour WHERE scope = ?";
                let mut statement = self.transaction.prepare_cached(sql)?;
                let newest: Option<i64> = statement.query_row([place.scope], |row| row.get(0))?;
                let newest = newest.map_or(0, |newest| u64::try_from(newest).unwrap_or(0));
                self.cache.newest_hours.insert(place.scope, newest);
                newest
            }
        };
        if hour > newest {
            return Ok(false);
        }
        let position = (start - hour) / WINDOW_SECONDS;
        let sql = "SELECT counts FROM hour WHERE scope = ? AND hour = ? AND series = ?";
        let mut statement = self.transaction.prepare_cached(sql)?;
        let mut rows = statement.query(params![place.scope, hour as i64, place.series])?;
        let mut is_there = false;
        while let Some(row) = rows.next()? {
            block::decode_counts(row.get_ref(0)?.as_blob()?, |window, count| {
                is_there |= window == position && count > 0;
            })?;
        }
        Ok(is_there)
    }

    fn place(&mut self, series: &Series, start: UnixSeconds) -> Result<Place, StoreError> {
        if let Some(place) = self.cache.series.get(series) {
            return Ok(*place);
        }
        let scope = self.scope(series)?;
        let labels = labels_text(&series.labels);
        let period = i64::try_from(series.period)
            .map_err(|_| StoreError::Refused("a period is less than 2^63"))?;
        let sql = "SELECT id FROM series WHERE scope = ? AND period = ? AND labels = ?";
        let known: Option<i64> = self
            .transaction
            .prepare_cached(sql)?
            .query_row(params![scope, period, labels], |row| row.get(0))
            .optional()?;
        let id = match known {
            Some(known) => known,
            None => {
                let version = series.labels.get(label_key::VERSION).unwrap_or_default();
                let sql = "INSERT INTO series(scope, period, version, labels, first, last)
                    VALUES (?, ?, ?, ?, ?, ?)";
                let start = start as i64;
                self.transaction
                    .prepare_cached(sql)?
                    .insert(params![scope, period, version, labels, start, start])?
            }
        };
        let place = Place { scope, series: id };
        if self.cache.series.len() >= MAX_SERIES {
            self.cache.series.clear();
        }
        self.cache.series.insert(series.clone(), place);
        Ok(place)
    }

    fn scope(&self, series: &Series) -> Result<i64, StoreError> {
        let unit = unit_number(series.unit);
        let known: Option<(i64, u8)> = self
            .transaction
            .prepare_cached("SELECT id, unit FROM scope WHERE service = ? AND event = ?")?
            .query_row([&series.service, &series.event], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        match known {
            Some((id, known)) if known == unit => Ok(id),
            Some((_, known)) => Err(StoreError::OtherUnit {
                service: series.service.clone(),
                event: series.event.clone(),
                known: unit_of(known)?.label(),
                sent: series.unit.label(),
            }),
            None => Ok(self
                .transaction
                .prepare_cached("INSERT INTO scope(service, event, unit) VALUES (?, ?, ?)")?
                .insert(params![series.service, series.event, unit])?),
        }
    }
}
