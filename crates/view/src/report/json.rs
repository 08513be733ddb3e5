//! The report as JSON: stable and versioned, see `docs/json.md`.

use std::io::Write;

use nodespy_analysis::{
    FunctionWeights, Package, RouteWeights, functions_by_route, process_weights, thread_times,
    tier_weights, without_idle_states,
};
use nodespy_model::{FunctionIndex, Profile, Tier};

use super::json_text::JsonText;
use super::{HotStack, Report};
use crate::comparison::comparison_value;
use crate::wording::{self, percent_of};
use crate::{DrawError, DrawOptions, View};

/// Goes up when a field changes its meaning or goes; new fields may come without.
const VERSION: u64 = 1;

/// How many routes are listed.
const MAX_ROUTES: usize = 100;

/// How many packages or modules of a subsystem are listed.
const MAX_MEMBERS: usize = 20;

/// The JSON report.
pub(crate) struct Json;

impl View for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn extension(&self) -> &'static str {
        "json"
    }

    fn draw(
        &self,
        profile: &Profile,
        options: &DrawOptions<'_>,
        output: &mut dyn Write,
    ) -> Result<(), DrawError> {
        let busy = without_idle_states(profile);
        let report = Report::of(&busy, thread_times(profile));
        let mut json = JsonText::default();
        json.object("", |whole| {
            whole.string("schema", "nodespy.report");
            whole.number("version", VERSION);
            about(whole, profile, options);
            whole.string("unit", profile.unit().label());
            whole.number("total", report.total);
            findings(whole, &report);
            confidence(whole, profile);
            counts(whole, &report);
            processes(whole, &report);
            threads(whole, &report);
            states(whole, &report);
            event_loops(whole, profile);
            pools(whole, profile);
            gc_pauses(whole, profile);
            exact_waits(whole, profile);
            charged(whole, &report);
            functions(whole, "functions_by_self", &report, &report.by_self);
            functions(whole, "functions_by_total", &report, &report.by_total);
            packages(whole, &report);
            routes(whole, &report);
            whole.objects("hottest_stacks", &report.stacks, |object, stack| {
                hot_stack(object, &report, stack);
            });
            if let Some(comparison) = options.comparison {
                whole.value("difference", &comparison_value(comparison));
            }
        });
        output.write_all(json.finish().as_bytes())?;
        Ok(())
    }
}

/// The sentences, and beside them what each is about.
fn findings(whole: &mut JsonText, report: &Report<'_>) {
    let sentences = report.findings.iter();
    let sentences = sentences.map(|finding| finding.sentence.as_str());
    whole.strings("findings", sentences);
    whole.objects("evidence", &report.findings, |object, finding| {
        object.string("finding", finding.kind);
        object.decimal("percent", finding.percent, 2);
        if let Some(index) = finding.function {
            function(object, report.profile, index);
            let package = Package::of(report.profile, index);
            object.string("package", &package.name);
        }
    });
}

/// The functions with a source, with what they run.
fn charged(whole: &mut JsonText, report: &Report<'_>) {
    whole.objects("javascript", &report.charged, |object, entry| {
        function(object, report.profile, entry.function);
        let package = Package::of(report.profile, entry.function);
        object.string("package", &package.name);
        object.number("charged", entry.charged_weight);
        object.decimal(
            "charged_percent",
            percent_of(entry.charged_weight, report.total),
            2,
        );
        weights(object, report, entry.self_weight, entry.total_weight);
    });
}

fn about(whole: &mut JsonText, profile: &Profile, options: &DrawOptions<'_>) {
    let about = &profile.about;
    whole.object("about", |object| {
        let title = options
            .title
            .map_or_else(|| wording::title(profile), str::to_owned);
        object.string("title", &title);
        object.string_if_any("app", &about.app);
        object.string_if_any("host", &about.host);
        object.string_if_any("engine", &about.engine);
        let event = profile.event();
        object.string_if_any("event", &event.name);
        if event.rate_hz() > 0 {
            object.number("rate_hz", u64::from(event.rate_hz()));
        }
        if about.started_unix > 0 {
            object.decimal("started_unix_seconds", about.started_unix as f64 / 1e9, 3);
        }
        if about.duration > 0 {
            object.decimal("duration_seconds", about.duration as f64 / 1e9, 3);
        }
        object.number("samples", profile.samples.len() as u64);
        object.string_if_any("nodespy_version", &about.nodespy_version);
        object.strings("filters", profile.notes.filters.iter().map(String::as_str));
    });
}

fn confidence(whole: &mut JsonText, profile: &Profile) {
    let notes = &profile.notes;
    let sure = notes.confidence();
    whole.object("confidence", |object| {
        if notes.jit_frames > 0 {
            object.decimal("jit_frames_named_percent", sure.jit_named * 100.0, 2);
        }
        if notes.unwound_stacks > 0 {
            object.decimal("stacks_complete_percent", sure.complete * 100.0, 2);
        }
        object.number("lost_samples", notes.lost_samples);
        object.number("cut_stacks", notes.cut_stacks);
        object.number("throttled", notes.throttled);
        let clauses = wording::confidence(profile);
        object.strings("sentences", clauses.iter().map(String::as_str));
        object.strings("notes", notes.remarks.iter().map(String::as_str));
    });
}

fn counts(whole: &mut JsonText, report: &Report<'_>) {
    whole.object("shares_percent", |object| {
        for (kind, weight) in report.kinds() {
            object.decimal(kind, percent_of(weight, report.shares.total()), 2);
        }
    });
    whole.objects("subsystems", &report.subsystems, |object, entry| {
        object.string("name", entry.subsystem.key());
        object.number("weight", entry.weight);
        object.decimal("percent", percent_of(entry.weight, report.total), 2);
        let members = entry.members.iter().take(MAX_MEMBERS);
        object.objects("members", members, |object, (name, weight)| {
            object.string("name", name);
            object.number("weight", *weight);
            object.decimal("percent", percent_of(*weight, report.total), 2);
        });
    });
    let tiers = tier_weights(report.profile);
    whole.object("javascript_tiers_percent", |object| {
        let known = tiers
            .iter()
            .fold(0u64, |sum, weight| sum.saturating_add(*weight));
        for tier in Tier::ALL.into_iter().filter(|tier| *tier != Tier::None) {
            let share = percent_of(tiers[tier as usize], known);
            if known > 0 {
                object.decimal(tier.label(), share, 2);
            }
        }
    });
}

/// What thread pools did, where that is known.
fn pools(whole: &mut JsonText, profile: &Profile) {
    let pools: Vec<_> = crate::pools::pools(profile).collect();
    if pools.is_empty() {
        return;
    }
    whole.objects("pools", &pools, |object, (process, pool)| {
        object.number("pid", u64::from(process.pid));
        object.number("threads", u64::from(pool.threads));
        object.number("readings", pool.readings);
        object.decimal("busy", pool.average(pool.busy), 2);
        object.decimal("full_percent", percent_of(pool.full, pool.readings), 2);
        object.decimal("waiting", pool.average(pool.waiting), 2);
        object.decimal("dns_waiting", pool.average(pool.slow_waiting), 2);
        object.decimal(
            "dns_full_percent",
            percent_of(pool.slow_full, pool.readings),
            2,
        );
        object.objects("waiting_jobs", &pool.jobs, |object, jobs| {
            object.string("kind", &jobs.kind);
            object.decimal("waiting", pool.average(jobs.waiting), 2);
            object.string_if_any("about", &jobs.about);
        });
        object.objects("submitters", &pool.submitters, |object, submitter| {
            object.string_if_any("function", &submitter.function);
            object.string_if_any("place", &submitter.place);
            object.number("jobs", submitter.jobs);
        });
    });
}

/// How long garbage collections paused threads, where that was measured.
fn gc_pauses(whole: &mut JsonText, profile: &Profile) {
    let pauses: Vec<_> = crate::gc_pauses::threads(profile)
        .into_iter()
        .flat_map(|thread| thread.gc_pauses.iter().map(move |pauses| (thread, pauses)))
        .collect();
    if pauses.is_empty() {
        return;
    }
    whole.objects("gc_pauses", &pauses, |object, (thread, pauses)| {
        let process = &profile.processes[thread.process.at()];
        object.number("pid", u64::from(process.pid));
        object.number("tid", u64::from(thread.tid));
        object.string_if_any("name", &thread.name);
        object.string("kind", pauses.kind.label());
        object.number("count", pauses.count);
        object.number("total_ns", pauses.total);
        object.number("longest_ns", pauses.longest);
        object.number("p99_ns", pauses.p99);
    });
}

/// What threads waited for, where every context switch was watched.
fn exact_waits(whole: &mut JsonText, profile: &Profile) {
    let waits: Vec<_> = crate::exact_waits::threads(profile)
        .into_iter()
        .flat_map(|thread| thread.exact_waits.iter().map(move |waits| (thread, waits)))
        .collect();
    if waits.is_empty() {
        return;
    }
    whole.objects("exact_waits", &waits, |object, (thread, waits)| {
        let process = &profile.processes[thread.process.at()];
        object.number("pid", u64::from(process.pid));
        object.number("tid", u64::from(thread.tid));
        object.string_if_any("name", &thread.name);
        object.string("what", &waits.what);
        object.number("count", waits.count);
        object.number("total_ns", waits.total);
        object.number("longest_ns", waits.longest);
        object.number("p50_ns", waits.percentile(0.5));
        object.number("p99_ns", waits.percentile(0.99));
        object.value("histogram", &waits.histogram[..].into());
    });
}

/// CPU time by route, where samples have one; what was in no request comes last.
fn routes(whole: &mut JsonText, report: &Report<'_>) {
    let routes = &report.routes;
    if routes.rows.is_empty() {
        return;
    }
    let functions = functions_by_route(report.profile, routes);
    let none = std::iter::once(&routes.no_request).filter(|row| row.samples > 0);
    let rows: Vec<(usize, &RouteWeights)> = (routes.rows.iter().take(MAX_ROUTES))
        .chain(none)
        .enumerate()
        .collect();
    whole.objects("routes", &rows, |object, (position, row)| {
        let is_none = std::ptr::eq(*row, &routes.no_request);
        if !is_none {
            object.string("route", &row.route);
        }
        object.number("weight", row.weight);
        object.decimal("percent", percent_of(row.weight, routes.whole), 2);
        object.number("samples", row.samples);
        let heaviest = functions.get(*position).filter(|_| !is_none);
        let heaviest = heaviest.into_iter().flatten();
        object.objects("functions", heaviest, |object, (index, weight)| {
            function(object, report.profile, *index);
            object.number("charged", *weight);
            object.decimal("charged_percent", percent_of(*weight, routes.whole), 2);
        });
    });
    let left_out = routes.rows.len().saturating_sub(MAX_ROUTES);
    whole.number("routes_left_out", left_out as u64);
}

/// What event loops did, where that is known.
fn event_loops(whole: &mut JsonText, profile: &Profile) {
    let loops = crate::event_loops::loops(profile);
    if loops.is_empty() {
        return;
    }
    whole.objects("event_loops", &loops, |object, (_, thread, it)| {
        let process = &profile.processes[thread.process.at()];
        object.number("pid", u64::from(process.pid));
        object.number("tid", u64::from(thread.tid));
        object.string_if_any("name", &thread.name);
        object.string("role", thread.role.label());
        object.number("watched_ns", it.watched);
        object.decimal("utilization", it.utilization(), 4);
        if let Some(rate) = it.iterations_per_second() {
            object.decimal("iterations_per_second", rate, 1);
        }
        object.number("longest_ns", it.longest);
        object.number("p99_ns", it.p99);
        let stalls = crate::event_loops::stalls(thread);
        object.objects("stalls", stalls, |object, stall| {
            object.number("start_ns", stall.start);
            object.number("lasted_ns", stall.lasted);
        });
    });
}

/// What threads did with their time, where samples say it, in the unit of the event.
fn states(whole: &mut JsonText, report: &Report<'_>) {
    if report.times.is_empty() {
        return;
    }
    whole.objects("thread_times", &report.times, |object, time| {
        let thread = &report.profile.threads[time.thread.at()];
        let process = &report.profile.processes[thread.process.at()];
        object.number("pid", u64::from(process.pid));
        object.number("tid", u64::from(thread.tid));
        object.string_if_any("name", &thread.name);
        object.string("role", thread.role.label());
        object.number("on_cpu", time.on_cpu);
        object.number("runnable", time.runnable);
        object.number("waiting", time.waiting());
        object.number("idle", time.idle);
        object.objects("waits", &time.waits, |object, (kind, weight)| {
            object.string("for", kind);
            object.number("weight", *weight);
        });
    });
}

fn processes(whole: &mut JsonText, report: &Report<'_>) {
    let profile = report.profile;
    let weights = process_weights(profile);
    let processes = profile.processes.iter().zip(weights);
    whole.objects("processes", processes, |object, (process, weight)| {
        object.number("weight", weight);
        object.decimal("percent", percent_of(weight, report.total), 2);
        if let Some(exit) = process.exit {
            object.string("exit", &wording::exit(exit));
        }
        object.number("pid", u64::from(process.pid));
        object.string_if_any("name", &process.name);
        object.string_if_any("command", &process.command);
        let version = process.node_version.as_deref().unwrap_or_default();
        object.string_if_any("node_version", version);
        if !process.labels.is_empty() {
            object.object("labels", |labels| {
                for (key, value) in process.labels.iter() {
                    labels.string(key, value);
                }
            });
        }
    });
}

fn threads(whole: &mut JsonText, report: &Report<'_>) {
    whole.objects("threads", &report.threads, |object, (index, weight)| {
        let thread = &report.profile.threads[index.at()];
        object.string("name", &thread.name);
        object.string("role", thread.role.label());
        object.number("tid", u64::from(thread.tid));
        let process = &report.profile.processes[thread.process.at()];
        object.number("pid", u64::from(process.pid));
        object.number("weight", *weight);
        object.decimal("percent", percent_of(*weight, report.total), 2);
    });
}

fn functions(whole: &mut JsonText, key: &str, report: &Report<'_>, entries: &[FunctionWeights]) {
    whole.objects(key, entries, |object, entry| {
        function(object, report.profile, entry.function);
        let package = Package::of(report.profile, entry.function);
        object.string("package", &package.name);
        weights(object, report, entry.self_weight, entry.total_weight);
    });
}

fn function(object: &mut JsonText, profile: &Profile, index: FunctionIndex) {
    let function = profile.function(index);
    object.string("name", profile.name_of(index));
    object.string_if_any("file", profile.file_of(index));
    if function.line > 0 {
        object.number("line", u64::from(function.line));
    }
    if function.column > 0 {
        object.number("column", u64::from(function.column));
    }
    object.string("category", function.category.label());
}

fn weights(object: &mut JsonText, report: &Report<'_>, own: u64, total: u64) {
    object.number("self", own);
    object.decimal("self_percent", percent_of(own, report.total), 2);
    object.number("total", total);
    object.decimal("total_percent", percent_of(total, report.total), 2);
}

fn packages(whole: &mut JsonText, report: &Report<'_>) {
    whole.objects("packages", &report.packages, |object, entry| {
        object.string("name", &entry.package.name);
        object.string("kind", entry.package.kind.label());
        weights(object, report, entry.self_weight, entry.total_weight);
    });
}

fn hot_stack(object: &mut JsonText, report: &Report<'_>, stack: &HotStack) {
    let profile = report.profile;
    object.number("weight", stack.weight);
    object.decimal("percent", percent_of(stack.weight, report.total), 2);
    if stack.left_out > 0 {
        object.number("frames_left_out_at_the_root", stack.left_out as u64);
    }
    let frame = |function: &FunctionIndex| {
        let name = profile.name_of(*function);
        match profile.location_of(*function) {
            place if place.is_empty() => name.to_owned(),
            place => format!("{name} {place}"),
        }
    };
    let frames: Vec<String> = stack.functions.iter().map(frame).collect();
    object.strings("frames", frames.iter().map(String::as_str));
}
