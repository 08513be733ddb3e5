//! Every argument, declared in one place.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

mod diff;
mod flamegraph;
mod flight;
mod query;
mod reading;
mod showing;
mod target;
mod values;

pub(crate) use diff::{CiArgs, ComparingArgs, DiffArgs, DiffFormat, FailOn, with_after};
pub(crate) use flamegraph::{DifffoldedArgs, End, FlamegraphArgs, StackArgs};
pub(crate) use flight::FlightArgs;
pub(crate) use query::QueryArgs;
pub(crate) use reading::ReadArgs;
pub(crate) use showing::ShowArgs;
pub(crate) use target::TargetArgs;
use values::{parse_duration, parse_interval};

/// A CPU profiler for Node.js on Linux: one command, one picture.
#[derive(Debug, Parser)]
#[command(
    version,
    about,
    after_help = "\
Examples:
  nodespy                              list the Node processes of this machine
  nodespy record -p 1234 -d 30         record a running one for 30 seconds
  nodespy record -- node app.js        start one and record it
  nodespy view nodespy-app-….html      look at a recording again

Exit codes: 0 done, 1 could not, 2 misused, 3 not permitted, 4 target gone, 5 no samples,
10 regression, 11 suspected regression"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) list: ListArgs,
    /// Log what is done (repeat for more)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the Node processes of this machine (what bare `nodespy` does)
    List(ListArgs),
    /// Record a running process, or start one and record it
    Record(RecordArgs),
    /// Print every thread's stack right now
    Dump(DumpArgs),
    /// Watch live where the CPU time goes
    Top(TopArgs),
    /// List, live, each time an event loop is blocked, and by which function
    Stalls(StallsArgs),
    /// Write the output of a recording that was killed, from its journal
    Recover(RecoverArgs),
    /// Open a recording in the browser
    View(ViewArgs),
    /// Turn a recording into another format
    Convert(ConvertArgs),
    /// Print what a recording says, as text, Markdown or JSON
    Report(ReportArgs),
    /// Ask a recording a question: top 10 self where package = lodash by line
    Query(QueryArgs),
    /// Compare two sets of recordings: what is slower, and how sure that is
    Diff(Box<DiffArgs>),
    /// Record a command several times and compare it with an earlier state: a gate for CI
    Ci(Box<CiArgs>),
    /// Fold the stacks of `perf script` text, in place of stackcollapse-perf.pl
    Collapse(CollapseArgs),
    /// Draw folded stacks, or any recording, as flamegraph.pl does
    Flamegraph(Box<FlamegraphArgs>),
    /// Compare two sets of folded stacks, as difffolded.pl does
    Difffolded(DifffoldedArgs),
    /// Close the inspector of a process when standard input ends
    #[command(hide = true)]
    CloseAbandoned(CloseAbandonedArgs),
    /// Check what works here, and print the command that fixes what doesn't
    Check(CheckArgs),
    /// List the events that can be recorded here, and why the others can't
    Events(EventsArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Refresh every two seconds, until Ctrl-C
    #[arg(long)]
    pub(crate) watch: bool,
}

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
    /// sched:sched_switch, uprobe:node:uv_fs_open (`nodespy events` lists them)
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
    /// Leave out the async functions that await what runs: stacks start at the microtask
    #[arg(long)]
    pub(crate) no_async: bool,
    /// Say which lines of JavaScript submit the jobs of libuv's pool. Sets breakpoints in the program while it records, two
    /// in libuv, which take 5 µs a job; needs root and a running process
    #[arg(long)]
    pub(crate) pool_submitters: bool,
    /// Measure each pause of V8's garbage collector: how many, how long together, the longest. Sets four breakpoints in the
    /// program while it records, which take 8 µs a pause; needs root and a running process
    #[arg(long)]
    pub(crate) gc_pauses: bool,
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

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy dump -p 1234                 what is it doing, and why is it stuck?
  nodespy dump -p 1234 --nonblocking   the same without stopping any thread
  nodespy dump -p 1234 --json | jq '.processes[].threads[0].frames[0]'

Each thread is stopped for some 50 µs, one after the other; how long is printed.")]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Stop no thread: waiting ones are read as they wait, running ones sampled for 200 ms
    #[arg(long)]
    pub(crate) nonblocking: bool,
    /// Leave out child processes
    #[arg(long)]
    pub(crate) no_subprocesses: bool,
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

#[derive(Debug, Args)]
pub(crate) struct CloseAbandonedArgs {
    /// The process
    pub(crate) pid: u32,
    /// When it started, in clock ticks since boot
    pub(crate) start_time: u64,
    /// What it listened on before its inspector was opened
    pub(crate) listeners: Vec<std::net::SocketAddr>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy events                       what `nodespy record -e` takes on this machine
  nodespy events openat                the tracepoints with openat in their names
  nodespy record -e page-faults/period=10/ -p 1234
  nodespy record -e cpu,uprobe:node:uv_fs_open -p 1234")]
pub(crate) struct EventsArgs {
    /// Only events whose names contain this; also lists tracepoints
    #[arg(value_name = "TEXT")]
    pub(crate) pattern: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Who names JavaScript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Names {
    /// V8's heap, then perf map or jitdump where the process has one
    Heap,
    /// Perf map or jitdump only
    Map,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy top -p 1234                  s, t, n sort; w window; / filter; r record; ? help; q quit
  nodespy top -p 1234 -d 10 --lines    a table every two seconds, for ten seconds")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Samples per second and thread
    #[arg(short = 'F', long, visible_short_alias = 'r', value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rate: u32,
    /// How long: 30, 30s, 500ms, 2m [default: until q, Ctrl-C or the end of the target]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Print tables instead of using the whole terminal (what happens anyway when there is none)
    #[arg(long)]
    pub(crate) lines: bool,
    /// Leave out child processes
    #[arg(long)]
    pub(crate) no_subprocesses: bool,
    /// Show functions where they run, not where a source map says they were written
    #[arg(long)]
    pub(crate) no_source_maps: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy stalls -p 1234                  a line for each 200 ms or more
  nodespy stalls -p 1234 --over 50ms -d 60

A line has when it started, from the start of this command, how long it lasted at least, the process, and
the function that most of it is charged to, with what that waited for where it did not run. A loop is
known once it was seen in poll: one that never gets there is what `nodespy dump` is for.")]
pub(crate) struct StallsArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// What counts: the event loop has not returned to poll for as long
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = parse_duration)]
    pub(crate) over: Duration,
    /// How long: 30, 30s, 500ms, 2m [default: until Ctrl-C or the end of the target]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
After its first five seconds a recording keeps what it has seen in OUTPUT.journal, a second at a time, and
removes it once the output is written. When nodespy is killed, or the machine is, the journal stays.

Example:
  nodespy recover out.nspy.journal")]
pub(crate) struct RecoverArgs {
    /// The journal, OUTPUT.journal
    pub(crate) journal: PathBuf,
    /// The file to write; `-` for standard output [default: the output it is the journal of]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The output's format, if its extension doesn't say
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// The source map of a recorded script, or a folder with such, found by the script's name; may
    /// be repeated
    #[arg(long, value_name = "FILE|FOLDER")]
    pub(crate) source_maps: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy view out.nspy
  nodespy view after.nspy --base before.nspy")]
pub(crate) struct ViewArgs {
    /// The recording: .nspy, .html, perf.data or folded stacks; `-` for standard input
    pub(crate) file: PathBuf,
    /// What to compare with: another recording, of any format
    #[arg(long, value_name = "FILE")]
    pub(crate) base: Option<PathBuf>,
    /// Embed the JavaScript source, for the page to show; off by default, as code is private
    #[arg(long)]
    pub(crate) embed_source: bool,
    /// Only print the address
    #[arg(long)]
    pub(crate) no_open: bool,
    /// The port to serve on (always 127.0.0.1) [default: any free one]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    pub(crate) port: u16,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    /// Only these processes of the recording, separated by commas
    #[arg(
        long,
        value_name = "PID",
        value_delimiter = ',',
        help_heading = "Showing"
    )]
    pub(crate) pid: Vec<u32>,
}

#[derive(Debug, Args)]
#[command(after_help = format!("\
Examples:
  nodespy convert out.nspy out.folded
  nodespy convert out.html out.svg --only js --fold deps
  nodespy convert after.nspy diff.html --base before.nspy
  nodespy convert --to text out.nspy - --time 3s..10s

{}", crate::format_list::help()))]
pub(crate) struct ConvertArgs {
    /// The recording: .nspy, .html, perf.data or folded stacks; `-` for standard input
    pub(crate) input: PathBuf,
    /// Where to write; `-` for standard output
    pub(crate) output: PathBuf,
    /// The output's format, if its extension doesn't say (listed below)
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,
    /// What to compare with: another recording, of any format; an HTML page then shows the difference
    #[arg(long, value_name = "FILE")]
    pub(crate) base: Option<PathBuf>,
    /// Embed the JavaScript source, for the page to show; off by default, as code is private
    #[arg(long)]
    pub(crate) embed_source: bool,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    /// Only these processes of the recording, separated by commas
    #[arg(
        long,
        value_name = "PID",
        value_delimiter = ',',
        help_heading = "Showing"
    )]
    pub(crate) pid: Vec<u32>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy report out.nspy
  nodespy report out.nspy --format md --only js > report.md
  nodespy report after.nspy --base before.nspy
  nodespy report isolate-0x…-v8.log    what `node --prof-process` prints
  nodespy convert in.html - --to nspy | nodespy report -")]
pub(crate) struct ReportArgs {
    /// The recording: any format nodespy reads; `-` for standard input
    pub(crate) file: PathBuf,
    /// How to print it [default: prof for a V8 log, else text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<ReportFormat>,
    /// What to compare with: another recording, of any format. `nodespy diff` compares several
    #[arg(long, value_name = "FILE")]
    pub(crate) base: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
    /// Only these processes of the recording, separated by commas
    #[arg(
        long,
        value_name = "PID",
        value_delimiter = ',',
        help_heading = "Showing"
    )]
    pub(crate) pid: Vec<u32>,
}

#[derive(Debug, Args)]
#[command(
    infer_long_args = true,
    after_help = "\
Examples:
  perf script | nodespy collapse --all | nodespy flamegraph > out.svg
  nodespy collapse --event-filter=cycles:u stacks.txt > out.folded
  perf script | nodespy collapse --focus '^parse' --fold deps > parse.folded

The output is stackcollapse-perf.pl's, line by line; with a switch of the last group it is what
`nodespy convert FILE - --to folded` writes. --pid needs text with the process:
  perf script -F comm,pid,tid,cpu,time,event,ip,sym,dso"
)]
pub(crate) struct CollapseArgs {
    /// `perf script` text, one file after the other, or one file of any other format that nodespy
    /// reads [default: standard input]
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Where to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Put the process's number after its name
    #[arg(long)]
    pub(crate) pid: bool,
    /// Put the process's and the thread's number after the name
    #[arg(long)]
    pub(crate) tid: bool,
    /// Mark the kernel's functions with `_[k]`
    #[arg(long)]
    pub(crate) kernel: bool,
    /// Mark functions compiled at run time with `_[j]`
    #[arg(long)]
    pub(crate) jit: bool,
    /// Mark both
    #[arg(long)]
    pub(crate) all: bool,
    /// Tell the addresses of functions that have no name
    #[arg(long)]
    pub(crate) addrs: bool,
    /// Show inlined functions, by asking addr2line
    #[arg(long)]
    pub(crate) inline: bool,
    /// Show the source lines of --inline
    #[arg(long)]
    pub(crate) context: bool,
    /// Read source lines, from text of `perf script -F+srcline`
    #[arg(long)]
    pub(crate) srcline: bool,
    /// The event to count [default: the first]
    #[arg(long, value_name = "EVENT")]
    pub(crate) event_filter: Option<String>,
    /// Leave out the callers of a function; may be repeated
    #[arg(long, value_name = "FUNCTION")]
    pub(crate) skip_after: Vec<String>,
    /// Leave arguments, quotes and semicolons in names
    #[arg(long, overrides_with = "tidy_generic")]
    pub(crate) no_tidy_generic: bool,
    #[arg(long, hide = true, overrides_with = "no_tidy_generic")]
    tidy_generic: bool,
    /// Leave the L before Java's classes
    #[arg(long, overrides_with = "tidy_java")]
    pub(crate) no_tidy_java: bool,
    #[arg(long, hide = true, overrides_with = "no_tidy_java")]
    tidy_java: bool,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}

/// The ways to print a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ReportFormat {
    /// The summary that a recording ends with
    Text,
    /// Markdown, for issues and chats
    Md,
    /// JSON for scripts and language models, described in docs/json.md
    Json,
    /// The sections of `node --prof-process`
    Prof,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy check                        this machine and these rights
  nodespy check -c web                 a container's Node.js, and how to record it")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }
}
