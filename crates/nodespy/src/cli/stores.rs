//! What is asked of the stores of AsyncLocalStorage.

use clap::Args;
use nodespy_model::label_key;
use nodespy_symbolize::StoreOptions;

/// Labels of samples that mean something else.
const TAKEN: [&str; 5] = [
    label_key::ROUTE,
    label_key::STATE,
    label_key::WAIT,
    label_key::TRACE_ID,
    label_key::SPAN_ID,
];

/// What is read of stores; nothing unless it is asked for.
#[derive(Debug, Args)]
pub(crate) struct StoreArgs {
    /// Label samples with their OpenTelemetry trace and span: trace_id, span_id
    #[arg(long)]
    traces: bool,
    /// Label samples with the string or integer that AsyncLocalStorage holds under this key, e.g. tenant; may be repeated
    #[arg(long = "store-key", value_name = "NAME", value_parser = parse_key)]
    store_keys: Vec<String>,
}

impl StoreArgs {
    pub(crate) fn options(&self) -> StoreOptions {
        let mut keys = self.store_keys.clone();
        keys.dedup();
        keys.truncate(StoreOptions::MAX_KEYS);
        StoreOptions {
            traces: self.traces,
            keys,
        }
    }
}

fn parse_key(name: &str) -> Result<String, String> {
    if name.is_empty() || name.len() > MAX_KEY_BYTES {
        return Err(format!("a name has 1 to {MAX_KEY_BYTES} bytes"));
    }
    match TAKEN.contains(&name) {
        true => Err(format!(
            "nodespy itself has a label {name}: see `nodespy record --help`"
        )),
        false => Ok(name.to_owned()),
    }
}

/// The longest name that is compared with those of properties.
const MAX_KEY_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_a_name_that_no_other_label_has() {
        assert_eq!(parse_key("tenant").as_deref(), Ok("tenant"));
        for name in ["", "route", "trace_id", &"x".repeat(33)] {
            assert!(parse_key(name).is_err(), "{name}");
        }
    }
}
