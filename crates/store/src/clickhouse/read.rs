//! Merging by stack: whole hours that were made by their sums, everything else by windows.

use nodespy_model::SmallSort;

use super::client::{Connection, Statement};
use super::names::list;
use super::plan::Plan;
use super::rows::RowReader;
use crate::error::StoreError;
use crate::selection::{Group, Merged, Selection, StackId, StackWeight};
use crate::window::{HOUR_SECONDS, UnixSeconds};

pub(super) fn merge(
    connection: &Connection,
    selection: &Selection,
    by: &[&str],
) -> Result<Merged, StoreError> {
    let Some(plan) = Plan::new(connection, selection, by)? else {
        return Ok(Merged {
            unit: None,
            groups: Vec::new(),
            is_widened: false,
            missing_hours: 0,
        });
    };
    let parts = Parts::of(&plan);
    let mut missing_hours = 0;
    let mut is_widened = false;
    if !plan.is_of_versions {
        let whole = plan.whole_hours();
        let gone = whole.start..whole.end.min(plan.hours_from);
        missing_hours += plan.rollup_hours(connection, &gone)?;
        for hour in &parts.gone {
            missing_hours += plan.rollup_hours(connection, &(*hour..hour + HOUR_SECONDS))?;
        }
    }
    for (table, hours) in [
        ("hours", &parts.widened_hours),
        ("rollups", &parts.widened_rollups),
    ] {
        is_widened |= !hours.is_empty() && has_rows(connection, &plan, table, hours)?;
    }
    let reply = connection.run(&question(&plan, &parts))?;
    Ok(Merged {
        unit: Some(plan.unit),
        groups: groups_of(&reply)?,
        is_widened,
        missing_hours,
    })
}

/// Where hours at the ends of a selection, of which windows are not there any more, come from.
#[derive(Debug, Default)]
struct Parts {
    widened_hours: Vec<UnixSeconds>,
    widened_rollups: Vec<UnixSeconds>,
    /// Only rollups have them, which can't tell apart what is asked for.
    gone: Vec<UnixSeconds>,
}

impl Parts {
    fn of(plan: &Plan<'_>) -> Self {
        let mut parts = Self::default();
        let hours = plan.partial_hours().into_iter();
        for hour in hours.filter(|hour| *hour < plan.windows_from) {
            match (hour >= plan.hours_from, plan.is_of_versions) {
                (true, _) => parts.widened_hours.push(hour),
                (false, true) => parts.widened_rollups.push(hour),
                (false, false) => parts.gone.push(hour),
            }
        }
        parts
    }
}

/// Whether any row of these hours is part of the selection.
fn has_rows(
    connection: &Connection,
    plan: &Plan<'_>,
    table: &str,
    hours: &[UnixSeconds],
) -> Result<bool, StoreError> {
    let mut statement = Statement::default();
    let scope = plan.scope(&mut statement);
    let labels = plan.labels(&mut statement);
    statement.sql = format!(
        "SELECT 1 FROM {table} WHERE {scope} AND {labels} AND hour IN {} AND hour >= {} LIMIT 1",
        list(hours),
        plan.rollups_from
    );
    Ok(!connection.run(&statement)?.is_empty())
}

/// Stacks with their counts, by group and period.
fn question(plan: &Plan<'_>, parts: &Parts) -> Statement {
    let mut statement = Statement::default();
    let scope = plan.scope(&mut statement);
    let labels = plan.labels(&mut statement);
    let roles = plan.roles();
    let part = plan.row_group();
    let select = |table: &str, condition: &str| {
        format!(
            "SELECT {part} AS part, toUInt64(stack) AS stack, period, n FROM {table} FINAL
            ARRAY JOIN stacks AS stack, roles AS role, counts AS n
            WHERE {scope} AND {labels} AND ({condition}) AND {roles}"
        )
    };
    let whole = plan.whole_hours();
    let (table, from) = match plan.is_of_versions {
        true => ("rollups", plan.rollups_from),
        false => ("hours", plan.hours_from),
    };
    let made = plan.is_made(&whole, "hour");
    let mut sources = vec![
        select(table, &format!("{made} AND hour >= {from}")),
        select(
            "windows",
            &format!(
                "start >= {} AND start < {} AND NOT ({})",
                plan.windows.start.max(plan.windows_from),
                plan.windows.end,
                plan.is_made(&whole, "toStartOfHour(start, 'UTC')")
            ),
        ),
    ];
    for (table, hours) in [
        ("hours", &parts.widened_hours),
        ("rollups", &parts.widened_rollups),
    ] {
        if !hours.is_empty() {
            let hours = list(hours);
            let from = plan.rollups_from;
            sources.push(select(
                table,
                &format!("hour IN {hours} AND hour >= {from}"),
            ));
        }
    }
    let rows = format!(
        "SELECT part, stack, period, sum(n) AS n FROM ({}) GROUP BY part, stack, period",
        sources.join(" UNION ALL ")
    );
    let rows = plan.with_values(&mut statement, &rows);
    statement.sql = format!(
        "SELECT values, groupArray((stack, period, n)) FROM
        (SELECT values, stack, period, sum(n) AS n FROM ({rows}) GROUP BY values, stack, period ORDER BY stack) GROUP BY values"
    );
    statement
}

pub(super) fn groups_of(reply: &[u8]) -> Result<Vec<Group>, StoreError> {
    let mut rows = RowReader::new(reply);
    let mut groups = Vec::new();
    while rows.has_more() {
        let mut group = Group::default();
        for _ in 0..rows.length()? {
            group.values.push(rows.text()?);
        }
        for _ in 0..rows.length()? {
            let stack = StackId(rows.u64()?);
            let (period, count) = (rows.u64()?, rows.u64()?);
            group.stacks.push(StackWeight {
                stack,
                count,
                weight: count.saturating_mul(period),
            });
        }
        add_up(&mut group.stacks);
        if !group.stacks.is_empty() {
            groups.push(group);
        }
    }
    groups.small_sort_by(|left, right| left.values.cmp(&right.values));
    Ok(groups)
}

/// Each stack once, whatever the periods it was counted by.
fn add_up(stacks: &mut Vec<StackWeight>) {
    stacks.retain(|stack| stack.count > 0);
    stacks.sort_unstable();
    stacks.dedup_by(|next, kept| {
        let is_same = next.stack == kept.stack;
        if is_same {
            kept.count = kept.count.saturating_add(next.count);
            kept.weight = kept.weight.saturating_add(next.weight);
        }
        is_same
    });
}
