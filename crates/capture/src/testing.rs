//! Events as the kernel would report them, for tests.

use nodespy_model::Event;

pub(crate) fn fork(pid: u32, parent_pid: u32) -> Event<'static> {
    Event::Fork {
        pid,
        tid: pid,
        parent_pid,
        time: 1,
    }
}

/// A process has a name, because it started a program or asked for it.
pub(crate) fn name(pid: u32, is_exec: bool) -> Event<'static> {
    Event::ThreadName {
        pid,
        tid: pid,
        name: "node".to_owned(),
        is_exec,
        time: 2,
    }
}

pub(crate) fn exit(pid: u32) -> Event<'static> {
    Event::Exit {
        pid,
        tid: pid,
        time: 3,
    }
}
