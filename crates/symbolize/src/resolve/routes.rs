//! The routes of the requests that samples run for, as labels.

use nodespy_model::{FastMap, FastSet};

use crate::route::Route;

/// Of a sample that runs for no request that is known.
pub(super) const NO_ROUTE: u32 = u32::MAX;
/// How many routes a recording has, the one of all others included.
const MAX_ROUTES: usize = 256;
const OTHER: &str = "(other)";
/// How many requests of a slice are told apart.
const MAX_REQUESTS: usize = 1 << 16;

/// The routes of one slice.
#[derive(Debug, Default)]
pub(super) struct Routes {
    list: Vec<Route>,
    ids: FastMap<Route, u32>,
}

/// The routes that samples were labelled with.
#[derive(Debug, Default)]
pub(super) struct KnownRoutes {
    labels: FastSet<String>,
    /// The pattern that paths have matched; none where there were several.
    patterns: FastMap<(String, String), Option<String>>,
}

impl Routes {
    /// The number of a route.
    pub(super) fn id(&mut self, route: Route) -> u32 {
        if let Some(&known) = self.ids.get(&route) {
            return known;
        }
        if self.list.len() >= MAX_REQUESTS {
            return NO_ROUTE;
        }
        let id = self.list.len() as u32;
        self.list.push(route.clone());
        self.ids.insert(route, id);
        id
    }

    /// What each is called. What runs before a framework has matched a request has the pattern that such a path matches.
    pub(super) fn labels(&self, known: &mut KnownRoutes) -> Vec<String> {
        self.list.iter().for_each(|route| known.learn(route));
        self.list.iter().map(|route| known.label(route)).collect()
    }
}

impl KnownRoutes {
    fn learn(&mut self, route: &Route) {
        let Some(pattern) = &route.pattern else {
            return;
        };
        let key = (route.method.clone(), route.path.clone());
        if let Some(known) = self.patterns.get_mut(&key) {
            if known.as_ref() != Some(pattern) {
                *known = None;
            }
        } else if self.patterns.len() < MAX_REQUESTS {
            self.patterns.insert(key, Some(pattern.clone()));
        }
    }

    fn label(&mut self, route: &Route) -> String {
        let mut route = route.clone();
        if route.pattern.is_none() {
            let key = (route.method.clone(), route.path.clone());
            route.pattern = self.patterns.get(&key).cloned().flatten();
        }
        let label = route.label();
        if self.labels.contains(&label) {
            return label;
        }
        if self.labels.len() + 1 >= MAX_ROUTES {
            return OTHER.to_owned();
        }
        self.labels.insert(label.clone());
        label
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path: &str, pattern: Option<&str>) -> Route {
        let route = Route::new("GET", path, false).unwrap();
        match pattern {
            Some(pattern) => route.with_pattern("", pattern),
            None => route,
        }
    }

    fn labels(routes: &[Route]) -> Vec<String> {
        let mut all = Routes::default();
        for route in routes {
            all.id(route.clone());
        }
        all.labels(&mut KnownRoutes::default())
    }

    #[test]
    fn what_runs_before_the_match_has_the_pattern_of_its_path() {
        let before = route("/users/7", None);
        let matched = route("/users/7", Some("/users/:id"));
        assert_eq!(labels(&[before, matched]), ["GET /users/:id"; 2]);
    }

    #[test]
    fn a_path_that_matches_several_patterns_keeps_its_own_name() {
        let routes = [
            route("/users/7", None),
            route("/users/7", Some("/users/:id")),
            route("/users/8", Some("/users/:name")),
        ];
        assert_eq!(labels(&routes)[0], "GET /users/*");
    }

    #[test]
    fn there_are_only_so_many_routes() {
        let letters = |number: usize| {
            let digits = format!("{number:04}").into_bytes();
            digits
                .into_iter()
                .map(|digit| char::from(digit + 49))
                .collect::<String>()
        };
        let routes: Vec<Route> = (0..MAX_ROUTES + 9)
            .map(|number| route(&format!("/{}", letters(number)), None))
            .collect();
        let labels = labels(&routes);
        let distinct: FastSet<&String> = labels.iter().collect();
        assert_eq!(distinct.len(), MAX_ROUTES);
        assert_eq!(labels.last().map(String::as_str), Some(OTHER));
    }
}
