//! `nodespy check`: what will work here and, for what won't, the exact command that fixes it.

mod rights;

use std::process::ExitCode;

use nodespy_capture::engines::perf_events::probe_group;
use nodespy_capture::engines::{ENGINES, EngineEntry, EngineId, Finding, Verdict, inspector};
use nodespy_capture::target::{
    Cgroups, CpuUse, Resident, describe, looks_like_node, proc, program,
};
use nodespy_capture::{CaptureError, LiveOrigin};
use nodespy_model::{JsRuntime, Origin, printable};
use nodespy_symbolize::{HeapSupport, heap_support};

use crate::cli::{CheckArgs, TargetArgs};
use crate::output::{self, Stream};
use crate::privileges::{self, Extra};
use crate::targets;

pub(crate) fn run(arguments: &CheckArgs) -> anyhow::Result<ExitCode> {
    // An inspector may have to be reached in another network namespace.
    privileges::keep_for_processes(Extra {
        enters_namespaces: true,
        launches: false,
    });
    let wanted = arguments.target.wanted();
    let mut machine = rights::check();
    machine.push(check_kernel_names());
    let mut processes = Vec::new();
    if wanted.is_empty() {
        let own = std::process::id();
        let without_target = |engine: &&EngineEntry| engine.id == EngineId::PerfEvents;
        for engine in ENGINES.iter().filter(without_target) {
            machine.extend((engine.probe)(own));
        }
    } else {
        let target = TargetArgs {
            // What a given process is belongs to the report.
            any: arguments.target.any || !wanted.pids.is_empty(),
            ..arguments.target.clone()
        };
        let targets = targets::hold(&target, true)?;
        machine.extend(target.wanted().group(&targets).as_ref().map(probe_group));
        for target in targets {
            processes.push((target.pid(), check_process(target.pid())?));
        }
    }
    let text = match arguments.json {
        true => format!("{:#}\n", json(&machine, &processes)),
        false => report(&machine, &processes),
    };
    output::result(&text, Stream::Standard);
    let is_hopeless = |(pid, findings): &(u32, Vec<Finding>)| {
        is_refused(findings) && !inspector::probe_quickly(*pid)
    };
    let is_hopeless = match processes.as_slice() {
        [] => is_refused(&machine),
        processes => processes.iter().all(is_hopeless),
    };
    Ok(ExitCode::from(if is_hopeless { 3 } else { 0 }))
}

fn is_refused(findings: &[Finding]) -> bool {
    findings
        .iter()
        .any(|finding| finding.subject == "sampling" && finding.verdict == Verdict::Bad)
}

/// Everything about one process.
fn check_process(pid: u32) -> anyhow::Result<Vec<Finding>> {
    let mut findings = vec![check_program(pid)?];
    findings.extend(check_place(pid));
    for engine in ENGINES {
        findings.extend((engine.probe)(pid));
    }
    findings.push(check_files(pid));
    let mappings = proc::code_mappings(pid).unwrap_or_default();
    let support = heap_support(&mappings, &LiveOrigin::new());
    findings.push(check_memory(pid, &support));
    findings.push(check_jit_names(pid, support));
    findings.push(check_perf_map(pid));
    findings.push(choice(pid, &findings));
    Ok(findings)
}

/// Where the process runs: container, pod, pm2, limits.
fn check_place(pid: u32) -> Option<Finding> {
    let resident = Resident::of(pid)?;
    let mut words = Vec::new();
    if let Some(container) = &resident.container {
        words.push(format!(
            "container {} ({} {})",
            container.title(),
            container.runtime.label(),
            container.short_id()
        ));
    }
    if let Some(app) = &resident.pm2 {
        let mode = if app.is_cluster { "cluster" } else { "fork" };
        words.push(format!("pm2 app {} ({}, {mode} mode)", app.name, app.id));
    }
    if let Some(worker) = resident.worker {
        words.push(format!("worker {worker}"));
    }
    if resident.inner_pid != pid {
        words.push(format!("pid {} inside", resident.inner_pid));
    }
    if let Some(limit) = CpuUse::of(&Cgroups::of(pid)) {
        words.push(format!("at most {:.2} CPUs", limit.quota_cpus));
    }
    (!words.is_empty()).then(|| Finding {
        subject: "place",
        verdict: Verdict::Good,
        detail: printable(&words.join(", ")).into_owned(),
        remedy: None,
    })
}

/// What `record` will do.
fn choice(pid: u32, findings: &[Finding]) -> Finding {
    let subject = "engine";
    if !is_refused(findings) {
        return Finding {
            subject,
            verdict: Verdict::Good,
            detail: "perf events will be used".to_owned(),
            remedy: Some(format!("nodespy record -p {pid} -d 30")),
        };
    }
    if inspector::probe_quickly(pid) {
        return Finding {
            subject,
            verdict: Verdict::Limited,
            detail: "perf events are refused, V8's inspector will be used: JavaScript only"
                .to_owned(),
            remedy: Some(format!("nodespy record --engine inspector -p {pid} -d 30")),
        };
    }
    Finding {
        subject,
        verdict: Verdict::Bad,
        detail: "neither perf events nor the inspector can be used".to_owned(),
        remedy: Some(format!("sudo nodespy record -p {pid} -d 30")),
    }
}

/// Whether the process writes a perf map, found as a recording would find it.
fn check_perf_map(pid: u32) -> Finding {
    let origin = LiveOrigin::new();
    let detail = match origin.open_jit_file(pid, None) {
        Some(found) => {
            let size = found.bytes.size().unwrap_or(0);
            format!("{} ({:.1} MB)", printable(&found.path), size as f64 / 1e6)
        }
        None => "none, and none is needed unless V8's heap can't be read".to_owned(),
    };
    Finding {
        subject: "perf map",
        verdict: Verdict::Good,
        detail,
        remedy: None,
    }
}

fn check_program(pid: u32) -> anyhow::Result<Finding> {
    let process = describe(pid).ok_or(CaptureError::Gone { pid })?;
    let command = printable(&process.command).into_owned();
    let name = printable(&process.name);
    let (verdict, what) = match program(pid) {
        Some(found) if found.runtime == JsRuntime::Node => (Verdict::Good, found.title()),
        Some(found) => (Verdict::Limited, found.title()),
        None if looks_like_node(pid) => (Verdict::Good, "Node.js of unknown version".to_owned()),
        None => {
            return Ok(Finding {
                subject: "program",
                verdict: Verdict::Limited,
                detail: format!("not Node.js ({command})"),
                remedy: Some(format!("nodespy record --any -p {pid}")),
            });
        }
    };
    Ok(Finding {
        subject: "program",
        verdict,
        detail: format!("{what}, {name} ({command})"),
        remedy: None,
    })
}

fn check_kernel_names() -> Finding {
    let has_addresses = std::fs::read_to_string("/proc/kallsyms").is_ok_and(|text| {
        text.lines()
            .take(1000)
            .any(|line| !line.starts_with("0000000000000000"))
    });
    if has_addresses {
        return Finding {
            subject: "kernel names",
            verdict: Verdict::Good,
            detail: "readable".to_owned(),
            remedy: None,
        };
    }
    Finding {
        subject: "kernel names",
        verdict: Verdict::Limited,
        detail: format!(
            "hidden: kernel.kptr_restrict is {}, kernel.perf_event_paranoid is {}",
            proc::sysctl("kptr_restrict").unwrap_or(-1),
            proc::perf_event_paranoid().unwrap_or(-1)
        ),
        remedy: Some("sudo sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1".to_owned()),
    }
}

fn check_files(pid: u32) -> Finding {
    let subject = "binaries";
    let mappings = match proc::code_mappings(pid) {
        Ok(mappings) => mappings,
        Err(error) => {
            return Finding {
                subject,
                verdict: Verdict::Bad,
                detail: format!("the mappings of the process can't be read: {error}"),
                remedy: Some(format!("sudo nodespy record -p {pid}")),
            };
        }
    };
    let origin = LiveOrigin::new();
    let refused: Vec<String> = mappings
        .iter()
        .filter(|mapping| mapping.path.starts_with('/') && !mapping.is_anonymous())
        .filter_map(|mapping| {
            let refused = origin.open_image(mapping).err()?;
            Some(format!("{}: {}", printable(&mapping.path), refused.why))
        })
        .collect();
    if refused.is_empty() {
        return Finding {
            subject,
            verdict: Verdict::Good,
            detail: "every mapped file is readable and the one that was mapped".to_owned(),
            remedy: None,
        };
    }
    Finding {
        subject,
        verdict: Verdict::Limited,
        detail: format!("no names for {}", refused.join("; ")),
        remedy: Some(format!("sudo nodespy record -p {pid}")),
    }
}

fn check_memory(pid: u32, support: &HeapSupport) -> Finding {
    let mut byte = [0; 8];
    let start = proc::code_mappings(pid)
        .ok()
        .and_then(|mappings| mappings.first().map(|mapping| mapping.start))
        .unwrap_or(0);
    let is_readable = LiveOrigin::new().read_memory(pid, start, &mut byte) == byte.len();
    if is_readable {
        return Finding {
            subject: "memory",
            verdict: Verdict::Good,
            detail: match support {
                HeapSupport::Known(_) | HeapSupport::Nearest(..) => {
                    "V8's heap and deep stacks can be read".to_owned()
                }
                HeapSupport::Refused(_) | HeapSupport::NoV8 => "deep stacks can be read".to_owned(),
            },
            remedy: None,
        };
    }
    let yama = proc::sysctl("yama/ptrace_scope");
    Finding {
        subject: "memory",
        verdict: Verdict::Limited,
        detail: match yama {
            Some(scope) if scope > 0 => {
                format!("can't be read: kernel.yama.ptrace_scope is {scope}")
            }
            _ => "can't be read: the process belongs to another user".to_owned(),
        },
        remedy: Some(format!("sudo nodespy record -p {pid}")),
    }
}

fn check_jit_names(pid: u32, support: HeapSupport) -> Finding {
    let subject = "JavaScript names";
    let mappings = proc::code_mappings(pid).unwrap_or_default();
    let origin = LiveOrigin::new();
    let good = |detail| Finding {
        subject,
        verdict: Verdict::Good,
        detail,
        remedy: None,
    };
    let runtime = program(pid).map_or(JsRuntime::Node, |found| found.runtime);
    let why = match support {
        HeapSupport::Known((major, minor)) => {
            return good(format!(
                "from V8's heap, no flag needed (V8 {major}.{minor})"
            ));
        }
        HeapSupport::Nearest((major, minor), (near_major, near_minor)) => {
            return good(format!(
                "from V8's heap: V8 {major}.{minor} is new to nodespy, the table of \
                 {near_major}.{near_minor} will be tried"
            ));
        }
        HeapSupport::Refused(why) => format!("V8's heap can't be read: {why}"),
        HeapSupport::NoV8 => runtime
            .why_unnamed()
            .unwrap_or("no V8 is mapped")
            .to_owned(),
    };
    let dump = mappings
        .iter()
        .find(|mapping| mapping.path.contains("/jit-") && mapping.path.ends_with(".dump"));
    match origin.open_jit_file(pid, dump) {
        Some(found) => good(format!(
            "from {} ({:.1} MB); {why}",
            printable(&found.path),
            found.bytes.size().unwrap_or(0) as f64 / 1e6
        )),
        None => Finding {
            subject,
            verdict: Verdict::Limited,
            detail: format!("none: {why}, and the process has no perf map or jitdump"),
            remedy: Some(runtime.start_with_names().to_owned()),
        },
    }
}

fn report(machine: &[Finding], processes: &[(u32, Vec<Finding>)]) -> String {
    let mut text = lines(machine);
    for (pid, findings) in processes {
        text.push_str(&format!("\nprocess {pid}\n{}", lines(findings)));
    }
    text
}

fn lines(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        text.push_str(&format!(
            "{:<7}  {:<17} {}\n",
            word(finding.verdict),
            finding.subject,
            finding.detail
        ));
        if let Some(remedy) = &finding.remedy {
            text.push_str(&format!("{:28}try: {remedy}\n", ""));
        }
    }
    text
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Good => "ok",
        Verdict::Limited => "limited",
        Verdict::Bad => "no",
    }
}

fn json(machine: &[Finding], processes: &[(u32, Vec<Finding>)]) -> serde_json::Value {
    let rows = |findings: &[Finding]| -> Vec<serde_json::Value> {
        let row = |finding: &Finding| {
            serde_json::json!({
                "subject": finding.subject,
                "verdict": word(finding.verdict),
                "detail": finding.detail,
                "remedy": finding.remedy,
            })
        };
        findings.iter().map(row).collect()
    };
    let each: Vec<serde_json::Value> = processes
        .iter()
        .map(|(pid, findings)| serde_json::json!({ "pid": pid, "findings": rows(findings) }))
        .collect();
    serde_json::json!({
        "schema": "nodespy.check",
        "version": 1,
        "machine": rows(machine),
        "processes": each,
    })
}
