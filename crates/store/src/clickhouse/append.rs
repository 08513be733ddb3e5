//! Windows into ClickHouse, with the names that are new.
//!
//! There are no transactions: what is written first is what later rows need, frames, stacks, series, and windows at last. Whoever
//! is stopped on the way leaves names that nothing counts. Windows of one day are written at once or not at all; those of two days,
//! in two steps, are completed when they are sent again.

use nodespy_model::{FastMap, FastSet, WeightUnit, label_key};
use sha2::{Digest, Sha256};

use super::client::{Connection, Statement};
use super::marks::{Mark, Marks};
use super::names::{IDS_AT_ONCE, KnownNames, id_of};
use super::rows::{RowReader, Rows};
use super::unix_seconds;
use crate::engine::{Appended, Detail};
use crate::error::StoreError;
use crate::open_windows::added_up;
use crate::selection::hour_of;
use crate::symbols::{StackHash, SymbolHasher};
use crate::window::{Batch, HOUR_SECONDS, Series, UnixSeconds, Window, unit_number, unit_of};

/// How many services and events are remembered.
const MAX_SCOPES: usize = 1 << 16;
/// The largest count: sums of a million of them have room in 64 bits.
const MAX_COUNT: u64 = 1 << 44;
/// Services that a statement names; for more it goes through all of them.
const MAX_SERVICES: usize = 64;

/// What a writer remembers between batches; all of it can be asked for again.
#[derive(Debug, Default)]
pub(super) struct Cache {
    units: FastMap<(String, String), WeightUnit>,
    parts: u64,
}

/// What becomes of a window that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Present {
    /// It stays as it is.
    Stays,
    /// Counts are added to it.
    Grows,
}

/// The number that a series is known by: 64 bits of SHA-256 over all of it.
fn series_id(series: &Series) -> u64 {
    let mut hasher = Sha256::new();
    let labels = series.labels.iter();
    let labels = labels.flat_map(|(key, value)| [key, value]);
    for text in [&*series.service, &*series.event].into_iter().chain(labels) {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    hasher.update([unit_number(series.unit)]);
    hasher.update(series.period.to_le_bytes());
    let digest = hasher.finalize();
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    id_of(StackHash(half))
}

pub(super) fn append(
    connection: &Connection,
    names: &mut KnownNames,
    cache: &mut Cache,
    batch: &Batch,
    present: Present,
) -> Result<Appended, StoreError> {
    let mut appended = Appended::default();
    let marks = Marks::read(connection)?;
    let oldest = marks.first(Detail::Windows);
    let is_recent = |window: &&Window| window.start >= oldest;
    let windows: Vec<&Window> = batch.windows.iter().filter(is_recent).collect();
    appended.too_old = (batch.windows.len() - windows.len()) as u64;
    let ids: Vec<u64> = batch.series.iter().map(series_id).collect();
    let mut known = match present {
        Present::Stays => known_windows(connection, batch, &ids, &windows)?,
        Present::Grows => FastSet::default(),
    };
    let is_new = |window: &&&Window| {
        let key = (ids[window.series], window.start);
        present == Present::Grows || known.insert(key)
    };
    let new: Vec<&Window> = windows.iter().filter(is_new).copied().collect();
    appended.windows = new.len() as u64;
    appended.repeated = windows.len() as u64 - appended.windows;
    let part = match present {
        Present::Stays => 0,
        Present::Grows => {
            cache.parts += 1;
            unique_part(cache.parts)
        }
    };
    let rows = window_rows(batch, &ids, &new, part)?;
    check_units(connection, cache, batch, &new)?;
    let now = unix_seconds();
    name_stacks(connection, names, batch, &new, now)?;
    connection.insert(
        "series (service, event, id, unit, period, labels, first, last)",
        &series_rows(batch, &ids, &new),
    )?;
    connection.insert(
        "windows (service, event, start, series, part, period, version, stacks, roles, counts)",
        &rows,
    )?;
    // All of them: whoever sent the ones that are there may have been stopped before this.
    note_late(connection, batch, &windows, marks.time(Mark::Closed), now)?;
    Ok(appended)
}

/// A number that no other part of a window has.
fn unique_part(count: u64) -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos());
    let mut hasher = Sha256::new();
    hasher.update(now.to_le_bytes());
    hasher.update(std::process::id().to_le_bytes());
    hasher.update(count.to_le_bytes());
    let mut half = [0; 16];
    half.copy_from_slice(&hasher.finalize()[..16]);
    id_of(StackHash(half)).max(1)
}

/// The windows of a batch that are there, whoever sent them.
fn known_windows(
    connection: &Connection,
    batch: &Batch,
    ids: &[u64],
    windows: &[&Window],
) -> Result<FastSet<(u64, UnixSeconds)>, StoreError> {
    let mut known = FastSet::default();
    for windows in windows.chunks(IDS_AT_ONCE) {
        let mut statement = Statement::default();
        let starts = || windows.iter().map(|window| window.start);
        let (first, last) = (starts().min().unwrap_or(0), starts().max().unwrap_or(0));
        let services = windows
            .iter()
            .map(|window| &*batch.series[window.series].service);
        let services: FastSet<&str> = services.collect();
        let services = match services.len() <= MAX_SERVICES {
            true => format!("service IN {} AND", statement.texts(services)),
            false => String::new(),
        };
        let keys = windows
            .iter()
            .map(|window| format!("({},{})", ids[window.series], window.start));
        let keys: Vec<String> = keys.collect();
        statement.sql = format!(
            "SELECT DISTINCT series, toUInt32(start) FROM windows WHERE {services} start >= {first} AND start <= {last}
            AND (series, toUInt32(start)) IN ({})",
            keys.join(",")
        );
        let reply = connection.run(&statement)?;
        let mut rows = RowReader::new(&reply);
        while rows.has_more() {
            known.insert((rows.u64()?, u64::from(rows.u32()?)));
        }
    }
    Ok(known)
}

/// Refuses an event that is known by another unit.
fn check_units(
    connection: &Connection,
    cache: &mut Cache,
    batch: &Batch,
    windows: &[&Window],
) -> Result<(), StoreError> {
    if cache.units.len() > MAX_SCOPES {
        cache.units.clear();
    }
    for window in windows {
        let series = &batch.series[window.series];
        let scope = (series.service.clone(), series.event.clone());
        let known = match cache.units.get(&scope) {
            Some(known) => *known,
            None => {
                let known = unit(connection, &series.service, &series.event)?;
                let known = known.unwrap_or(series.unit);
                cache.units.insert(scope, known);
                known
            }
        };
        if known != series.unit {
            return Err(StoreError::OtherUnit {
                service: series.service.clone(),
                event: series.event.clone(),
                known: known.label(),
                sent: series.unit.label(),
            });
        }
    }
    Ok(())
}

/// What the weights of an event of a service are in, if it was ever seen.
pub(super) fn unit(
    connection: &Connection,
    service: &str,
    event: &str,
) -> Result<Option<WeightUnit>, StoreError> {
    let mut statement = Statement::default();
    let (service, event) = (statement.text(service), statement.text(event));
    let of = |table: &str| {
        format!("SELECT unit FROM {table} WHERE service = {service} AND event = {event} LIMIT 1")
    };
    statement.sql = format!("{} UNION ALL {}", of("series"), of("rollups"));
    let reply = connection.run(&statement)?;
    let first = reply.first().map(|number| unit_of(*number));
    first.transpose()
}

/// Stores the stacks that are counted and not known.
fn name_stacks(
    connection: &Connection,
    names: &mut KnownNames,
    batch: &Batch,
    windows: &[&Window],
    now: UnixSeconds,
) -> Result<(), StoreError> {
    let counted = windows.iter().flat_map(|window| &window.counts);
    let counted: FastSet<StackHash> = counted.map(|count| count.stack).collect();
    let counted: Vec<StackHash> = counted.into_iter().collect();
    let unknown = names.unknown(connection, &counted, now)?;
    if unknown.is_empty() {
        return Ok(());
    }
    let hasher = SymbolHasher::new(&batch.symbols);
    let stacks = batch.symbols.stacks.iter();
    let named = stacks.map(|stack| hasher.stack(stack)).zip(0..);
    let named: FastMap<StackHash, usize> = named.collect();
    let mut new = Vec::new();
    let mut ids: FastMap<u64, StackHash> = FastMap::default();
    let mut unnamed = 0;
    for hash in unknown {
        match named.get(&hash) {
            Some(position) => new.push((hash, *position)),
            None => unnamed += 1,
        }
        if ids.insert(id_of(hash), hash).is_some() {
            return Err(StoreError::Refused("a stack has the id of another one"));
        }
    }
    match unnamed {
        0 => names.store(connection, &batch.symbols, &hasher, &new, now),
        unnamed => Err(StoreError::UnknownStacks(unnamed)),
    }
}

/// The series of windows, with their first and last.
fn series_rows(batch: &Batch, ids: &[u64], windows: &[&Window]) -> Rows {
    let mut spans: FastMap<usize, (UnixSeconds, UnixSeconds)> = FastMap::default();
    for window in windows {
        let span = spans
            .entry(window.series)
            .or_insert((window.start, window.start));
        *span = (span.0.min(window.start), span.1.max(window.start));
    }
    let mut rows = Rows::default();
    for (position, (first, last)) in spans {
        let series = &batch.series[position];
        rows.text(&series.service)
            .text(&series.event)
            .u64(ids[position]);
        rows.u8(unit_number(series.unit)).u64(series.period);
        let labels = series.labels.iter();
        rows.length(labels.len());
        for (key, value) in labels {
            rows.text(key).text(value);
        }
        rows.u32(first as u32).u32(last as u32);
    }
    rows
}

fn window_rows(
    batch: &Batch,
    ids: &[u64],
    windows: &[&Window],
    part: u64,
) -> Result<Rows, StoreError> {
    let mut rows = Rows::default();
    for (place, window) in (0..).zip(windows) {
        let series = &batch.series[window.series];
        let part = match part {
            0 => 0,
            // A batch may add to one window twice.
            part => part.wrapping_add(place).max(1),
        };
        let counts = added_up(window.counts.clone());
        if counts.iter().any(|count| count.count > MAX_COUNT) {
            return Err(StoreError::Refused(
                "a stack is counted at most 2^44 times in a window",
            ));
        }
        rows.text(&series.service).text(&series.event);
        rows.u32(window.start as u32).u64(ids[window.series]);
        rows.u64(part).u64(series.period);
        rows.text(series.labels.get(label_key::VERSION).unwrap_or_default());
        rows.length(counts.len());
        counts.iter().for_each(|count| {
            rows.u64(id_of(count.stack));
        });
        rows.length(counts.len());
        counts.iter().for_each(|count| {
            rows.u8(count.role_number());
        });
        rows.length(counts.len());
        counts.iter().for_each(|count| {
            rows.u64(count.count);
        });
    }
    Ok(rows)
}

/// Notes which hours have windows that came when the hour was made already, or is being made: it is made again.
fn note_late(
    connection: &Connection,
    batch: &Batch,
    windows: &[&Window],
    closed: UnixSeconds,
    now: UnixSeconds,
) -> Result<(), StoreError> {
    // Nobody makes an hour before it is over.
    let may_be_late = |window: &&Window| {
        let hour = hour_of(window.start);
        hour < closed || hour + HOUR_SECONDS <= now
    };
    if !windows.iter().any(may_be_late) {
        return Ok(());
    }
    // Asked after the windows were written: whoever compacts says so before it reads them.
    let closed = Marks::read(connection)?.time(Mark::Closed);
    let late = windows
        .iter()
        .filter(|window| hour_of(window.start) < closed);
    let late: FastSet<(&str, &str, UnixSeconds)> = late
        .map(|window| {
            let series = &batch.series[window.series];
            (&*series.service, &*series.event, hour_of(window.start))
        })
        .collect();
    let mut rows = Rows::default();
    for (service, event, hour) in late {
        rows.text(service).text(event).u32(hour as u32).u8(0);
    }
    connection.insert("late (service, event, hour, is_made)", &rows)
}
