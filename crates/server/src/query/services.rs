//! Which services there are, in which versions, on which instances.

use std::collections::BTreeMap;
use std::ops::Range;

use nodespy_model::{Labels, SmallSort, label_key};
use nodespy_store::{REQUESTS_EVENT, Store, UnixSeconds, WINDOW_SECONDS};
use serde_json::{Value, json};

use super::marks::{DEPLOYMENT_EVENT, Mark, Versions, marks_of};
use super::{INSTANCE, QueryError};

/// How many instances of a service are listed, the latest first.
const MAX_INSTANCES: usize = 500;

/// Which services are listed, and how much of each.
#[derive(Debug, Clone)]
pub struct ServicesQuery {
    /// When they were seen.
    pub time: Range<UnixSeconds>,
    /// Only this one.
    pub service: Option<String>,
    /// How many instances of each are listed at most, the latest.
    pub max_instances: usize,
}

impl ServicesQuery {
    /// All services of a range of time, with their instances.
    pub fn new(time: Range<UnixSeconds>) -> Self {
        Self {
            time,
            service: None,
            max_instances: MAX_INSTANCES,
        }
    }
}

/// A service and what is known of it in a range of time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// What made its samples.
    pub events: Vec<String>,
    /// Its versions, in the order they were first seen.
    pub versions: Vec<Version>,
    /// Its instances, the latest first.
    pub instances: Vec<Instance>,
    /// Deployments that were marked.
    pub marks: Vec<Mark>,
}

/// A version of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// Its name; empty where none is known.
    pub name: String,
    /// When it was first seen: when it was deployed.
    pub first: UnixSeconds,
    /// When its last window ended.
    pub last: UnixSeconds,
    /// How many instances it had.
    pub instances: usize,
}

/// One process of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    /// Its name, for people.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// When it was first seen.
    pub first: UnixSeconds,
    /// When its last window ended.
    pub last: UnixSeconds,
}

/// The services that were seen in a range of time.
pub fn services(store: &dyn Store, query: &ServicesQuery) -> Result<Vec<Service>, QueryError> {
    let mut found: BTreeMap<String, Service> = BTreeMap::new();
    let versions = Versions::of_all(store, &query.time)?;
    // An instance has a series for each event and rate.
    let mut instances: BTreeMap<(String, String), BTreeMap<String, Instance>> = BTreeMap::new();
    let spans = store.labels_where(query.time.clone(), &|span| {
        // Requests are counted, not sampled: there is nothing to look at that CPU time has not.
        query.service.as_ref().is_none_or(|it| *it == span.service) && span.event != REQUESTS_EVENT
    })?;
    for span in spans {
        let service = found.entry(span.service.clone()).or_default();
        service.name = span.service.clone();
        if span.event == DEPLOYMENT_EVENT {
            service.marks.extend(marks_of(std::iter::once(&span)));
            continue;
        }
        if !service.events.contains(&span.event) {
            service.events.push(span.event.clone());
        }
        let label = |key: &str| span.labels.get(key).unwrap_or_default().to_owned();
        let last = span.last + WINDOW_SECONDS;
        let version = versions
            .get(&span.service)
            .map_or_else(|| label(label_key::VERSION), |known| known.name(&span));
        let of_version = instances.entry((span.service, version));
        let seen = of_version.or_default().entry(label(INSTANCE));
        let seen = seen.or_insert_with_key(|name| Instance {
            name: name.clone(),
            labels: span.labels,
            first: span.first,
            last,
        });
        seen.first = seen.first.min(span.first);
        seen.last = seen.last.max(last);
    }
    for ((service, version), instances) in instances {
        let service = found.entry(service).or_default();
        service.versions.push(Version {
            name: version,
            first: instances.values().map(|it| it.first).min().unwrap_or(0),
            last: instances.values().map(|it| it.last).max().unwrap_or(0),
            instances: instances.len(),
        });
        service.instances.extend(instances.into_values());
    }
    let mut services: Vec<Service> = found.into_values().collect();
    for service in &mut services {
        service
            .versions
            .small_sort_by_key(|version| (version.first, version.last));
        service
            .instances
            .small_sort_by_key(|instance| std::cmp::Reverse((instance.last, instance.first)));
        service
            .instances
            .truncate(query.max_instances.min(MAX_INSTANCES));
    }
    Ok(services)
}

/// The same as JSON.
pub fn services_json(store: &dyn Store, query: &ServicesQuery) -> Result<Value, QueryError> {
    let version = |version: &Version| {
        json!({
            "version": version.name, "first": version.first, "last": version.last, "instances": version.instances,
        })
    };
    let instance = |instance: &Instance| {
        let labels: serde_json::Map<String, Value> = instance
            .labels
            .iter()
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .collect();
        json!({
            "instance": instance.name, "first": instance.first, "last": instance.last, "labels": labels,
        })
    };
    let mark = |mark: &Mark| json!({ "version": mark.version, "time": mark.time });
    let found = services(store, query)?;
    let time = &query.time;
    let found: Vec<Value> = found
        .iter()
        .map(|service| {
            json!({
                "service": service.name,
                "events": service.events,
                "versions": service.versions.iter().map(version).collect::<Vec<_>>(),
                "instances": service.instances.iter().map(instance).collect::<Vec<_>>(),
                "marks": service.marks.iter().map(mark).collect::<Vec<_>>(),
            })
        })
        .collect();
    Ok(json!({ "from": time.start, "until": time.end, "services": found }))
}
