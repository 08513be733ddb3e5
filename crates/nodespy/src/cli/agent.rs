//! The arguments of `nodespy agent`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nodespy_store::Retention;

use super::values::{
    Push, parse_age, parse_duration, parse_label, parse_loopback, parse_overhead, parse_push,
    parse_size,
};

/// Where an agent keeps what it has seen, and where it is read again.
pub(crate) const DEFAULT_STORE: &str = "/var/lib/nodespy";

#[derive(Debug, Args)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  nodespy agent                                   until SIGTERM or Ctrl-C, into /var/lib/nodespy
  nodespy agent --store ./profiles --for 5m       for five minutes
  nodespy agent --label env=production --keep 3d  a label on everything; windows of three days
  nodespy agent --to https://profiles.internal --token-file /etc/nodespy/token
  nodespy agent --push pyroscope=http://pyro:4040
  nodespy agent --push otlp=http://collector:4318 --push pyroscope=http://pyro:4040
  nodespy agent --max-overhead 1%                 at most a hundredth of one CPU
  nodespy agent --adaptive false                  19 samples a second, whatever processes do
  nodespy agent --config /etc/nodespy/agent.toml --check-config

It samples every Node process of this machine, those that start later too: 19 times a second of
CPU time, in windows of 10 s, each kept with the labels of its process (service, version,
instance, container, pod, …). What it does is logged on standard error, a line of key=value
each. `nodespy serve` shows what was kept."
)]
pub(crate) struct AgentArgs {
    /// The folder of the store, or with --to of what waits to be sent; made if it is missing
    #[arg(long, value_name = "FOLDER", default_value = DEFAULT_STORE)]
    pub(crate) store: PathBuf,
    /// Send windows to a `nodespy serve --ingest` at this address, in place of a store of this machine
    #[arg(long, value_name = "URL", help_heading = "Sending")]
    pub(crate) to: Option<String>,
    /// Push to what others run, in place of a store of this machine; may be repeated: pyroscope=http://pyro:4040, otlp=http://collector:4318
    #[arg(long, value_name = "KIND=URL", help_heading = "Sending", value_parser = parse_push)]
    pub(crate) push: Vec<Push>,
    /// A file whose first line is what proves who sends: Authorization: Bearer …
    #[arg(long, value_name = "FILE", help_heading = "Sending")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificates that servers are judged by, as PEM [default: those that the system trusts]
    #[arg(long, value_name = "FILE", help_heading = "Sending")]
    pub(crate) ca_file: Option<PathBuf>,
    /// How much may wait on disk while the server is away; the oldest goes first
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = parse_size, help_heading = "Sending")]
    pub(crate) spool_size: u64,
    /// Samples per second of CPU time, usually
    #[arg(short = 'F', long, visible_short_alias = 'r', value_name = "HZ", default_value_t = 19, value_parser = clap::value_parser!(u32).range(1..=999))]
    pub(crate) rate: u32,
    /// Sample five times as often for up to a minute when a process is hot or stalling, and seldom while all are idle; each sample counts for those that were not taken
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) adaptive: bool,
    /// What it may cost of one CPU: where it is more, fewer samples are taken, each counting for those that were not: 1%
    #[arg(long, value_name = "PERCENT", value_parser = parse_overhead)]
    pub(crate) max_overhead: Option<f64>,
    /// End after so long: 30s, 5m, 1h [default: until SIGTERM or Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// A label of everything that is sampled, in place of one that is found; may be repeated: version=1.2.3
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    pub(crate) label: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) retention: RetentionArgs,
    /// Answer /metrics (Prometheus) and /healthz at an address of this machine: 127.0.0.1:4601
    #[arg(long, value_name = "ADDRESS", value_parser = parse_loopback)]
    pub(crate) listen: Option<SocketAddr>,
    /// Settings: long options as TOML, which those of the command line win over
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Only say whether the settings are right
    #[arg(long)]
    pub(crate) check_config: bool,
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

/// How long a store keeps what, and how large it may become.
#[derive(Debug, Args)]
pub(crate) struct RetentionArgs {
    #[command(flatten)]
    pub(crate) keep: KeepArgs,
    /// How large the store may become; the oldest goes first, the last day always stays
    #[arg(long, value_name = "SIZE", default_value = "10GB", value_parser = parse_size)]
    pub(crate) max_size: u64,
}

impl RetentionArgs {
    pub(crate) fn retention(&self) -> Retention {
        self.keep.retention(self.max_size)
    }
}

/// How long a store keeps what.
#[derive(Debug, Args)]
pub(crate) struct KeepArgs {
    /// How long windows of 10 s are kept
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse_age)]
    pub(crate) keep: Duration,
    /// How long hours of each process are kept
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = parse_age)]
    pub(crate) keep_hours: Duration,
    /// How long hours of each version are kept
    #[arg(long, value_name = "TIME", default_value = "396d", value_parser = parse_age)]
    pub(crate) keep_versions: Duration,
}

impl KeepArgs {
    pub(crate) fn retention(&self, max_bytes: u64) -> Retention {
        Retention {
            windows: self.keep.as_secs(),
            hours: self.keep_hours.as_secs(),
            rollups: self.keep_versions.as_secs(),
            max_bytes,
        }
    }
}
