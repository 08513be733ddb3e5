//! What the stores of AsyncLocalStorage say of samples: is it found, and is it right?

use std::collections::BTreeMap;

use nodespy_model::{Sample, label_key};

use super::certainty::margin;
use super::recorded::{Recorded, record, record_enough};
use super::versions::on_every_node;
use super::workload::Workload;
use super::{is_root, live};
use crate::run::run_nodespy;
use crate::skip::skip;

/// How many samples have what is right at least, and something wrong at most.
const RIGHT: f64 = 0.97;
const WRONG: f64 = 0.001;

const TENANTS: [&str; 4] = ["acme", "globex", "initech", "umbrella"];

/// Checks samples by what is right of them and what they have.
#[track_caller]
fn expect_right(recorded: &Recorded, counts: &BTreeMap<(String, Option<String>), u64>) {
    let all: u64 = counts.values().sum();
    let of = |wanted: fn(&str, Option<&str>) -> bool| {
        let wanted = counts
            .iter()
            .filter(|((right, found), _)| wanted(right, found.as_deref()));
        wanted.map(|(_, count)| count).sum::<u64>()
    };
    let right = of(|right, found| found.unwrap_or_default() == right);
    let wrong = of(|right, found| found.is_some_and(|found| found != right));
    // On a busy machine the workload gets little of a CPU.
    assert!(all > 50, "{counts:#?}\n{}", recorded.describe());
    let all = all as f64;
    assert!(
        right as f64 / all >= RIGHT - margin(RIGHT, all),
        "{counts:#?}"
    );
    // Those of one turn are wrong together.
    assert!(wrong as f64 <= WRONG * all + 3.0, "{counts:#?}");
}

/// The samples from when on the classes of stores are to be known: they are learned step by step, which takes a few tenths of a
/// second, and longer where nodespy has to wait for a CPU.
fn learned(recorded: &Recorded) -> impl Iterator<Item = &Sample> {
    let samples = &recorded.profile.samples;
    let learned = samples.last().map_or(0, |last| last.time) / 2;
    samples.iter().filter(move |sample| sample.time >= learned)
}

fn label(recorded: &Recorded, sample: &Sample, key: &str) -> Option<String> {
    let labels = recorded.profile.contexts.get(sample.context);
    labels.get(key).map(str::to_owned)
}

/// The tenant that the functions of a sample are named after, empty for none.
fn tenant_of(name: &str) -> Option<String> {
    let (tenant, _) = name.split_once('_')?;
    if tenant == "none" {
        return Some(String::new());
    }
    TENANTS.contains(&tenant).then(|| tenant.to_owned())
}

fn expect_tenants(major: &str, what: &str, options: &[&str]) {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("stores are read by an eBPF program, which needs root");
    }
    let workload = Workload::new("stores.js").on(major).env("WHAT", what);
    let workload = workload.start();
    let arguments = ["-F", "499", "--store-key", "tenant"];
    let recorded = record_enough(&workload, 5, &[&arguments[..], options].concat(), 300);
    let mut counts = BTreeMap::new();
    for sample in learned(&recorded) {
        let found = label(&recorded, sample, "tenant");
        if let Some(right) = recorded.answer_of(sample, tenant_of) {
            *counts.entry((right, found)).or_default() += 1;
        }
        assert_eq!(label(&recorded, sample, label_key::TRACE_ID), None);
    }
    expect_right(&recorded, &counts);
}

/// The trace and the span that the functions of a sample are named after: `t3_s1_compute`.
fn span_of(name: &str) -> Option<String> {
    let (trace, rest) = name.strip_prefix('t')?.split_once("_s")?;
    let span = rest.strip_suffix("_compute")?;
    Some(format!("{trace:0>32} {span:0>16}"))
}

fn expect_traces(major: &str) {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("stores are read by an eBPF program, which needs root");
    }
    let workload = Workload::new("traces/spans.js").on(major);
    let workload = workload.with_packages("traces").start();
    let recorded = record_enough(&workload, 6, &["-F", "499", "--traces"], 300);
    let mut counts = BTreeMap::new();
    for sample in learned(&recorded) {
        if let Some(right) = recorded.answer_of(sample, span_of) {
            let trace = label(&recorded, sample, label_key::TRACE_ID);
            let span = label(&recorded, sample, label_key::SPAN_ID);
            let found = trace.map(|trace| format!("{trace} {}", span.unwrap_or_default()));
            *counts.entry((right, found)).or_default() += 1;
        }
    }
    expect_right(&recorded, &counts);
}

on_every_node! {{
    a_key_of_a_store_is_a_label(|major| expect_tenants(major, "object", &[]));
}}

#[test]
fn spans_of_open_telemetry_are_labels() {
    expect_traces("26");
}

#[test]
fn nothing_is_read_of_stores_unless_it_is_asked_for() {
    let Some(_live) = live() else { return };
    let workload = Workload::new("stores.js").on("26").start();
    let recorded = record(&workload, &["-d", "1", "-F", "199"]);
    let tenant = |sample: &Sample| label(&recorded, sample, "tenant");
    assert_eq!(recorded.profile.samples.iter().find_map(tenant), None);
}

mod more {
    mod matrix {
        use super::super::*;

        #[test]
        fn spans_of_open_telemetry_are_labels_on_other_versions() {
            for major in ["18", "22", "24"] {
                expect_traces(major);
            }
        }

        #[test]
        fn stores_may_be_maps() {
            expect_tenants("24", "map", &[]);
            expect_tenants("20", "map", &[]);
        }

        #[test]
        fn threads_that_go_before_others_read_them_too() {
            expect_tenants("24", "object", &["--no-ebpf", "--async"]);
        }
    }
}

#[test]
fn top_has_rows_by_what_stores_hold() {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("stores are read by an eBPF program, which needs root");
    }
    let workload = Workload::new("stores.js").on("20").start();
    let pid = workload.pid_text();
    let top = ["top", "-p", &pid, "-F", "499", "-d", "6", "--lines"];
    let outcome = run_nodespy(&[&top[..], &["--store-key", "tenant", "--by", "tenant"]].concat());
    outcome.expect_code(0);
    let tables = outcome.stdout.rsplit("share samples  tenant");
    let last = tables.into_iter().next().unwrap_or_default();
    for tenant in TENANTS {
        assert!(last.contains(tenant), "{tenant}\n{outcome}");
    }
}

#[test]
fn what_is_found_is_asked_for_by_query_and_redacted() {
    let Some(_live) = live() else { return };
    if !is_root() {
        return skip("stores are read by an eBPF program, which needs root");
    }
    let workload = Workload::new("stores.js").on("26").start();
    let scratch = crate::scratch::Scratch::new();
    let file = scratch.file("out.nspy");
    let pid = workload.pid_text();
    let record = ["record", "-d", "5", "-F", "499", "--store-key", "tenant"];
    let outcome = run_nodespy(&[&record[..], &["-o", &file, "-p", &pid]].concat());
    outcome.expect_code(0);
    let asked = run_nodespy(&["query", &file, "samples by label.tenant"]);
    for tenant in TENANTS {
        assert!(asked.stdout.contains(tenant), "{asked}");
    }
    let asked = run_nodespy(&["query", &file, "samples by label.tenant", "--redact"]);
    assert!(
        asked.stdout.contains("(tenant 4)") && !asked.stdout.contains("acme"),
        "{asked}"
    );
}
