//! V8's own profiler, attached at run time through the inspector: the way in where perf events are
//! refused.
//!
//! The main thread and every worker are profiled, each with its own samples on one clock. The
//! process is left as it was found: an inspector we opened is closed again, one that was open stays
//! open. Dropping the session does the same, so a panic or an early return leaves nothing behind;
//! and if nodespy is killed, the connection breaks, V8 ends the profilers, and the companion process
//! closes the inspector.

mod assembly;
mod channel;
mod close;
mod companion;
mod continuous;
mod ended_threads;
mod engine;
mod event;
mod giving_up;
mod identity;
mod lane;
mod last_profiles;
mod launched;
mod native_block;
mod open;
mod options;
mod port_request;
mod probe;
mod probes;
mod recording;
mod sources;

pub use companion::{Abandoned, CompanionCommand, close_abandoned};
pub use continuous::ContinuousInspector;
pub use engine::InspectorEngine;
pub use event::InspectorEvent;
pub use launched::{command_to_launch, is_node_command};
pub use nodespy_inspector::InspectorUrl;
pub use options::{InspectorOptions, ProfileReader};
pub use probe::{probe, probe_quickly};
