//! Functions too small to be tested one by one, added up by package and tested together: a hundred functions that each
//! got a little slower are seen that way. Of the application and its packages only: what the kernel, V8 and Node do in
//! between differs from run to run (of 207 comparisons of equal runs two were called different, both for the kernel).

use std::collections::BTreeMap;

use nodespy_model::SmallSort;

use super::judge::{Common, MIN_SAMPLES, Terms, test};
use super::table::{Cost, Table};
use super::{FamilyChange, figures::Figures};
use crate::package::{Package, PackageKind};

/// One is no family: its cost is what it is.
const MIN_FUNCTIONS: usize = 2;

/// The families of small functions, what is surest and largest first. `common` is what all functions changed by.
pub(super) fn families(
    table: &Table,
    terms: &Terms<'_>,
    common: Option<&Common>,
) -> Vec<FamilyChange> {
    let own: fn(&Cost) -> f64 = |cost| cost.own;
    let mut rows_of: BTreeMap<&Package, Vec<usize>> = BTreeMap::new();
    for (index, row) in table.rows.iter().enumerate() {
        let samples = table.samples(row, own);
        let is_theirs = matches!(row.package.kind, PackageKind::App | PackageKind::Dependency);
        if is_theirs && samples > 0.0 && samples < MIN_SAMPLES {
            rows_of.entry(&row.package).or_default().push(index);
        }
    }
    rows_of.retain(|_, rows| rows.len() >= MIN_FUNCTIONS);
    let figures: Vec<Figures> = rows_of
        .values()
        .map(|rows| {
            let mut figures = Figures::of(table, terms, |run, side| {
                let costs = rows
                    .iter()
                    .map(|&row| own(&table.rows[row].sides[side].costs[run]));
                costs.sum()
            });
            if let Some(common) = common {
                common.take_out_of(&mut figures);
            }
            figures
        })
        .collect();
    let samples = |rows: &Vec<usize>| -> f64 {
        rows.iter()
            .map(|&row| table.samples(&table.rows[row], own))
            .sum()
    };
    let counts: Vec<f64> = rows_of.values().map(samples).collect();
    let changes = test(table, terms, &figures, |place| counts[place]);
    let mut families: Vec<FamilyChange> = rows_of
        .into_iter()
        .zip(changes)
        .map(|((package, rows), own)| FamilyChange {
            package: package.clone(),
            functions: rows.len(),
            own,
        })
        .collect();
    let size = |family: &FamilyChange| (family.own.after - family.own.before).abs();
    families.small_sort_by(|a, b| {
        let certainty = a.own.verdict.cmp(&b.own.verdict);
        certainty.then(size(b).total_cmp(&size(a)))
    });
    families
}
