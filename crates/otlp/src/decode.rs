//! A request as a batch: each process a series, each ten seconds of it a window.
//!
//! A process is known by the attributes of its resource, or by those of samples where a sender puts all processes of a host into
//! one resource, as OpenTelemetry's eBPF profiler does. Samples with times are in the windows of those, others in the one in which
//! their profile begins.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use nodespy_model::classify::role_of_name;
use nodespy_model::{FastMap, Labels, SmallSort, ThreadRole, WeightUnit};
use nodespy_store::{
    Batch, CPU_EVENT, Count, MAX_NAME_BYTES, Series, StackHash, Symbols, UnixSeconds,
    WINDOW_SECONDS, Window,
};
use prost::Message;

use crate::attributes::{EXECUTABLE, PROCESS_ID, SERVICE, THREAD, UNKNOWN_SERVICE, label_of};
use crate::dictionary::{Strings, cut, row_in, symbols_of};
use crate::limits::{
    MAX_SERIES, MAX_UNPACKED_BYTES, MAX_WINDOWS, OtlpError, TextBudget, check_messages,
};
use crate::messages::{
    ExportProfilesServiceRequest, KeyValue, Profile, ProfilesDictionary, Sample,
};

const SECOND: u64 = 1_000_000_000;

/// What a request has.
#[derive(Debug)]
pub struct Decoded {
    /// Its windows.
    pub batch: Batch,
    /// How many attributes were left out because a process had too many ([`Labels::MAX`]).
    pub left_out: u64,
}

/// Reads a request, packed as its `Content-Encoding` says.
pub fn decode(body: &[u8], encoding: Option<&str>) -> Result<Decoded, OtlpError> {
    let request = unpacked(body, encoding)?;
    check_messages(&request)?;
    let request = ExportProfilesServiceRequest::decode(&*request)?;
    let dictionary = request.dictionary.unwrap_or_default();
    let mut decoding = Decoding::new(&dictionary)?;
    for of_resource in &request.resource_profiles {
        let attributes = of_resource.resource.as_ref().map(|it| &it.attributes[..]);
        let resource = OfResource::read(&dictionary, attributes.unwrap_or_default());
        decoding.left_out += resource.left_out;
        let profiles = of_resource.scope_profiles.iter();
        for profile in profiles.flat_map(|scope| &scope.profiles) {
            decoding.profile(&resource, profile)?;
        }
    }
    let left_out = decoding.left_out;
    Ok(Decoded {
        batch: decoding.finish(),
        left_out,
    })
}

fn unpacked<'a>(body: &'a [u8], encoding: Option<&str>) -> Result<Cow<'a, [u8]>, OtlpError> {
    let request = match encoding.unwrap_or("identity") {
        "identity" => Cow::Borrowed(body),
        "gzip" => {
            let mut unpacking = GzDecoder::new(body).take(MAX_UNPACKED_BYTES + 1);
            let mut request = Vec::new();
            let read = unpacking.read_to_end(&mut request);
            read.map_err(OtlpError::Gzip)?;
            Cow::Owned(request)
        }
        other => return Err(OtlpError::Encoding(other.chars().take(40).collect())),
    };
    match request.len() as u64 > MAX_UNPACKED_BYTES {
        true => Err(OtlpError::TooLarge),
        false => Ok(request),
    }
}

/// What the attributes of a resource say of all its samples: read once, whatever the number of samples.
struct OfResource<'a> {
    service: Option<Cow<'a, str>>,
    executable: Option<Cow<'a, str>>,
    role: ThreadRole,
    labels: Labels,
    /// The texts of the labels, in bytes.
    label_bytes: usize,
    left_out: u64,
}

impl<'a> OfResource<'a> {
    fn read(dictionary: &'a ProfilesDictionary, attributes: &'a [KeyValue]) -> Self {
        let strings = Strings(dictionary);
        let mut read = Self {
            service: None,
            executable: None,
            role: ThreadRole::Main,
            labels: Labels::default(),
            label_bytes: 0,
            left_out: 0,
        };
        for attribute in attributes {
            let key = match attribute.key_strindex {
                0 => attribute.key.as_str(),
                row => strings.get(row),
            };
            let Some(value) = strings.value(attribute.value.as_ref()) else {
                continue;
            };
            match key {
                SERVICE => read.service = Some(value),
                THREAD => read.role = role_called(&value),
                EXECUTABLE => read.executable = Some(value),
                key => read.left_out += u64::from(!set_label(&mut read.labels, key, &value)),
            }
        }
        let texts = read
            .labels
            .iter()
            .map(|(key, value)| key.len() + value.len());
        read.label_bytes = texts.sum();
        read
    }
}

/// Sets the label of an attribute; false where there is no room for it.
fn set_label(labels: &mut Labels, attribute: &str, value: &str) -> bool {
    let key = cut(label_of(attribute), MAX_NAME_BYTES);
    labels.set(key, value);
    labels.iter().len() < Labels::MAX || labels.get(key).is_some()
}

/// The counts of a window, by stack and role.
type Counts = FastMap<(usize, ThreadRole), u64>;

struct Decoding<'a> {
    dictionary: &'a ProfilesDictionary,
    symbols: Symbols,
    hashes: Vec<StackHash>,
    series: FastMap<Series, usize>,
    windows: BTreeMap<(usize, UnixSeconds), Counts>,
    texts: TextBudget,
    left_out: u64,
}

/// What tells the processes of one resource apart: service and process id.
type ProcessKey<'a> = (Cow<'a, str>, Option<Cow<'a, str>>);

impl<'a> Decoding<'a> {
    fn new(dictionary: &'a ProfilesDictionary) -> Result<Self, OtlpError> {
        let mut texts = TextBudget::default();
        let mut symbols = symbols_of(dictionary, &mut texts)?;
        // What stands for samples without a stack: a stack without frames.
        symbols.stacks.push(Vec::new());
        Ok(Self {
            dictionary,
            hashes: symbols.hashes(),
            symbols,
            series: FastMap::default(),
            windows: BTreeMap::new(),
            texts,
            left_out: 0,
        })
    }

    fn profile(
        &mut self,
        resource: &OfResource<'a>,
        profile: &'a Profile,
    ) -> Result<(), OtlpError> {
        let measured = Measured::of(self.dictionary, profile);
        // Samples of one process come with the same attributes again and again; other attributes than those of the process,
        // such as the thread or the trace, make no other series.
        let mut places: FastMap<&[i32], (usize, ThreadRole)> = FastMap::default();
        let mut processes: FastMap<ProcessKey<'a>, usize> = FastMap::default();
        for sample in &profile.samples {
            let of_sample = sample.attribute_indices.as_slice();
            let (series, role) = match places.get(of_sample) {
                Some(place) => *place,
                None => {
                    let (process, role) = self.process(resource, of_sample);
                    let series = match processes.get(&process) {
                        Some(series) => *series,
                        None => {
                            let series = self.series(resource, &process, &measured)?;
                            *processes.entry(process).or_insert(series)
                        }
                    };
                    places.insert(of_sample, (series, role));
                    (series, role)
                }
            };
            self.count(sample, profile.time_unix_nano, series, role, &measured)?;
        }
        Ok(())
    }

    fn count(
        &mut self,
        sample: &Sample,
        profile_start: u64,
        series: usize,
        role: ThreadRole,
        measured: &Measured,
    ) -> Result<(), OtlpError> {
        let no_stack = self.symbols.stacks.len() - 1;
        let stack = usize::try_from(sample.stack_index).unwrap_or(no_stack);
        // The first row means none.
        let stack = match stack {
            0 => no_stack,
            stack => stack.min(no_stack),
        };
        for (time, value) in observations(sample, profile_start) {
            let start = time / SECOND / WINDOW_SECONDS * WINDOW_SECONDS;
            let counts = self.windows.entry((series, start)).or_default();
            let count = counts.entry((stack, role)).or_default();
            *count = count.saturating_add(measured.count_of(value));
            if self.windows.len() > MAX_WINDOWS {
                return Err(OtlpError::TooMany {
                    what: "windows of ten seconds",
                    most: MAX_WINDOWS,
                });
            }
        }
        Ok(())
    }

    /// The process and thread role of samples with these attributes.
    fn process(
        &self,
        resource: &OfResource<'a>,
        of_sample: &[i32],
    ) -> (ProcessKey<'a>, ThreadRole) {
        let mut service = resource.service.clone();
        let mut executable = resource.executable.clone();
        let mut role = resource.role;
        let mut pid = None;
        let strings = Strings(self.dictionary);
        for row in of_sample {
            let Some(attribute) = row_in(&self.dictionary.attribute_table, *row) else {
                continue;
            };
            let Some(value) = strings.value(attribute.value.as_ref()) else {
                continue;
            };
            match strings.get(attribute.key_strindex) {
                SERVICE => service = Some(value),
                THREAD => role = role_called(&value),
                EXECUTABLE => executable = Some(value),
                PROCESS_ID => pid = Some(value),
                // What else samples have tells no processes apart.
                _ => {}
            }
        }
        let service = service.or(executable);
        let service = service.unwrap_or(Cow::Borrowed(UNKNOWN_SERVICE));
        ((service, pid), role)
    }

    /// The series of a process. Its texts are copied, and paid for.
    fn series(
        &mut self,
        resource: &OfResource<'_>,
        (service, pid): &ProcessKey<'_>,
        measured: &Measured,
    ) -> Result<usize, OtlpError> {
        let texts = service.len() + measured.event.len() + resource.label_bytes;
        self.texts.draw(texts)?;
        let mut labels = resource.labels.clone();
        if let Some(pid) = pid {
            self.left_out += u64::from(!set_label(&mut labels, PROCESS_ID, pid));
        }
        let series = Series {
            service: cut(service, MAX_NAME_BYTES).to_owned(),
            event: measured.event.clone(),
            unit: measured.unit,
            period: measured.period,
            labels,
        };
        let next = self.series.len();
        let number = *self.series.entry(series).or_insert(next);
        match self.series.len() > MAX_SERIES {
            true => Err(OtlpError::TooMany {
                what: "series (processes and events)",
                most: MAX_SERIES,
            }),
            false => Ok(number),
        }
    }

    fn finish(self) -> Batch {
        let hashes = &self.hashes;
        let count_of = |((stack, role), count): ((usize, ThreadRole), u64)| {
            Count::new(hashes[stack], role, count)
        };
        let windows = self.windows.into_iter();
        let windows = windows.map(|((series, start), counts)| Window {
            series,
            start,
            counts: counts.into_iter().map(count_of).collect(),
        });
        let mut series: Vec<(Series, usize)> = self.series.into_iter().collect();
        series.small_sort_by_key(|(_, number)| *number);
        Batch {
            windows: windows.collect(),
            series: series.into_iter().map(|(series, _)| series).collect(),
            symbols: self.symbols,
        }
    }
}

/// When a stack was seen, and what that counted.
fn observations(sample: &Sample, start: u64) -> impl Iterator<Item = (u64, i64)> {
    let times = &sample.timestamps_unix_nano;
    let values = &sample.values;
    let length = times.len().max(values.len());
    (0..length).map(move |at| {
        let time = times.get(at).copied().unwrap_or(start);
        // A time without a value is one observation.
        (time, values.get(at).copied().unwrap_or(1))
    })
}

/// What the values of a profile stand for.
struct Measured {
    event: String,
    unit: WeightUnit,
    period: u64,
    /// What a value has to be divided by to be a count of periods.
    divisor: u64,
}

impl Measured {
    fn of(dictionary: &ProfilesDictionary, profile: &Profile) -> Self {
        let strings = Strings(dictionary);
        let names = |kind: Option<crate::messages::ValueType>| {
            let kind = kind.unwrap_or_default();
            (
                strings.get(kind.type_strindex),
                strings.get(kind.unit_strindex),
            )
        };
        let (name, unit) = names(profile.sample_type);
        let (period_name, period_unit) = names(profile.period_type);
        let period = u64::try_from(profile.period).unwrap_or(0).max(1);
        let is_whole = |value: &i64| u64::try_from(*value).is_ok_and(|it| it % period == 0);
        let mut values = profile.samples.iter().flat_map(|sample| &sample.values);
        let (event, unit, period, divisor) = match (unit, period_unit) {
            ("nanoseconds", "nanoseconds") if values.all(is_whole) => {
                (name, WeightUnit::Nanoseconds, period, period)
            }
            ("nanoseconds", _) => (name, WeightUnit::Nanoseconds, 1, 1),
            ("bytes", _) => (name, WeightUnit::Bytes, 1, 1),
            // Samples of time are counted: what each stands for is the period.
            (_, "nanoseconds") if name.is_empty() || name.starts_with("sample") => {
                (period_name, WeightUnit::Nanoseconds, period, 1)
            }
            _ => (name, WeightUnit::Events, 1, 1),
        };
        let event = match event {
            "" => CPU_EVENT,
            event => event,
        };
        Self {
            event: cut(event, MAX_NAME_BYTES).to_owned(),
            unit,
            period,
            divisor,
        }
    }

    fn count_of(&self, value: i64) -> u64 {
        u64::try_from(value).unwrap_or(0) / self.divisor
    }
}

/// The role of threads of this name: one of ours, or what Node calls them.
fn role_called(name: &str) -> ThreadRole {
    let known = ThreadRole::ALL.into_iter().find(|it| it.label() == name);
    known.unwrap_or_else(|| role_of_name(name))
}
