//! The arguments of `nodespy agent`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::{parse_age, parse_duration, parse_label, parse_size};

/// Where an agent keeps what it has seen, and where it is read again.
pub(crate) const DEFAULT_STORE: &str = "/var/lib/nodespy";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy agent                                   until SIGTERM or Ctrl-C, into /var/lib/nodespy
  nodespy agent --store ./profiles --for 5m       for five minutes
  nodespy agent --label env=production --keep 3d  a label on everything; windows of three days

It samples every Node process of this machine, those that start later too: 19 times a second of
CPU time, in windows of 10 s, each kept with the labels of its process (service, version,
instance, container, pod, …). What it does is logged on standard error, a line of key=value
each. `nodespy serve` shows what was kept.")]
pub(crate) struct AgentArgs {
    /// The folder of the store; made if it is missing
    #[arg(long, value_name = "FOLDER", default_value = DEFAULT_STORE)]
    pub(crate) store: PathBuf,
    /// Samples per second of CPU time
    #[arg(short = 'F', long, visible_short_alias = 'r', value_name = "HZ", default_value_t = 19, value_parser = clap::value_parser!(u32).range(1..=999))]
    pub(crate) rate: u32,
    /// End after so long: 30s, 5m, 1h [default: until SIGTERM or Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// A label of everything that is sampled, in place of one that is found; may be repeated: version=1.2.3
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    pub(crate) label: Vec<(String, String)>,
    /// How long windows of 10 s are kept
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse_age)]
    pub(crate) keep: Duration,
    /// How long hours of each process are kept
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = parse_age)]
    pub(crate) keep_hours: Duration,
    /// How long hours of each version are kept
    #[arg(long, value_name = "TIME", default_value = "396d", value_parser = parse_age)]
    pub(crate) keep_versions: Duration,
    /// How large the store may become; the oldest goes first, the last day always stays
    #[arg(long, value_name = "SIZE", default_value = "10GB", value_parser = parse_size)]
    pub(crate) max_size: u64,
    /// Leave out kernel frames
    #[arg(long)]
    pub(crate) no_kernel: bool,
    /// Run no eBPF program at samples
    #[arg(long)]
    pub(crate) no_ebpf: bool,
    /// Show functions where they run, not where they were written
    #[arg(long)]
    pub(crate) no_source_maps: bool,
}
