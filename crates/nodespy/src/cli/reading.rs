//! How a file is read.

use std::path::PathBuf;

use clap::Args;

/// How a file is read, the same for every command that reads one.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Reading")]
pub(crate) struct ReadArgs {
    /// The input's format, if its content doesn't say
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<String>,
    /// The event to show, if the input holds several: cycles, page-faults, alloc_space. A page
    /// includes the others too and can switch
    #[arg(long, value_name = "NAME")]
    pub(crate) event: Option<String>,
    /// The perf map or jitdump of a recorded process, matched by the pid in its name, or for the only
    /// process that needs one; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(crate) map: Vec<PathBuf>,
    /// A recorded binary or its debug file, or a folder of them, matched by build-id; may be
    /// repeated
    #[arg(long, value_name = "FILE|FOLDER")]
    pub(crate) symbols: Vec<PathBuf>,
    /// The root file system of the recorded processes, e.g. a container's
    #[arg(long, value_name = "FOLDER")]
    pub(crate) root: Option<PathBuf>,
    /// The /proc/kallsyms of the recorded kernel
    #[arg(long, value_name = "FILE")]
    pub(crate) kallsyms: Option<PathBuf>,
    /// Don't show inlined native functions
    #[arg(long)]
    pub(crate) no_inline: bool,
    /// The source map of a recorded script, or a folder of source maps, matched by the script's
    /// name; may be repeated
    #[arg(long, value_name = "FILE|FOLDER")]
    pub(crate) source_maps: Vec<PathBuf>,
    /// Whether sources that maps hold are taken along. Not an argument of its own, as not every
    /// command that reads a file has something to take them along in.
    #[arg(skip)]
    pub(crate) embed_source: bool,
    /// Whether what is written makes no difference between the frames of a function. Not an
    /// argument either: the format decides.
    #[arg(skip)]
    pub(crate) functions_only: bool,
    /// Whether other events than the one that is asked for are kept, after it. Not an argument
    /// either: a page can switch between them.
    #[arg(skip)]
    pub(crate) keeps_events: bool,
}

impl ReadArgs {
    /// The same, taking along the sources that maps hold if that is asked for.
    pub(crate) fn embedding(&self, embed_source: bool) -> Self {
        Self {
            embed_source,
            ..self.clone()
        }
    }
}
