//! Processes: finding the Node ones, describing, launching and watching them.

mod app;
mod cgroup;
mod container;
mod find;
mod initial_events;
mod labels;
mod launch;
pub(crate) mod node_flags;
mod pm2;
mod pod;
pub(crate) mod ports;
pub mod proc;
mod program;
mod resident;
mod scheduling;
mod standing_still;
mod wanted;
mod watch;

pub use app::{app_name, app_of_command};
pub use cgroup::{Cgroups, ContainerMark, CpuUse, Group, Runtime, Throttling};
pub use container::{Container, container_of, forget_containers};
pub use find::{looks_like_node, looks_like_runtime, measure_cpu};
pub(crate) use initial_events::{no_mappings, synthesize_initial_events};
pub use launch::{LaunchOptions, Launched, run_as_sudo_caller, sudo_caller_ids};
pub use pm2::Pm2App;
pub use ports::{LocalListeners, listening_ports};
pub use program::{Program, node_version, program};
pub use resident::{Resident, residents};
pub use scheduling::SchedulingWatch;
pub(crate) use standing_still::stands_still;
pub use wanted::{Selection, Wanted};
pub use watch::{Target, describe};
