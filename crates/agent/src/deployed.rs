//! What is deployed: the labels of a process as a store keeps them.

use nodespy_model::{Labels, label_key};
use nodespy_store::{HOST, MAX_LABEL_BYTES, PID, SAMPLING_RATE, label_bytes};

use crate::window_times::CLOCK_SET;

/// The label that tells the processes of a service apart for people: where it runs, and its pid there.
pub const INSTANCE: &str = "instance";

/// How many bytes the key of a label may have where it is sent.
pub const MAX_KEY_BYTES: usize = 128;
/// How many labels the user may give: the others of a process have room beside them.
pub const MAX_GIVEN_LABELS: usize = 32;

/// How much of a commit is part of a version.
const COMMIT_LETTERS: usize = 7;

/// The labels of a process: those that `record` takes, the version that is deployed, its instance, and what the user gave.
pub(crate) fn labels_of(found: &Labels, host: &str, pid: u32, given: &Labels) -> Labels {
    let pod = found.get(label_key::POD);
    let container = found.get(label_key::CONTAINER);
    let inner_pid = found.get(label_key::INNER_PID);
    let pid = pid.to_string();
    let instance = match (pod, container) {
        (Some(pod), _) => format!("{pod}/{}", inner_pid.unwrap_or(&pid)),
        (None, Some(container)) => format!("{host}/{container}/{}", inner_pid.unwrap_or(&pid)),
        (None, None) => format!("{host}/{pid}"),
    };
    let mut own = Labels::default();
    own.set_if_any(label_key::VERSION, deployed_version(found));
    own.set(INSTANCE, instance);
    let later = set_later(host, &pid);
    let most = Labels::MAX.saturating_sub(later.iter().len());
    let labels = first_of([given, &own, found], most);
    shortened(labels, MAX_LABEL_BYTES.saturating_sub(label_bytes(&later)))
}

/// The labels of all, of each key the first; where there are too many, those that come first. A server refuses long keys with all that is
/// sent beside them.
fn first_of(all: [&Labels; 3], most: usize) -> Labels {
    let mut labels = Labels::default();
    for (key, value) in all.into_iter().flat_map(Labels::iter) {
        let is_new = labels.get(key).is_none() && labels.iter().len() < most;
        if is_new && key.len() <= MAX_KEY_BYTES {
            labels.set(key, value);
        }
    }
    labels
}

/// What is set after the labels were shortened, at its longest: where a process runs by `batch_of`, the rate by what follows the
/// process, and what tells times apart by what writes.
fn set_later(host: &str, pid: &str) -> Labels {
    let mut labels = Labels::default();
    labels.set(HOST, host);
    labels.set(PID, pid);
    labels.set(SAMPLING_RATE, u32::MAX.to_string());
    labels.set(CLOCK_SET, u64::MAX.to_string());
    labels
}

/// Labels that a server takes, which would refuse their windows: long values lose their ends, and what is still too long goes.
fn shortened(mut labels: Labels, limit: usize) -> Labels {
    for longest in [256, 128, 64, 32, 16] {
        if label_bytes(&labels) <= limit {
            return labels;
        }
        let cut = labels.iter().map(|(key, value)| {
            let value: String = value.chars().take(longest).collect();
            (key.to_owned(), value)
        });
        let cut: Vec<(String, String)> = cut.collect();
        cut.iter().for_each(|(key, value)| labels.set(key, value));
    }
    while label_bytes(&labels) > limit {
        let longest = labels
            .iter()
            .max_by_key(|(key, value)| key.len() + value.len());
        let Some((key, _)) = longest else { break };
        let key = key.to_owned();
        labels.remove(&key);
    }
    labels
}

/// The version that is deployed, as far as labels tell it: `1.2.3+4f1c2ab`. A package's version is often left as it was, so the
/// commit, or else the tag of the image, is part of it.
pub fn deployed_version(labels: &Labels) -> Option<String> {
    let version = labels.get(label_key::VERSION).unwrap_or_default();
    let commit = labels.get(label_key::COMMIT);
    let commit = commit.map(|commit| commit.chars().take(COMMIT_LETTERS).collect::<String>());
    let tag = labels.get(label_key::IMAGE).and_then(tag_of);
    let build = commit.or_else(|| tag.map(str::to_owned));
    let build = build.filter(|build| build.strip_prefix('v').unwrap_or(build) != version);
    match (version, build) {
        ("", None) => None,
        ("", Some(build)) => Some(build),
        (version, None) => Some(version.to_owned()),
        (version, Some(build)) => Some(format!("{version}+{build}")),
    }
}

/// The tag of an image that was built for the application: neither `latest` nor a version of Node.
fn tag_of(image: &str) -> Option<&str> {
    let (image, _) = image.split_once('@').unwrap_or((image, ""));
    let file = image.rsplit('/').next()?;
    let (name, tag) = file.split_once(':')?;
    let says_something = tag != "latest" && !name.starts_with("node");
    says_something.then_some(tag)
}

#[cfg(test)]
mod tests {
    use nodespy_model::{About, EventType, Notes, Process, ProfileBuilder, Sample, Thread};
    use nodespy_store::{batch_from_bytes, batch_of, batch_to_bytes};

    use super::*;
    use crate::window_times::WindowTimes;

    #[test]
    fn long_labels_are_cut_until_a_server_takes_them() {
        let mut found = Labels::default();
        for number in 0..60 {
            found.set(&format!("key-{number}"), "é".repeat(500));
        }
        let labels = labels_of(&found, "web-1", 77, &Labels::default());
        let bytes = label_bytes(&labels);
        assert!(bytes < MAX_LABEL_BYTES, "{bytes}");
        assert_eq!(labels.get(INSTANCE), Some("web-1/77"));
        let mut short = Labels::default();
        short.set("folder", "/srv/".repeat(60));
        let kept = labels_of(&short, "web-1", 77, &Labels::default());
        assert_eq!(kept.get("folder"), short.get("folder"));
    }

    /// The labels of a process as they are in a window of a time that was there before.
    fn as_sent(found: &Labels, host: &str) -> Labels {
        let pid = 4_194_303;
        let mut labels = labels_of(found, host, pid, &Labels::default());
        labels.set(SAMPLING_RATE, "999");
        let mut builder = ProfileBuilder::new(EventType::default());
        let process = builder.process(Process {
            pid,
            labels,
            ..Process::default()
        });
        let thread = builder.thread(Thread {
            process,
            ..Thread::default()
        });
        builder.add_sample(Sample {
            weight: 1,
            thread,
            ..Sample::default()
        });
        let about = About {
            host: host.to_owned(),
            started_unix: 1_700_000_000_000_000_000,
            ..About::default()
        };
        let profile = builder.finish(about, Notes::default());
        let mut times = WindowTimes::default();
        times.tell_apart(&mut batch_of(&profile));
        times.clock_was_set();
        let mut again = batch_of(&profile);
        times.tell_apart(&mut again);
        again.series[again.windows[0].series].labels.clone()
    }

    #[test]
    fn what_is_set_later_has_room_whatever_the_host_is_called() {
        // As many bytes as a name of a host can have.
        let host = "h".repeat(64);
        let mut long_keys = Labels::default();
        for number in 0..50 {
            long_keys.set(&format!("{number:0>120}"), "x");
        }
        let mut full = Labels::default();
        for length in 3_700..4_100 {
            let mut found = Labels::default();
            for number in 0..length / 200 {
                found.set(&format!("{number:0>8}"), "x".repeat(192));
            }
            found.set("rest", "x".repeat(length % 200));
            let sent = as_sent(&found, &host);
            let bytes = label_bytes(&sent);
            assert!(bytes <= MAX_LABEL_BYTES, "{length}: {bytes}");
            assert!(sent.get(CLOCK_SET).is_some() && sent.get(PID).is_some());
            full = sent;
        }
        assert_eq!(full.get(HOST), Some(&*host));
        let sent = as_sent(&long_keys, &host);
        assert!(label_bytes(&sent) <= MAX_LABEL_BYTES);
        assert_eq!(sent.get(HOST), Some(&*host));
    }

    #[test]
    fn what_is_set_later_has_room_among_many_labels() {
        let numbered = |name: &str, number: usize| {
            let mut labels = Labels::default();
            (0..number).for_each(|it| labels.set(&format!("{name}-{it:0>2}"), "x"));
            labels
        };
        let sent = as_sent(&numbered("found", Labels::MAX), "web-1");
        assert_eq!(sent.iter().len(), Labels::MAX);
        for key in [HOST, PID, SAMPLING_RATE, CLOCK_SET, INSTANCE] {
            assert!(sent.get(key).is_some(), "{key}");
        }
        let given = numbered("given", MAX_GIVEN_LABELS);
        let labels = labels_of(&numbered("found", Labels::MAX), "web-1", 77, &given);
        let is_there = |(key, _): (&str, &str)| labels.get(key).is_some();
        assert!(given.iter().all(is_there) && labels.get(INSTANCE).is_some());
    }

    /// The longest key that a server reads is the longest that is sent.
    #[test]
    fn keys_are_as_long_as_a_server_takes_them() {
        let is_read = |key: &str| {
            let mut labels = Labels::default();
            labels.set(key, "x");
            let mut batch = crate::bad_days::batch(0);
            batch.series[0].labels = labels;
            batch_from_bytes(&batch_to_bytes(&batch)).is_ok()
        };
        let (longest, longer) = ("k".repeat(MAX_KEY_BYTES), "k".repeat(MAX_KEY_BYTES + 1));
        assert!(is_read(&longest) && !is_read(&longer));
        let found = labels(&[(&longest, "x"), (&longer, "x")]);
        let sent = labels_of(&found, "web-1", 77, &found);
        assert!(sent.get(&longest).is_some() && sent.get(&longer).is_none());
    }

    fn labels(rows: &[(&str, &str)]) -> Labels {
        let mut labels = Labels::default();
        rows.iter().for_each(|(key, value)| labels.set(key, value));
        labels
    }

    #[test]
    fn a_version_says_what_is_deployed() {
        let version = |rows: &[(&str, &str)]| deployed_version(&labels(rows));
        let commit = "4f1c2ab9d0e1f2a3b4c5d6e7f8091a2b3c4d5e6f";
        assert_eq!(version(&[]), None);
        assert_eq!(version(&[("version", "1.2.3")]).unwrap(), "1.2.3");
        let both = [("version", "1.2.3"), ("commit", commit)];
        assert_eq!(version(&both).unwrap(), "1.2.3+4f1c2ab");
        let image = |image| version(&[("version", "1.2.3"), ("image", image)]).unwrap();
        assert_eq!(image("registry:5000/shop/web:build-7"), "1.2.3+build-7");
        assert_eq!(image("shop:v1.2.3"), "1.2.3");
        assert_eq!(image("shop:latest"), "1.2.3");
        assert_eq!(image("node:20-slim"), "1.2.3");
        assert_eq!(image("registry:5000/shop"), "1.2.3");
        assert_eq!(version(&[("image", "shop:b7@sha256:00")]).unwrap(), "b7");
    }

    #[test]
    fn an_instance_is_named_by_where_it_runs() {
        let instance = |rows: &[(&str, &str)]| {
            let labels = labels_of(&labels(rows), "web-1", 77, &Labels::default());
            labels.get(INSTANCE).unwrap().to_owned()
        };
        assert_eq!(instance(&[]), "web-1/77");
        assert_eq!(instance(&[("container", "shop")]), "web-1/shop/77");
        assert_eq!(
            instance(&[("pod", "shop-0"), ("inner-pid", "1")]),
            "shop-0/1"
        );
    }

    #[test]
    fn what_the_user_gives_wins() {
        let given = labels(&[("version", "9"), ("env", "prod")]);
        let labels = labels_of(&labels(&[("version", "1")]), "web-1", 77, &given);
        assert_eq!(labels.get("version"), Some("9"));
        assert_eq!(labels.get("env"), Some("prod"));
    }
}
