//! The arguments of `nodespy query`.

use std::path::PathBuf;

use clap::Args;

use super::{ReadArgs, ShowArgs};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nodespy query out.nspy 'top 10 self'
  nodespy query out.nspy 'top 10 self where package = \"lodash\" and thread = main by line'
  nodespy query out.nspy 'total where package = deps and share >= 1% by package'
  nodespy query perf.data 'samples under parse by caller' --json

A query: [top N] self|total|samples [where CONDITION] [under FUNCTION] [by FIELD]
  FIELD      function, caller, line, file, package, subsystem, category, tier, thread, process, label.KEY, context
  CONDITION  FIELD =|!= VALUE, FIELD ~|!~ REGEX, line|time|share <|<=|>|>= VALUE, under FUNCTION;
             joined by and, or, not, ( )
See docs/query.md for the language and docs/json.md for the JSON.")]
pub(crate) struct QueryArgs {
    /// The recording: any format nodespy reads; `-` for standard input
    pub(crate) file: PathBuf,
    /// The query
    pub(crate) query: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) show: ShowArgs,
}
