//! One file per command.

pub(crate) mod agent;
mod agent_config;
pub(crate) mod check;
pub(crate) mod ci;
pub(crate) mod close_abandoned;
pub(crate) mod collapse;
pub(crate) mod completions;
pub(crate) mod convert;
pub(crate) mod deploy;
pub(crate) mod diff;
pub(crate) mod difffolded;
pub(crate) mod dump;
pub(crate) mod events;
pub(crate) mod flamegraph;
pub(crate) mod list;
pub(crate) mod man;
pub(crate) mod mcp;
pub(crate) mod query;
pub(crate) mod record;
pub(crate) mod recover;
pub(crate) mod regressions;
pub(crate) mod report;
pub(crate) mod serve;
pub(crate) mod stalls;
pub(crate) mod store;
pub(crate) mod top;
pub(crate) mod view;
