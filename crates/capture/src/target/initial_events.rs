//! What a process had before it was watched, as the sideband events that would have reported it.

use std::io;

use nodespy_model::Event;

use super::proc;

/// The names of the threads and the code mappings of a process; or only the names, and why the
/// mappings can't be read.
pub(crate) fn synthesize_initial_events(pid: u32) -> (Vec<Event<'static>>, io::Result<()>) {
    let mut events = Vec::new();
    for tid in proc::threads(pid) {
        if let Some(name) = proc::thread_name(pid, tid) {
            events.push(Event::ThreadName {
                pid,
                tid,
                name,
                is_exec: false,
                time: 0,
            });
        }
    }
    let mappings = proc::code_mappings(pid)
        .map(|mappings| events.extend(mappings.into_iter().map(Event::Mapping)));
    (events, mappings)
}

/// The remark about a process whose mappings can't be read.
pub(crate) fn no_mappings(pid: u32, error: &io::Error) -> String {
    format!("the mappings of process {pid} can't be read ({error}): its frames have no names")
}
