//! Ways to take samples. Each engine is one file, listed once.

pub mod inspector;
pub mod perf_events;
pub mod snapshot;

/// A way to take samples.
#[derive(Debug, Clone, Copy)]
pub struct EngineEntry {
    /// Its name in messages.
    pub name: &'static str,
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
        name: "perf events",
        probe: perf_events::probe,
    },
    EngineEntry {
        name: "V8 inspector",
        probe: inspector::probe,
    },
];
