//! What is compared with what, and the goals.

use std::path::PathBuf;

use crate::options::Options;

/// One input and the commands that do the same with it.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) input: PathBuf,
    /// How many samples the input holds, where memory is judged by them.
    pub(crate) samples: Option<u64>,
    /// nodespy first.
    pub(crate) contenders: Vec<Contender>,
}

/// One way to do it.
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    pub(crate) command: String,
    /// The program that must exist for it to run.
    program: PathBuf,
    /// What part of its CPU time nodespy may take.
    pub(crate) goal: Option<f64>,
}

impl Contender {
    pub(crate) fn is_installed(&self) -> bool {
        self.program.exists()
    }
}

impl Case {
    pub(crate) fn input_megabytes(&self) -> f64 {
        std::fs::metadata(&self.input).map_or(0.0, |metadata| metadata.len() as f64 / 1e6)
    }
}

/// Every case.
pub(crate) fn all(options: &Options) -> Vec<Case> {
    vec![
        perf_data(options, "perf.data to SVG, small", "bld-999", 0.10),
        perf_data(options, "perf.data to SVG, large", "bld-10k", 0.08),
        perf_data(options, "perf.data to SVG, 1 GB", "bld-1GB", 0.08),
        perf_script(options),
        folded(options),
        cpuprofile(options),
        v8_log(options),
    ]
}

/// Writes commands with the paths of one run.
struct Writer<'a> {
    options: &'a Options,
    input: PathBuf,
}

impl<'a> Writer<'a> {
    fn new(options: &'a Options, file: &str) -> Self {
        let input = std::path::absolute(options.inputs.join(file)).expect("the folder exists");
        Self { options, input }
    }

    /// A contender whose command has IN, OUT and BIN filled in.
    fn contender(
        &self,
        name: &'static str,
        program: &str,
        line: &str,
        goal: Option<f64>,
    ) -> Contender {
        let program = match program {
            "nodespy" => self.options.nodespy.clone(),
            program if program.starts_with('/') => program.into(),
            program => self.options.peers.join(program),
        };
        let program = std::path::absolute(program).expect("a current folder");
        let peers = std::path::absolute(&self.options.peers).expect("a current folder");
        let command = line
            .replace("IN", &quoted(&self.input))
            .replace("OUT", &quoted(&self.options.output))
            .replace("PROGRAM", &quoted(&program))
            .replace("PEERS", &quoted(&peers));
        Contender {
            name,
            command,
            program,
            goal,
        }
    }
}

fn quoted(path: &std::path::Path) -> String {
    format!("'{}'", path.display())
}

fn perf_data(options: &Options, name: &'static str, file: &str, goal: f64) -> Case {
    let writer = Writer::new(options, &format!("{file}.perf.data"));
    let samples = std::fs::read_to_string(options.inputs.join(format!("{file}.samples")))
        .ok()
        .and_then(|text| text.trim().parse().ok());
    Case {
        name,
        samples,
        contenders: vec![
            writer.contender("nodespy", "nodespy", "PROGRAM convert IN OUT/nodespy.svg", None),
            writer.contender(
                "perf script | inferno",
                "bin/inferno-flamegraph",
                "perf script --no-inline -i IN | PEERS/bin/inferno-collapse-perf | PROGRAM > OUT/inferno.svg",
                Some(goal),
            ),
            writer.contender(
                "samply import (no C++ names)",
                "bin/samply",
                "PROGRAM import --save-only --no-open -o OUT/samply.json IN",
                Some(0.5),
            ),
        ],
        input: writer.input,
    }
}

fn perf_script(options: &Options) -> Case {
    let writer = Writer::new(options, "bld-999.script.txt");
    Case {
        name: "perf script text to folded",
        samples: None,
        contenders: vec![
            writer.contender(
                "nodespy",
                "nodespy",
                "PROGRAM collapse IN > OUT/nodespy.folded",
                None,
            ),
            writer.contender(
                "inferno-collapse-perf -n 1",
                "bin/inferno-collapse-perf",
                "PROGRAM -n 1 IN > OUT/inferno.folded",
                Some(0.25),
            ),
        ],
        input: writer.input,
    }
}

fn folded(options: &Options) -> Case {
    let writer = Writer::new(options, "bld-999.folded");
    Case {
        name: "folded to SVG",
        samples: None,
        contenders: vec![
            writer.contender(
                "nodespy",
                "nodespy",
                "PROGRAM flamegraph IN > OUT/nodespy.svg",
                None,
            ),
            writer.contender(
                "inferno-flamegraph",
                "bin/inferno-flamegraph",
                "PROGRAM IN > OUT/inferno.svg",
                Some(0.5),
            ),
        ],
        input: writer.input,
    }
}

fn cpuprofile(options: &Options) -> Case {
    let writer = Writer::new(options, "bld.cpuprofile");
    Case {
        name: ".cpuprofile to HTML",
        samples: None,
        contenders: vec![
            writer.contender("nodespy", "nodespy", "PROGRAM convert IN OUT/nodespy.html", None),
            writer.contender(
                "0x --visualize-cpu-profile",
                "node_modules/0x/cmd.js",
                "cd OUT && rm -rf 0x && mkdir 0x && node --stack-size=4000 PROGRAM --output-dir 0x --visualize-cpu-profile IN",
                Some(0.12),
            ),
        ],
        input: writer.input,
    }
}

fn v8_log(options: &Options) -> Case {
    let writer = Writer::new(options, "bld.v8.log");
    Case {
        name: "--prof log to SVG",
        samples: None,
        contenders: vec![
            writer.contender(
                "nodespy",
                "nodespy",
                "PROGRAM convert IN OUT/nodespy.svg",
                None,
            ),
            // It opens what it has drawn in a browser, where there is one.
            writer.contender(
                "--preprocess, flamebearer 1",
                "node_modules/flamebearer/bin/flamebearer",
                "cd OUT && node --prof-process --preprocess -j IN > preprocessed.json && \
                 BROWSER=true node PROGRAM < preprocessed.json",
                Some(0.01),
            ),
        ],
        input: writer.input,
    }
}
