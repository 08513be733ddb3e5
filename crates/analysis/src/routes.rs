//! The requests that samples were taken in, by route, where samples say it.

use nodespy_model::{
    Category, ContextIndex, FastMap, Frame, FrameIndex, FrameKind, Function, FunctionIndex,
    Measure, Profile, Sample, SmallSort, Stack, StackIndex, Tier, label_key,
};

use crate::charged::charged_weights;
use crate::states::on_cpu_contexts;

/// What stands for the route of a sample that was taken in no request.
pub const NO_REQUEST: &str = "(no request)";

/// How many functions of a route are listed.
const MAX_FUNCTIONS: usize = 5;
/// Of how many routes. Each of them is a pass over all stacks.
const MAX_ROUTES_WITH_FUNCTIONS: usize = 20;

/// How much of a profile each route is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Routes {
    /// The weight of all samples that count, which shares are of. Of wall time only what ran on a CPU counts.
    pub whole: u64,
    /// The routes, heaviest first; none where no sample has one.
    pub rows: Vec<RouteWeights>,
    /// What was taken in no request, or in one whose route is not known.
    pub no_request: RouteWeights,
}

/// How much of a profile one route is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RouteWeights {
    /// Method and route: `GET /api/users/:id`.
    pub route: String,
    /// The weight of its samples.
    pub weight: u64,
    /// How many they are.
    pub samples: u64,
}

impl RouteWeights {
    /// Several as one: their weight and samples.
    pub fn sum(rows: &[Self]) -> Self {
        rows.iter().fold(Self::default(), |mut sum, row| {
            sum.weight = sum.weight.saturating_add(row.weight);
            sum.samples = sum.samples.saturating_add(row.samples);
            sum
        })
    }
}

/// Whether any sample says which request it was taken in.
pub fn has_routes(profile: &Profile) -> bool {
    let mut contexts = profile.contexts.iter();
    contexts.any(|labels| labels.get(label_key::ROUTE).is_some())
}

/// How much of a profile of one event each route is. Routes are labels of samples; those of processes do not
/// count.
pub fn route_weights(profile: &Profile) -> Routes {
    profile.assert_one_event();
    if !has_routes(profile) {
        return Routes::default();
    }
    let groups = Groups::of(profile);
    let mut rows: Vec<RouteWeights> = (groups.names.iter())
        .map(|route| RouteWeights {
            route: (*route).to_owned(),
            ..RouteWeights::default()
        })
        .collect();
    for sample in &profile.samples {
        if let Some(group) = groups.of_sample(sample) {
            let row = &mut rows[group];
            row.weight = row.weight.saturating_add(sample.weight);
            row.samples += 1;
        }
    }
    let whole = RouteWeights::sum(&rows).weight;
    let no_request = rows.swap_remove(0);
    rows.retain(|row| row.samples > 0);
    if rows.is_empty() {
        return Routes::default();
    }
    rows.small_sort_by(|one, other| {
        let heaviest = (other.weight, other.samples).cmp(&(one.weight, one.samples));
        heaviest.then_with(|| one.route.cmp(&other.route))
    });
    Routes {
        whole,
        rows,
        no_request,
    }
}

/// The functions with a source that most of each of the first routes is charged to, with that weight; heaviest
/// first.
pub fn functions_by_route(profile: &Profile, routes: &Routes) -> Vec<Vec<(FunctionIndex, u64)>> {
    if routes.rows.is_empty() {
        return Vec::new();
    }
    let groups = Groups::of(profile);
    let functions_of = |row: &RouteWeights| {
        let group = groups.names.iter().position(|name| *name == row.route);
        let charged = charged_weights(profile, |sample| groups.of_sample(sample) == group);
        let charged = charged.into_iter().filter(|entry| entry.charged_weight > 0);
        charged
            .take(MAX_FUNCTIONS)
            .map(|entry| (entry.function, entry.charged_weight))
            .collect()
    };
    let rows = routes.rows.iter().take(MAX_ROUTES_WITH_FUNCTIONS);
    rows.map(functions_of).collect()
}

/// The samples that count, each in a function that stands for its route and is its whole stack.
pub fn as_routes(mut profile: Profile) -> Profile {
    let Groups { names, of_context } = Groups::of(&profile);
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    profile.stacks.clear();
    for name in &names {
        let function = FunctionIndex(profile.functions.len() as u32);
        profile.functions.push(Function {
            name: profile.strings.push(name),
            file: None,
            line: 0,
            column: 0,
            category: Category::App,
        });
        let frame = FrameIndex(profile.frames.len() as u32);
        profile.frames.push(Frame {
            function,
            line: 0,
            column: 0,
            tier: Tier::None,
            kind: FrameKind::Physical,
        });
        let parent = None;
        profile.stacks.push(Stack { parent, frame });
    }
    let group_of = |sample: &Sample| of_context.get(sample.context.0 as usize).copied()?;
    profile.samples.retain_mut(|sample| {
        let group = group_of(sample);
        sample.stack = group.map(|group| StackIndex::new(group as u32));
        group.is_some()
    });
    profile
}

/// The routes of a profile. The first is none.
struct Groups<'a> {
    names: Vec<&'a str>,
    /// By context; none where its samples do not count.
    of_context: Vec<Option<usize>>,
}

impl<'a> Groups<'a> {
    fn of(profile: &'a Profile) -> Self {
        let counts = on_cpu_contexts(profile);
        let mut names = vec![NO_REQUEST];
        let mut known: FastMap<&str, usize> = FastMap::default();
        let mut group_of = |context: usize| {
            let labels = profile.contexts.get(ContextIndex(context as u32));
            let Some(route) = labels.get(label_key::ROUTE) else {
                return 0;
            };
            *known.entry(route).or_insert_with(|| {
                names.push(route);
                names.len() - 1
            })
        };
        // Time that passed while a thread waited is no CPU time of its request.
        let is_wall = profile.event().measure() == Measure::WallTime;
        let of_context = (0..profile.contexts.len())
            .map(|context| (!is_wall || counts[context]).then(|| group_of(context)))
            .collect();
        Self { names, of_context }
    }

    fn of_sample(&self, sample: &Sample) -> Option<usize> {
        self.of_context.get(sample.context.0 as usize).copied()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{assert_sound, folded, routed};

    fn rows(routes: &Routes) -> Vec<(&str, u64)> {
        let row = |row: &'_ RouteWeights| (row.weight, row.samples);
        let rows = routes.rows.iter();
        rows.map(|each| (&*each.route, row(each).0)).collect()
    }

    #[test]
    fn samples_count_for_their_route_whatever_else_they_are_labelled_with() {
        let profile = routed(
            "cpu-clock",
            &[
                ("a 3", &[("route", "GET /a"), ("trace", "1")]),
                ("b 2", &[("route", "GET /a"), ("trace", "2")]),
                ("c 7", &[("route", "POST /b")]),
                ("gc:collect 4", &[]),
                ("d 1", &[("trace", "3")]),
            ],
        );
        let routes = route_weights(&profile);
        assert_eq!(rows(&routes), [("POST /b", 7), ("GET /a", 5)]);
        assert_eq!((routes.whole, routes.no_request.weight), (17, 5));
        assert_eq!(routes.rows[1].samples, 2);
        assert_eq!(RouteWeights::sum(&routes.rows).weight, 12);
    }

    #[test]
    fn only_time_on_a_cpu_counts_where_threads_wait_too() {
        let profile = routed(
            "wall",
            &[
                ("a 3", &[("route", "GET /a"), ("state", "on-cpu")]),
                ("a 90", &[("route", "GET /a"), ("state", "waiting")]),
                ("b 1", &[("state", "on-cpu")]),
            ],
        );
        let routes = route_weights(&profile);
        assert_eq!((rows(&routes), routes.whole), (vec![("GET /a", 3)], 4));
    }

    #[test]
    fn routes_stand_in_for_functions() {
        let profile = routed(
            "cpu-clock",
            &[
                ("main;a 3", &[("route", "GET /a"), ("trace", "1")]),
                ("main;b 2", &[("route", "GET /a")]),
                ("c 4", &[]),
            ],
        );
        let routes = as_routes(profile);
        assert_sound(&routes);
        assert_eq!(folded(&routes), ["(no request) 4", "GET /a 5"]);
    }

    #[test]
    fn a_profile_without_routes_has_none() {
        let profile = routed("cpu-clock", &[("a 3", &[("trace", "1")])]);
        assert_eq!(route_weights(&profile), Routes::default());
        assert!(!has_routes(&profile));
        assert!(functions_by_route(&profile, &Routes::default()).is_empty());
    }

    #[test]
    fn each_route_has_functions_of_its_own() {
        let get: &[(&str, &str)] = &[("route", "GET /a")];
        let post: &[(&str, &str)] = &[("route", "POST /b")];
        let profile = routed(
            "cpu-clock",
            &[
                ("main;render;n:memcpy 5", get),
                ("main;parse 2", get),
                ("main;parse 9", post),
            ],
        );
        let routes = route_weights(&profile);
        let names: Vec<Vec<(&str, u64)>> = functions_by_route(&profile, &routes)
            .into_iter()
            .map(|functions| {
                let functions = functions.into_iter();
                functions
                    .map(|(at, weight)| (profile.name_of(at), weight))
                    .collect()
            })
            .collect();
        assert_eq!(
            names,
            [vec![("parse", 9)], vec![("render", 5), ("parse", 2)]]
        );
    }
}
