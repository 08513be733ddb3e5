//! What this user may do on this machine, and what would change it. Established by experiment on
//! Linux 6.18, one right at a time: some common advice turned out to be wrong.

use nodespy_capture::FILE_CAPABILITIES;
use nodespy_capture::engines::{Finding, Verdict};
use nodespy_capture::target::proc::{
    self, CAP_DAC_READ_SEARCH, CAP_PERFMON, CAP_SYS_PTRACE, CAP_SYSLOG, Status,
};

/// The capabilities that let other users than root record everything, and what each is for.
const USEFUL: [(u32, &str, &str); 4] = [
    (CAP_PERFMON, "cap_perfmon", "samples of others' processes"),
    (
        CAP_SYS_PTRACE,
        "cap_sys_ptrace",
        "their memory and binaries",
    ),
    (
        CAP_DAC_READ_SEARCH,
        "cap_dac_read_search",
        "their environment and open files",
    ),
    (CAP_SYSLOG, "cap_syslog", "the kernel's names"),
];

/// Everything about nodespy's own rights.
pub(super) fn check() -> Vec<Finding> {
    let own = proc::read_status(std::process::id()).unwrap_or_default();
    vec![
        user(&own),
        paranoid(proc::perf_event_paranoid(), &own),
        seccomp(&own),
        yama(proc::sysctl("yama/ptrace_scope"), &own),
    ]
}

fn good(subject: &'static str, detail: String) -> Finding {
    Finding {
        subject,
        verdict: Verdict::Good,
        detail,
        remedy: None,
    }
}

fn limited(subject: &'static str, detail: String, remedy: Option<String>) -> Finding {
    Finding {
        subject,
        verdict: Verdict::Limited,
        detail,
        remedy,
    }
}

/// The path of this program, for `setcap`.
fn program() -> String {
    std::env::current_exe().map_or_else(|_| "nodespy".to_owned(), |path| path.display().to_string())
}

fn user(own: &Status) -> Finding {
    let subject = "user";
    let missing: Vec<&(u32, &str, &str)> = USEFUL
        .iter()
        .filter(|(bit, ..)| !own.has_capability(*bit))
        .collect();
    if missing.is_empty() {
        return good(
            subject,
            format!("uid {}, with every capability that helps", own.uid),
        );
    }
    let words: Vec<String> = missing
        .iter()
        .map(|(_, name, purpose)| format!("{name} ({purpose})"))
        .collect();
    limited(
        subject,
        format!(
            "uid {} without {}: processes of the same uid can be recorded, others can't",
            own.uid,
            words.join(", ")
        ),
        Some(format!("sudo setcap {FILE_CAPABILITIES} {}", program())),
    )
}

/// `kernel.perf_event_paranoid` decides what a user without CAP_PERFMON sees of processes of their
/// own; about those of others it decides nothing.
fn paranoid(level: Option<i32>, own: &Status) -> Finding {
    let subject = "paranoid level";
    let Some(level) = level else {
        return limited(subject, "this kernel has no perf events".to_owned(), None);
    };
    let name = "kernel.perf_event_paranoid";
    if own.has_capability(CAP_PERFMON) {
        return good(
            subject,
            format!("{name} is {level}, which does not matter with CAP_PERFMON"),
        );
    }
    match level {
        ..=1 => good(
            subject,
            format!("{name} is {level}: own processes with kernel frames; other users' never"),
        ),
        2 => limited(
            subject,
            format!("{name} is 2: own processes without kernel frames; other users' never"),
            Some(format!("sudo sysctl {name}=1")),
        ),
        _ => limited(
            subject,
            format!(
                "{name} is {level}: some distributions refuse every event at this level, others \
                 treat it as 2"
            ),
            Some(format!("sudo sysctl {name}=2")),
        ),
    }
}

fn seccomp(own: &Status) -> Finding {
    let subject = "seccomp";
    match own.seccomp_mode {
        2 if own.has_capability(CAP_PERFMON) => good(
            subject,
            "a filter is on nodespy; container engines let perf events pass with this capability"
                .to_owned(),
        ),
        2 => limited(
            subject,
            "a filter is on nodespy, as container engines set it: perf events and ptrace are \
             refused inside, so V8's inspector is used instead"
                .to_owned(),
            Some(
                "run nodespy on the host (nodespy record -c CONTAINER), or start the container with \
                 --security-opt seccomp=unconfined or --cap-add SYS_ADMIN"
                    .to_owned(),
            ),
        ),
        _ => good(subject, "no filter on nodespy".to_owned()),
    }
}

/// Yama's limit on looking into other processes: memory, and with it V8's heap.
fn yama(scope: Option<i32>, own: &Status) -> Finding {
    let subject = "Yama";
    match scope {
        None => good(subject, "this kernel has none".to_owned()),
        Some(0) => good(subject, "kernel.yama.ptrace_scope is 0".to_owned()),
        Some(scope @ 1..=2) if own.has_capability(CAP_SYS_PTRACE) => good(
            subject,
            format!("kernel.yama.ptrace_scope is {scope}, which CAP_SYS_PTRACE passes"),
        ),
        Some(scope) => limited(
            subject,
            format!(
                "kernel.yama.ptrace_scope is {scope}: the memory of processes that nodespy did not \
                 start can't be read, so JavaScript is named by perf maps only"
            ),
            Some("sudo sysctl kernel.yama.ptrace_scope=0".to_owned()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(bits: &[u32]) -> Status {
        Status {
            uid: 1001,
            capabilities: bits.iter().fold(0, |set, bit| set | 1 << bit),
            ..Status::default()
        }
    }

    #[test]
    fn what_is_missing_comes_with_the_line_that_gives_it() {
        let found = user(&with(&[CAP_PERFMON]));
        assert_eq!(found.verdict, Verdict::Limited);
        assert!(!found.detail.contains("cap_perfmon"), "{found:?}");
        assert!(found.detail.contains("cap_sys_ptrace"), "{found:?}");
        let remedy = found.remedy.unwrap();
        assert!(
            remedy.starts_with("sudo setcap cap_perfmon,cap_bpf,"),
            "{remedy}"
        );
        let all = USEFUL.map(|(bit, ..)| bit);
        assert_eq!(user(&with(&all)).verdict, Verdict::Good);
    }

    #[test]
    fn the_paranoid_level_is_never_said_to_help_with_others_processes() {
        for level in [-1, 0, 1, 2] {
            let found = paranoid(Some(level), &with(&[]));
            assert!(found.detail.contains("other users' never"), "{found:?}");
        }
        assert_eq!(paranoid(Some(2), &with(&[])).verdict, Verdict::Limited);
        assert_eq!(paranoid(Some(4), &with(&[])).verdict, Verdict::Limited);
        assert_eq!(
            paranoid(Some(4), &with(&[CAP_PERFMON])).verdict,
            Verdict::Good
        );
    }

    #[test]
    fn a_filter_of_a_container_and_yama_are_told() {
        let filtered = Status {
            seccomp_mode: 2,
            ..with(&[])
        };
        let found = seccomp(&filtered);
        assert!(found.detail.contains("inspector"), "{found:?}");
        assert_eq!(yama(Some(1), &with(&[])).verdict, Verdict::Limited);
        assert_eq!(
            yama(Some(1), &with(&[CAP_SYS_PTRACE])).verdict,
            Verdict::Good
        );
        assert_eq!(
            yama(Some(3), &with(&[CAP_SYS_PTRACE])).verdict,
            Verdict::Limited
        );
        assert_eq!(yama(None, &with(&[])).verdict, Verdict::Good);
    }
}
