//! Windows to Parca: `ProfileStoreService/WriteRaw`, a gzipped pprof for each process and window, many in one request.
//!
//! Parca takes gRPC-Web at the address of its page, so that HTTP/1.1 will do. It refuses a request as a whole for a label whose name
//! Prometheus would not take, or that is there twice.

use nodespy_http::{Client, Reply};
use nodespy_model::label_key;
use nodespy_store::{Appended, Batch, CPU_EVENT, HOST, Series};
use prost::Message;

use crate::grpc_web::{self, CONTENT_TYPE, INVALID_ARGUMENT, RESOURCE_EXHAUSTED};
use crate::one_by_one::{OneByOne, WindowId};
use crate::receiver::{Receiver, Verdict, not_reached, verdict_of};
use crate::window_profile::Names;

const PATH: &str = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw";
/// When a request is large enough: half of what servers of gRPC take by default.
const ENOUGH_BYTES: usize = 2 << 20;
/// The label that says what was profiled.
const PROFILE_NAME: &str = "__name__";
/// What Parca's own scraper calls profiles of CPU time.
const CPU_NAME: &str = "process_cpu";
/// How Prometheus calls a service.
const JOB: &str = "job";

/// `WriteRawRequest` of `parca.profilestore.v1alpha1`, as far as it is used.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct WriteRawRequest {
    #[prost(message, repeated, tag = "2")]
    pub(crate) series: Vec<RawProfileSeries>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RawProfileSeries {
    #[prost(message, optional, tag = "1")]
    pub(crate) labels: Option<LabelSet>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) samples: Vec<RawSample>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct LabelSet {
    #[prost(message, repeated, tag = "1")]
    pub(crate) labels: Vec<Label>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Label {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RawSample {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) raw_profile: Vec<u8>,
}

/// A server of Parca.
pub(crate) struct Parca {
    client: Client,
    progress: OneByOne,
}

/// A request that is being filled.
#[derive(Default)]
struct Filling {
    request: WriteRawRequest,
    ids: Vec<WindowId>,
    bytes: usize,
}

impl Parca {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            progress: OneByOne::default(),
        }
    }

    /// Sends a request; a verdict if the rest has to wait. One that is refused may be so for a single window: its halves are sent.
    fn send_request(&mut self, mut filled: Filling) -> Option<Verdict> {
        let headers = [
            ("Content-Type", CONTENT_TYPE),
            ("Accept", CONTENT_TYPE),
            ("X-Grpc-Web", "1"),
        ];
        let windows = filled.ids.len() as u64;
        let body = grpc_web::framed(&filled.request.encode_to_vec());
        let verdict = match self.client.post(PATH, &headers, &body) {
            Ok(reply) => verdict(&reply, windows),
            Err(error) => not_reached(&error),
        };
        if matches!(verdict, Verdict::Refused(_)) && windows > 1 && self.progress.may_split() {
            let later = filled.split_off();
            let wait = self.send_request(filled);
            return wait.or_else(|| self.send_request(later));
        }
        self.progress.settle(filled.ids, verdict)
    }
}

impl Receiver for Parca {
    fn begin(&mut self, file: u64) {
        self.progress.begin(file);
    }

    fn send(&mut self, batch: &Batch) -> Verdict {
        let names = Names::new(&batch.symbols);
        let mut filling = Filling::default();
        let last = batch.windows.len().saturating_sub(1);
        for (number, window) in batch.windows.iter().enumerate() {
            let series = &batch.series[window.series];
            let id = (series.clone(), window.start);
            if !self.progress.is_settled(&id) {
                match names.pprof(series, window) {
                    Ok(pprof) => filling.push(id, pprof),
                    Err(error) => {
                        let refused = Verdict::Refused(error.to_string());
                        self.progress.settle(vec![id], refused);
                    }
                }
            }
            let is_due = filling.bytes >= ENOUGH_BYTES || number == last;
            if is_due && !filling.ids.is_empty() {
                let wait = self.send_request(std::mem::take(&mut filling));
                if let Some(verdict) = wait {
                    return verdict;
                }
            }
        }
        self.progress.finish(batch.windows.len() as u64)
    }

    fn finds_refused(&self) -> bool {
        true
    }
}

impl Filling {
    fn push(&mut self, id: WindowId, pprof: Vec<u8>) {
        self.bytes += pprof.len();
        self.request.series.push(RawProfileSeries {
            labels: Some(labels_of(&id.0)),
            samples: vec![RawSample { raw_profile: pprof }],
        });
        self.ids.push(id);
    }

    /// Takes the second half away.
    fn split_off(&mut self) -> Self {
        let half = self.ids.len() / 2;
        Self {
            request: WriteRawRequest {
                series: self.request.series.split_off(half),
            },
            ids: self.ids.split_off(half),
            bytes: 0,
        }
    }
}

fn verdict(reply: &Reply, windows: u64) -> Verdict {
    if !reply.is_ok() {
        return verdict_of(reply);
    }
    let later = |why: String| Verdict::Later {
        why,
        after: reply.retry_after,
    };
    let Some(status) = grpc_web::status(&reply.headers, &reply.body) else {
        return later("a reply without grpc-status: is it Parca?".to_owned());
    };
    let why = format!("grpc-status {} {}", status.code, status.message);
    match status.code {
        0 => Verdict::Taken(Appended {
            windows,
            ..Appended::default()
        }),
        INVALID_ARGUMENT => Verdict::Refused(why),
        // As grpc-go says it of a message that no server of that limit will ever take.
        RESOURCE_EXHAUSTED if status.message.contains("larger than max") => Verdict::Refused(why),
        _ => later(why),
    }
}

/// The labels of a series as Parca takes them, each name once.
fn labels_of(series: &Series) -> LabelSet {
    let profile_name = match &*series.event {
        CPU_EVENT => CPU_NAME.to_owned(),
        event => label_name(event),
    };
    let mut labels = vec![
        (PROFILE_NAME.to_owned(), profile_name),
        (JOB.to_owned(), series.service.clone()),
    ];
    for (key, value) in series
        .labels
        .iter()
        .filter(|(key, _)| *key != label_key::APP)
    {
        let name = match key {
            // As Parca's own agent calls the machine, and `node` is how its page lists agents.
            HOST => "node".to_owned(),
            label_key::NODE => "node_version".to_owned(),
            key => label_name(key),
        };
        if labels.iter().all(|(known, _)| *known != name) {
            labels.push((name, value.to_owned()));
        }
    }
    let labels = labels
        .into_iter()
        .map(|(name, value)| Label { name, value });
    LabelSet {
        labels: labels.collect(),
    }
}

/// A name that Prometheus takes: letters, digits and underscores, no digit first, and not one of its own.
fn label_name(key: &str) -> String {
    let letter = |it: char| if it.is_ascii_alphanumeric() { it } else { '_' };
    let name: String = key.chars().map(letter).collect();
    let name = name.trim_start_matches('_');
    match name.starts_with(|it: char| it.is_ascii_digit()) || name.is_empty() {
        true => format!("_{name}"),
        false => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use nodespy_model::{Labels, WeightUnit};

    use super::*;

    fn reply(status: u16, grpc: Option<(u32, &str)>) -> Reply {
        let headers = grpc.map(|(code, message)| {
            let header = |name: &str, value: String| (name.to_owned(), value);
            [
                header("grpc-status", code.to_string()),
                header("grpc-message", message.to_owned()),
            ]
        });
        Reply {
            status,
            headers: headers.into_iter().flatten().collect(),
            ..Reply::default()
        }
    }

    #[test]
    fn what_parca_says_decides_what_becomes_of_windows() {
        assert!(
            matches!(verdict(&reply(200, Some((0, ""))), 3), Verdict::Taken(it) if it.windows == 3)
        );
        let refused = verdict(&reply(200, Some((3, "invalid label name: a-b"))), 1);
        assert!(
            matches!(refused, Verdict::Refused(why) if why == "grpc-status 3 invalid label name: a-b")
        );
        let too_large = "grpc: received message larger than max (9 vs. 4)";
        let too_large = verdict(&reply(200, Some((8, too_large))), 1);
        assert!(matches!(too_large, Verdict::Refused(_)));
        for other in [
            reply(200, None),
            reply(200, Some((8, "slow down"))),
            reply(200, Some((14, "away"))),
            reply(503, None),
            reply(404, None),
        ] {
            let found = verdict(&other, 1);
            assert!(
                matches!(found, Verdict::Later { .. }),
                "{other:?}: {found:?}"
            );
        }
        assert!(matches!(verdict(&reply(413, None), 1), Verdict::Refused(_)));
    }

    #[test]
    fn labels_are_what_prometheus_takes_and_each_is_there_once() {
        let mut labels = Labels::default();
        for (key, value) in [
            ("app", "shop"),
            ("host", "web-1"),
            ("inner-pid", "1"),
            ("inner.pid", "2"),
            ("node", "v20.1.0"),
            ("__name__", "mine"),
            ("3rd", "x"),
            ("\u{e4}", "y"),
        ] {
            labels.set(key, value);
        }
        let series = Series {
            service: "shop".to_owned(),
            event: CPU_EVENT.to_owned(),
            unit: WeightUnit::Nanoseconds,
            period: 1,
            labels,
        };
        let found = labels_of(&series).labels;
        let found: Vec<(&str, &str)> = found.iter().map(|it| (&*it.name, &*it.value)).collect();
        let expected = [
            ("__name__", "process_cpu"),
            ("job", "shop"),
            ("_3rd", "x"),
            ("name__", "mine"),
            ("node", "web-1"),
            ("inner_pid", "1"),
            ("node_version", "v20.1.0"),
            ("_", "y"),
        ];
        assert_eq!(found, expected);
    }
}
