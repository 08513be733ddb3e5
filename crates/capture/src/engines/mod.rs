//! Ways to take samples. Each engine is one file that implements [`crate::engine::Engine`].

pub mod inspector;
pub mod perf_events;
pub mod snapshot;

/// An engine, distinct from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineId {
    /// perf events of the kernel.
    PerfEvents,
    /// V8's own profiler, through the inspector.
    Inspector,
    /// Every thread once.
    Snapshot,
}

impl EngineId {
    /// Its name in messages and recordings.
    pub fn label(self) -> &'static str {
        match self {
            Self::PerfEvents => "perf events",
            Self::Inspector => "V8 inspector",
            Self::Snapshot => "snapshot",
        }
    }
}

/// A way to take samples over time.
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
    /// What was probed.
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

/// Every engine that samples over time, in the order they are preferred.
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
