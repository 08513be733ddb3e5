//! Merging by stack: whole hours by their sums, their ends by windows, what is not compacted by window rows.

use std::collections::hash_map::Entry;
use std::ops::Range;

use nodespy_model::{FastMap, SmallSort, ThreadRole, WeightUnit, label_key};
use rusqlite::{Connection, OptionalExtension, params};

use super::{dropped_before, labels_of};
use crate::block::{self, Key};
use crate::engine::Detail;
use crate::error::StoreError;
use crate::selection::{
    Group, Merged, Selection, StackId, StackWeight, partial_hours, whole_hours,
};
use crate::window::{HOUR_SECONDS, UnixSeconds, WINDOW_SECONDS, role_number, unit_of};

/// How much memory the values of groups may take, twice.
const MAX_GROUP_BYTES: usize = 64 << 20;
/// What a value or a group takes beside its text, about.
const GROUP_BYTES: usize = 40;

/// How much a merge may hold.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Up to so many stacks of the file, each has a place of its own, 16 bytes long, in every sum over all of them.
    places: u64,
    /// How many sums there may be elsewhere, of all groups together: 48 bytes each, about.
    sums: usize,
}

const LIMITS: Limits = Limits {
    places: 1 << 21,
    sums: 1 << 23,
};

/// Where counts go: which group, and what one of them weighs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member {
    pub(super) group: usize,
    pub(super) period: u64,
}

/// What a selection means in this file.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) scope: i64,
    unit: WeightUnit,
    pub(super) windows: Range<UnixSeconds>,
    /// The values of each group.
    pub(super) groups: Vec<Vec<String>>,
    pub(super) series: FastMap<i64, Member>,
    /// Whether rollups can tell what is asked for apart: they know versions only.
    pub(super) is_of_versions: bool,
    /// Hours before this one are in rollups only.
    pub(super) hours_from: UnixSeconds,
    group_of: FastMap<Vec<String>, usize>,
    /// About what one of the two above takes.
    group_bytes: usize,
}

impl Plan {
    /// None where the service and event have never been seen.
    pub(super) fn new(
        connection: &Connection,
        selection: &Selection,
        by: &[&str],
    ) -> Result<Option<Self>, StoreError> {
        let scope: Option<(i64, u8)> = connection
            .prepare_cached("SELECT id, unit FROM scope WHERE service = ? AND event = ?")?
            .query_row([&selection.service, &selection.event], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let Some((scope, unit)) = scope else {
            return Ok(None);
        };
        let keys = selection.matchers.iter().map(|matcher| &*matcher.key);
        let mut keys = keys.chain(by.iter().copied());
        let mut plan = Self {
            scope,
            unit: unit_of(unit)?,
            windows: selection.windows(),
            groups: Vec::new(),
            series: FastMap::default(),
            is_of_versions: keys.all(|key| key == label_key::VERSION),
            hours_from: dropped_before(connection, Detail::Hours)?,
            group_of: FastMap::default(),
            group_bytes: 0,
        };
        let mut statement =
            connection.prepare_cached("SELECT id, period, labels FROM series WHERE scope = ?")?;
        let mut rows = statement.query([scope])?;
        while let Some(row) = rows.next()? {
            let labels = labels_of(row.get_ref(2)?.as_str()?);
            if selection.accepts(&labels) {
                let value = |key: &&str| labels.get(key).unwrap_or_default().to_owned();
                let group = plan.group(by.iter().map(value).collect());
                if plan.group_bytes > MAX_GROUP_BYTES {
                    return Err(StoreError::Refused(
                        "too many values of these labels: ask for others",
                    ));
                }
                let period = u64::try_from(row.get::<_, i64>(1)?).unwrap_or(1);
                plan.series.insert(row.get(0)?, Member { group, period });
            }
        }
        Ok(Some(plan))
    }

    fn group(&mut self, values: Vec<String>) -> usize {
        let next = self.groups.len();
        *self.group_of.entry(values).or_insert_with_key(|values| {
            let bytes = values.iter().map(|value| value.len() + GROUP_BYTES);
            self.group_bytes += bytes.sum::<usize>() + GROUP_BYTES;
            self.groups.push(values.clone());
            next
        })
    }

    /// The group of a rollup, where its version is accepted.
    pub(super) fn rollup(
        &mut self,
        selection: &Selection,
        by: &[&str],
        version: &str,
        period: i64,
    ) -> Option<Member> {
        let mut labels = nodespy_model::Labels::default();
        labels.set(label_key::VERSION, version);
        selection.accepts(&labels).then(|| Member {
            group: self.group(by.iter().map(|_| version.to_owned()).collect()),
            period: u64::try_from(period).unwrap_or(1),
        })
    }

    /// Hours of which every window is asked for.
    pub(super) fn whole_hours(&self) -> Range<UnixSeconds> {
        whole_hours(&self.windows)
    }

    /// Hours of which some windows are asked for: none, one or two.
    pub(super) fn partial_hours(&self) -> Vec<UnixSeconds> {
        partial_hours(&self.windows)
    }
}

/// Counts and weights by stack.
#[derive(Debug)]
enum Sums {
    /// With a place for each stack of the file.
    Places(Vec<(u64, u64)>),
    /// Of the stacks that were counted.
    Map(FastMap<u32, (u64, u64)>),
}

impl Default for Sums {
    fn default() -> Self {
        Self::Map(FastMap::default())
    }
}

impl Sums {
    /// Of a file with so many stacks. Places are quicker, and too many where the file has very many.
    fn new(newest_stack: u64, limits: Limits) -> Self {
        match newest_stack < limits.places {
            true => Self::Places(vec![(0, 0); newest_stack as usize + 1]),
            false => Self::default(),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Places(places) => places.is_empty(),
            Self::Map(map) => map.is_empty(),
        }
    }

    /// The sums of a stack of the file; none where there is no room for another.
    #[inline]
    fn of(&mut self, stack: u64, room: &mut usize) -> Option<&mut (u64, u64)> {
        match self {
            Self::Places(places) => Some(&mut places[stack as usize]),
            Self::Map(map) => match map.entry(stack as u32) {
                Entry::Occupied(known) => Some(known.into_mut()),
                Entry::Vacant(vacant) => {
                    *room = room.checked_sub(1)?;
                    Some(vacant.insert((0, 0)))
                }
            },
        }
    }

    /// By stack.
    fn weights(self) -> Vec<StackWeight> {
        let mut weights: Vec<StackWeight> = match self {
            Self::Places(places) => {
                let counted = (0..).zip(places).filter(|(_, (count, _))| *count > 0);
                return counted.map(stack_weight).collect();
            }
            Self::Map(map) => {
                let sums = map.into_iter();
                let sums = sums.map(|(stack, sums)| stack_weight((u64::from(stack), sums)));
                sums.collect()
            }
        };
        weights.sort_unstable();
        weights
    }
}

/// Counts by stack.
#[derive(Debug)]
enum Totals {
    /// Of one group.
    All(Sums),
    /// Of each role; those that have none are empty.
    Roles([Sums; ThreadRole::ALL.len()]),
    /// Of each group.
    Groups(Vec<Sums>),
}

struct Merging<'a> {
    connection: &'a Connection,
    selection: &'a Selection,
    by: &'a [&'a str],
    plan: Plan,
    totals: Totals,
    roles: u8,
    newest_stack: u64,
    limits: Limits,
    /// For how many sums there is room.
    room: usize,
    is_widened: bool,
    missing_hours: u64,
}

pub(super) fn merge(
    connection: &Connection,
    selection: &Selection,
    by: &[&str],
) -> Result<Merged, StoreError> {
    merge_within(connection, selection, by, LIMITS)
}

fn merge_within(
    connection: &Connection,
    selection: &Selection,
    by: &[&str],
    limits: Limits,
) -> Result<Merged, StoreError> {
    let transaction = connection.unchecked_transaction()?;
    let totals = |newest_stack| match by.is_empty() {
        true => Totals::All(Sums::new(newest_stack, limits)),
        false => Totals::Groups(Vec::new()),
    };
    let merging = Merging::run(&transaction, selection, by, totals, limits)?;
    Ok(merging.map_or_else(nothing, Merging::finish))
}

pub(super) fn merge_roles(
    connection: &Connection,
    selection: &Selection,
) -> Result<Vec<(ThreadRole, Merged)>, StoreError> {
    merge_roles_within(connection, selection, LIMITS)
}

fn merge_roles_within(
    connection: &Connection,
    selection: &Selection,
    limits: Limits,
) -> Result<Vec<(ThreadRole, Merged)>, StoreError> {
    let transaction = connection.unchecked_transaction()?;
    let totals = |_| Totals::Roles(Default::default());
    let merging = Merging::run(&transaction, selection, &[], totals, limits)?;
    let Some(mut merging) = merging else {
        return Ok(Vec::new());
    };
    let nothing = Totals::Groups(Vec::new());
    let Totals::Roles(mut roles) = std::mem::replace(&mut merging.totals, nothing) else {
        return Ok(Vec::new());
    };
    let asked = selection.asked_roles().into_iter();
    let of_role = |role: ThreadRole| {
        let sums = std::mem::take(&mut roles[usize::from(role_number(role))]);
        (role, merging.merged(vec![group_of(sums)]))
    };
    Ok(asked.map(of_role).collect())
}

/// The answer where the service and event have never been seen.
fn nothing() -> Merged {
    Merged {
        unit: None,
        groups: Vec::new(),
        is_widened: false,
        missing_hours: 0,
    }
}

fn group_of(sums: Sums) -> Group {
    Group {
        values: Vec::new(),
        stacks: sums.weights(),
    }
}

fn stack_weight((stack, (count, weight)): (u64, (u64, u64))) -> StackWeight {
    StackWeight {
        stack: StackId(stack),
        count,
        weight,
    }
}

impl<'a> Merging<'a> {
    /// None where the service and event have never been seen.
    fn run(
        connection: &'a Connection,
        selection: &'a Selection,
        by: &'a [&'a str],
        totals: impl FnOnce(u64) -> Totals,
        limits: Limits,
    ) -> Result<Option<Self>, StoreError> {
        let Some(plan) = Plan::new(connection, selection, by)? else {
            return Ok(None);
        };
        let newest: i64 =
            connection.query_row("SELECT ifnull(max(id), 0) FROM stack", [], |row| row.get(0))?;
        let newest_stack = u64::try_from(newest).unwrap_or(0);
        let mut merging = Self {
            connection,
            selection,
            by,
            totals: totals(newest_stack),
            plan,
            roles: selection.role_mask(),
            newest_stack,
            limits,
            room: limits.sums,
            is_widened: false,
            missing_hours: 0,
        };
        merging.windows()?;
        merging.whole_hours()?;
        merging.partial_hours()?;
        Ok(Some(merging))
    }

    /// Windows that are not part of a block yet.
    fn windows(&mut self) -> Result<(), StoreError> {
        let sql = "SELECT series, block FROM recent WHERE scope = ? AND start >= ? AND start < ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        let range = &self.plan.windows;
        let mut rows = statement.query([self.plan.scope, range.start as i64, range.end as i64])?;
        while let Some(row) = rows.next()? {
            if let Some(member) = self.plan.series.get(&row.get(0)?).copied() {
                let mut adding = self.adding(member);
                let bytes = row.get_ref(1)?.as_blob()?;
                block::decode_window(bytes, |key, count| adding.add(key, count))?;
                adding.check()?;
            }
        }
        Ok(())
    }

    fn whole_hours(&mut self) -> Result<(), StoreError> {
        let hours = self.plan.whole_hours();
        if self.plan.is_of_versions {
            self.rollups(&hours)?;
            return Ok(());
        }
        self.count_missing(&(hours.start..hours.end.min(self.plan.hours_from)))?;
        let sql = "SELECT series, sums FROM hour WHERE scope = ? AND hour >= ? AND hour < ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        // Of a drop that was interrupted, hours may be left that rollups stand for.
        let start = hours.start.max(self.plan.hours_from);
        let mut rows = statement.query([self.plan.scope, start as i64, hours.end as i64])?;
        while let Some(row) = rows.next()? {
            if let Some(member) = self.plan.series.get(&row.get(0)?).copied() {
                self.add_sums(member, row.get_ref(1)?.as_blob()?)?;
            }
        }
        Ok(())
    }

    fn partial_hours(&mut self) -> Result<(), StoreError> {
        for hour in self.plan.partial_hours() {
            let range = hour..hour + HOUR_SECONDS;
            if hour < self.plan.hours_from {
                match self.plan.is_of_versions {
                    true => self.is_widened |= self.rollups(&range)?,
                    false => self.count_missing(&range)?,
                }
                continue;
            }
            let sql = "SELECT series, sums, times FROM hour WHERE scope = ? AND hour = ?";
            let mut statement = self.connection.prepare_cached(sql)?;
            let mut rows = statement.query([self.plan.scope, hour as i64])?;
            while let Some(row) = rows.next()? {
                let Some(member) = self.plan.series.get(&row.get(0)?).copied() else {
                    continue;
                };
                let sums = row.get_ref(1)?.as_blob()?;
                let times = row.get_ref(2)?.as_blob_or_null()?;
                let Some(times) = times else {
                    self.is_widened = true;
                    self.add_sums(member, sums)?;
                    continue;
                };
                let windows = self.plan.windows.clone();
                let mut adding = self.adding(member);
                block::decode_hour(sums, times, |key, window, count| {
                    if windows.contains(&(hour + u64::from(window) * WINDOW_SECONDS)) {
                        adding.add(key, count);
                    }
                })?;
                adding.check()?;
            }
        }
        Ok(())
    }

    /// Adds what versions did in whole hours, and returns whether there was anything.
    fn rollups(&mut self, hours: &Range<UnixSeconds>) -> Result<bool, StoreError> {
        let mut is_any = false;
        let sql =
            "SELECT version, period, sums FROM rollup WHERE scope = ? AND hour >= ? AND hour < ?";
        let mut statement = self.connection.prepare_cached(sql)?;
        let range = [self.plan.scope, hours.start as i64, hours.end as i64];
        let mut rows = statement.query(range)?;
        while let Some(row) = rows.next()? {
            let version = row.get_ref(0)?.as_str()?;
            let period = row.get(1)?;
            if let Some(member) = self.plan.rollup(self.selection, self.by, version, period) {
                is_any = true;
                self.add_sums(member, row.get_ref(2)?.as_blob()?)?;
            }
        }
        Ok(is_any)
    }

    /// Hours that only rollups know, of which the labels that are asked for are not known any more.
    fn count_missing(&mut self, hours: &Range<UnixSeconds>) -> Result<(), StoreError> {
        self.missing_hours += rollup_hours(self.connection, self.plan.scope, hours)?;
        Ok(())
    }

    fn add_sums(&mut self, member: Member, sums: &[u8]) -> Result<(), StoreError> {
        let mut adding = self.adding(member);
        block::decode_sums(sums, |key, count| adding.add(key, count))?;
        adding.check()
    }

    fn adding(&mut self, member: Member) -> Adding<'_> {
        if let Totals::Groups(groups) = &mut self.totals
            && groups.len() <= member.group
        {
            groups.resize_with(member.group + 1, Sums::default);
        }
        Adding {
            totals: match &mut self.totals {
                Totals::All(all) => GroupTotals::All(all),
                Totals::Roles(roles) => GroupTotals::Roles(roles),
                Totals::Groups(groups) => GroupTotals::All(&mut groups[member.group]),
            },
            period: member.period,
            roles: self.roles,
            newest_stack: self.newest_stack,
            limits: self.limits,
            room: &mut self.room,
            has_unknown: false,
            is_full: false,
        }
    }

    fn finish(mut self) -> Merged {
        let totals = std::mem::replace(&mut self.totals, Totals::Groups(Vec::new()));
        let groups = match totals {
            Totals::All(all) => vec![group_of(all)],
            Totals::Roles(roles) => roles.into_iter().map(group_of).collect(),
            Totals::Groups(groups) => groups
                .into_iter()
                .zip(std::mem::take(&mut self.plan.groups))
                .map(|(sums, values)| Group {
                    values,
                    stacks: sums.weights(),
                })
                .collect(),
        };
        self.merged(groups)
    }

    fn merged(&self, mut groups: Vec<Group>) -> Merged {
        groups.retain(|group| !group.stacks.is_empty());
        groups.small_sort_by(|left, right| left.values.cmp(&right.values));
        Merged {
            unit: Some(self.plan.unit),
            groups,
            is_widened: self.is_widened,
            missing_hours: self.missing_hours,
        }
    }
}

/// How many hours of a range rollups know.
pub(super) fn rollup_hours(
    connection: &Connection,
    scope: i64,
    hours: &Range<UnixSeconds>,
) -> Result<u64, StoreError> {
    if hours.is_empty() {
        return Ok(0);
    }
    let sql = "SELECT count(DISTINCT hour) FROM rollup WHERE scope = ? AND hour >= ? AND hour < ?";
    let count: i64 = connection.prepare_cached(sql)?.query_row(
        params![scope, hours.start as i64, hours.end as i64],
        |row| row.get(0),
    )?;
    Ok(u64::try_from(count).unwrap_or(0))
}

/// The totals of the group that a block belongs to.
enum GroupTotals<'a> {
    All(&'a mut Sums),
    Roles(&'a mut [Sums; ThreadRole::ALL.len()]),
}

/// Where the counts of one block go.
struct Adding<'a> {
    totals: GroupTotals<'a>,
    period: u64,
    roles: u8,
    newest_stack: u64,
    limits: Limits,
    room: &'a mut usize,
    has_unknown: bool,
    is_full: bool,
}

impl Adding<'_> {
    #[inline]
    fn add(&mut self, key: Key, count: u64) {
        if key.role_bit() & self.roles == 0 {
            return;
        }
        let stack = key.stack();
        if stack > self.newest_stack {
            self.has_unknown = true;
            return;
        }
        let sums = match &mut self.totals {
            GroupTotals::All(sums) => sums,
            GroupTotals::Roles(roles) => {
                let Some(sums) = roles.get_mut(key.role()) else {
                    return;
                };
                if sums.is_empty() {
                    *sums = Sums::new(self.newest_stack, self.limits);
                }
                sums
            }
        };
        let Some(sums) = sums.of(stack, self.room) else {
            self.is_full = true;
            return;
        };
        sums.0 = sums.0.saturating_add(count);
        sums.1 = sums.1.saturating_add(count.saturating_mul(self.period));
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.is_full {
            return Err(StoreError::Refused(
                "too many stacks in that time: ask for a shorter range",
            ));
        }
        match self.has_unknown {
            true => Err(StoreError::Damaged(
                "a block counts a stack that is not there",
            )),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Store;
    use crate::selection::NameBudget;
    use crate::sqlite::{OpenMode, SqliteStore};
    use crate::symbols::{StoredFrame, StoredFunction, Symbols};
    use crate::window::{Batch, Count, Series, Window};
    use nodespy_model::Labels;

    /// Two processes that have counted the same stacks, so many, each of which is a thousand frames deep.
    fn deep(store: &mut SqliteStore, count: u32) {
        let symbols = Symbols {
            functions: vec![StoredFunction::default()],
            frames: (0..1000 + count)
                .map(|line| StoredFrame {
                    line,
                    ..StoredFrame::default()
                })
                .collect(),
            stacks: (0..count)
                .map(|last| (0..1000).chain([1000 + last]).collect())
                .collect(),
        };
        let hashes = symbols.hashes();
        let count = |hash: &_| Count::new(*hash, ThreadRole::Main, 2);
        let process = |pid: &str| {
            let mut labels = Labels::default();
            labels.set("pid", pid);
            Series {
                service: "shop".to_owned(),
                event: "cpu".to_owned(),
                unit: WeightUnit::Nanoseconds,
                period: 10,
                labels,
            }
        };
        let window = |series| Window {
            series,
            start: 0,
            counts: hashes.iter().map(count).collect(),
        };
        let batch = Batch {
            series: vec![process("1"), process("2")],
            windows: vec![window(0), window(1)],
            symbols,
        };
        store.append(&batch).unwrap();
    }

    #[test]
    fn many_stacks_are_refused_before_they_take_gigabytes() {
        const STACKS: usize = 500;
        let folder = tempfile::tempdir().unwrap();
        let mut store = SqliteStore::open(&folder.path().join("store"), OpenMode::Write).unwrap();
        deep(&mut store, STACKS as u32);
        let all = Selection::new("shop", "cpu", 0..10);
        let connection = &store.connection;
        let usual = merge(connection, &all, &[]).unwrap();
        let of_roles = merge_roles(connection, &all).unwrap();
        let by_process = merge(connection, &all, &["pid"]).unwrap();
        // In maps it is the same, as long as there is room.
        let room = |sums| Limits { places: 1, sums };
        let within = |sums, by| merge_within(connection, &all, by, room(sums));
        assert_eq!(within(STACKS, &[]).unwrap(), usual);
        let same = merge_roles_within(connection, &all, room(STACKS)).unwrap();
        assert_eq!(same, of_roles);
        assert_eq!(within(2 * STACKS, &["pid"]).unwrap(), by_process);
        for refused in [
            within(STACKS - 1, &[]).unwrap_err(),
            within(2 * STACKS - 1, &["pid"]).unwrap_err(),
            merge_roles_within(connection, &all, room(STACKS - 1)).unwrap_err(),
        ] {
            assert!(refused.to_string().contains("ask for a shorter range"));
        }
        let ids: Vec<StackId> = usual.groups[0].stacks.iter().map(|it| it.stack).collect();
        // Stacks that begin alike are kept as what they add, and answered as a whole.
        let bytes = STACKS * 1001 * 4;
        let mut budget = NameBudget::of(bytes);
        let refused = store.stacks_within(&ids, &mut budget).unwrap_err();
        assert!(refused.to_string().contains("ask for a shorter range"));
        let mut budget = NameBudget::of(2 * bytes);
        let names = store.stacks_within(&ids, &mut budget).unwrap();
        assert_eq!(names, store.stacks(&ids).unwrap());
        // What is left is not enough for a second answer.
        assert!(store.stacks_within(&ids, &mut budget).is_err());
    }
}
