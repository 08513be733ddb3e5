//! What is known of a process beyond its name: where it ran, as what, in which version.

use crate::text::printable;

/// The words labels go by. Others may come from elsewhere.
pub mod label_key {
    /// The application: pm2's name for it, its package, else its script.
    pub const APP: &str = "app";
    /// The version in the application's package.json.
    pub const VERSION: &str = "version";
    /// The commit that is checked out where the application is.
    pub const COMMIT: &str = "commit";
    /// The folder of the application, as the process sees it.
    pub const FOLDER: &str = "folder";
    /// The name of the container.
    pub const CONTAINER: &str = "container";
    /// The id of the container.
    pub const CONTAINER_ID: &str = "container-id";
    /// The image of the container.
    pub const IMAGE: &str = "image";
    /// The pod.
    pub const POD: &str = "pod";
    /// The namespace of the pod.
    pub const NAMESPACE: &str = "namespace";
    /// pm2's name for the application.
    pub const PM2: &str = "pm2";
    /// The number in `pm2 list`.
    pub const PM2_ID: &str = "pm2-id";
    /// Which worker of a cluster it is, from 1.
    pub const WORKER: &str = "worker";
    /// Its number inside its container.
    pub const INNER_PID: &str = "inner-pid";
    /// The version of Node.
    pub const NODE: &str = "node";
    /// What runs its JavaScript where that is not Node: `Bun 1.4.4`.
    pub const RUNTIME: &str = "runtime";
    /// When it started, in universal time.
    pub const STARTED: &str = "started";
    /// How many CPUs its control group lets it use.
    pub const CPU_QUOTA: &str = "cpu-quota";
    /// Of a sample: the route of the request it was taken in.
    pub const ROUTE: &str = "route";
    /// Of a sample: the trace of OpenTelemetry that it was taken in.
    pub const TRACE_ID: &str = "trace_id";
    /// Of a sample: the span of that trace.
    pub const SPAN_ID: &str = "span_id";
    /// Of a sample: what the thread was doing, such as running or waiting.
    pub const STATE: &str = "state";
    /// Of a sample: what the thread was waiting for.
    pub const WAIT: &str = "wait";
}

/// The labels of a process or a sample, by key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Labels {
    rows: Vec<(String, String)>,
}

impl Labels {
    /// How many there can be; more are left out.
    pub const MAX: usize = 64;
    /// How many characters of a value are kept.
    pub const MAX_VALUE_CHARS: usize = 512;
    pub(crate) const EMPTY: Self = Self { rows: Vec::new() };

    /// Sets a label, made safe to show; an empty value is none.
    pub fn set(&mut self, key: &str, value: impl AsRef<str>) {
        self.set_text(key, value.as_ref());
    }

    fn set_text(&mut self, key: &str, value: &str) {
        let value: String = printable(value)
            .chars()
            .take(Self::MAX_VALUE_CHARS)
            .collect();
        let key = printable(key).into_owned();
        match self.rows.binary_search_by(|(known, _)| known.cmp(&key)) {
            _ if value.is_empty() || key.is_empty() => {}
            Ok(position) => self.rows[position].1 = value,
            Err(position) if self.rows.len() < Self::MAX => {
                self.rows.insert(position, (key, value));
            }
            Err(_) => {}
        }
    }

    /// Sets a label if there is a value.
    pub fn set_if_any(&mut self, key: &str, value: Option<impl AsRef<str>>) {
        if let Some(value) = value {
            self.set(key, value);
        }
    }

    /// The value of a label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self
            .rows
            .binary_search_by(|(known, _)| known.as_str().cmp(key));
        found.ok().map(|position| self.rows[position].1.as_str())
    }

    /// Takes a label away.
    pub fn remove(&mut self, key: &str) {
        self.rows.retain(|(known, _)| known != key);
    }

    /// Every label, in the order of their keys.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.rows
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The labels that both have in common.
    pub fn shared_with(&self, other: &Self) -> Self {
        let is_shared = |(key, value): &&(String, String)| other.get(key) == Some(value);
        Self {
            rows: self.rows.iter().filter(is_shared).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_kept_by_key_and_safe_to_show() {
        let mut labels = Labels::default();
        labels.set(label_key::WORKER, "2");
        labels.set(label_key::CONTAINER, "web\x1b[2J");
        labels.set(label_key::POD, "");
        labels.set(label_key::WORKER, "3");
        labels.set_if_any(label_key::IMAGE, None::<&str>);
        let all: Vec<(&str, &str)> = labels.iter().collect();
        assert_eq!(all, [("container", "web\u{fffd}[2J"), ("worker", "3")]);
        assert_eq!(labels.get("worker"), Some("3"));
        assert_eq!(labels.get("pod"), None);
    }

    #[test]
    fn neither_values_nor_their_number_are_endless() {
        let mut labels = Labels::default();
        labels.set("long", "x".repeat(100_000));
        assert_eq!(labels.get("long").unwrap().len(), Labels::MAX_VALUE_CHARS);
        (0..1000).for_each(|number| labels.set(&number.to_string(), "x"));
        assert_eq!(labels.iter().len(), Labels::MAX);
    }
}
