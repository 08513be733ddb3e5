//! Ways to take samples. Each engine is one file, listed once.

pub mod inspector;
pub mod perf_events;
pub mod snapshot;

/// An engine, to tell it from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineId {
    /// perf events of the kernel.
    PerfEvents,
    /// V8's own profiler, through the inspector.
    Inspector,
}

impl EngineId {
    /// Its name in messages and recordings.
    pub fn label(self) -> &'static str {
        match self {
            Self::PerfEvents => "perf events",
            Self::Inspector => "V8 inspector",
        }
    }
}

/// A way to take samples.
#[derive(Debug, Clone, Copy)]
pub struct EngineEntry {
    /// Which one it is.
    pub id: EngineId,
    /// Whether it works on a process, and if not, what to type.
    pub probe: fn(pid: u32) -> Vec<Finding>,
}

/// Something `nodespy check` found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub subject: &'static str,
    /// How it stands.
    pub verdict: Verdict,
    /// What was found, in a sentence.
    pub detail: String,
    /// The exact command that helps.
    pub remedy: Option<String>,
}

/// How something stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Works.
    Good,
    /// Works, but the result is poorer.
    Limited,
    /// Does not work.
    Bad,
}

/// Every engine, in the order they are preferred.
pub static ENGINES: &[EngineEntry] = &[
    EngineEntry {
        id: EngineId::PerfEvents,
        probe: perf_events::probe,
    },
    EngineEntry {
        id: EngineId::Inspector,
        probe: inspector::probe,
    },
];
