//! Every argument, declared in one place.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use nodespy_analysis::Pattern;

mod agent;
mod diff;
mod flamegraph;
mod flight;
mod query;
mod reading;
mod record;
mod regressions;
mod serve;
mod showing;
mod store;
mod stores;
mod target;
mod values;

pub(crate) use agent::{AgentArgs, AgentEngineArg};
pub(crate) use diff::{CiArgs, ComparingArgs, DiffArgs, DiffFormat, FailOn, with_after};
pub(crate) use flamegraph::{DifffoldedArgs, End, FlamegraphArgs, StackArgs};
pub(crate) use flight::FlightArgs;
pub(crate) use query::QueryArgs;
pub(crate) use reading::ReadArgs;
pub(crate) use record::{Engine, Names, RecordArgs};
pub(crate) use regressions::{DeployArgs, DeployCommand, MarkArgs, RegressionsArgs};
pub(crate) use serve::ServeArgs;
pub(crate) use showing::ShowArgs;
pub(crate) use store::{ClickHouseArgs, InitArgs, StoreArg, StoreCommand, StoreCommandArgs};
pub(crate) use stores::StoreArgs;
pub(crate) use target::TargetArgs;
pub(crate) use values::{By, Push, PushKind, RequestSetting, TopBy};
use values::{parse_duration, parse_overhead};

/// Profile any running Node.js process on Linux, with no flags and no restart.
#[derive(Debug, Parser)]
#[command(
    version,
    long_version = crate::version::long(),
    about,
    after_help = "\
Examples:
  nodespy                              list the Node.js processes of this machine
  nodespy record -p 1234 -d 30         record a running one for 30 seconds
  nodespy record -- node app.js        start one and record it
  nodespy view nodespy-app-….html      open a recording again

Exit codes: 0 success, 1 failure, 2 usage error, 3 permission denied, 4 target exited,
5 no samples, 10 regression, 11 suspected regression"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) list: ListArgs,
    /// Log more (repeat for even more)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the Node.js processes of this machine (the default)
    List(ListArgs),
    /// Record a running process, or start one and record it
    Record(Box<RecordArgs>),
    /// Print every thread's stack right now
    Dump(DumpArgs),
    /// Show live where CPU time goes
    Top(TopArgs),
    /// Report each event loop stall as it happens, and the function that caused it
    Stalls(StallsArgs),
    /// Profile every Node.js process of this machine continuously
    Agent(Box<AgentArgs>),
    /// Serve the profiles that agents collected: web pages and an API
    Serve(ServeArgs),
    /// List functions that got slower since a deployment
    Regressions(RegressionsArgs),
    /// Record deployments in the store
    Deploy(DeployArgs),
    /// Manage a store in ClickHouse
    Store(StoreCommandArgs),
    /// Recover a recording that was killed, from its journal
    Recover(RecoverArgs),
    /// Open a recording in the browser
    View(ViewArgs),
    /// Convert a recording to another format
    Convert(ConvertArgs),
    /// Summarize a recording as text, Markdown or JSON
    Report(ReportArgs),
    /// Query a recording: top 10 self where package = lodash by line
    Query(QueryArgs),
    /// Compare two sets of recordings, with confidence intervals
    Diff(Box<DiffArgs>),
    /// Benchmark a command and compare it with a baseline, as a CI gate
    Ci(Box<CiArgs>),
    /// Fold the stacks of `perf script` text (replaces stackcollapse-perf.pl)
    Collapse(CollapseArgs),
    /// Draw folded stacks or a recording as an SVG (replaces flamegraph.pl)
    Flamegraph(Box<FlamegraphArgs>),
    /// Compare two sets of folded stacks (replaces difffolded.pl)
    Difffolded(DifffoldedArgs),
    /// Close the inspector of a process when standard input ends
    #[command(hide = true)]
    CloseAbandoned(CloseAbandonedArgs),
    /// Check what works here, and print the command that fixes what doesn't
    Check(CheckArgs),
    /// List the events that can be recorded here, and why the others can't
    Events(EventsArgs),
    /// Print a shell completion script
    Completions(CompletionsArgs),
    /// Write the man pages into a folder
    Man(ManArgs),
    /// Let a coding assistant profile processes, over the Model Context Protocol
    Mcp(McpArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  npx @modelcontextprotocol/inspector sudo nodespy mcp
  nodespy mcp --no-redact")]
pub(crate) struct McpArgs {
    /// Also show paths, users, HTTP routes and source text
    #[arg(long)]
    pub(crate) no_redact: bool,
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
  nodespy dump -p 1234                 what is it doing, why is it stuck?
  nodespy dump -p 1234 --nonblocking   without stopping any thread
  nodespy dump -p 1234 --pending       where is each pending async function suspended?
  nodespy dump -p 1234 --json | jq '.processes[].threads[0].frames[0]'

Threads are stopped one after the other, for about 50 µs each; the actual time is printed.")]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Don't stop threads: read waiting ones as they wait, sample running ones for 200 ms
    #[arg(long)]
    pub(crate) nonblocking: bool,
    /// Leave out child processes
    #[arg(long)]
    pub(crate) no_subprocesses: bool,
    /// Leave out async callers
    #[arg(long)]
    pub(crate) no_async: bool,
    /// Also list every pending async function, the line of its `await` and its async callers, by searching V8's heap
    ///
    /// Reads up to 1 GiB of memory while the process runs. Also lists functions that will never resume but have not been
    /// garbage-collected yet.
    #[arg(long)]
    pub(crate) pending: bool,
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
  nodespy events                       events that `nodespy record -e` accepts here
  nodespy events openat                tracepoints with openat in their names
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

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy completions bash > /etc/bash_completion.d/nodespy
  nodespy completions zsh > ~/.zfunc/_nodespy
  nodespy completions fish > ~/.config/fish/completions/nodespy.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy man /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// The folder; created if missing
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy top -p 1234                  s, t, n sort; w window; / filter; r record; ? help; q quit
  nodespy top -p 1234 -d 10 --lines    print a table every two seconds
  nodespy top -p 1234 --by route       CPU time by HTTP route
  nodespy top -p 1234 --route ^POST    only the functions that serve these requests
  nodespy top -p 1234 --store-key tenant --by tenant    by a value in AsyncLocalStorage")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Samples per second and thread
    #[arg(short = 'F', long, visible_short_alias = 'r', value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rate: u32,
    /// How long: 30, 30s, 500ms, 2m [default: until q, Ctrl-C or the end of the target]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// Limit overhead to this share of one CPU, e.g. 2%. nodespy lowers the sampling rate to stay under it, reweights samples
    /// and reports doing so
    #[arg(long, value_name = "PERCENT", value_parser = parse_overhead)]
    pub(crate) max_overhead: Option<f64>,
    /// Print tables instead of a full-screen display (the default without a terminal)
    #[arg(long)]
    pub(crate) lines: bool,
    /// Leave out child processes
    #[arg(long)]
    pub(crate) no_subprocesses: bool,
    /// Don't map functions to their sources with source maps
    #[arg(long)]
    pub(crate) no_source_maps: bool,
    /// What to group by: function, route, trace_id, or a --store-key
    #[arg(long, value_name = "WHAT", default_value = "function", value_parser = TopBy::parse)]
    pub(crate) by: TopBy,
    /// Only samples of requests whose route matches, e.g. 'GET /users' or '^POST'; repeat for any of several
    #[arg(long, value_name = "RE", value_parser = Pattern::parse)]
    pub(crate) route: Vec<Pattern>,
    /// Also find async callers and HTTP routes without eBPF: a reader thread per CPU pauses the sampled thread for about
    /// 100 µs per sample
    #[arg(long = "async", conflicts_with = "no_async")]
    pub(crate) reads_async: bool,
    /// Leave out async callers: stacks start at the microtask
    #[arg(long)]
    pub(crate) no_async: bool,
    /// Don't look for HTTP routes
    #[arg(long, conflicts_with = "route")]
    pub(crate) no_routes: bool,
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy stalls -p 1234                  print stalls of 200 ms or more
  nodespy stalls -p 1234 --over 50ms -d 60

Each line shows when the stall started (relative to the start of this command), its minimum length,
the process, and the function charged with most of it or, if it did not run, what it waited for. An
event loop is found when it polls: for one that never does, use `nodespy dump`.")]
pub(crate) struct StallsArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Report when the event loop has not returned to poll for this long
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = parse_duration)]
    pub(crate) over: Duration,
    /// How long: 30, 30s, 500ms, 2m [default: until Ctrl-C or the end of the target]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
A recording appends its samples to OUTPUT.journal and deletes it once the output is written. If nodespy is
killed or the machine goes down, the journal remains. With perf events it lacks the last second (up to ten
where naming takes long); a recording killed in its first second has none, without eBPF one killed in its
first five. With the inspector it lacks what V8 had not handed over yet, the last 10 to 60 seconds
(`record --slice`).

Examples:
  nodespy recover out.nspy.journal")]
pub(crate) struct RecoverArgs {
    /// The journal, OUTPUT.journal
    pub(crate) journal: PathBuf,
    /// The file to write; `-` for standard output [default: the recording's output]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The output's format, if its extension doesn't say
    #[arg(long, value_name = "FORMAT")]
    pub(crate) format: Option<String>,
    /// The source map of a recorded script, or a folder of source maps, matched by the script's
    /// name; may be repeated
    #[arg(long, value_name = "FILE|FOLDER")]
    pub(crate) source_maps: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy view out.nspy
  nodespy view after.nspy --base before.nspy")]
pub(crate) struct ViewArgs {
    /// The recording, in any format nodespy reads; `-` for standard input
    pub(crate) file: PathBuf,
    /// The recording to compare with, in any format
    #[arg(long, value_name = "FILE")]
    pub(crate) base: Option<PathBuf>,
    /// Embed the JavaScript source, so that the page can show it
    #[arg(long)]
    pub(crate) embed_source: bool,
    /// Print the URL without opening a browser
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
    /// The recording, in any format nodespy reads; `-` for standard input
    pub(crate) input: PathBuf,
    /// Where to write; `-` for standard output
    pub(crate) output: PathBuf,
    /// The output's format, if its extension doesn't say (listed below)
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<String>,
    /// The recording to compare with, in any format; an HTML page then shows the difference
    #[arg(long, value_name = "FILE")]
    pub(crate) base: Option<PathBuf>,
    /// Embed the JavaScript source, so that the page can show it
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
  nodespy report out.nspy --by route   CPU time by HTTP route, with the functions of each
  nodespy report isolate-0x…-v8.log    as `node --prof-process` prints it
  nodespy convert in.html - --to nspy | nodespy report -")]
pub(crate) struct ReportArgs {
    /// The recording, in any format nodespy reads; `-` for standard input
    pub(crate) file: PathBuf,
    /// The format [default: prof for a V8 log, else text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<ReportFormat>,
    /// What to list: the functions of the whole recording, or each route with its heaviest functions
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "base")]
    pub(crate) by: Option<By>,
    /// The recording to compare with, in any format; `nodespy diff` compares several
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

The output is identical to stackcollapse-perf.pl's; with an option of the last group it is that of
`nodespy convert FILE - --to folded`. --pid needs text with the process:
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
    /// Add the pid to the process name
    #[arg(long)]
    pub(crate) pid: bool,
    /// Add the pid and tid to the process name
    #[arg(long)]
    pub(crate) tid: bool,
    /// Mark kernel functions with `_[k]`
    #[arg(long)]
    pub(crate) kernel: bool,
    /// Mark JIT-compiled functions with `_[j]`
    #[arg(long)]
    pub(crate) jit: bool,
    /// Both --kernel and --jit
    #[arg(long)]
    pub(crate) all: bool,
    /// Include the addresses of unnamed functions
    #[arg(long)]
    pub(crate) addrs: bool,
    /// Show inlined functions, with addr2line
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
    /// Keep arguments, quotes and semicolons in names
    #[arg(long, overrides_with = "tidy_generic")]
    pub(crate) no_tidy_generic: bool,
    #[arg(long, hide = true, overrides_with = "no_tidy_generic")]
    tidy_generic: bool,
    /// Keep the L before Java classes
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
    /// The summary that `record` prints
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
  nodespy check                        this machine, with the privileges you have
  nodespy check -c web                 the Node.js processes of a container")]
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
