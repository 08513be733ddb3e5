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
  nodespy record -p 1234 --trigger 'stall>200ms'  write only the 30 s before each stall
  nodespy record -p 1234 --every 60s -o day.nspy  one file per minute: day.nspy, day-2.nspy, …
  nodespy record --on-port 'autocannon -d 10 http://localhost:$PORT' -- node app.js

Ctrl-C, SIGTERM or closing the terminal ends the recording and writes it; a second Ctrl-C discards it.
Filters (but for --redact) only affect what is shown: .nspy and .html files keep every sample.")]
pub(crate) struct RecordArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// How long: 30, 30s, 500ms, 2m [default: until Ctrl-C or the end of the target]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Wait this long before sampling, e.g. for a command to warm up
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) delay: Option<Duration>,
    /// A shell command to run once the recorded command listens on a TCP port, given as $PORT; when it
    /// exits, the recording and the recorded command end
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
    /// How to take samples
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    pub(crate) engine: Engine,
    /// Time between samples of the inspector engine: 1000us, 5ms [default: 1000us]
    #[arg(long, value_name = "TIME", value_parser = parse_interval)]
    pub(crate) interval: Option<u32>,
    /// The event to sample: cpu, wall (all time, including waiting), off-cpu (waiting only), alloc
    /// (bytes allocated, by the inspector), or any perf event, separated by commas: page-faults,
    /// sched:sched_switch, uprobe:node:uv_fs_open, usdt:PROVIDER:NAME (see `nodespy events`)
    /// [default: cpu]
    #[arg(short, long, value_name = "EVENT[,…]")]
    pub(crate) event: Vec<String>,
    /// Record through this inspector, e.g. of another machine or a forwarded port
    #[arg(long, value_name = "ws://HOST:PORT", conflicts_with_all = ["target", "command"])]
    pub(crate) inspect_url: Option<String>,
    /// How often to collect V8's profile during a long recording [default: 10s to 60s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) slice: Option<Duration>,
    /// Open the inspector even if other machines can reach it
    #[arg(long)]
    pub(crate) force: bool,
    /// Where to find the names of JavaScript functions
    #[arg(long, value_enum, default_value_t = Names::Heap)]
    pub(crate) names: Names,
    /// Embed the JavaScript source, so that the page can show it
    #[arg(long)]
    pub(crate) embed_source: bool,
    /// A source map that is not next to its script, or a folder of source maps; may be repeated
    #[arg(long, value_name = "FILE|FOLDER")]
    pub(crate) source_maps: Vec<PathBuf>,
    /// Don't map JavaScript to its sources with source maps
    #[arg(long, conflicts_with = "source_maps")]
    pub(crate) no_source_maps: bool,
    /// Leave out kernel frames
    #[arg(long)]
    pub(crate) no_kernel: bool,
    /// Don't use eBPF: copy whole stacks with each sample
    #[arg(long)]
    pub(crate) no_ebpf: bool,
    /// Also find async callers and HTTP routes without eBPF: a reader thread per CPU pauses the sampled thread for about
    /// 100 µs per sample
    #[arg(long = "async", conflicts_with = "no_async")]
    pub(crate) reads_async: bool,
    /// Leave out async callers: stacks start at the microtask
    #[arg(long)]
    pub(crate) no_async: bool,
    /// Don't look for HTTP routes
    #[arg(long)]
    pub(crate) no_routes: bool,
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
    /// Find the lines of JavaScript that submit work to libuv's thread pool. Sets two breakpoints in libuv while recording,
    /// at 5 µs per job; needs root and a running process
    #[arg(long)]
    pub(crate) pool_submitters: bool,
    /// Measure every GC pause: count, total and longest. Sets four breakpoints in V8 while recording, at 8 µs per pause; needs
    /// root and a running process
    #[arg(long)]
    pub(crate) gc_pauses: bool,
    /// Measure every time a thread goes off CPU: count, total, longest and a histogram, by system call (as root; else by thread
    /// only). Costs the process about 2 µs per context switch, 5 µs with system calls: 2 to 5 % of a CPU at 10,000 switches per
    /// second. With -e wall, long waits also have stacks
    #[arg(long, conflicts_with_all = ["trigger", "every"])]
    pub(crate) off_cpu_exact: bool,
    /// Limit overhead to this share of one CPU, e.g. 2%. nodespy lowers the sampling rate to stay under it, reweights samples
    /// and reports doing so
    #[arg(long, value_name = "PERCENT", value_parser = parse_overhead)]
    pub(crate) max_overhead: Option<f64>,
    /// Leave out child processes
    #[arg(long)]
    pub(crate) no_subprocesses: bool,
    /// Exit with the command's exit status
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
    /// perf events where permitted, else the inspector
    Auto,
    /// perf events: JavaScript, C++, libuv and kernel frames in one stack
    Perf,
    /// V8's own profiler, through the inspector: JavaScript only, no privileges needed
    Inspector,
    /// perf events and V8's profiler at once, to compare them
    Both,
}

/// Who names JavaScript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Names {
    /// V8's heap, then the perf map or jitdump if the process writes one
    Heap,
    /// Only the perf map or jitdump
    Map,
}
