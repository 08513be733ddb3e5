//! The page's own reader and counter, run by Node as the page's worker would run it: it must read
//! what we write, and count it as it is.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use nodespy_model::{FunctionIndex, Profile};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use crate::sample::{any_profile, small_with_sources, written};
use crate::skip::skip;

/// Loads the viewer as a worker and asks it for the tree of each recording, given as a line of
/// hexadecimal bytes: names, then nodes as paths of function rows with their weights.
const ASK: &str = r#"
const waiting = new Map();
globalThis.postMessage = (reply) => waiting.get(reply.id)(reply);
require("vm").runInThisContext(require("fs").readFileSync(process.argv[1], "utf8"));
let id = 0;
const ask = (kind, ask) => new Promise((resolve, reject) => {
  waiting.set(++id, (reply) => (reply.error ? reject(new Error(reply.error)) : resolve(reply.answer)));
  onmessage({ data: { id, kind, ask } });
});
const selection = { event: 0, threads: null, only: null, isByState: false, range: null, compare: null, hidden: [], hasInternals: true, transforms: [], order: "heavy" };
(async () => {
  for (const line of require("fs").readFileSync(0, "utf8").split("\n").filter(Boolean)) {
    // In two chunks, as a long recording comes; three bytes make four letters.
    const file = Buffer.from(line, "hex");
    const half = Math.floor(file.length / 6) * 3;
    for (const part of [file.subarray(0, half), file.subarray(half)]) {
      await ask("chunks", { of: "recording", chunks: [part.toString("base64")] });
    }
    const { names, samples, sources } = await ask("open", { subsystemOf: "" });
    const { tree } = await ask("tree", { selection });
    const functions = Array.from(names.functions.name, (name, row) => [names.texts.get(name), names.functions.line[row]]);
    const nodes = [];
    for (let node = 1; node < tree.size; node++) {
      const path = [];
      for (let at = node; at > 0; at = tree.parent[at]) path.unshift(tree.fn[at]);
      nodes.push([path.join(">"), tree.total[node], tree.self[node]]);
    }
    console.log(JSON.stringify({ samples, functions, nodes, sources: sources.length, threads: names.threads.map((thread) => thread.name) }));
  }
})().catch((error) => { console.error(error); process.exitCode = 1; });
"#;

/// What the viewer says of each profile; none where there is no Node.
fn asked(profiles: &[Profile]) -> Option<Vec<serde_json::Value>> {
    let viewer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../view/assets/viewer.js");
    let started = Command::new("node")
        .args(["-e", ASK])
        .arg(viewer)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut node = match started {
        Ok(node) => node,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip("there is no node");
            return None;
        }
        Err(error) => panic!("{error}"),
    };
    let mut input = String::new();
    for profile in profiles {
        for byte in written(profile, "nspy") {
            write!(input, "{byte:02x}").unwrap();
        }
        input.push('\n');
    }
    node.stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = node.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    Some(
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

/// Total and self weight by path of functions, counted sample by sample.
fn counted(profile: &Profile) -> BTreeMap<String, (f64, f64)> {
    let mut nodes: BTreeMap<String, (f64, f64)> = BTreeMap::new();
    for sample in profile.samples.iter().filter(|sample| sample.weight > 0) {
        let mut path: Vec<String> = match sample.stack {
            Some(stack) => profile
                .frames_of(stack)
                .map(|frame| profile.frame(frame).function.0.to_string())
                .collect(),
            None => vec!["-2".to_owned()],
        };
        path.reverse();
        let weight = sample.weight as f64;
        for length in 1..=path.len() {
            let node = nodes.entry(path[..length].join(">")).or_default();
            node.0 += weight;
            if length == path.len() {
                node.1 += weight;
            }
        }
    }
    nodes
}

/// Numbers in a browser keep 53 bits.
fn is_near(left: f64, right: f64, whole: f64) -> bool {
    (left - right).abs() <= whole * 1e-6
}

#[test]
fn the_viewer_reads_and_counts_what_is_written() {
    let mut runner = TestRunner::deterministic();
    let mut profiles: Vec<Profile> = (0..60)
        .map(|_| any_profile().new_tree(&mut runner).unwrap().current())
        .collect();
    profiles.push(small_with_sources());
    let Some(answers) = asked(&profiles) else {
        return;
    };
    assert_eq!(answers.len(), profiles.len());
    for (profile, answer) in profiles.iter().zip(&answers) {
        assert_eq!(
            answer["samples"],
            serde_json::json!([profile.samples.len()])
        );
        assert_eq!(answer["sources"], profile.sources.len());
        let threads: Vec<&str> = profile
            .threads
            .iter()
            .map(|thread| thread.name.as_str())
            .collect();
        assert_eq!(answer["threads"], serde_json::json!(threads));
        for (row, function) in profile.functions.iter().enumerate() {
            let name = profile.name_of(FunctionIndex(row as u32));
            assert_eq!(
                answer["functions"][row],
                serde_json::json!([name, function.line])
            );
        }
        let expected = counted(profile);
        let whole = profile.total_weight() as f64;
        let nodes = answer["nodes"].as_array().unwrap();
        assert_eq!(nodes.len(), expected.len());
        for node in nodes {
            let (total, own) = expected[node[0].as_str().unwrap()];
            assert!(is_near(node[1].as_f64().unwrap(), total, whole), "{node}");
            assert!(is_near(node[2].as_f64().unwrap(), own, whole), "{node}");
        }
    }
}
