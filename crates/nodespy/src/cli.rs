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

pub(crate) use agent::AgentArgs;
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
pub(crate) use values::{By, Push, PushKind, TopBy};
use values::{parse_duration, parse_overhead};

/// A CPU profiler for Node.js on Linux: one command, one picture.
#[derive(Debug, Parser)]
#[command(
    version,
    long_version = crate::version::long(),
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
    Record(Box<RecordArgs>),
    /// Print every thread's stack right now
    Dump(DumpArgs),
    /// Watch live where the CPU time goes
    Top(TopArgs),
    /// List, live, each time an event loop is blocked, and by which function
    Stalls(StallsArgs),
    /// Sample every Node process of this machine all the time, into a store
    Agent(Box<AgentArgs>),
    /// Show what an agent has kept: a page of services over time, and an API
    Serve(ServeArgs),
    /// List what got slower since a deployment, from what agents have kept
    Regressions(RegressionsArgs),
    /// Tell the store of deployments
    Deploy(DeployArgs),
    /// Keep profiles in ClickHouse, when one machine is not enough
    Store(StoreCommandArgs),
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
    /// Print what completes commands and options in a shell
    Completions(CompletionsArgs),
    /// Write the man pages into a folder
    Man(ManArgs),
    /// Let a coding assistant profile processes, by the Model Context Protocol
    Mcp(McpArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  npx @modelcontextprotocol/inspector sudo nodespy mcp
  nodespy mcp --no-redact")]
pub(crate) struct McpArgs {
    /// Show command lines, paths and the words of HTTP routes too
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
  nodespy dump -p 1234                 what is it doing, and why is it stuck?
  nodespy dump -p 1234 --nonblocking   the same without stopping any thread
  nodespy dump -p 1234 --pending       what does each pending async function await?
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
    /// Leave out the async functions that await what runs, or what a thread waits for
    #[arg(long)]
    pub(crate) no_async: bool,
    /// Also list what every pending async function awaits, with its async callers, by searching V8's heap
    ///
    /// Up to 1 GiB of memory is read, while the process runs. Functions that will never be resumed, but that V8 has not
    /// collected yet, are listed too.
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
    /// The folder, which is made where it is missing
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy top -p 1234                  s, t, n sort; w window; / filter; r record; ? help; q quit
  nodespy top -p 1234 -d 10 --lines    a table every two seconds, for ten seconds
  nodespy top -p 1234 --by route       which requests the CPU time is for
  nodespy top -p 1234 --route ^POST    the functions of these requests alone
  nodespy top -p 1234 --store-key tenant --by tenant    what AsyncLocalStorage has under it")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Samples per second and thread
    #[arg(short = 'F', long, visible_short_alias = 'r', value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) rate: u32,
    /// How long: 30, 30s, 500ms, 2m [default: until q, Ctrl-C or the end of the target]
    #[arg(short, long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) duration: Option<Duration>,
    /// What watching may cost, of one CPU: nodespy and, by estimate, the watched processes together. Where it costs more,
    /// samples are taken less often and count for more, which is said: 2%
    #[arg(long, value_name = "PERCENT", value_parser = parse_overhead)]
    pub(crate) max_overhead: Option<f64>,
    /// Print tables instead of using the whole terminal (what happens anyway when there is none)
    #[arg(long)]
    pub(crate) lines: bool,
    /// Leave out child processes
    #[arg(long)]
    pub(crate) no_subprocesses: bool,
    /// Show functions where they run, not where a source map says they were written
    #[arg(long)]
    pub(crate) no_source_maps: bool,
    /// What rows are: function, route, trace_id, or a name that --store-key asks for
    #[arg(long, value_name = "WHAT", default_value = "function", value_parser = TopBy::parse)]
    pub(crate) by: TopBy,
    /// Count samples of requests whose route matches, such as 'GET /users' or '^POST'; may be repeated: any of them
    #[arg(long, value_name = "RE", value_parser = Pattern::parse)]
    pub(crate) route: Vec<Pattern>,
    /// Find async callers and HTTP routes where no eBPF program may run, too: a thread on each CPU reads them at every
    /// sample, and holds the sampled one for some 100 µs
    #[arg(long = "async", conflicts_with = "no_async")]
    pub(crate) reads_async: bool,
    /// Leave out the async functions that await what runs: stacks start at the microtask
    #[arg(long)]
    pub(crate) no_async: bool,
    #[command(flatten)]
    pub(crate) stores: StoreArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy stalls -p 1234                  a line for each 200 ms or more
  nodespy stalls -p 1234 --over 50ms -d 60

A line has when it started, from the start of this command, how long it lasted at least, the
process, and the function that most of it is charged to, with what that waited for where it did
not run. A loop is known once it was seen in poll: one that never gets there is what `nodespy
dump` is for.")]
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
  nodespy report out.nspy --by route   which requests the CPU time was for, and their functions
  nodespy report isolate-0x…-v8.log    what `node --prof-process` prints
  nodespy convert in.html - --to nspy | nodespy report -")]
pub(crate) struct ReportArgs {
    /// The recording: any format nodespy reads; `-` for standard input
    pub(crate) file: PathBuf,
    /// How to print it [default: prof for a V8 log, else text]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) format: Option<ReportFormat>,
    /// Print every route with its heaviest functions, instead of the functions of the whole recording
    #[arg(long, value_enum, value_name = "WHAT", conflicts_with = "base")]
    pub(crate) by: Option<By>,
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
