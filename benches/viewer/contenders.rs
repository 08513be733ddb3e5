//! The viewers, how their pages are made, and how a page shows that it is ready.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::profiles::Input;
use crate::{Failure, Options};

/// A viewer with a profile.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// The file that a reader opens.
    pub(crate) page: PathBuf,
    /// How the page is made, in order; nothing is made twice.
    commands: Vec<Vec<String>>,
    /// True in the page once there is a flame graph, and once everything is there.
    pub(crate) is_drawn: &'static str,
    pub(crate) is_ready: &'static str,
    /// The folder to serve, for a viewer that asks a server for its profile.
    pub(crate) serves: Option<PathBuf>,
}

impl Contender {
    /// Makes the page unless it is there.
    pub(crate) fn make(&self) -> Result<(), Failure> {
        if self.page.exists() && self.serves.is_none() && self.name != "nodespy" {
            return Ok(());
        }
        for command in &self.commands {
            let (program, arguments) = command.split_first().ok_or("an empty command")?;
            let status = Command::new(program)
                .args(arguments)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .map_err(|error| format!("{program}: {error}"))?;
            if !status.success() {
                return Err(format!("{program} ended with {status}").into());
            }
        }
        Ok(())
    }

    pub(crate) fn megabytes(&self) -> f64 {
        std::fs::metadata(&self.page).map_or(0.0, |file| file.len() as f64 / 1e6)
    }
}

/// Merges a V8 log as flamebearer's own command does, and writes its page without opening it.
const FLAMEBEARER: &str = "
const fs = require('fs');
const folder = process.argv[1];
const { v8logToStacks, mergeStacks } = require(folder);
const { names, stacks } = v8logToStacks(JSON.parse(fs.readFileSync(process.argv[2], 'utf8')));
const viz = fs.readFileSync(folder + '/viz.js', 'utf8');
const page = fs.readFileSync(folder + '/index.html', 'utf8')
  .split('<script src=\"viz.js\"></script>').join('<script>' + viz + '</script>')
  .split('/* BIN_SPLIT */').filter((_, at) => at % 2 === 0).join('')
  .split('/* BIN_PLACEHOLDER */').join('names = ' + JSON.stringify(names) + ';\\nlevels = '
    + JSON.stringify(mergeStacks(stacks)) + ';\\nnumTicks = ' + stacks.length + ';');
fs.writeFileSync(process.argv[3], page);
";

/// Every viewer for a profile, nodespy first.
pub(crate) fn all(options: &Options, input: &Input) -> Vec<Contender> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let nodespy = text(&options.nodespy);
    let beside = |extension: &str| input.recording.with_extension(extension);
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let packages = here.join("viewer/node_modules");
    let convert = |to: &str, path: &Path| {
        let words = ["convert", &text(&input.recording), &text(path), "--to", to];
        let words = words.iter().map(|word| (*word).to_owned());
        std::iter::once(nodespy.clone()).chain(words).collect()
    };
    let page = beside("html");
    let mut contenders = vec![Contender {
        name: "nodespy",
        commands: vec![convert("html", &page)],
        page,
        is_drawn: "document.body?.dataset.ready",
        is_ready: "document.body?.dataset.ready === 'yes' && document.body.dataset.busy !== 'true'",
        serves: None,
    }];
    let Some(cpuprofile) = &input.cpuprofile else {
        return contenders;
    };
    contenders.push(Contender {
        name: "speedscope",
        page: cpuprofile.clone(),
        commands: Vec::new(),
        // It names the page after the profile once it shows it.
        is_drawn: "document.title.endsWith('- speedscope')",
        is_ready: "document.title.endsWith('- speedscope')",
        serves: Some(packages.join("speedscope/dist/release")),
    });
    let (folded, picture) = (beside("folded"), beside("inferno.svg"));
    let inferno = here.join("../target/peers/bin/inferno-flamegraph");
    let draw = format!("{} {} > {}", text(&inferno), text(&folded), text(&picture));
    contenders.push(Contender {
        name: "inferno",
        commands: vec![
            convert("folded", &folded),
            vec!["sh".to_owned(), "-c".to_owned(), draw],
        ],
        page: picture,
        is_drawn: "document.readyState === 'complete'",
        is_ready: "document.readyState === 'complete'",
        serves: None,
    });
    let (log, page) = (beside("v8.json"), beside("flamebearer.html"));
    contenders.push(Contender {
        name: "flamebearer",
        commands: vec![
            convert("v8-preprocessed", &log),
            ["node", "--max-old-space-size=8000", "-e", FLAMEBEARER]
                .into_iter()
                .map(str::to_owned)
                .chain([text(&packages.join("flamebearer")), text(&log), text(&page)])
                .collect(),
        ],
        page,
        is_drawn: "document.readyState === 'complete'",
        is_ready: "document.readyState === 'complete'",
        serves: None,
    });
    contenders
}
