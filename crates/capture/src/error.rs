//! Why a process can't be captured, in words that say what to type.

use std::io;

use nodespy_inspector::InspectorError;

use crate::sys::files::effective_uid;
use crate::target::proc;

/// What nodespy's file takes to record every process without root, as `setcap` has it: all of it, because that takes away what it
/// does not name.
pub const FILE_CAPABILITIES: &str =
    "cap_perfmon,cap_bpf,cap_sys_ptrace,cap_dac_read_search,cap_syslog,cap_ipc_lock+ep";

/// Why a capture could not start or go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// There is no such process.
    #[error("there is no process {pid} (`nodespy` lists the Node processes of this machine)")]
    NoSuchProcess {
        /// The pid asked for.
        pid: u32,
    },
    /// The process ended while nodespy attached.
    #[error("process {pid} ended before the recording could start")]
    Gone {
        /// The pid asked for.
        pid: u32,
    },
    /// Nothing that runs goes by the name, container, port or the like.
    #[error("{sentence}")]
    NotFound {
        /// What was looked for and what there is.
        sentence: String,
    },
    /// Several things go by it.
    #[error("{sentence}")]
    Ambiguous {
        /// What was looked for and what it can be.
        sentence: String,
    },
    /// It is not Node.
    #[error("process {pid} ({program}) is not Node.js; to look at it all the same add --any")]
    NotNode {
        /// The pid asked for.
        pid: u32,
        /// What it is.
        program: String,
    },
    /// The kernel refused.
    #[error("{sentence}")]
    NotPermitted {
        /// What was refused, why, and what to type.
        sentence: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// Too many events for the limit of open descriptors.
    #[error(
        "this needs {needed} descriptors ({threads} threads on {cpus} CPUs) and the limit is {limit}; raise it: ulimit -n {needed}"
    )]
    TooManyDescriptors {
        /// How many are needed.
        needed: u64,
        /// Threads to watch.
        threads: usize,
        /// CPUs of the machine.
        cpus: usize,
        /// The limit in force.
        limit: u64,
    },
    /// The command could not be started.
    #[error("cannot start {command}")]
    Launch {
        /// The program asked for.
        command: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// It could be done, but not without risk, or not at all.
    #[error("{sentence}")]
    Refused {
        /// What, why, and what to do instead.
        sentence: String,
    },
    /// Its main thread has not answered, but may later.
    #[error("{sentence}")]
    Unanswered {
        /// What was asked, what it does meanwhile, and what to do instead.
        sentence: String,
    },
    /// The inspector of the process did not do its part.
    #[error("the inspector of process {pid}")]
    Inspector {
        /// The process.
        pid: u32,
        /// What went wrong.
        #[source]
        source: InspectorError,
    },
    /// The inspector at an address did not do its part.
    #[error("the inspector at {address}")]
    InspectorAt {
        /// Where it listens.
        address: std::net::SocketAddr,
        /// What went wrong.
        #[source]
        source: InspectorError,
    },
    /// A system call failed unexpectedly.
    #[error("{doing}")]
    Call {
        /// What was being done.
        doing: String,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

/// An error and its causes, as one sentence.
pub fn with_causes(error: &CaptureError) -> String {
    let mut sentence = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        sentence.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    sentence
}

impl CaptureError {
    pub(crate) fn refused(sentence: String) -> Self {
        Self::Refused { sentence }
    }

    pub(crate) fn not_found(sentence: String) -> Self {
        Self::NotFound { sentence }
    }

    pub(crate) fn ambiguous(sentence: String) -> Self {
        Self::Ambiguous { sentence }
    }

    pub(crate) fn call(doing: impl Into<String>, source: io::Error) -> Self {
        Self::Call {
            doing: doing.into(),
            source,
        }
    }
}

/// Turns what `perf_event_open` said about `pid` into what happened, why, and what to type.
/// The causes were established by experiment on Linux 6.18: the errno alone does not
/// distinguish them, and perf's own advice to lower `perf_event_paranoid` is wrong for other users' processes.
pub fn explain_refusal(pid: u32, source: io::Error) -> CaptureError {
    let status = proc::read_status(pid);
    let Some(status) = status else {
        return CaptureError::Gone { pid };
    };
    let me = effective_uid();
    let own = proc::read_status(std::process::id()).unwrap_or_default();
    let sentence = match source.raw_os_error() {
        Some(libc::ESRCH) => return CaptureError::Gone { pid },
        Some(libc::EPERM) if own.seccomp_mode == 2 => {
            "perf_event_open is blocked by this container's seccomp profile; run nodespy on the \
             host, or start the container with --cap-add SYS_ADMIN or --security-opt \
             seccomp=unconfined"
                .to_owned()
        }
        Some(libc::EACCES | libc::EPERM)
            if status.uid != me && !own.has_capability(proc::CAP_PERFMON) =>
        {
            let program = std::env::current_exe()
                .map_or_else(|_| "nodespy".to_owned(), |path| path.display().to_string());
            format!(
                "pid {pid} belongs to uid {} and nodespy runs as uid {me}: run it as root or as \
                 that user, or once: sudo setcap {FILE_CAPABILITIES} {program} \
                 (lowering perf_event_paranoid does not help)",
                status.uid
            )
        }
        Some(libc::EACCES | libc::EPERM) => format!(
            "the kernel does not let uid {me} sample processes (kernel.perf_event_paranoid is \
             {}); run nodespy as root, or: sudo sysctl kernel.perf_event_paranoid=1",
            proc::perf_event_paranoid()
                .map_or_else(|| "unknown".to_owned(), |level| level.to_string())
        ),
        Some(libc::ENOSYS) => {
            "this kernel has no perf_event_open (gVisor, or built without perf events)".to_owned()
        }
        _ => return CaptureError::call(format!("opening perf events for process {pid}"), source),
    };
    CaptureError::NotPermitted { sentence, source }
}

/// Turns what ptrace or `/proc` said about stopping or reading `pid` into what happened, why, and
/// what to type.
pub(crate) fn explain_no_tracing(pid: u32, source: io::Error) -> CaptureError {
    let Some(status) = proc::read_status(pid) else {
        return CaptureError::Gone { pid };
    };
    let me = effective_uid();
    let own = proc::read_status(std::process::id()).unwrap_or_default();
    let may_trace = own.has_capability(proc::CAP_SYS_PTRACE);
    let sentence = match (source.raw_os_error(), proc::tracer_of(pid)) {
        (Some(libc::ESRCH), _) => return CaptureError::Gone { pid },
        (Some(libc::EPERM | libc::EACCES), Some(tracer)) => format!(
            "process {pid} is traced by process {tracer} already (a debugger, strace): end that, \
             or look without stopping: nodespy dump --nonblocking -p {pid}"
        ),
        (Some(libc::EPERM | libc::EACCES), _) if status.uid != me && !may_trace => format!(
            "pid {pid} belongs to uid {} and nodespy runs as uid {me}: run it as root or as that \
             user",
            status.uid
        ),
        (Some(libc::EPERM | libc::EACCES), _) => match proc::sysctl("yama/ptrace_scope") {
            Some(scope @ 1..) if !may_trace || scope > 2 => format!(
                "the kernel lets only root inspect running processes \
                 (kernel.yama.ptrace_scope is {scope}); run nodespy as root, or: sudo sysctl \
                 kernel.yama.ptrace_scope=0"
            ),
            _ if own.seccomp_mode == 2 => {
                "ptrace is blocked by this container's seccomp profile; run nodespy on the host, \
                 or start the container with --cap-add SYS_PTRACE"
                    .to_owned()
            }
            _ => format!(
                "the kernel does not let uid {me} look into process {pid} (it may run with more \
                 rights than that user); run nodespy as root"
            ),
        },
        _ => return CaptureError::call(format!("stopping process {pid}"), source),
    };
    CaptureError::NotPermitted { sentence, source }
}
