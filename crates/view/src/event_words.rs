//! The words for what an event measures: a share of CPU time is not a share of page faults.

use nodespy_model::{EventType, Measure, Profile};

/// How sentences speak of an event's weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventWords {
    measure: Measure,
    /// All of it: `CPU time`, `allocated bytes`, `page faults`.
    pub(crate) whole: String,
}

impl EventWords {
    /// The words for the event of a profile.
    pub(crate) fn of(profile: &Profile) -> Self {
        let event = profile.event();
        let measure = event.measure();
        let whole = match measure {
            Measure::CpuTime => "CPU time".to_owned(),
            Measure::WallTime if event.name == "delay" => "delay".to_owned(),
            Measure::WallTime => "wall time".to_owned(),
            Measure::Memory if is_live(event) => "live bytes".to_owned(),
            Measure::Memory => "allocated bytes".to_owned(),
            Measure::Occurrences => event.noun(),
        };
        Self { measure, whole }
    }

    pub(crate) fn is_time(&self) -> bool {
        matches!(self.measure, Measure::CpuTime | Measure::WallTime)
    }

    /// The part of it that is the main threads'.
    pub(crate) fn of_main_threads(&self) -> String {
        match self.is_time() {
            true => format!("main-thread {}", self.whole),
            false => format!("{} on the main thread", self.whole),
        }
    }

    /// What stands between a share and a function.
    pub(crate) fn is_in(&self) -> &'static str {
        match self.is_time() {
            true => "is in",
            false => "come from",
        }
    }

    /// What stands between a subject in the singular and its share.
    pub(crate) fn takes(&self) -> &'static str {
        match self.is_time() {
            true => "takes",
            false => "accounts for",
        }
    }

    /// What a process has of it.
    pub(crate) fn of_process(&self) -> &str {
        match self.is_time() {
            true => "time",
            false => &self.whole,
        }
    }

    /// What a function runs beside JavaScript. A garbage collector allocates nothing.
    pub(crate) fn run_beside(&self) -> &'static str {
        match self.measure {
            Measure::Memory => "the builtins and native code it runs",
            _ => "the builtins, native code and GC it runs",
        }
    }

    /// The same, as the heading of a column.
    pub(crate) fn column_beside(&self) -> &'static str {
        match self.measure {
            Measure::Memory => "with builtins, native",
            _ => "with builtins, native, GC",
        }
    }

    /// The heading of what was where.
    pub(crate) fn where_it_went(&self) -> String {
        match self.measure {
            Measure::CpuTime | Measure::WallTime => "Where the time went".to_owned(),
            Measure::Memory => "Where memory was allocated".to_owned(),
            Measure::Occurrences => format!("Where the {} come from", self.whole),
        }
    }
}

/// Whether only memory counts that was not freed: V8's live allocations, pprof's `inuse_space`.
fn is_live(event: &EventType) -> bool {
    event.name.starts_with("live") || event.name.starts_with("inuse")
}
