//! Running `nodespy collapse`.

use std::path::Path;

use crate::run::run_nodespy;

/// What nodespy prints for a file with some options.
pub(crate) fn collapsed(options: &[&str], file: &Path) -> String {
    let mut arguments = vec!["collapse"];
    arguments.extend(options);
    arguments.push(file.to_str().unwrap());
    let outcome = run_nodespy(&arguments);
    outcome.expect_code(0);
    outcome.stdout
}
