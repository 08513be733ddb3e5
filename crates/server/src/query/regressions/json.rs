//! Regressions as JSON, and as links.

use std::ops::Range;

use nodespy_http::percent_encoded;
use nodespy_store::UnixSeconds;
use serde_json::{Value, json};

use super::{Deployment, Exposure, Slower};

/// A function that is slower since a deployment.
pub(crate) fn regression_json(deployment: &Deployment, slower: &Slower) -> Value {
    let change = &slower.change;
    let callers = change.callers.iter().map(|caller| {
        json!({
            "function": caller.id.name,
            "file": caller.location.file,
            "line": caller.location.line,
        })
    });
    let mut row = json!({
        "service": deployment.service,
        "version": deployment.version,
        "before_version": deployment.before_version,
        "since": deployment.first,
        "function": change.id.name,
        "file": change.location.file,
        "line": change.location.line,
        "change": change.own.ratio,
        "interval": change.own.interval.map(|(low, high)| [low, high]),
        "verdict": change.own.verdict.label(),
        "callers": callers.collect::<Vec<_>>(),
        "first_seen": slower.seen.start,
        "last_seen": slower.seen.end,
        "link": link(deployment),
    });
    if let (Exposure::Requests, Some(request)) = (deployment.exposure, deployment.request) {
        // Costs are seconds of so many requests.
        let cost = [change.own.before, change.own.after].map(|it| it * 1e9 / request.each as f64);
        row["cpu_ns_per_request"] = both(cost.map(f64::round));
    }
    row
}

/// A figure of both versions.
fn both(figures: [impl Into<Value>; 2]) -> Value {
    let [before, after] = figures.map(Into::into);
    json!({ "before": before, "after": after })
}

/// Deployments: `regressions` in one list, and what was compared.
pub fn regressions_json(deployments: &[Deployment]) -> Value {
    let rows = |deployment: &Deployment, of: &[Slower]| -> Vec<Value> {
        of.iter()
            .map(|slower| regression_json(deployment, slower))
            .collect()
    };
    let all = deployments
        .iter()
        .flat_map(|deployment| rows(deployment, &deployment.slower));
    let ends = |time: &Range<UnixSeconds>| vec![time.start, time.end];
    let comparisons = deployments.iter().map(|deployment| {
        let mut comparison = json!({
            "service": deployment.service,
            "version": deployment.version,
            "before_version": deployment.before_version,
            "since": deployment.first,
            "concurrent": deployment.is_concurrent,
            "instances": both(deployment.instances),
            "compared": both(deployment.compared.each_ref().map(ends)),
            "exposure": deployment.exposure.label(),
            "smallest_seen": deployment.smallest_seen,
            "gone": rows(deployment, &deployment.gone),
            "link": link(deployment),
            "remarks": deployment.remarks,
        });
        if let Some(request) = deployment.request {
            comparison["cpu_ns_per_request"] = both(request.cpu_ns);
        }
        comparison
    });
    json!({
        "regressions": all.collect::<Vec<_>>(),
        "comparisons": comparisons.collect::<Vec<_>>(),
    })
}

/// Where the server's page shows the difference between the versions, each in the time that was compared.
pub(crate) fn link(deployment: &Deployment) -> String {
    let [before, after] = &deployment.compared;
    let encoded = percent_encoded;
    format!(
        "/?service={}&version={}&base={}&from={}&until={}&base.from={}&base.until={}",
        encoded(&deployment.service),
        encoded(&deployment.version),
        encoded(&deployment.before_version),
        after.start,
        after.end,
        before.start,
        before.end,
    )
}
