//! Samples by the route of their request.

use nodespy_model::{ContextIndex, Profile, SmallSort, label_key};

use super::FilterError;
use super::values::Pattern;
use crate::routes::NO_REQUEST;

/// How many routes an error lists.
const MAX_LISTED: usize = 8;

/// [`only_routes`] of a recording. A route itself always matches, whatever its signs mean in a
/// regular expression. Fails if none does; the error lists those there are.
pub(super) fn only_routed(profile: Profile, wanted: &[Pattern]) -> Result<Profile, FilterError> {
    let had = profile.samples.len();
    let there_are = all_routes(&profile);
    let kept = only_routes(profile, wanted);
    if had > 0 && kept.samples.is_empty() {
        let patterns: Vec<String> = wanted.iter().map(Pattern::to_string).collect();
        return Err(FilterError(format!(
            "no sample has a route that matches {}; there are {there_are}",
            patterns.join(" or "),
        )));
    }
    Ok(kept)
}

/// The samples whose route matches one of the patterns, which may be none of them.
pub fn only_routes(mut profile: Profile, wanted: &[Pattern]) -> Profile {
    let kept: Vec<bool> = (0..profile.contexts.len())
        .map(|context| {
            let labels = profile.contexts.get(ContextIndex(context as u32));
            is_routed(labels.get(label_key::ROUTE), wanted)
        })
        .collect();
    let is_kept = |context: ContextIndex| kept.get(context.0 as usize) == Some(&true);
    profile.samples.retain(|each| is_kept(each.context));
    profile
}

fn is_routed(route: Option<&str>, wanted: &[Pattern]) -> bool {
    wanted.iter().any(|pattern| match route {
        Some(route) => pattern.to_string() == route || pattern.is_match_in(route),
        None => pattern.to_string() == NO_REQUEST,
    })
}

fn all_routes(profile: &Profile) -> String {
    let contexts = profile.contexts.iter();
    let mut routes: Vec<&str> = contexts
        .filter_map(|labels| labels.get(label_key::ROUTE))
        .collect();
    routes.small_sort();
    routes.dedup();
    if routes.is_empty() {
        return "none at all in this recording".to_owned();
    }
    let more = routes.len().saturating_sub(MAX_LISTED);
    routes.truncate(MAX_LISTED);
    let mut routes: Vec<String> = routes.into_iter().map(str::to_owned).collect();
    if more > 0 {
        routes.push(format!("{more} more"));
    }
    routes.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::routed;

    fn profile() -> Profile {
        routed(
            "cpu-clock",
            &[
                ("a 1", &[("route", "GET /users")]),
                ("b 2", &[("route", "GET /users/:id(\\d+)")]),
                ("c 4", &[("route", "POST /users")]),
                ("d 8", &[]),
            ],
        )
    }

    fn left(patterns: &[&str]) -> Result<u64, FilterError> {
        let wanted: Vec<Pattern> = patterns
            .iter()
            .map(|pattern| Pattern::parse(pattern).unwrap())
            .collect();
        only_routed(profile(), &wanted).map(|profile| profile.total_weight())
    }

    #[test]
    fn a_part_of_the_route_is_enough_and_several_widen() {
        assert_eq!(left(&["users"]), Ok(7));
        assert_eq!(left(&["^GET "]), Ok(3));
        assert_eq!(left(&["^GET /users$", "POST"]), Ok(5));
        assert_eq!(left(&["(no request)"]), Ok(8));
        assert_eq!(left(&["."]), Ok(7));
    }

    #[test]
    fn a_route_that_is_no_regular_expression_of_itself_matches() {
        assert_eq!(left(&["GET /users/:id(\\d+)"]), Ok(2));
    }

    #[test]
    fn what_is_not_there_is_answered_with_what_is() {
        let error = left(&["DELETE"]).unwrap_err().to_string();
        assert_eq!(
            error,
            "no sample has a route that matches DELETE; there are GET /users, \
             GET /users/:id(\\d+), POST /users"
        );
    }
}
