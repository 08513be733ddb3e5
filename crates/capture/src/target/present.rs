//! What a process has already when it is first watched, as the events that would have told it.

use std::io;

use nodespy_model::Event;

use super::proc;

/// The names of its threads and its code mappings; or only the names, and why the mappings can't
/// be read.
pub(crate) fn what_is_there(pid: u32) -> (Vec<Event<'static>>, io::Result<()>) {
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
