//! What axe finds: rules that a page must keep for people who use it by keyboard, by ear or enlarged.

use std::path::Path;

use serde_json::Value;

use super::open_file;
use super::shop::shop;
use crate::skip::skip;

const AXE: &str = "../view/ui/node_modules/axe-core/axe.min.js";

#[test]
fn axe_finds_no_serious_fault() {
    let Some(page) = open_file(&shop(1), "") else {
        return;
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(AXE);
    let axe = match std::fs::read_to_string(&path) {
        Ok(axe) => axe,
        Err(error) => {
            skip(&format!(
                "axe is not installed ({error}; npm ci in crates/view/ui)"
            ));
            return;
        }
    };
    let mut faults = Vec::new();
    for theme in ["light", "dark"] {
        for view in ["flame", "time", "sandwich", "top", "tree", "source"] {
            page.go(&format!("v={view}&theme={theme}&ov=threads"));
            page.browser.script(&axe);
            let found = page.browser.script(
                "return axe.run().then((result) => result.violations
                   .filter((rule) => ['serious', 'critical'].includes(rule.impact))
                   .map((rule) => rule.id + ': ' + rule.nodes.slice(0, 3).map((node) => node.html + ' ' + node.failureSummary).join(' | ')))",
            );
            let found = found.as_array().unwrap().iter().map(Value::to_string);
            faults.extend(found.map(|fault| format!("{theme} {view}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
