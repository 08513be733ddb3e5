//! `nodespy check`: what will work here and, for what won't, the exact command that fixes it.

use std::process::ExitCode;

use nodespy_capture::engines::{ENGINES, Finding, Verdict};
use nodespy_capture::target::{Target, describe, looks_like_node, proc};
use nodespy_capture::{CaptureError, LiveOrigin};
use nodespy_model::{Origin, printable};
use nodespy_symbolize::{HeapSupport, heap_support};

use crate::cli::{CheckArgs, TargetArgs};
use crate::output::{self, Stream};
use crate::targets;

pub(crate) fn run(arguments: &CheckArgs) -> anyhow::Result<ExitCode> {
    let has_target = !arguments.target.wanted().is_empty();
    let target = TargetArgs {
        // What a given process is belongs to what is told.
        any: arguments.target.any || !arguments.target.wanted().pids.is_empty(),
        ..arguments.target.clone()
    };
    let pid = match has_target {
        true => targets::hold(&target)?
            .first()
            .map_or(std::process::id(), Target::pid),
        false => std::process::id(),
    };
    let mut findings = Vec::new();
    if has_target {
        findings.push(check_program(pid)?);
    }
    for engine in ENGINES {
        findings.extend((engine.probe)(pid));
    }
    findings.push(check_kernel_names());
    if has_target {
        findings.push(check_files(pid));
        findings.push(check_memory(pid));
        findings.push(check_jit_names(pid));
    }
    let text = if arguments.json {
        format!("{:#}\n", json(pid, &findings))
    } else {
        report(&findings)
    };
    output::result(&text, Stream::Standard);
    let is_hopeless = findings
        .iter()
        .any(|finding| finding.subject == "sampling" && finding.verdict == Verdict::Bad);
    Ok(ExitCode::from(if is_hopeless { 3 } else { 0 }))
}

fn check_program(pid: u32) -> anyhow::Result<Finding> {
    let process = describe(pid).ok_or(CaptureError::Gone { pid })?;
    let command = printable(&process.command).into_owned();
    Ok(match (looks_like_node(pid), process.node_version) {
        (true, version) => Finding {
            subject: "program",
            verdict: Verdict::Good,
            detail: format!(
                "Node.js {}, {} ({command})",
                version.as_deref().unwrap_or("of unknown version"),
                printable(&process.name)
            ),
            remedy: None,
        },
        (false, _) => Finding {
            subject: "program",
            verdict: Verdict::Limited,
            detail: format!("not Node.js ({command})"),
            remedy: Some(format!("nodespy record --any -p {pid}")),
        },
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

fn check_memory(pid: u32) -> Finding {
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
            detail: "V8's heap and deep stacks can be read".to_owned(),
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

fn check_jit_names(pid: u32) -> Finding {
    let subject = "JavaScript names";
    let mappings = proc::code_mappings(pid).unwrap_or_default();
    let origin = LiveOrigin::new();
    let good = |detail| Finding {
        subject,
        verdict: Verdict::Good,
        detail,
        remedy: None,
    };
    let why = match heap_support(&mappings, &origin) {
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
        HeapSupport::NoV8 => "no V8 is mapped".to_owned(),
    };
    let dump = mappings
        .iter()
        .find(|mapping| mapping.path.contains("/jit-") && mapping.path.ends_with(".dump"));
    match origin.open_jit_file(pid, dump) {
        Some(found) => good(format!(
            "from {} ({:.1} MB); {why}",
            printable(&found.path),
            found.file.metadata().map_or(0, |metadata| metadata.len()) as f64 / 1e6
        )),
        None => Finding {
            subject,
            verdict: Verdict::Limited,
            detail: format!("none: {why}, and the process has no perf map"),
            remedy: Some(
                "NODE_OPTIONS='--perf-basic-prof --interpreted-frames-native-stack' node …"
                    .to_owned(),
            ),
        },
    }
}

fn report(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let mark = match finding.verdict {
            Verdict::Good => "ok     ",
            Verdict::Limited => "limited",
            Verdict::Bad => "no     ",
        };
        text.push_str(&format!(
            "{mark}  {:<17} {}\n",
            finding.subject, finding.detail
        ));
        if let Some(remedy) = &finding.remedy {
            text.push_str(&format!("{:28}try: {remedy}\n", ""));
        }
    }
    text
}

fn json(pid: u32, findings: &[Finding]) -> serde_json::Value {
    let rows: Vec<serde_json::Value> = findings
        .iter()
        .map(|finding| {
            serde_json::json!({
                "subject": finding.subject,
                "verdict": match finding.verdict {
                    Verdict::Good => "ok",
                    Verdict::Limited => "limited",
                    Verdict::Bad => "no",
                },
                "detail": finding.detail,
                "remedy": finding.remedy,
            })
        })
        .collect();
    serde_json::json!({ "version": 1, "pid": pid, "findings": rows })
}
