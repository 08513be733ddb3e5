//! What to compare.

use std::path::PathBuf;

use crate::Failure;

/// Shown for `--help`.
pub(crate) const HELP: &str = "\
Compare nodespy with its peers on the same inputs.

  --inputs FOLDER    what benches/peers/inputs.sh made (target/peers/inputs)
  --peers FOLDER     what tools/peers.sh installed (target/peers)
  --nodespy PATH     the nodespy to measure (the one built beside this program)
  --rounds N         rounds (5)
  --only TEXT        only the cases whose name holds TEXT
  --strict yes       fail when a goal is missed
";

/// What to compare.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) inputs: PathBuf,
    pub(crate) peers: PathBuf,
    pub(crate) nodespy: PathBuf,
    pub(crate) output: PathBuf,
    pub(crate) rounds: usize,
    pub(crate) only: Option<String>,
    pub(crate) is_strict: bool,
}

impl Options {
    /// Reads the command line; nothing when help was asked for.
    pub(crate) fn from_arguments(
        mut arguments: impl Iterator<Item = String>,
    ) -> Result<Option<Self>, Failure> {
        let mut options = Self {
            inputs: "target/peers/inputs".into(),
            peers: "target/peers".into(),
            nodespy: std::env::current_exe()?.with_file_name("nodespy"),
            output: std::env::temp_dir().join(format!("nodespy-peers-{}", std::process::id())),
            rounds: 5,
            only: None,
            is_strict: false,
        };
        while let Some(flag) = arguments.next() {
            if flag == "--help" || flag == "-h" {
                return Ok(None);
            }
            let value = arguments
                .next()
                .ok_or_else(|| format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--inputs" => options.inputs = value.into(),
                "--peers" => options.peers = value.into(),
                "--nodespy" => options.nodespy = value.into(),
                "--rounds" => options.rounds = value.parse()?,
                "--only" => options.only = Some(value),
                "--strict" => options.is_strict = value == "yes",
                _ => return Err(format!("unknown option {flag}; try --help").into()),
            }
        }
        Ok(Some(options))
    }
}

impl Drop for Options {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.output);
    }
}
