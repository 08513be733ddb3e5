//! Windows to Pyroscope: `POST /ingest`, a pprof for each process and window, as its own SDK for Node sends them.
//!
//! Pyroscope has no ids for what it gets. What it has of a batch that is sent again is remembered here, so that only an agent
//! that is killed in between sends something twice.

use nodespy_formats::exporter;
use nodespy_http::{Client, percent_encoded};
use nodespy_model::{
    About, EventType, FastMap, FastSet, Notes, Profile, ThreadRole, WeightUnit, label_key,
};
use nodespy_store::{
    Appended, Batch, Series, StackHash, StackId, StackWeight, StoredThread, Symbols, UnixSeconds,
    WINDOW_SECONDS, Window, profile_of_threads,
};

use crate::receiver::{Receiver, Verdict, not_reached, verdict_of};

const SECOND: u64 = 1_000_000_000;

/// A server of Pyroscope.
pub(crate) struct Pyroscope {
    client: Client,
    /// What it has of the batch that is being sent.
    sent: FastSet<(Series, UnixSeconds)>,
}

impl Pyroscope {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            sent: FastSet::default(),
        }
    }

    fn send_window(&self, series: &Series, window: &Window, names: &Names<'_>) -> Option<Verdict> {
        let profile = names.profile(series, window);
        let mut body = Vec::new();
        let pprof = exporter("pprof").expect("it is one of the formats");
        if let Err(error) = pprof.export(&profile, &mut body) {
            return Some(Verdict::Refused(error.to_string()));
        }
        let path = format!(
            "/ingest?format=pprof&from={}&until={}&name={}&spyName=nodespy&sampleRate={}",
            window.start,
            window.start + WINDOW_SECONDS,
            percent_encoded(&name_of(series)),
            rate_of(series),
        );
        let headers = [("Content-Type", "application/octet-stream")];
        match self.client.post(&path, &headers, &body) {
            Ok(reply) if reply.is_ok() => None,
            Ok(reply) => Some(verdict_of(&reply)),
            Err(error) => Some(not_reached(&error)),
        }
    }
}

impl Receiver for Pyroscope {
    fn send(&mut self, batch: Batch) -> Verdict {
        let names = Names::new(&batch.symbols);
        for window in &batch.windows {
            let series = &batch.series[window.series];
            let id = (series.clone(), window.start);
            if self.sent.contains(&id) {
                continue;
            }
            match self.send_window(series, window, &names) {
                None => self.sent.insert(id),
                Some(verdict) => return verdict,
            };
        }
        self.sent.clear();
        Verdict::Taken(Appended {
            windows: batch.windows.len() as u64,
            ..Appended::default()
        })
    }
}

/// The names of a batch, by stack.
struct Names<'a> {
    symbols: &'a Symbols,
    places: FastMap<StackHash, usize>,
}

impl<'a> Names<'a> {
    fn new(symbols: &'a Symbols) -> Self {
        let hashes = symbols.checked_hashes().unwrap_or_default();
        Self {
            symbols,
            places: hashes.into_iter().zip(0..).collect(),
        }
    }

    fn profile(&self, series: &Series, window: &Window) -> Profile {
        let mut threads: Vec<StoredThread> = Vec::new();
        for role in ThreadRole::ALL {
            let counts = window.counts.iter().filter(|count| count.role() == role);
            let mut thread = StoredThread {
                role,
                symbols: Symbols {
                    stacks: Vec::new(),
                    ..self.symbols.clone()
                },
                stacks: Vec::new(),
            };
            for count in counts {
                let path = self.places.get(&count.stack);
                let path = path.map(|place| self.symbols.stacks[*place].clone());
                thread.symbols.stacks.push(path.unwrap_or_default());
                thread.stacks.push(StackWeight {
                    stack: StackId(0),
                    count: count.count,
                    weight: count.count,
                });
            }
            if !thread.stacks.is_empty() {
                threads.push(thread);
            }
        }
        let about = About {
            app: series.service.clone(),
            started_unix: window.start * SECOND,
            duration: WINDOW_SECONDS * SECOND,
            ..About::default()
        };
        profile_of_threads(about, Notes::default(), event_of(series), &threads)
    }
}

fn event_of(series: &Series) -> EventType {
    match series.unit {
        WeightUnit::Nanoseconds => {
            EventType::new("cpu-clock", WeightUnit::Samples).at_rate(rate_of(series))
        }
        unit => EventType::new(&series.event, unit),
    }
}

/// Samples a second.
fn rate_of(series: &Series) -> u32 {
    (SECOND as f64 / series.period as f64).round() as u32
}

/// `shop{version=1.0.0,host=web-1}`: Pyroscope takes letters, digits and underscores in keys, and no commas or braces in values.
fn name_of(series: &Series) -> String {
    let label = |(key, value): (&str, &str)| {
        let letter = |it: char| if it.is_ascii_alphanumeric() { it } else { '_' };
        let key: String = key.chars().map(letter).collect();
        let value: String = value
            .chars()
            .map(|it| if "{},=\"".contains(it) { '_' } else { it })
            .collect();
        format!("{key}={value}")
    };
    let kept = |(key, _): &(&str, &str)| *key != label_key::APP;
    let labels: Vec<String> = series.labels.iter().filter(kept).map(label).collect();
    format!("{}{{{}}}", series.service, labels.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::Labels;

    #[test]
    fn labels_are_written_as_pyroscope_reads_them() {
        let mut labels = Labels::default();
        for (key, value) in [("app", "shop"), ("inner-pid", "1"), ("folder", "/a,b{c}=d")] {
            labels.set(key, value);
        }
        let series = Series {
            service: "shop".to_owned(),
            event: "cpu".to_owned(),
            unit: WeightUnit::Nanoseconds,
            period: SECOND / 19,
            labels,
        };
        let name = name_of(&series);
        assert_eq!(name, "shop{folder=/a_b_c__d,inner_pid=1}");
        assert_eq!(rate_of(&series), 19);
    }
}
