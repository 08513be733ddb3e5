//! Which series there are, with their labels.

use std::ops::Range;

use nodespy_model::{Labels, label_key};

use super::client::Connection;
use super::marks::{Mark, Marks};
use super::rows::RowReader;
use crate::engine::Detail;
use crate::error::StoreError;
use crate::selection::SeriesSpan;
use crate::window::{HOUR_SECONDS, UnixSeconds, WINDOW_SECONDS, unit_of};

/// What takes the series.
type Each<'a> = dyn FnMut(SeriesSpan) -> Result<(), StoreError> + 'a;

pub(super) fn each(
    connection: &Connection,
    time: &Range<UnixSeconds>,
    each: &mut Each<'_>,
) -> Result<(), StoreError> {
    let marks = Marks::read(connection)?;
    let hours_from = marks.first(Detail::Hours);
    let mut each_in = |span: SeriesSpan| {
        let is_in = span.first < time.end && span.last + WINDOW_SECONDS > time.start;
        if is_in { each(span) } else { Ok(()) }
    };
    living(connection, time, hours_from, &mut each_in)?;
    let rolled_up_hours = marks.first(Detail::Rollups)..hours_from;
    rolled_up(connection, rolled_up_hours, &mut each_in)
}

/// When the oldest series or rollup begins; not before what was dropped.
pub(super) fn oldest(connection: &Connection) -> Result<Option<UnixSeconds>, StoreError> {
    let from = Marks::read(connection)?.first(Detail::Rollups);
    let reply = connection.ask(format!(
        "SELECT toUInt64(count()), min(oldest) FROM (
            SELECT toUInt32(first) AS oldest FROM series WHERE last >= {from}
            UNION ALL
            SELECT toUInt32(hour) AS oldest FROM rollups WHERE hour >= {from}
        )"
    ))?;
    let mut rows = RowReader::new(&reply);
    let (count, oldest) = (rows.u64()?, u64::from(rows.u32()?));
    Ok((count > 0).then(|| oldest.max(from)))
}

/// The latest hours of windows and rollups.
pub(super) fn newest_hours(
    connection: &Connection,
    before: UnixSeconds,
    max: usize,
) -> Result<Vec<UnixSeconds>, StoreError> {
    let marks = Marks::read(connection)?;
    let before = before.min(u64::from(u32::MAX));
    // Hours that are made have rollups, where anything was counted.
    let compacted = marks.time(Mark::Compacted);
    let reply = connection.ask(format!(
        "SELECT DISTINCT hour FROM (
            SELECT toStartOfHour(start, 'UTC') AS hour FROM windows WHERE start >= {} AND start < {before}
            UNION ALL
            SELECT hour FROM rollups WHERE hour >= {} AND hour < {before}
        ) ORDER BY hour DESC LIMIT {max}",
        marks.first(Detail::Windows).max(compacted),
        marks.first(Detail::Rollups)
    ))?;
    let mut rows = RowReader::new(&reply);
    let mut hours = Vec::new();
    while rows.has_more() {
        hours.push(u64::from(rows.u32()?));
    }
    Ok(hours)
}

/// Series of which windows or hours are left.
fn living(
    connection: &Connection,
    time: &Range<UnixSeconds>,
    hours_from: UnixSeconds,
    each: &mut Each<'_>,
) -> Result<(), StoreError> {
    let reply = connection.ask(format!(
        "SELECT service, event, any(unit), any(period), any(labels), min(first) AS since, max(last) AS until FROM series
        GROUP BY service, event, id HAVING until >= {hours_from} AND since < {} AND until + {WINDOW_SECONDS} > {}",
        time.end, time.start
    ))?;
    living_of(&reply, each)
}

pub(super) fn living_of(reply: &[u8], each: &mut Each<'_>) -> Result<(), StoreError> {
    let labels_of = |rows: &mut RowReader<'_>| {
        let mut labels = Labels::default();
        for _ in 0..rows.length()? {
            let key = rows.text()?;
            labels.set(&key, rows.text()?);
        }
        Ok(labels)
    };
    spans_of(reply, WINDOW_SECONDS, labels_of, each)
}

/// Versions of which nothing but rollups is left.
fn rolled_up(
    connection: &Connection,
    hours: Range<UnixSeconds>,
    each: &mut Each<'_>,
) -> Result<(), StoreError> {
    if hours.is_empty() {
        return Ok(());
    }
    let reply = connection.ask(format!(
        "SELECT service, event, any(unit), period, version, min(hour), max(hour) FROM rollups
        WHERE hour >= {} AND hour < {} GROUP BY service, event, version, period",
        hours.start, hours.end
    ))?;
    let labels_of = |rows: &mut RowReader<'_>| {
        let mut labels = Labels::default();
        labels.set(label_key::VERSION, rows.text()?);
        Ok(labels)
    };
    spans_of(&reply, HOUR_SECONDS, labels_of, each)
}

/// Rows of service, event, unit, period, labels, and the starts of the first and the last of something of a length.
fn spans_of(
    reply: &[u8],
    length: u64,
    labels_of: impl Fn(&mut RowReader<'_>) -> Result<Labels, StoreError>,
    each: &mut Each<'_>,
) -> Result<(), StoreError> {
    let mut rows = RowReader::new(reply);
    while rows.has_more() {
        each(SeriesSpan {
            service: rows.text()?,
            event: rows.text()?,
            unit: unit_of(rows.u8()?)?,
            period: rows.u64()?,
            labels: labels_of(&mut rows)?,
            first: u64::from(rows.u32()?),
            last: u64::from(rows.u32()?) + length - WINDOW_SECONDS,
        })?;
    }
    Ok(())
}
