//! Which events this machine and this user can have.

use super::names::{CACHES, Class, NAMED};
use super::probing;
use super::refusals::explain_event;
use super::sources::counted;
use super::spec::EventSpec;
use super::tracefs;
use crate::error::CaptureError;

/// An event and whether it can be had.
#[derive(Debug, Clone)]
pub struct AvailableEvent {
    /// What to give to `-e`.
    pub name: String,
    /// What kind it is: `clock`, `software`, `hardware`, `cache`, `tracepoint`, `uprobe`.
    pub kind: &'static str,
    /// Whether.
    pub availability: Availability,
}

/// Whether an event can be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Availability {
    /// It can.
    Yes,
    /// Only what happens in the program itself is seen.
    UserOnly,
    /// It can't; why, and what helps.
    No(String),
}

/// Every event that has a name of its own, and the tracepoints whose names contain `pattern`; all
/// as far as this process can open them on itself.
pub fn available_events(pattern: Option<&str>) -> Vec<AvailableEvent> {
    let mut events = vec![
        availability("cpu", "clock"),
        availability("wall", "clock"),
        availability("off-cpu", "clock"),
    ];
    for named in NAMED {
        events.push(availability(named.name, kind_of(named.class)));
    }
    // What holds for one cache holds for all: those a processor does not count are told when asked
    // for.
    events.push(availability(&format!("{}-load-misses", CACHES[0]), "cache"));
    events.push(uprobes());
    events.push(AvailableEvent {
        name: "usdt:PROVIDER:NAME".to_owned(),
        ..uprobes()
    });
    let is_wanted = |name: &str| pattern.is_none_or(|pattern| name.contains(pattern));
    events.retain(|event| is_wanted(&event.name));
    events.extend(tracepoints(pattern));
    events
}

fn kind_of(class: Class) -> &'static str {
    match class {
        Class::Clock => "clock",
        Class::Faults | Class::KernelOnly => "software",
        Class::Hardware => "hardware",
    }
}

fn availability(name: &str, kind: &'static str) -> AvailableEvent {
    let found = EventSpec::parse(name)
        .map_err(CaptureError::refused)
        .and_then(|spec| try_to_open(&spec));
    AvailableEvent {
        name: name.to_owned(),
        kind,
        availability: found.unwrap_or_else(|error| Availability::No(error.to_string())),
    }
}

/// Opens an event on this process, with the kernel and without.
fn try_to_open(spec: &EventSpec) -> Result<Availability, CaptureError> {
    let counted = counted(spec)?;
    let pid = std::process::id();
    let own = |exclude_kernel| probing::open_on_self(spec, &counted, exclude_kernel);
    match own(false) {
        Ok(()) => Ok(Availability::Yes),
        Err(_) if !spec.is_kernel_only() && own(true).is_ok() => Ok(Availability::UserOnly),
        Err(error) => Err(explain_event(pid, spec, error)),
    }
}

fn uprobes() -> AvailableEvent {
    // The right to set breakpoints is the right to look into the kernel.
    let may = availability("context-switches", "uprobe").availability;
    AvailableEvent {
        name: "uprobe:node:FUNCTION".to_owned(),
        kind: "uprobe",
        availability: match may {
            Availability::No(_) => Availability::No(
                "a breakpoint in the program needs CAP_PERFMON: run as root".to_owned(),
            ),
            may => may,
        },
    }
}

/// The tracepoints, or one line that says how many there are, or why none can be seen.
fn tracepoints(pattern: Option<&str>) -> Vec<AvailableEvent> {
    let line = |name: String, availability| AvailableEvent {
        name,
        kind: "tracepoint",
        availability,
    };
    match (tracefs::all(), pattern) {
        (Err(error), _) => vec![line(
            "SYSTEM:TRACEPOINT".to_owned(),
            Availability::No(format!("tracefs can't be read ({error}): run as root")),
        )],
        (Ok(all), None) => vec![line(
            format!(
                "{} tracepoints, such as syscalls:sys_enter_openat",
                all.len()
            ),
            Availability::Yes,
        )],
        (Ok(all), Some(pattern)) => {
            let wanted = all.into_iter().filter(|name| name.contains(pattern));
            wanted.map(|name| line(name, Availability::Yes)).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::names;
    use super::*;

    #[test]
    fn every_event_is_there_or_has_a_reason() {
        let events = available_events(None);
        let by_name = |name: &str| events.iter().find(|event| event.name == name).unwrap();
        for named in NAMED {
            assert_eq!(names::find(named.name), Some(*named));
            if let Availability::No(why) = &by_name(named.name).availability {
                assert!(why.contains(named.name) || why.contains("PMU"), "{why}");
            }
        }
        assert_eq!(by_name("cpu").kind, "clock");
        let only = available_events(Some("no such event"));
        assert!(
            only.iter().all(|event| event.kind == "tracepoint"),
            "{only:?}"
        );
    }
}
