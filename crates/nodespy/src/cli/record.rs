//! The arguments of `nodespy record`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::values::{parse_duration, parse_interval, parse_overhead};
use super::{FlightArgs, ShowArgs, StoreArgs, TargetArgs};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy record -p 1234 -d 30
  nodespy record -c web -d 30                     every Node.js process of a container
  nodespy record -p 1234,1240 -F 199 -o out.svg
  nodespy record -o 'cpu-{app}-{pid}-{time}.nspy' -- node app.js
  nodespy record -p 1234 -d 10 -o - | less        folded stacks on standard output
  nodespy record -p 1234 --trigger 'stall>200ms'  the 30 s before each stall, and nothing else
  nodespy record -p 1234 --every 60s -o day.nspy  day.nspy, day-2.nspy, …: a minute each
  nodespy record --on-port 'autocannon -d 10 http://localhost:$PORT' -- node app.js

Ctrl-C, SIGTERM or a closed terminal ends the recording and writes it; a second Ctrl-C discards it.
What is not shown is still in .nspy and .html files.")]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// How long: 30, 30s, 500ms, 2m [default: until Ctrl-C or the end of the target]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// How long to wait before samples are taken; a command warms up meanwhile
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) delay: Option<Duration>,
    /// A shell command to start once the recorded one listens on a TCP port, which is in $PORT; the
    /// recording ends with it, and so does the recorded command
    #[arg(long, value_name = "COMMAND")]
    pub(crate) on_port: Option<String>,
    /// Samples per second and thread [default: 99, or 999 for a command]
    #[arg(short = 'F', long, visible_short_alias = 'r', value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) rate: Option<u32>,
    /// Where to write: .html, .svg, .folded, .nspy by extension, `-` for standard output;
    /// {pid}, {app} and {time} are filled in; may be repeated
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Vec<PathBuf>,
    /// The format, if the extension doesn't say (`nodespy convert --help` lists them)
    #[arg(short, long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// How samples are taken
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    pub(crate) engine: Engine,
    /// Time between samples of the inspector engine: 1000us, 5ms [default: 1000us]
    #[arg(long, value_name = "TIME", value_parser = parse_interval)]
    pub(crate) interval: Option<u32>,
    /// What makes samples: cpu, wall (all time, waiting included), off-cpu (waiting alone), alloc
    /// (bytes, by the inspector), or any perf event, several with commas: page-faults,
    /// sched:sched_switch, uprobe:node:uv_fs_open, usdt:PROVIDER:NAME (`nodespy events` lists them)
    /// [default: cpu]
    #[arg(short, long, value_name = "EVENT[,…]")]
    pub(crate) event: Vec<String>,
    /// Record through this inspector instead: one on another machine, or forwarded from there
    #[arg(long, value_name = "ws://HOST:PORT", conflicts_with_all = ["target", "command"])]
    pub(crate) inspect_url: Option<String>,
    /// How often V8's profile is collected during a long recording [default: 10s to 60s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) slice: Option<Duration>,
    /// Open the inspector even if other machines can reach it
    #[arg(long)]
    pub(crate) force: bool,
    /// What names JavaScript: V8's heap, then perf maps and jitdumps; or only these
    #[arg(long, value_enum, default_value_t = Names::Heap)]
    pub(crate) names: Names,
    /// Embed the JavaScript source, for the page to show; off by default, as code is private
    #[arg(long)]
    pub(crate) embed_source: bool,
    /// A source map that is not beside its script, or a folder of source maps; may be repeated
    #[arg(long, value_name = "FILE|FOLDER")]
    pub(crate) source_maps: Vec<PathBuf>,
    /// Show JavaScript where it runs, not where source maps say that it was written
    #[arg(long, conflicts_with = "source_maps")]
    pub(crate) no_source_maps: bool,
    /// Leave out kernel frames
    #[arg(long)]
    pub(crate) no_kernel: bool,
    /// Copy whole stacks with each sample instead of running an eBPF program that copies what is needed
    #[arg(long)]
    pub(crate) no_ebpf: bool,
    /// Find async callers and HTTP routes where no eBPF program may run, too: a thread on each CPU reads them at every
    /// sample, and holds the sampled one for some 100 µs
    #[arg(long = "async", conflicts_with = "no_async")]
    pub(crate) reads_async: bool,
    /// Leave out the async functions that await what runs: stacks start at the microtask
    #[arg(long)]
    pub(crate) no_async: bool,
    /// Leave out the HTTP routes that samples belong to: no request is looked at
    #[arg(long)]
    pub(crate) no_routes: bool,
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
    /// Say which lines of JavaScript submit the jobs of libuv's pool. Sets breakpoints in the program while it records, two
    /// in libuv, which take 5 µs a job; needs root and a running process
    #[arg(long)]
    pub(crate) pool_submitters: bool,
    /// Measure each pause of V8's garbage collector: how many, how long together, the longest. Sets four breakpoints in the
    /// program while it records, which take 8 µs a pause; needs root and a running process
    #[arg(long)]
    pub(crate) gc_pauses: bool,
    /// Count every time that a thread goes off the CPU: how often, how long together, the longest, and a histogram, by the system
    /// call it is in (root; by thread alone otherwise). Costs the process some 2 µs a context switch, 5 µs with system calls: a
    /// server that switches 10,000 times a second loses 2 to 5 % of a CPU. With -e wall the stacks of what waits long are there too
    #[arg(long, conflicts_with_all = ["trigger", "every"])]
    pub(crate) off_cpu_exact: bool,
    /// What the recording may cost, of one CPU: nodespy and, by estimate, the recorded processes together. Where it costs more,
    /// samples are taken less often and count for more, which is said: 2%
    #[arg(long, value_name = "PERCENT", value_parser = parse_overhead)]
    pub(crate) max_overhead: Option<f64>,
    /// Leave out child processes
    #[arg(long)]
    pub(crate) no_subprocesses: bool,
    /// End with the command's own exit status
    #[arg(long, requires = "command")]
    pub(crate) exit_code: bool,
    /// Under sudo: run the command as root instead of as the calling user
    #[arg(long, requires = "command")]
    pub(crate) keep_root: bool,
    /// Print only errors and results
    #[arg(short, long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) flight: FlightArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    /// The command to start and record, after `--`
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "target")]
    pub(crate) command: Vec<OsString>,
}

/// How samples are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Engine {
    /// Perf events where permitted, else the inspector
    Auto,
    /// Perf events: JavaScript, C++, libuv and the kernel in one stack
    Perf,
    /// V8's own profiler, attached through the inspector: JavaScript only, no rights needed
    Inspector,
    /// Perf events and V8's profiler at once: each checks the other
    Both,
}

/// Who names JavaScript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Names {
    /// V8's heap, then perf map or jitdump where the process has one
    Heap,
    /// Perf map or jitdump only
    Map,
}
