//! What SDKs send to Pyroscope, `POST /ingest?name=shop{env=prod}&from=…&until=…&format=pprof`, as a batch of windows.
//!
//! A profile of Pyroscope has no times within: all of it is in the window at `from`, added to what is there of that process. It is
//! recognized by its bytes when it is sent again, to the same server and among the last few thousand.

use std::net::IpAddr;

use nodespy_formats::{ImportOptions, Limits, import};
use nodespy_http::Parameters;
use nodespy_model::{
    Contents, EventType, Labels, Process, ProcessIndex, Profile, WeightUnit, label_key,
};
use nodespy_store::{Batch, HOST, UnixSeconds, batch_of, name_bytes};
use sha2::{Digest, Sha256};

use crate::ingest::Refusal;

const SECOND: u64 = 1_000_000_000;
/// The rate of SDKs that give none.
const DEFAULT_RATE: u32 = 100;
/// The longest name with its labels.
const MAX_NAME_BYTES: usize = 4096;
/// How many bytes of names a profile may have, each function with its own.
const MAX_NAMES_BYTES: usize = 64 << 20;
/// The label that tells processes apart.
const INSTANCE: &str = "instance";
const LIMITS: Limits = Limits {
    input_bytes: 16 << 20,
    unpacked_bytes: 64 << 20,
    line_bytes: 1 << 20,
    rows: u64::MAX,
};

/// What a profile is known by, to recognize it when it is sent again.
pub(crate) fn id_of(target: &str, body: &[u8]) -> u64 {
    let mut hasher = Sha256::new();
    hasher.update(target);
    hasher.update(body);
    let digest = hasher.finalize();
    digest
        .iter()
        .take(8)
        .fold(0, |id, byte| id << 8 | u64::from(*byte))
}

/// The windows of a request.
pub(crate) fn batch_of_request(
    parameters: &Parameters,
    body: Vec<u8>,
    sender: Option<IpAddr>,
    now: UnixSeconds,
) -> Result<Batch, Refusal> {
    let unreadable = |why: &str| Refusal::Unreadable(why.to_owned());
    let name = parameters.get("name");
    let (service, labels) = name_and_labels(name.unwrap_or_default())
        .ok_or_else(|| unreadable("name=SERVICE{KEY=VALUE,…} says whose profile it is"))?;
    let from = match parameters.get("from") {
        Some(text) => unix_seconds(text).ok_or_else(|| unreadable("from is in seconds"))?,
        None => now,
    };
    let format = match parameters.get("format") {
        Some("pprof") => "pprof",
        None | Some("folded" | "groups" | "collapsed") => "folded",
        Some(_) => {
            return Err(unreadable(
                "the formats that are taken are pprof and folded",
            ));
        }
    };
    let rate = parameters.get("sampleRate").and_then(|it| it.parse().ok());
    let mut profile = read(format, body, LIMITS)?;
    if format == "folded" {
        let event = EventType::new("cpu-clock", WeightUnit::Samples);
        profile.events = vec![event.at_rate(rate.unwrap_or(DEFAULT_RATE))];
    }
    profile.about.started_unix = from.saturating_mul(SECOND);
    let service = service.to_owned();
    Source { service, labels }.batch_of(profile, sender)
}

/// Whose profile it is.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) service: String,
    pub(crate) labels: Labels,
}

impl Source {
    /// What some SDKs call the label that tells processes apart.
    pub(crate) const SESSION: &str = "__session_id__";

    /// The windows of a profile: all of it is in the one that it begins in.
    pub(crate) fn batch_of(
        mut self,
        mut profile: Profile,
        sender: Option<IpAddr>,
    ) -> Result<Batch, Refusal> {
        let session = self.labels.get(Self::SESSION).map(str::to_owned);
        self.labels.remove(Self::SESSION);
        let sender = sender.map(|sender| sender.to_string());
        if self.labels.get(INSTANCE).is_none() {
            let instance = session.or_else(|| sender.clone());
            self.labels.set_if_any(INSTANCE, instance);
        }
        self.labels.set(label_key::APP, &self.service);
        let host = self.labels.get(HOST).map(str::to_owned);
        profile.about.host = host.or(sender).unwrap_or_default();
        as_one_process(&mut profile, self.labels);
        let names = name_bytes(&profile);
        if names > MAX_NAMES_BYTES {
            return Err(Refusal::Unreadable(format!(
                "names and files of functions have {names} bytes, and {MAX_NAMES_BYTES} are taken"
            )));
        }
        Ok(batch_of(&profile))
    }
}

/// Reads a profile within limits.
pub(crate) fn read(format: &str, body: Vec<u8>, limits: Limits) -> Result<Profile, Refusal> {
    let options = ImportOptions {
        limits,
        ..ImportOptions::from(Some(format))
    };
    let recording =
        import(body.into(), &options).map_err(|error| Refusal::Unreadable(error.to_string()))?;
    match recording.contents {
        Contents::Named(profile) => Ok(*profile),
        _ => Err(Refusal::Unreadable("a profile without names".to_owned())),
    }
}

/// Everything is of one process with these labels, at its beginning.
fn as_one_process(profile: &mut Profile, labels: Labels) {
    let first = profile.processes.first().map_or(0, |process| process.pid);
    profile.processes = vec![Process {
        pid: first,
        labels,
        ..Process::default()
    }];
    for thread in &mut profile.threads {
        thread.process = ProcessIndex(0);
    }
    for sample in &mut profile.samples {
        sample.time = 0;
    }
}

/// `shop{env=prod,region="eu"}`, as Pyroscope's SDKs write it.
fn name_and_labels(text: &str) -> Option<(&str, Labels)> {
    if text.len() > MAX_NAME_BYTES {
        return None;
    }
    let (service, rest) = text.split_once('{').unwrap_or((text, ""));
    let mut labels = Labels::default();
    for pair in rest.trim_end_matches('}').split(',') {
        if let Some((key, value)) = pair.split_once('=') {
            labels.set(key.trim(), value.trim().trim_matches('"'));
        }
    }
    let service = service.trim();
    (!service.is_empty()).then_some((service, labels))
}

/// A time in seconds, or as some SDKs send it, in milliseconds or nanoseconds.
fn unix_seconds(text: &str) -> Option<UnixSeconds> {
    let number: u64 = text.parse().ok()?;
    Some(match number {
        0..100_000_000_000 => number,
        100_000_000_000..100_000_000_000_000 => number / 1000,
        _ => number / SECOND,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(target: &str, body: &str) -> Result<Batch, Refusal> {
        let (_, parameters) = Parameters::split(target);
        let sender = Some("10.0.0.7".parse().unwrap());
        batch_of_request(&parameters, body.as_bytes().to_vec(), sender, 1_700_000_005)
    }

    #[test]
    fn folded_stacks_become_a_window_of_their_service() {
        let target =
            "/ingest?name=shop%7Benv%3Dprod%2Cversion%3D2%7D&from=1700000004&sampleRate=50";
        let batch = taken(target, "main;parse 3\nmain;render 4\n").unwrap();
        let [series] = &batch.series[..] else {
            panic!("{:?}", batch.series)
        };
        assert_eq!((&*series.service, &*series.event), ("shop", "cpu"));
        assert_eq!(
            (series.unit, series.period),
            (WeightUnit::Nanoseconds, SECOND / 50)
        );
        for (key, value) in [("env", "prod"), ("version", "2"), ("instance", "10.0.0.7")] {
            assert_eq!(series.labels.get(key), Some(value));
        }
        let [window] = &batch.windows[..] else {
            panic!("{:?}", batch.windows)
        };
        assert_eq!(window.start, 1_700_000_000);
        let total: u64 = window.counts.iter().map(|count| count.count).sum();
        assert_eq!(total, 7);
    }

    /// A profile of `count` functions that have one long name and file in common.
    fn pprof(count: u64) -> Vec<u8> {
        let varint = |mut number: u64| {
            let mut bytes = Vec::new();
            while number > 0x7f {
                bytes.push(number as u8 | 0x80);
                number >>= 7;
            }
            bytes.push(number as u8);
            bytes
        };
        let number = |field: u8, value| [vec![field << 3], varint(value)].concat();
        let field = |field: u8, content: &[u8]| {
            let head = [vec![field << 3 | 2], varint(content.len() as u64)].concat();
            [&head, content].concat()
        };
        let mut bytes = field(1, &[8, 1, 16, 2]);
        for text in ["", "samples", "count", &"x".repeat(4000)] {
            bytes.extend(field(6, text.as_bytes()));
        }
        for id in 1..=count {
            let line = field(4, &number(1, id));
            bytes.extend(field(2, &[number(1, id), number(2, 1)].concat()));
            bytes.extend(field(4, &[number(1, id), line].concat()));
            let function = [number(1, id), number(2, 3), number(4, 3), number(5, id)];
            bytes.extend(field(5, &function.concat()));
        }
        bytes
    }

    /// A few megabytes of functions that share one long name would be gigabytes.
    #[test]
    fn names_that_every_function_would_have_for_itself_are_limited() {
        let (_, parameters) = Parameters::split("/ingest?name=shop&format=pprof");
        let taken = |count| batch_of_request(&parameters, pprof(count), None, 1_700_000_005);
        assert!(taken(10).is_ok());
        let error = taken(9_000).unwrap_err();
        assert!(error.to_string().contains("67108864 are taken"), "{error}");
    }

    #[test]
    fn what_says_too_little_or_is_no_profile_is_refused() {
        assert!(taken("/ingest?from=1", "main 1\n").is_err());
        assert!(taken("/ingest?name=shop&from=tea", "main 1\n").is_err());
        assert!(taken("/ingest?name=shop&format=jfr", "main 1\n").is_err());
        assert!(taken("/ingest?name=shop&format=pprof", "main 1\n").is_err());
        assert_eq!(unix_seconds("1700000000123"), Some(1_700_000_000));
        assert_eq!(unix_seconds("1700000000123456789"), Some(1_700_000_000));
    }
}
