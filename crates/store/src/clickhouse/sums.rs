//! Weight over time: by the totals of windows in hours that were made, by windows elsewhere, by rollups where nothing else is left.

use std::collections::BTreeMap;

use super::client::{Connection, Statement};
use super::plan::Plan;
use super::rows::RowReader;
use crate::error::StoreError;
use crate::selection::{Selection, TimeSeries, TimeSeriesSet, WeightBudget, widened};
use crate::window::{HOUR_SECONDS, UnixSeconds, WINDOW_SECONDS};

pub(super) fn series(
    connection: &Connection,
    selection: &Selection,
    step: u64,
    by: &[&str],
) -> Result<TimeSeriesSet, StoreError> {
    let (mut set, steps) = TimeSeriesSet::over(selection, step)?;
    let Some(plan) = Plan::new(connection, selection, by)? else {
        return Ok(set);
    };
    let reply = connection.run(&question(&plan, set.start, step))?;
    set.series = series_of(&reply, steps)?;
    set.missing_hours = missing(connection, &plan, step)?;
    Ok(set)
}

/// The condition that all windows of an hour are in one step, and asked for.
fn is_whole(plan: &Plan<'_>, step: u64) -> String {
    let last = HOUR_SECONDS - WINDOW_SECONDS;
    format!(
        "intDiv(toUInt32(hour), {step}) = intDiv(toUInt32(hour) + {last}, {step})
        AND toUInt32(hour) >= {} AND toUInt32(hour) + {last} < {}",
        plan.windows.start, plan.windows.end
    )
}

/// Hours in the selection, also those of which it has a part.
fn hours(plan: &Plan<'_>) -> std::ops::Range<UnixSeconds> {
    widened(&plan.windows, HOUR_SECONDS)
}

/// Counts by group, step and period.
fn question(plan: &Plan<'_>, start: UnixSeconds, step: u64) -> Statement {
    let mut statement = Statement::default();
    let scope = plan.scope(&mut statement);
    let labels = plan.labels(&mut statement);
    let roles = plan.roles();
    let part = plan.row_group();
    let hours = hours(plan);
    let is_all = plan.selection.roles.is_empty();
    // Without roles, totals of made hours do; with roles, windows while there are any.
    let (counted_hours, hours_end) = match is_all {
        true => (
            format!(
                "SELECT {part} AS part, toUInt32(hour) + {WINDOW_SECONDS} * place AS time, period, n FROM hours FINAL
                ARRAY JOIN windows AS place, totals AS n WHERE {scope} AND {labels}"
            ),
            hours.end,
        ),
        false => (
            format!(
                "SELECT {part} AS part, toUInt32(hour) AS time, period, n FROM hours FINAL
                ARRAY JOIN roles AS role, counts AS n WHERE {scope} AND {labels} AND {roles} AND {}",
                is_whole(plan, step)
            ),
            hours.end.min(plan.windows_from),
        ),
    };
    let made = plan.is_made(&(hours.start.max(plan.hours_from)..hours_end), "hour");
    let from_hours = format!("{counted_hours} AND {made}");
    let windows_are_made = match is_all {
        true => plan.is_made(&hours, "toStartOfHour(start, 'UTC')"),
        false => "0".to_owned(),
    };
    let from_windows = format!(
        "SELECT {part} AS part, toUInt32(start) AS time, period, n FROM windows FINAL
        ARRAY JOIN roles AS role, counts AS n
        WHERE {scope} AND {labels} AND {roles} AND start >= {} AND start < {} AND NOT ({windows_are_made})",
        plan.windows.start.max(plan.windows_from),
        plan.windows.end
    );
    let mut sources = vec![from_hours, from_windows];
    if plan.is_of_versions {
        sources.push(format!(
            "SELECT {part} AS part, toUInt32(hour) AS time, period, n FROM rollups FINAL
            ARRAY JOIN roles AS role, counts AS n
            WHERE {scope} AND {labels} AND {roles} AND hour >= {} AND hour < {} AND {}",
            hours.start.max(plan.rollups_from),
            hours.end.min(plan.hours_from),
            is_whole(plan, step)
        ));
    }
    let rows = format!(
        "SELECT part, intDiv(time - {start}, {step}) AS place, period, sum(n) AS n FROM ({})
        WHERE time >= {} AND time < {} GROUP BY part, place, period",
        sources.join(" UNION ALL "),
        plan.windows.start,
        plan.windows.end
    );
    let rows = plan.with_values(&mut statement, &rows);
    statement.sql = format!(
        "SELECT values, groupArray((toUInt64(place), period, n)) FROM
        (SELECT values, place, period, sum(n) AS n FROM ({rows}) GROUP BY values, place, period) GROUP BY values"
    );
    statement
}

pub(super) fn series_of(reply: &[u8], steps: usize) -> Result<Vec<TimeSeries>, StoreError> {
    let mut rows = RowReader::new(reply);
    let mut series: BTreeMap<Vec<String>, Vec<u64>> = BTreeMap::new();
    let mut budget = WeightBudget::default();
    while rows.has_more() {
        let mut values = Vec::new();
        for _ in 0..rows.length()? {
            values.push(rows.text()?);
        }
        budget.take(steps)?;
        let mut weights = vec![0_u64; steps];
        for _ in 0..rows.length()? {
            let (place, period, count) = (rows.u64()?, rows.u64()?, rows.u64()?);
            let weight = usize::try_from(place).ok();
            let weight = weight.and_then(|place| weights.get_mut(place));
            let weight = weight.ok_or(StoreError::Reply("a step outside of the range"))?;
            *weight = weight.saturating_add(count.saturating_mul(period));
        }
        if weights.iter().any(|weight| *weight > 0) {
            series.insert(values, weights);
        }
    }
    let series = series.into_iter();
    Ok(series
        .map(|(values, weights)| TimeSeries { values, weights })
        .collect())
}

/// How many hours can't be divided by these labels, roles or steps any more.
fn missing(connection: &Connection, plan: &Plan<'_>, step: u64) -> Result<u64, StoreError> {
    let hours = hours(plan);
    let rolled_up = hours.start..hours.end.min(plan.hours_from);
    let mut missing = match plan.is_of_versions {
        false => plan.rollup_hours(connection, &rolled_up)?,
        true => divided(connection, plan, "rollups", &rolled_up, step)?,
    };
    if !plan.selection.roles.is_empty() {
        let summed = hours.start.max(plan.hours_from)..hours.end.min(plan.windows_from);
        missing += divided(connection, plan, "hours", &summed, step)?;
    }
    Ok(missing)
}

/// Hours of a table that are known as a whole, of which steps or the selection have a part.
fn divided(
    connection: &Connection,
    plan: &Plan<'_>,
    table: &str,
    hours: &std::ops::Range<UnixSeconds>,
    step: u64,
) -> Result<u64, StoreError> {
    if hours.is_empty() {
        return Ok(0);
    }
    let mut statement = Statement::default();
    let scope = plan.scope(&mut statement);
    let labels = plan.labels(&mut statement);
    statement.sql = format!(
        "SELECT toUInt64(uniqExact(hour)) FROM {table} WHERE {scope} AND {labels} AND hour >= {} AND hour < {}
        AND NOT ({})",
        hours.start.max(plan.rollups_from),
        hours.end,
        is_whole(plan, step)
    );
    RowReader::new(&connection.run(&statement)?).u64()
}
