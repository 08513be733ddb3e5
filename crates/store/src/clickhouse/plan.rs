//! What a selection means in the tables: which hours are read from which of them, and how groups are told apart.

use std::ops::Range;

use nodespy_model::{WeightUnit, label_key};

use super::append::unit;
use super::client::{Connection, Statement};
use super::marks::{Mark, Marks};
use super::names::list;
use super::rows::RowReader;
use crate::engine::Detail;
use crate::error::StoreError;
use crate::selection::{Selection, hour_of, partial_hours, whole_hours};
use crate::window::UnixSeconds;

/// A selection in the tables.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) selection: &'a Selection,
    by: &'a [&'a str],
    pub(super) unit: WeightUnit,
    pub(super) windows: Range<UnixSeconds>,
    /// Whether rollups can tell what is asked for apart: they know versions only.
    pub(super) is_of_versions: bool,
    pub(super) windows_from: UnixSeconds,
    pub(super) hours_from: UnixSeconds,
    pub(super) rollups_from: UnixSeconds,
    /// Hours before this one are made, but for those that are late.
    pub(super) compacted: UnixSeconds,
    /// Hours that got windows since they were made.
    pub(super) late: Vec<u32>,
}

impl<'a> Plan<'a> {
    /// None where the service and event have never been seen.
    pub(super) fn new(
        connection: &Connection,
        selection: &'a Selection,
        by: &'a [&'a str],
    ) -> Result<Option<Self>, StoreError> {
        let Some(unit) = unit(connection, &selection.service, &selection.event)? else {
            return Ok(None);
        };
        let keys = selection.matchers.iter().map(|matcher| &*matcher.key);
        let mut keys = keys.chain(by.iter().copied());
        let marks = Marks::read(connection)?;
        let mut plan = Self {
            selection,
            by,
            unit,
            windows: selection.windows(),
            is_of_versions: keys.all(|key| key == label_key::VERSION),
            windows_from: marks.first(Detail::Windows),
            hours_from: marks.first(Detail::Hours),
            rollups_from: marks.first(Detail::Rollups),
            compacted: marks.time(Mark::Compacted),
            late: Vec::new(),
        };
        plan.late = plan.late_hours(connection)?;
        Ok(Some(plan))
    }

    fn late_hours(&self, connection: &Connection) -> Result<Vec<u32>, StoreError> {
        let mut statement = Statement::default();
        let scope = self.scope(&mut statement);
        let (start, end) = (hour_of(self.windows.start), self.windows.end);
        statement.sql = format!(
            "SELECT hour FROM late WHERE {scope} AND hour >= {start} AND hour < {end} AND hour >= {}
            GROUP BY hour HAVING {IS_LATE} ORDER BY hour",
            self.windows_from
        );
        let reply = connection.run(&statement)?;
        let mut rows = RowReader::new(&reply);
        let mut hours = Vec::new();
        while rows.has_more() {
            hours.push(rows.u32()?);
        }
        Ok(hours)
    }

    /// The condition that a row is of the service and event.
    pub(super) fn scope(&self, statement: &mut Statement) -> String {
        scope(statement, &self.selection.service, &self.selection.event)
    }

    /// The condition that `role` is one that was asked for.
    pub(super) fn roles(&self) -> String {
        match self.selection.roles.is_empty() {
            true => "1".to_owned(),
            false => format!("bitTest({}, role)", self.selection.role_mask()),
        }
    }

    /// The condition that the labels of a row are as asked for.
    pub(super) fn labels(&self, statement: &mut Statement) -> String {
        let matchers = self.selection.matchers.iter();
        let conditions: Vec<String> = matchers
            .map(|matcher| {
                let values = matcher.values.iter().map(String::as_str);
                match self.is_of_versions {
                    true => format!("version IN {}", statement.texts(values)),
                    false => {
                        let key = statement.text(&matcher.key);
                        format!("labels[{key}] IN {}", statement.texts(values))
                    }
                }
            })
            .collect();
        let all = match conditions.is_empty() {
            true => "1".to_owned(),
            false => conditions.join(" AND "),
        };
        match self.is_of_versions || conditions.is_empty() {
            true => all,
            // Versions are in every row, other labels in those of series.
            false => {
                let scope = self.scope(statement);
                format!("series IN (SELECT id FROM series WHERE {scope} AND {all})")
            }
        }
    }

    /// What groups rows while they are read.
    pub(super) fn row_group(&self) -> &'static str {
        match (self.by.is_empty(), self.is_of_versions) {
            (true, _) => "0",
            (false, true) => "version",
            (false, false) => "series",
        }
    }

    /// Gives groups of rows, as `part`, the values of the labels that were asked for, as `values`.
    pub(super) fn with_values(&self, statement: &mut Statement, rows: &str) -> String {
        if self.by.is_empty() {
            return format!("SELECT *, CAST([], 'Array(String)') AS values FROM ({rows})");
        }
        if self.is_of_versions {
            let values = vec!["toString(part)"; self.by.len()].join(", ");
            return format!("SELECT *, [{values}] AS values FROM ({rows})");
        }
        let scope = self.scope(statement);
        let values = self
            .by
            .iter()
            .map(|key| format!("labels[{}]", statement.text(key)));
        let values: Vec<String> = values.collect();
        format!(
            "SELECT * FROM ({rows}) AS found INNER JOIN (SELECT id AS part, any([{}]) AS values FROM series
            WHERE {scope} GROUP BY id) AS known USING (part)",
            values.join(", ")
        )
    }

    /// Hours of which every window is asked for.
    pub(super) fn whole_hours(&self) -> Range<UnixSeconds> {
        whole_hours(&self.windows)
    }

    /// Hours of which some windows are asked for: none, one or two.
    pub(super) fn partial_hours(&self) -> Vec<UnixSeconds> {
        partial_hours(&self.windows)
    }

    /// The condition that `hour` is one of a range that was made and is not late.
    pub(super) fn is_made(&self, hours: &Range<UnixSeconds>, hour: &str) -> String {
        let end = hours.end.min(self.compacted);
        let made = format!("{hour} >= {} AND {hour} < {end}", hours.start);
        match self.late.is_empty() {
            true => made,
            false => format!("{made} AND {hour} NOT IN {}", list(&self.late)),
        }
    }

    /// How many hours of a range rollups know.
    pub(super) fn rollup_hours(
        &self,
        connection: &Connection,
        hours: &Range<UnixSeconds>,
    ) -> Result<u64, StoreError> {
        if hours.is_empty() {
            return Ok(0);
        }
        let mut statement = Statement::default();
        let scope = self.scope(&mut statement);
        statement.sql = format!(
            "SELECT toUInt64(uniqExact(hour)) FROM rollups WHERE {scope} AND hour >= {} AND hour < {}",
            hours.start.max(self.rollups_from),
            hours.end
        );
        RowReader::new(&connection.run(&statement)?).u64()
    }
}

/// Of the rows of an hour in `late`: whether it got windows after it was made.
pub(super) const IS_LATE: &str = "argMax(is_made, (at, 1 - is_made)) = 0";

pub(super) fn scope(statement: &mut Statement, service: &str, event: &str) -> String {
    let (service, event) = (statement.text(service), statement.text(event));
    format!("service = {service} AND event = {event}")
}
