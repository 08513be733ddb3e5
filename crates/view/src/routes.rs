//! CPU time by route, as a table.

use nodespy_analysis::{NO_REQUEST, RouteWeights, Routes, has_states};
use nodespy_model::{FunctionIndex, Measure, Profile, printable};

use crate::columns::{keep_end, keep_start, short_name};
use crate::event_words::EventWords;
use crate::wording::{count, percent_of, place};

/// How many routes a summary lists one by one.
pub(crate) const MAX_ROUTES: usize = 10;

/// A line of the table.
pub(crate) struct RouteRow {
    /// Of all that counts, in percent.
    pub(crate) percent: f64,
    /// How many; empty for a function.
    pub(crate) samples: String,
    pub(crate) name: RouteName,
}

/// What a line is about.
pub(crate) enum RouteName {
    Route(String),
    /// The routes that are not listed, or no request.
    Other(String),
    /// A function of the route above, and where it is.
    Function(String, String),
}

/// What the table is called, and what its shares are of.
pub(crate) fn heading(profile: &Profile) -> String {
    let words = EventWords::of(profile);
    let is_cpu = match profile.event().measure() {
        Measure::CpuTime => true,
        Measure::WallTime => has_states(profile),
        _ => false,
    };
    match is_cpu {
        true => "CPU by route, of all CPU time of the recording".to_owned(),
        false => format!("{} by route, of all of the recording", words.whole),
    }
}

/// The heaviest `most` routes, what the others have in common, and what was in no request.
pub(crate) fn rows(routes: &Routes, most: usize) -> Vec<RouteRow> {
    let (listed, more) = routes.rows.split_at(routes.rows.len().min(most));
    let mut rows: Vec<RouteRow> = (listed.iter())
        .map(|row| {
            let route = printable(&row.route).into_owned();
            row_of(routes, row, RouteName::Route(route))
        })
        .collect();
    if !more.is_empty() {
        let name = format!("{} more", count(more.len() as u64));
        let sum = RouteWeights::sum(more);
        rows.push(row_of(routes, &sum, RouteName::Other(name)));
    }
    if !routes.rows.is_empty() && routes.no_request.samples > 0 {
        let name = RouteName::Other(NO_REQUEST.to_owned());
        rows.push(row_of(routes, &routes.no_request, name));
    }
    rows
}

/// Every route, below each of the first of them its heaviest functions.
pub(crate) fn rows_with_functions(
    profile: &Profile,
    routes: &Routes,
    functions: &[Vec<(FunctionIndex, u64)>],
) -> Vec<RouteRow> {
    let of_function = |(function, weight): &(FunctionIndex, u64)| RouteRow {
        percent: percent_of(*weight, routes.whole),
        samples: String::new(),
        name: RouteName::Function(
            short_name(profile.name_of(*function)),
            place(profile, *function),
        ),
    };
    let mut of_routes = functions.iter();
    let each = rows(routes, usize::MAX).into_iter().enumerate();
    each.flat_map(|(position, row)| {
        let is_route = position < routes.rows.len();
        let functions = of_routes.next().filter(|_| is_route);
        std::iter::once(row).chain(functions.into_iter().flatten().map(of_function))
    })
    .collect()
}

fn row_of(routes: &Routes, weights: &RouteWeights, name: RouteName) -> RouteRow {
    RouteRow {
        percent: percent_of(weights.weight, routes.whole),
        samples: count(weights.samples),
        name,
    }
}

/// The heading of the columns.
pub(crate) fn columns() -> String {
    format!("{:>6}{:>10}  route", "share", "samples")
}

/// A row as a line of at most so many columns.
pub(crate) fn line(row: &RouteRow, width: usize) -> String {
    let numbers = format!("{:>5.1}%{:>10}  ", row.percent, row.samples);
    let room = width.saturating_sub(numbers.len()).max(1);
    match &row.name {
        RouteName::Route(route) | RouteName::Other(route) => {
            format!("{numbers}{}", keep_start(route, room))
        }
        RouteName::Function(name, place) => {
            let name = keep_start(&printable(name), (room / 2).max(1));
            let left = room.saturating_sub(crate::columns::width_of(&name) + 4);
            format!(
                "{numbers}  {name}  {}",
                keep_end(&printable(place), left.max(1))
            )
        }
    }
}
