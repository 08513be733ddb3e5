//! Every route, in one table: what it is called, and who answers it.

use std::borrow::Cow;

use nodespy_analysis::{CompareOptions, Filters, RunCosts, compare, filtered};
use nodespy_outputs::{Output, output_names};
use nodespy_store::{OpenStore, UnixSeconds};

use crate::ingest::IngestCounts;
use crate::metrics::{self, Requests};
use crate::query::{
    self, InstancesQuery, QueryError, RegressionOptions, Selected, SeriesQuery, ServicesQuery,
    profile_of_selection,
};
use nodespy_http::{Answer, Framing, Parameters};

/// What a route is asked.
pub(crate) struct Asked<'a> {
    pub(crate) parameters: &'a Parameters,
    pub(crate) store: &'a OpenStore,
    pub(crate) requests: &'a Requests,
    /// What was sent to it; nothing where it takes nothing.
    pub(crate) ingested: Option<IngestCounts>,
    pub(crate) now: UnixSeconds,
}

/// A path and what answers it.
type Route = (&'static str, fn(&Asked<'_>) -> Result<Answer, QueryError>);

/// Every route but the page.
pub(crate) const ROUTES: &[Route] = &[
    ("/healthz", health),
    ("/metrics", prometheus),
    ("/api/v1/services", services),
    ("/api/v1/series", series),
    ("/api/v1/instances", instances),
    ("/api/v1/profile", profile),
    ("/api/v1/regressions", regressions),
];

fn health(_asked: &Asked<'_>) -> Result<Answer, QueryError> {
    Ok(Answer::text("200 OK", "ok"))
}

fn prometheus(asked: &Asked<'_>) -> Result<Answer, QueryError> {
    let text = metrics::text(asked.store, asked.requests, asked.ingested, asked.now)?;
    Ok(Answer::ok(
        "text/plain; version=0.0.4; charset=utf-8",
        text.into_bytes(),
    ))
}

/// The services of a range of time, or one `service`, with at most so many `instances` of each.
fn services(asked: &Asked<'_>) -> Result<Answer, QueryError> {
    let get = |key| asked.parameters.get(key);
    let time = query::range(get("from"), get("until"), asked.now)?;
    let mut query = ServicesQuery::new(time);
    query.service = get("service").map(str::to_owned);
    if let Some(number) = get("instances") {
        query.max_instances = number
            .parse()
            .map_err(|_| QueryError::Bad("instances is how many of each service".to_owned()))?;
    }
    Ok(Answer::json(&query::services_json(asked.store, &query)?))
}

/// The instances of a selection, with what is odd about each.
fn instances(asked: &Asked<'_>) -> Result<Answer, QueryError> {
    let query = InstancesQuery {
        selection: selected(asked, "")?.selection,
    };
    Ok(Answer::json(&query::instances_json(asked.store, &query)?))
}

/// Weight over time, of one `service` or, with `by=service`, of all.
fn series(asked: &Asked<'_>) -> Result<Answer, QueryError> {
    let step = asked.parameters.get("step").map(str::parse).transpose();
    let step = step.map_err(|_| QueryError::Bad("a step is a number of seconds".to_owned()))?;
    let by: Vec<String> = asked.parameters.all("by").map(str::to_owned).collect();
    let selected = match by.iter().any(|key| key == "service") {
        true => Selected::of_any_service(asked.parameters, asked.now)?,
        false => selected(asked, "")?,
    };
    let query = SeriesQuery {
        selection: selected.selection,
        step,
        by,
    };
    Ok(Answer::json(&query::series_json(asked.store, &query)?))
}

/// The profile of a selection, by default as `.nspy`; `base.version`, `base.from` and the like name what it is compared with.
fn profile(asked: &Asked<'_>) -> Result<Answer, QueryError> {
    let name = asked.parameters.get("format").unwrap_or("nspy");
    let output = Output::called(name).ok_or_else(|| {
        QueryError::Bad(format!(
            "there is no format {name:?}; there are {}",
            output_names()
        ))
    })?;
    let shown = |profile| filtered(Cow::Owned(profile), &Filters::default(), output.holding());
    let profile = profile_of_selection(asked.store, &selected(asked, "")?.selection)?;
    let profile = shown(profile)?;
    let mut body = Vec::new();
    let has_base = asked.parameters.below("base.").next().is_some();
    if has_base && output.holds_base() {
        let base = profile_of_selection(asked.store, &selected(asked, "base.")?.selection)?;
        let base = shown(base)?;
        let costs = |name: &str, profile| vec![RunCosts::of(name, profile, None)];
        let comparison = compare(
            costs("base", &base),
            costs("selection", &profile),
            &CompareOptions::default(),
        );
        let mut nspy = Vec::new();
        Output::native().write(&base, &[], &mut nspy)?;
        output.write_compared(&profile, &nspy, comparison.ok().as_ref(), &mut body)?;
    } else {
        output.write(&profile, &[], &mut body)?;
    }
    let answer = Answer::ok(kind_of(output), body);
    Ok(match output.name() {
        "html" => Answer {
            framing: Framing::SameOrigin,
            ..answer
        },
        _ => {
            let extension = output.extensions().first().copied().unwrap_or("bin");
            answer.with_header(format!(
                "Content-Disposition: attachment; filename=\"profile.{extension}\""
            ))
        }
    })
}

/// What is slower since the deployments of a range of time, of one `service` or of all; instances are left out for `warm_up`
/// seconds, and those that are seen for less than `min_length` after that.
fn regressions(asked: &Asked<'_>) -> Result<Answer, QueryError> {
    let get = |key| asked.parameters.get(key);
    let time = query::range(get("from"), get("until"), asked.now)?;
    let usual = RegressionOptions::default();
    let seconds = |key, usual| query::seconds(get(key)).map(|given| given.unwrap_or(usual));
    let options = RegressionOptions {
        warm_up: seconds("warm_up", usual.warm_up)?,
        min_length: seconds("min_length", usual.min_length)?,
        ..usual
    };
    let found = query::regressions(asked.store, get("service"), time, &options)?;
    Ok(Answer::json(&query::regressions_json(&found)))
}

fn selected(asked: &Asked<'_>, prefix: &str) -> Result<Selected, QueryError> {
    Selected::of(asked.parameters, prefix, asked.now)
}

/// The media type of an output.
fn kind_of(output: Output) -> &'static str {
    match output.extensions().first().copied().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "svg" => "image/svg+xml",
        extension if extension.ends_with("json") => "application/json",
        "folded" | "txt" | "md" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
