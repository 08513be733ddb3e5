//! The page's script, run by Node without a page: it must read and count as the model does.

use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use crate::golden::check;

/// Prints the tree, the weights and the shares of the recording in `process.argv[2]`.
const PRINT: &str = r#"
const file = require("fs").readFileSync(process.argv[2]);
decodeRecording([file.subarray(0, 300).toString("base64"), file.subarray(300).toString("base64")]).then((profile) => {
  const lines = [];
  const tree = treeOf(profile, new Uint8Array(profile.threads.length).fill(1), true);
  for (let node = 0; node < tree.size; node++) {
    const tier = TIER_LABELS[tree.tier[node]];
    lines.push("  ".repeat(tree.depth[node]) + [nameOf(profile, tree.fn[node]),
      placeOf(profile, tree.fn[node]), categoryOf(profile, tree.fn[node]).label, tier,
      tree.isInlined[node] ? "inlined" : ""].filter(Boolean).join(" ")
      + ` | ${tree.start[node]} + ${tree.total[node]}, self ${tree.self[node]}`);
  }
  const { self, total } = functionWeights(tree, profile.functions.name.length);
  for (const fn of total.keys()) lines.push(`${nameOf(profile, fn)}: self ${self[fn]}, total ${total[fn]}`);
  lines.push(JSON.stringify(sharesOf(tree, profile)));
  const hits = findFunctions(profile, "cart|scav", true);
  lines.push(`matched ${matchedWeight(tree, hits, 0)}`);
  const pool = treeOf(profile, Uint8Array.of(0, 1), true);
  lines.push(`second thread ${pool.total[0]}`);
  lines.push(JSON.stringify(profile.threads), JSON.stringify(profile.processes), JSON.stringify(profile.about));
  console.log(lines.join("\n"));
});
"#;

#[test]
fn golden_script_counts_as_the_model_does() {
    for fixture in ["nspy/v1-small.nspy", "nspy/v2-small.nspy"] {
        check_script(fixture);
    }
}

fn check_script(fixture: &str) {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let parts = ["decode.js", "count.js", "wording.js"]
        .map(|name| std::fs::read_to_string(crate_folder.join("assets").join(name)).unwrap());
    let output = Command::new("node")
        .arg("-e")
        .arg(format!("{}{PRINT}", parts.concat()))
        .arg("--")
        .arg("unused")
        .arg(crate_folder.join("../../fixtures").join(fixture))
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            assert!(
                std::env::var_os("NODESPY_REQUIRE_LIVE").is_none(),
                "this test needs node"
            );
            return;
        }
        Err(error) => panic!("{error}"),
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    check(
        "view/v1-small.tree.txt",
        &String::from_utf8(output.stdout).unwrap(),
    );
}
