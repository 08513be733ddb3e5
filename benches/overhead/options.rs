//! What to measure.

use std::path::PathBuf;
use std::time::Duration;

use crate::Failure;

/// Shown for `--help`.
pub(crate) const HELP: &str = "\
Measure what a recording costs the watched program.

  --rounds N         rounds per rate (8)
  --items N          work items per window, about 0.7 ms each (3000)
  --rates A,B        samples per second (99,999,10000)
  --node PATH        the Node to watch (node)
  --nodespy PATH     the nodespy to measure (the one built beside this program)
  --inspector yes    instead: the inspector engine against node --cpu-prof
  --server PROGRAM   instead: a server of workloads/ under load, or a program, by events of threads and of CPUs
  --attached SECONDS with --server: how long a recording has run when it is measured (0.9): after 6 it has learned what it learns once
  --waiting PROGRAM  instead: what polls and the stall recorder cost beside an idle server of workloads/
  --memory SECONDS   instead: one long recording at the first rate, and its memory along the way
";

/// What to measure.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) rounds: usize,
    pub(crate) items: u32,
    pub(crate) rates_hz: Vec<u32>,
    pub(crate) node: String,
    pub(crate) nodespy: PathBuf,
    pub(crate) inspector: bool,
    pub(crate) memory: Option<Duration>,
    pub(crate) server: Option<PathBuf>,
    pub(crate) attached: Duration,
    pub(crate) waiting: Option<PathBuf>,
}

impl Options {
    /// Reads the command line; nothing when help was asked for.
    pub(crate) fn from_arguments(
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Option<Self>, Failure> {
        let mut options = Self {
            rounds: 8,
            items: 3000,
            rates_hz: vec![99, 999, 10_000],
            node: "node".to_owned(),
            nodespy: std::env::current_exe()?.with_file_name("nodespy"),
            inspector: false,
            memory: None,
            server: None,
            attached: Duration::from_millis(900),
            waiting: None,
        };
        while let Some(flag) = arguments.next() {
            if flag == "--help" || flag == "-h" {
                return Ok(None);
            }
            let value = arguments
                .next()
                .ok_or_else(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--rounds" => options.rounds = value.parse()?,
                "--items" => options.items = value.parse()?,
                "--rates" => {
                    options.rates_hz =
                        value.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                "--node" => options.node = value,
                "--nodespy" => options.nodespy = value.into(),
                "--inspector" => options.inspector = value == "yes",
                "--server" => options.server = Some(value.into()),
                "--attached" => options.attached = Duration::try_from_secs_f64(value.parse()?)?,
                "--waiting" => options.waiting = Some(value.into()),
                "--memory" => options.memory = Some(Duration::from_secs(value.parse()?)),
                _ => return Err(format!("unknown option {flag}; try --help").into()),
            }
        }
        if !options.nodespy.exists() {
            return Err(format!(
                "{} is missing; build it with: cargo build --release --bin nodespy",
                options.nodespy.display()
            )
            .into());
        }
        Ok(Some(options))
    }
}
