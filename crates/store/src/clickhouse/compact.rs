//! Hours and rollups, made by ClickHouse of the windows that it has; and dropping what is old.
//!
//! An hour is always made of all its windows, so that making it again, by another server too, replaces it. Windows that come later
//! are noted in `late`: such hours are read by their windows until they are made again.

use super::client::{Connection, Statement};
use super::marks::{Mark, Marks};
use super::plan::{IS_LATE, scope};
use super::rows::{RowReader, Rows};
use crate::engine::Detail;
use crate::error::StoreError;
use crate::selection::hour_of;
use crate::window::{HOUR_SECONDS, UnixSeconds, WINDOW_SECONDS};

/// An hour of an event of a service that is to be made.
#[derive(Debug)]
struct Hour {
    service: String,
    event: String,
    start: UnixSeconds,
    is_late: bool,
}

/// Makes hours that ended before `time`, one at a time.
pub(super) fn compact(connection: &Connection, time: UnixSeconds) -> Result<(), StoreError> {
    let until = hour_of(time.min(u64::from(u32::MAX)));
    let marks = Marks::read(connection)?;
    // First: windows that come from now on are late.
    marks.advance(connection, &[Mark::Closed], until)?;
    let compacted = marks.time(Mark::Compacted);
    let first = marks.first(Detail::Windows);
    for hour in hours(connection, first, compacted, until)? {
        make(connection, &hour)?;
    }
    marks.advance(connection, &[Mark::Compacted], until)
}

/// The hours to make: those that were never made, and those that are late.
fn hours(
    connection: &Connection,
    first: UnixSeconds,
    compacted: UnixSeconds,
    until: UnixSeconds,
) -> Result<Vec<Hour>, StoreError> {
    let reply = connection.ask(format!(
        "SELECT service, event, hour, max(is_late) FROM (
            SELECT service, event, toStartOfHour(start, 'UTC') AS hour, 0 AS is_late FROM windows
            WHERE start >= {} AND start < {until} GROUP BY service, event, hour
            UNION ALL
            SELECT service, event, hour, 1 AS is_late FROM late WHERE hour >= {first} AND hour < {until}
            GROUP BY service, event, hour HAVING {IS_LATE}
        ) GROUP BY service, event, hour ORDER BY hour, service, event",
        first.max(compacted)
    ))?;
    let mut rows = RowReader::new(&reply);
    let mut hours = Vec::new();
    while rows.has_more() {
        hours.push(Hour {
            service: rows.text()?,
            event: rows.text()?,
            start: u64::from(rows.u32()?),
            is_late: rows.u8()? != 0,
        });
    }
    Ok(hours)
}

fn make(connection: &Connection, hour: &Hour) -> Result<(), StoreError> {
    let start = hour.start;
    // By ClickHouse's clock, and before it reads the windows.
    let reply = connection.ask("SELECT toUInt64(toUnixTimestamp64Micro(now64(6)))".to_owned())?;
    let at = RowReader::new(&reply).u64()?;
    let mut statement = Statement::default();
    let scope = scope(&mut statement, &hour.service, &hour.event);
    let end = start + HOUR_SECONDS;
    let windows = format!("{scope} AND start >= {start} AND start < {end}");
    statement.sql = format!(
        "INSERT INTO hours (service, event, hour, series, period, version, stacks, roles, counts, windows, totals, at)
        SELECT service, event, toDateTime({start}, 'UTC'), series, period, version, stacks, roles, counts, windows, totals, {at}
        FROM (
            SELECT service, event, series, period, version, groupArray(stack) AS stacks, groupArray(role) AS roles,
                groupArray(n) AS counts
            FROM (
                SELECT service, event, series, period, version, toUInt64(stack) AS stack, role, sum(n) AS n
                FROM windows FINAL ARRAY JOIN stacks AS stack, roles AS role, counts AS n WHERE {windows}
                GROUP BY service, event, series, period, version, stack, role ORDER BY series, stack, role
            ) GROUP BY service, event, series, period, version
        ) AS sums INNER JOIN (
            SELECT series, groupArray(place) AS windows, groupArray(n) AS totals
            FROM (
                SELECT series, toUInt16(intDiv(toUInt32(start) - {start}, {WINDOW_SECONDS})) AS place, sum(arraySum(counts)) AS n
                FROM windows FINAL WHERE {windows} GROUP BY series, place HAVING n > 0 ORDER BY series, place
            ) GROUP BY series
        ) AS times USING (series)"
    );
    connection.run(&statement)?;
    statement.sql = format!(
        "INSERT INTO rollups (service, event, hour, version, period, unit, stacks, roles, counts, at)
        SELECT service, event, hour, version, period, (SELECT any(unit) FROM series WHERE {scope}),
            groupArray(stack), groupArray(role), groupArray(n), {at}
        FROM (
            SELECT service, event, hour, version, period, toUInt64(stack) AS stack, role, sum(n) AS n
            FROM hours FINAL ARRAY JOIN stacks AS stack, roles AS role, counts AS n WHERE {scope} AND hour = {start}
            GROUP BY service, event, hour, version, period, stack, role ORDER BY version, period, stack, role
        ) GROUP BY service, event, hour, version, period"
    );
    connection.run(&statement)?;
    let mut rows = Rows::default();
    if hour.is_late {
        rows.text(&hour.service).text(&hour.event);
        rows.u32(start as u32).u8(1).u64(at);
    }
    connection.insert("late (service, event, hour, is_made, at)", &rows)
}

/// Drops a detail of the hours before `time`, with what is finer. What is older is not answered from then on; its space is
/// given back when all of its partition is: days of windows and hours, months of rollups.
pub(super) fn drop_before(
    connection: &Connection,
    detail: Detail,
    time: UnixSeconds,
) -> Result<(), StoreError> {
    let cut = hour_of(time.min(u64::from(u32::MAX)));
    if detail != Detail::Rollups {
        compact(connection, cut)?;
    }
    let marks = Marks::read(connection)?;
    let dropped = match detail {
        Detail::Windows => &[Detail::Windows][..],
        Detail::Hours => &[Detail::Windows, Detail::Hours],
        Detail::Rollups => &[Detail::Windows, Detail::Hours, Detail::Rollups],
    };
    let noted: Vec<Mark> = dropped
        .iter()
        .map(|detail| Mark::Dropped(*detail))
        .collect();
    // First: a window that comes late must not be counted twice.
    marks.advance(connection, &noted, cut)?;
    for detail in dropped {
        let (table, partition_end) = match detail {
            Detail::Windows => ("windows", "toDate(partition) + 1"),
            Detail::Hours => ("hours", "toDate(partition) + 1"),
            Detail::Rollups => ("rollups", "addMonths(toDate(partition), 1)"),
        };
        drop_partitions(connection, table, partition_end, cut)?;
    }
    Ok(())
}

fn drop_partitions(
    connection: &Connection,
    table: &str,
    partition_end: &str,
    cut: UnixSeconds,
) -> Result<(), StoreError> {
    let mut statement = Statement::default();
    let database = statement.text(connection.database());
    statement.sql = format!(
        "SELECT DISTINCT toString(toDate(partition)) FROM system.parts
        WHERE active AND database = {database} AND table = '{table}' AND toDateTime({partition_end}, 'UTC') <= toDateTime({cut}, 'UTC')"
    );
    let reply = connection.run(&statement)?;
    let mut rows = RowReader::new(&reply);
    while rows.has_more() {
        let day = rows.text()?;
        if !day
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'-')
        {
            return Err(StoreError::Reply("a partition that is no day"));
        }
        connection.ask(format!("ALTER TABLE {table} DROP PARTITION '{day}'"))?;
    }
    Ok(())
}
