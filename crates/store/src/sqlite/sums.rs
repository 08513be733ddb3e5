//! Weight over time, from the totals of windows.

use std::ops::Range;

use nodespy_model::SmallSort;
use rusqlite::Connection;

use super::read::{Member, Plan, rollup_hours};
use crate::block;
use crate::error::StoreError;
use crate::selection::{Selection, TimeSeries, TimeSeriesSet, WeightBudget, widened};
use crate::window::{HOUR_SECONDS, UnixSeconds, WINDOW_SECONDS};

struct Summing<'a> {
    connection: &'a Connection,
    selection: &'a Selection,
    by: &'a [&'a str],
    plan: Plan,
    start: UnixSeconds,
    step: u64,
    steps: usize,
    sums: Vec<Vec<u64>>,
    budget: WeightBudget,
    missing_hours: u64,
}

pub(super) fn series(
    connection: &Connection,
    selection: &Selection,
    step: u64,
    by: &[&str],
) -> Result<TimeSeriesSet, StoreError> {
    let (mut set, steps) = TimeSeriesSet::over(selection, step)?;
    let transaction = connection.unchecked_transaction()?;
    let Some(plan) = Plan::new(&transaction, selection, by)? else {
        return Ok(set);
    };
    let mut summing = Summing {
        connection: &transaction,
        selection,
        by,
        plan,
        start: set.start,
        step,
        steps,
        sums: Vec::new(),
        budget: WeightBudget::default(),
        missing_hours: 0,
    };
    summing.windows()?;
    summing.hours()?;
    summing.rollups()?;
    let sums = summing.plan.groups.into_iter().zip(summing.sums);
    set.series = sums
        .map(|(values, weights)| TimeSeries { values, weights })
        .filter(|series| series.weights.iter().any(|weight| *weight > 0))
        .collect();
    set.series
        .small_sort_by(|left, right| left.values.cmp(&right.values));
    set.missing_hours = summing.missing_hours;
    Ok(set)
}

impl Summing<'_> {
    fn windows(&mut self) -> Result<(), StoreError> {
        let sql = "SELECT series, start, n, block FROM recent WHERE scope = ? AND start >= ? AND start < ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        let range = &self.plan.windows;
        let mut rows = statement.query([self.plan.scope, range.start as i64, range.end as i64])?;
        let roles = self.selection.role_mask();
        while let Some(row) = rows.next()? {
            let Some(member) = self.plan.series.get(&row.get(0)?).copied() else {
                continue;
            };
            let start = u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
            let mut total = u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0);
            if self.selection.roles.is_empty() {
                self.add(member, start, total)?;
                continue;
            }
            total = 0;
            let bytes = row.get_ref(3)?.as_blob()?;
            block::decode_window(bytes, |key, count| {
                if key.role_bit() & roles != 0 {
                    total = total.saturating_add(count);
                }
            })?;
            self.add(member, start, total)?;
        }
        Ok(())
    }

    /// Hours that rollups answer though their series are known: one row a version instead of one a process.
    fn rolled_up(&self) -> Range<UnixSeconds> {
        match self.plan.is_of_versions && self.step.is_multiple_of(HOUR_SECONDS) {
            true => self.plan.whole_hours(),
            false => 0..0,
        }
    }

    fn hours(&mut self) -> Result<(), StoreError> {
        let hours = widened(&self.plan.windows, HOUR_SECONDS);
        // Of a drop that was interrupted, hours may be left that rollups stand for.
        let hours = hours.start.max(self.plan.hours_from)..hours.end;
        let rolled_up = self.rolled_up();
        if rolled_up.is_empty() {
            return self.hours_of(&hours);
        }
        self.hours_of(&(hours.start..rolled_up.start))?;
        self.hours_of(&(hours.start.max(rolled_up.end)..hours.end))
    }

    fn hours_of(&mut self, hours: &Range<UnixSeconds>) -> Result<(), StoreError> {
        let is_all = self.selection.roles.is_empty();
        let sql = match is_all {
            true => {
                "SELECT series, hour, counts FROM hour WHERE scope = ? AND hour >= ? AND hour < ?"
            }
            false => {
                "SELECT series, hour, sums, times FROM hour WHERE scope = ? AND hour >= ? AND hour < ?"
            }
        };
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([self.plan.scope, hours.start as i64, hours.end as i64])?;
        while let Some(row) = rows.next()? {
            let Some(member) = self.plan.series.get(&row.get(0)?).copied() else {
                continue;
            };
            let hour = u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0);
            let bytes = row.get_ref(2)?.as_blob()?;
            if is_all {
                let mut weights = self.weights(member)?;
                block::decode_counts(bytes, |window, count| {
                    weights.add(hour + window * WINDOW_SECONDS, count);
                })?;
                continue;
            }
            let times = row.get_ref(3)?.as_blob_or_null()?;
            self.hour_of_roles(member, hour, bytes, times)?;
        }
        Ok(())
    }

    /// An hour of some roles of threads, which the totals of windows don't tell apart.
    fn hour_of_roles(
        &mut self,
        member: Member,
        hour: UnixSeconds,
        sums: &[u8],
        times: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        let roles = self.selection.role_mask();
        let Some(times) = times else {
            if self.is_whole(hour) {
                return self.sums_of_roles(member, hour, sums);
            }
            self.missing_hours += 1;
            return Ok(());
        };
        let mut weights = self.weights(member)?;
        block::decode_hour(sums, times, |key, window, count| {
            if key.role_bit() & roles != 0 {
                weights.add(hour + u64::from(window) * WINDOW_SECONDS, count);
            }
        })
    }

    /// Adds the sums of some roles to the step that has all of their hour.
    fn sums_of_roles(
        &mut self,
        member: Member,
        hour: UnixSeconds,
        sums: &[u8],
    ) -> Result<(), StoreError> {
        let roles = self.selection.role_mask();
        let mut total = 0_u64;
        block::decode_sums(sums, |key, count| {
            if key.role_bit() & roles != 0 {
                total = total.saturating_add(count);
            }
        })?;
        self.add(member, hour, total)
    }

    /// Hours that nothing else knows any more, and those of [`Self::rolled_up`].
    fn rollups(&mut self) -> Result<(), StoreError> {
        let hours = widened(&self.plan.windows, HOUR_SECONDS);
        let only = hours.start..hours.end.min(self.plan.hours_from);
        if !self.plan.is_of_versions {
            self.missing_hours += rollup_hours(self.connection, self.plan.scope, &only)?;
            return Ok(());
        }
        let rolled_up = self.rolled_up();
        let hours = only.start..only.end.max(rolled_up.end);
        // Sums of stacks are on pages of their own, which totals don't touch.
        let is_all = self.selection.roles.is_empty();
        let sql = match is_all {
            true => {
                "SELECT version, period, hour, n FROM rollup
                WHERE scope = ? AND hour >= ? AND hour < ?"
            }
            false => {
                "SELECT version, period, hour, sums FROM rollup
                WHERE scope = ? AND hour >= ? AND hour < ?"
            }
        };
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query([self.plan.scope, hours.start as i64, hours.end as i64])?;
        let mut missing = std::collections::BTreeSet::new();
        while let Some(row) = rows.next()? {
            let version = row.get_ref(0)?.as_str()?;
            let period = row.get(1)?;
            let hour = u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0);
            if !only.contains(&hour) && !rolled_up.contains(&hour) {
                continue;
            }
            let Some(member) = self.plan.rollup(self.selection, self.by, version, period) else {
                continue;
            };
            if !self.is_whole(hour) {
                missing.insert(hour);
                continue;
            }
            if is_all {
                let total = u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0);
                self.add(member, hour, total)?;
                continue;
            }
            self.sums_of_roles(member, hour, row.get_ref(3)?.as_blob()?)?;
        }
        self.missing_hours += missing.len() as u64;
        Ok(())
    }

    /// Whether all windows of an hour are in one step, and asked for.
    fn is_whole(&self, hour: UnixSeconds) -> bool {
        let last = hour + HOUR_SECONDS - WINDOW_SECONDS;
        hour / self.step == last / self.step
            && self.plan.windows.contains(&hour)
            && self.plan.windows.contains(&last)
    }

    fn add(&mut self, member: Member, start: UnixSeconds, count: u64) -> Result<(), StoreError> {
        // A line is not begun by what is not in it.
        if count > 0 && self.plan.windows.contains(&start) {
            self.weights(member)?.add(start, count);
        }
        Ok(())
    }

    /// The line that a series belongs to.
    fn weights(&mut self, member: Member) -> Result<Weights<'_>, StoreError> {
        if self.sums.len() <= member.group {
            self.sums.resize_with(member.group + 1, Vec::new);
        }
        let sums = &mut self.sums[member.group];
        if sums.is_empty() {
            self.budget.take(self.steps)?;
            sums.resize(self.steps, 0);
        }
        Ok(Weights {
            sums,
            period: member.period,
            windows: &self.plan.windows,
            start: self.start,
            step: self.step,
        })
    }
}

/// The weights of one line.
struct Weights<'a> {
    sums: &'a mut [u64],
    period: u64,
    windows: &'a Range<UnixSeconds>,
    start: UnixSeconds,
    step: u64,
}

impl Weights<'_> {
    fn add(&mut self, start: UnixSeconds, count: u64) {
        if count == 0 || !self.windows.contains(&start) {
            return;
        }
        let sum = &mut self.sums[((start - self.start) / self.step) as usize];
        *sum = sum.saturating_add(count.saturating_mul(self.period));
    }
}
