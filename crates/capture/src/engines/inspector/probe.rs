//! Whether the inspector of a process can be used, before anything is done to it.

use nodespy_model::JsRuntime;

use super::open::{self, SignalState, signal_state};
use super::port_request::PortRequest;
use crate::engines::{Finding, Verdict};
use crate::target::ports::{self, Holder};
use crate::target::{proc, program};

/// Whether an inspector can be opened in process `pid`, as far as can be known without doing it.
pub fn probe_quickly(pid: u32) -> bool {
    let own = proc::read_status(std::process::id()).unwrap_or_default();
    let may_signal = proc::read_status(pid)
        .is_some_and(|status| status.uid == own.uid || own.has_capability(proc::CAP_KILL));
    may_signal && other_runtime(pid).is_none() && signal_state(pid) == Some(SignalState::Caught)
}

/// What a process is that runs JavaScript but is not Node: SIGUSR1 opens no inspector there.
fn other_runtime(pid: u32) -> Option<String> {
    let found = program(pid)?;
    (found.runtime != JsRuntime::Node).then(|| found.title())
}

/// Whether the inspector of a process can be used, and if not, why.
pub fn probe(pid: u32) -> Vec<Finding> {
    let subject = "V8 inspector";
    let listening = ports::listeners(pid)
        .into_iter()
        .find(|listener| open::probe(pid, *listener).is_ok());
    if let (None, Some(title)) = (&listening, other_runtime(pid)) {
        return vec![Finding {
            subject,
            verdict: Verdict::Bad,
            detail: format!("{title} does not open it on SIGUSR1, and is never sent it"),
            remedy: None,
        }];
    }
    let (verdict, detail) = match (listening, signal_state(pid)) {
        (_, None) => (Verdict::Bad, "the process is gone".to_owned()),
        (Some(listener), _) => (Verdict::Good, format!("it listens at {listener} already")),
        (None, Some(SignalState::Caught)) => (
            Verdict::Good,
            format!(
                "SIGUSR1 is caught, so it can be opened (unless the application has a handler of \
                 its own){}",
                match ports::holder_of(pid, PortRequest::by_flags(pid).port) {
                    Holder::Process(holder) =>
                        format!("; but its port is held by process {holder}"),
                    Holder::Unknown =>
                        "; but its port is held by a process of another user".to_owned(),
                    Holder::None => String::new(),
                }
            ),
        ),
        (None, Some(SignalState::Blocked)) => (
            Verdict::Bad,
            "SIGUSR1 is blocked (--disable-sigusr1), so it can't be opened".to_owned(),
        ),
        (None, Some(SignalState::Ignored)) => (
            Verdict::Bad,
            "SIGUSR1 is ignored, so it can't be opened".to_owned(),
        ),
        (None, Some(SignalState::Deadly)) => (
            Verdict::Bad,
            "SIGUSR1 is not caught and would end the process, so it is not opened".to_owned(),
        ),
    };
    vec![Finding {
        subject,
        verdict,
        detail,
        remedy: None,
    }]
}
