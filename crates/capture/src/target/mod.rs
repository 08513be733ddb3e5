//! Processes: finding the Node ones, describing, launching and watching them.

mod app;
mod find;
mod launch;
mod node_version;
pub mod proc;
mod watch;

pub use app::{app_name, app_of_command};
pub use find::{NodeProcess, Permission, list_node_processes, looks_like_node, measure_cpu};
pub use launch::{LaunchOptions, Launched};
pub use watch::{Target, describe, node_version};
