//! What a waiting thread waits for, by the system call it is in and the functions of its stack:
//! by the words that Node, V8, libuv and libc use.

use crate::profile::Category;
use crate::raw::WaitingIn;

/// The values of the label `state`.
pub mod state {
    /// It ran.
    pub const ON_CPU: &str = "on-cpu";
    /// It could have run and had no CPU.
    pub const RUNNABLE: &str = "runnable";
    /// It waited for something while there was work.
    pub const WAITING: &str = "waiting";
    /// It waited for work.
    pub const IDLE: &str = "idle";
}

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Whether it waits for work: an event loop without events, a pool thread without a job.
    pub is_idle: bool,
    /// The words shown for it.
    pub kind: &'static str,
}

impl Wait {
    const fn idle(kind: &'static str) -> Self {
        Self {
            is_idle: true,
            kind,
        }
    }

    const fn on(kind: &'static str) -> Self {
        Self {
            is_idle: false,
            kind,
        }
    }
}

/// What a thread waits for. `frames` are the functions of its stack and their categories, innermost
/// first.
pub fn wait_of<'a>(
    waiting_in: WaitingIn,
    frames: impl Iterator<Item = (&'a str, Category)> + Clone,
) -> Wait {
    let has = |parts: &[&str]| {
        let mut names = frames.clone().map(|(name, _)| name);
        names.any(|name| parts.iter().any(|part| name.contains(part)))
    };
    // Name servers are waited for in poll, files of names are read, libc has locks of its own.
    if has(&["getaddrinfo", "getnameinfo"]) {
        return Wait::on("DNS");
    }
    let has_javascript = frames.clone().any(|(_, category)| {
        matches!(
            category,
            Category::App
                | Category::Dependency
                | Category::NodeCore
                | Category::Builtin
                | Category::Wasm
        )
    });
    match waiting_in {
        WaitingIn::PageFault => Wait::on("page fault"),
        WaitingIn::Poll if has(&["SyncProcessRunner", "spawnSync"]) => Wait::on("child process"),
        // A loop that JavaScript runs is not the one that waits for events.
        WaitingIn::Poll if has_javascript => Wait::on("nested event loop"),
        WaitingIn::Poll => Wait::idle("events"),
        WaitingIn::Futex if has(&["FutexEmulation", "AtomicsWait"]) => Wait::on("Atomics.wait"),
        WaitingIn::Futex if has(&["mutex_lock", "Mutex::Lock", "lll_lock", "rwlock"]) => {
            Wait::on("lock")
        }
        WaitingIn::Futex if frames.clone().any(|(_, it)| it == Category::Gc) => Wait::on("GC"),
        WaitingIn::Futex if has_javascript => Wait::on("lock"),
        WaitingIn::Futex => Wait::idle("a job"),
        WaitingIn::File => Wait::on("file"),
        WaitingIn::Pipe => Wait::on("pipe"),
        WaitingIn::Socket => Wait::on("network"),
        WaitingIn::Child => Wait::on("child process"),
        WaitingIn::Sleep => Wait::on("sleep"),
        WaitingIn::Other => Wait::on("other"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(waiting_in: WaitingIn, stack: &[(&str, Category)]) -> (bool, &'static str) {
        let wait = wait_of(waiting_in, stack.iter().copied());
        (wait.is_idle, wait.kind)
    }

    #[test]
    fn a_loop_that_javascript_waits_in_is_not_idle() {
        use Category::{App, Internal, Native, NodeCore};
        let outer = [
            ("epoll_pwait", Native),
            ("uv__io_poll", Native),
            ("uv_run", Native),
            ("node::SpinEventLoop", Native),
            ("main", Native),
        ];
        assert_eq!(wait(WaitingIn::Poll, &outer), (true, "events"));
        let in_javascript = [
            ("epoll_pwait", Native),
            ("uv_run", Native),
            ("node::SyncProcessRunner::Spawn", Native),
            ("Builtins_CEntry_x", Internal),
            ("spawnSync", NodeCore),
            ("blockExecSync", App),
        ];
        assert_eq!(
            wait(WaitingIn::Poll, &in_javascript),
            (false, "child process")
        );
        let by_addon = [("epoll_wait", Native), ("uv_run", Native), ("work", App)];
        assert_eq!(
            wait(WaitingIn::Poll, &by_addon),
            (false, "nested event loop")
        );
    }

    #[test]
    fn who_waits_for_a_job_is_idle_and_who_waits_for_a_lock_is_not() {
        use Category::{App, Builtin, Gc, Native};
        let pool = [("uv_cond_wait", Native), ("worker", Native)];
        assert_eq!(wait(WaitingIn::Futex, &pool), (true, "a job"));
        let locked = [("uv_mutex_lock", Native), ("worker", Native)];
        assert_eq!(wait(WaitingIn::Futex, &locked), (false, "lock"));
        let atomics = [
            ("v8::internal::FutexEmulation::WaitSync", Native),
            ("AtomicsWait", Builtin),
            ("blockAtomics", App),
        ];
        assert_eq!(wait(WaitingIn::Futex, &atomics), (false, "Atomics.wait"));
        let collecting = [
            ("v8::base::ConditionVariable::Wait", Native),
            ("v8::internal::Heap::CollectGarbage", Gc),
        ];
        assert_eq!(wait(WaitingIn::Futex, &collecting), (false, "GC"));
        let asking = [("poll", Native), ("getaddrinfo", Native)];
        assert_eq!(wait(WaitingIn::Poll, &asking), (false, "DNS"));
    }
}
