//! What a monitoring system scrapes, in Prometheus' text format.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ingest::IngestCounts;
use crate::keeper::KeeperCounts;
use nodespy_model::Labels;
use nodespy_store::{Appended, Store, StoreError, UnixSeconds, WINDOW_SECONDS};

/// Counts requests.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    answered: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

impl Requests {
    /// Counts an answer by its status.
    pub(crate) fn count(&self, status: &str) {
        let counter = match status.as_bytes().first() {
            Some(b'4') => &self.refused,
            Some(b'5') => &self.failed,
            _ => &self.answered,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// The text.
pub(crate) fn text(
    store: &dyn Store,
    requests: &Requests,
    ingested: Option<IngestCounts>,
    now: UnixSeconds,
) -> Result<String, StoreError> {
    let (mut series, mut newest) = (0, 0);
    let mut services: BTreeSet<String> = BTreeSet::new();
    store.each_series(now.saturating_sub(3600)..now, &mut |span| {
        series += 1;
        newest = newest.max(span.last + WINDOW_SECONDS);
        services.insert(span.service);
        Ok(())
    })?;
    let mut text = String::new();
    let mut gauge = |name: &str, help: &str, value: u64| {
        let _ = writeln!(
            text,
            "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}"
        );
    };
    gauge("nodespy_store_bytes", "Size of the store.", store.bytes()?);
    gauge(
        "nodespy_services",
        "Services seen in the last hour.",
        services.len() as u64,
    );
    gauge(
        "nodespy_series",
        "Series (processes and events) seen in the last hour.",
        series,
    );
    gauge(
        "nodespy_newest_window_timestamp_seconds",
        "When the newest window ended; 0 if there is none of the last hour.",
        newest,
    );
    let name = "nodespy_http_requests_total";
    let _ = writeln!(
        text,
        "# HELP {name} Requests by what became of them.\n# TYPE {name} counter"
    );
    for (outcome, counter) in [
        ("answered", &requests.answered),
        ("refused", &requests.refused),
        ("failed", &requests.failed),
    ] {
        let count = counter.load(Ordering::Relaxed);
        let _ = writeln!(text, "{name}{{outcome=\"{outcome}\"}} {count}");
    }
    if let Some(counts) = ingested {
        put_ingested(&mut text, &counts);
    }
    Ok(text)
}

fn put_ingested(text: &mut String, counts: &IngestCounts) {
    let name = "nodespy_ingested_windows_total";
    let _ = writeln!(
        text,
        "# HELP {name} Windows that were sent here, by what became of them.\n# TYPE {name} counter"
    );
    let Appended {
        windows,
        repeated,
        too_old,
    } = counts.appended;
    for (outcome, count) in [
        ("stored", windows),
        ("repeated", repeated),
        ("too_old", too_old),
    ] {
        let _ = writeln!(text, "{name}{{outcome=\"{outcome}\"}} {count}");
    }
    let name = "nodespy_ingest_refused_total";
    let _ = writeln!(
        text,
        "# HELP {name} Requests to store something that were refused.\n# TYPE {name} counter\n{name} {}",
        counts.refused
    );
    let name = "nodespy_ingest_labels_left_out_total";
    let _ = writeln!(
        text,
        "# HELP {name} Labels that were left out of what was sent: a process has at most {}.\n# TYPE {name} counter\n{name} {}",
        Labels::MAX,
        counts.labels_left_out
    );
    put_keeper(text, &counts.keeper);
}

fn put_keeper(text: &mut String, counts: &KeeperCounts) {
    let name = "nodespy_compactions_total";
    let _ = writeln!(
        text,
        "# HELP {name} How often hours were made of windows and what is too old dropped, by how it ended.\n# TYPE {name} counter"
    );
    for (outcome, count) in [("done", counts.turns), ("failed", counts.failed)] {
        let _ = writeln!(text, "{name}{{outcome=\"{outcome}\"}} {count}");
    }
    let name = "nodespy_compaction_seconds";
    let _ = writeln!(
        text,
        "# HELP {name} How long the last of them took, beside requests.\n# TYPE {name} gauge\n{name} {}",
        counts.last.as_secs_f64()
    );
}
