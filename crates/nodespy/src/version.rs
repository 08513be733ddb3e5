//! What `nodespy --version` says.

use std::sync::LazyLock;

use nodespy_symbolize::v8_facts;

/// The version, the commit it was built from where that is known, for which machine, and what it knows of V8.
pub(crate) fn long() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(text);
    &TEXT
}

fn text() -> String {
    let commit = option_env!("NODESPY_COMMIT").unwrap_or("unknown");
    let known = v8_facts::table().iter().map(|row| {
        let (major, minor) = row.version;
        format!("{major}.{minor} ({})", row.runtime)
    });
    format!(
        "{}\ncommit: {commit}\ntarget: {}\nV8: {}",
        env!("CARGO_PKG_VERSION"),
        env!("NODESPY_TARGET"),
        known.collect::<Vec<_>>().join(", ")
    )
}
