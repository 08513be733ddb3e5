//! The arguments of `nodespy agent`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use nodespy_store::Retention;

use super::values::{
    Push, PushToken, RequestSetting, parse_age, parse_duration, parse_label, parse_loopback,
    parse_overhead, parse_push, parse_push_token, parse_request_setting, parse_size,
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
  nodespy agent --label env=production --keep 3d  label everything, keep full detail for three days
  nodespy agent --to https://profiles.internal --token-file /etc/nodespy/token
  nodespy agent --push pyroscope=http://pyro:4040
  nodespy agent --push otlp=http://collector:4318 --push parca=http://parca:7070
  nodespy agent --max-overhead 1%                 use at most 1 % of one CPU
  nodespy agent --requests metric=http_requests_total --requests port=9464
  nodespy agent --adaptive false                  always 19 samples per second
  nodespy agent --engine inspector                where perf events are refused; opens inspectors
  nodespy agent --config /etc/nodespy/agent.toml --check-config

The agent samples every Node.js process of this machine, including those that start later, 19 times
per second of CPU time, and stores a profile every 10 s with the labels of the process (service,
version, instance, container, pod, …). It logs key=value lines to standard error. `nodespy serve`
shows the stored profiles."
)]
pub(crate) struct AgentArgs {
    /// The folder of the store, or with --to of profiles waiting to be sent; created if missing
    #[arg(long, value_name = "FOLDER", default_value = DEFAULT_STORE)]
    pub(crate) store: PathBuf,
    /// Send profiles to the `nodespy serve --ingest` at this URL instead of storing them
    #[arg(long, value_name = "URL", help_heading = "Sending")]
    pub(crate) to: Option<String>,
    /// Push profiles to another backend instead of storing them; may be repeated: pyroscope=http://pyro:4040, otlp=http://collector:4318, parca=http://parca:7070
    #[arg(long, value_name = "KIND=URL", help_heading = "Sending", value_parser = parse_push)]
    pub(crate) push: Vec<Push>,
    /// File with the token for --to on its first line, sent as Authorization: Bearer …; no push gets it
    #[arg(long, value_name = "FILE", help_heading = "Sending")]
    pub(crate) token_file: Option<PathBuf>,
    /// File with the token for the --push of that kind, which nothing else gets: pyroscope=/etc/nodespy/pyroscope
    #[arg(long, value_name = "KIND=FILE", help_heading = "Sending", value_parser = parse_push_token)]
    pub(crate) push_token_file: Vec<PushToken>,
    /// PEM file of the CAs to trust [default: the CAs of the system]
    #[arg(long, value_name = "FILE", help_heading = "Sending")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Max size of what waits on disk while the server is unreachable; the oldest is dropped first
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = parse_size, help_heading = "Sending")]
    pub(crate) spool_size: u64,
    /// How to take samples
    #[arg(long, value_enum, default_value_t = AgentEngineArg::Auto)]
    pub(crate) engine: AgentEngineArg,
    /// Samples per second of CPU time
    #[arg(short = 'F', long, visible_short_alias = 'r', value_name = "HZ", default_value_t = 19, value_parser = clap::value_parser!(u32).range(1..=999))]
    pub(crate) rate: u32,
    /// Sample five times as often, for up to a minute, when a process is hot or stalls, and rarely while all are idle; samples are reweighted
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    pub(crate) adaptive: bool,
    /// Limit overhead to this share of one CPU, e.g. 1%, by lowering the sampling rate and reweighting samples
    #[arg(long, value_name = "PERCENT", value_parser = parse_overhead)]
    pub(crate) max_overhead: Option<f64>,
    /// Stop after this long: 30s, 5m, 1h [default: until SIGTERM or Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Add a label to everything, overriding a detected one; may be repeated: version=1.2.3
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label)]
    pub(crate) label: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) retention: RetentionArgs,
    /// Count requests by a Prometheus counter that each process serves on loopback: metric=http_requests_total and port=9464 are required, path=/metrics is the default; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_request_setting)]
    pub(crate) requests: Vec<RequestSetting>,
    /// Serve /metrics (Prometheus) and /healthz on a loopback address: 127.0.0.1:4601
    #[arg(long, value_name = "ADDRESS", value_parser = parse_loopback)]
    pub(crate) listen: Option<SocketAddr>,
    /// Read long options from a TOML file; the command line takes precedence
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Check the settings and exit
    #[arg(long)]
    pub(crate) check_config: bool,
    /// Leave out kernel frames
    #[arg(long)]
    pub(crate) no_kernel: bool,
    /// Don't use eBPF
    #[arg(long)]
    pub(crate) no_ebpf: bool,
    /// Don't map functions to their sources with source maps
    #[arg(long)]
    pub(crate) no_source_maps: bool,
}

/// How an agent takes samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AgentEngineArg {
    /// perf events, with eBPF where permitted; never opens an inspector
    Auto,
    /// perf events, with eBPF where permitted
    Perf,
    /// V8's own profiler, JavaScript only: opens the inspector of every Node.js process on loopback, through
    /// which any local user can run code in it, and closes it at the end
    Inspector,
}

/// How long a store keeps what, and how large it may become.
#[derive(Debug, Args)]
pub(crate) struct RetentionArgs {
    #[command(flatten)]
    pub(crate) keep: KeepArgs,
    /// Max size of the store; the oldest profiles are deleted first, never the last day
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
    /// How long to keep 10 s profiles
    #[arg(long, value_name = "TIME", default_value = "7d", value_parser = parse_age)]
    pub(crate) keep: Duration,
    /// How long to keep hourly profiles per process
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = parse_age)]
    pub(crate) keep_hours: Duration,
    /// How long to keep hourly profiles per version
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
