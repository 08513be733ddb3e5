//! Windows to Pyroscope: `POST /ingest`, a pprof for each process and window, as its own SDK for Node sends them.

use nodespy_http::{Client, percent_encoded};
use nodespy_model::label_key;
use nodespy_store::{Appended, Batch, Series, WINDOW_SECONDS, Window};

use crate::one_by_one::OneByOne;
use crate::receiver::{Receiver, Verdict, not_reached, verdict_of};
use crate::window_profile::{Names, rate_of};

/// A server of Pyroscope.
pub(crate) struct Pyroscope {
    client: Client,
    progress: OneByOne,
}

impl Pyroscope {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            progress: OneByOne::default(),
        }
    }

    fn send_window(&self, series: &Series, window: &Window, names: &Names<'_>) -> Verdict {
        let body = match names.pprof(series, window) {
            Ok(body) => body,
            Err(error) => return Verdict::Refused(error.to_string()),
        };
        let path = format!(
            "/ingest?format=pprof&from={}&until={}&name={}&spyName=nodespy&sampleRate={}",
            window.start,
            window.start + WINDOW_SECONDS,
            percent_encoded(&name_of(series)),
            rate_of(series),
        );
        let headers = [("Content-Type", "application/octet-stream")];
        match self.client.post(&path, &headers, &body) {
            Ok(reply) if reply.is_ok() => Verdict::Taken(Appended::default()),
            Ok(reply) => verdict_of(&reply),
            Err(error) => not_reached(&error),
        }
    }
}

impl Receiver for Pyroscope {
    fn begin(&mut self, file: u64) {
        self.progress.begin(file);
    }

    fn send(&mut self, batch: &Batch) -> Verdict {
        let names = Names::new(&batch.symbols);
        for window in &batch.windows {
            let series = &batch.series[window.series];
            let id = (series.clone(), window.start);
            if self.progress.is_settled(&id) {
                continue;
            }
            let verdict = self.send_window(series, window, &names);
            if let Some(verdict) = self.progress.settle(vec![id], verdict) {
                return verdict;
            }
        }
        self.progress.finish(batch.windows.len() as u64)
    }

    fn finds_refused(&self) -> bool {
        true
    }
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
    use nodespy_model::{Labels, WeightUnit};

    use super::*;
    use crate::window_profile::SECOND;

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
