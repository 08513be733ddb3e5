//! A batch as a request: a resource for each process, a profile for each of its windows, names in one dictionary.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use nodespy_model::{FastMap, WeightUnit, label_key};
use nodespy_store::{
    Batch, PID, Series, StackHash, StoredFunction, Symbols, WINDOW_SECONDS, Window,
};
use prost::Message;
use sha2::{Digest, Sha256};

use crate::attributes::{FRAME_TYPE, SERVICE, THREAD, attribute_of, frame_type};
use crate::messages::{
    AnyValue, ExportProfilesServiceRequest, Function, InstrumentationScope, KeyValue,
    KeyValueAndUnit, Line, Link, Location, Mapping, Profile, ProfilesDictionary, Resource,
    ResourceProfiles, Sample, ScopeProfiles, Stack, Value, ValueType,
};

const SECOND: u64 = 1_000_000_000;

/// A batch as a request, gzipped. Equal batches give equal bytes.
pub fn encode(batch: &Batch) -> Vec<u8> {
    let mut dictionary = Dictionary::of(&batch.symbols);
    let mut windows: Vec<Vec<&Window>> = vec![Vec::new(); batch.series.len()];
    for window in &batch.windows {
        windows[window.series].push(window);
    }
    let with_windows = batch.series.iter().zip(&windows);
    let resource_profiles = with_windows
        .filter(|(_, windows)| !windows.is_empty())
        .map(|(series, windows)| resource_profiles(series, windows, &mut dictionary))
        .collect();
    let request = ExportProfilesServiceRequest {
        resource_profiles,
        dictionary: Some(dictionary.tables),
    };
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed
        .write_all(&request.encode_to_vec())
        .and_then(|()| packed.finish())
        .expect("memory takes any bytes")
}

fn resource_profiles(
    series: &Series,
    windows: &[&Window],
    dictionary: &mut Dictionary,
) -> ResourceProfiles {
    let profiles = windows
        .iter()
        .map(|window| dictionary.profile(series, window));
    let scope = InstrumentationScope {
        name: "nodespy".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    ResourceProfiles {
        scope_profiles: vec![ScopeProfiles {
            profiles: profiles.collect(),
            scope: Some(scope),
        }],
        resource: Some(resource(series)),
    }
}

fn resource(series: &Series) -> Resource {
    let attribute = |key: &str, value| KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        key_strindex: 0,
    };
    let mut attributes = vec![attribute(SERVICE, Value::Text(series.service.clone()))];
    for (label, value) in series.labels.iter() {
        let number = value.parse().ok().filter(|_| label == PID);
        let value = number.map_or_else(|| Value::Text(value.to_owned()), Value::Number);
        if label != label_key::APP {
            attributes.push(attribute(attribute_of(label), value));
        }
    }
    Resource { attributes }
}

/// What a window is known by: sent again, it is recognized.
fn profile_id(series: &Series, window: &Window) -> Vec<u8> {
    let mut hasher = Sha256::new();
    let mut add = |text: &str| {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    };
    add(&series.service);
    add(&series.event);
    for (label, value) in series.labels.iter() {
        add(label);
        add(value);
    }
    hasher.update(series.period.to_le_bytes());
    hasher.update(window.start.to_le_bytes());
    hasher.finalize()[..16].to_vec()
}

/// The tables that all profiles share, and where things are in them.
struct Dictionary {
    tables: ProfilesDictionary,
    strings: FastMap<String, i32>,
    attributes: FastMap<(&'static str, &'static str), i32>,
    stacks: FastMap<StackHash, i32>,
}

impl Dictionary {
    fn of(symbols: &Symbols) -> Self {
        let mut dictionary = Self {
            // The first row of each means none.
            tables: ProfilesDictionary {
                mapping_table: vec![Mapping::default()],
                location_table: vec![Location::default()],
                function_table: vec![Function::default()],
                link_table: vec![Link::default()],
                string_table: Vec::new(),
                attribute_table: vec![KeyValueAndUnit::default()],
                stack_table: vec![Stack::default()],
            },
            strings: FastMap::default(),
            attributes: FastMap::default(),
            stacks: FastMap::default(),
        };
        dictionary.string("");
        for function in &symbols.functions {
            let row = dictionary.function(function);
            dictionary.tables.function_table.push(row);
        }
        for frame in &symbols.frames {
            let category = symbols.functions[frame.function as usize].category;
            let attribute = dictionary.attribute(FRAME_TYPE, frame_type(category));
            dictionary.tables.location_table.push(Location {
                lines: vec![Line {
                    function_index: row_of(frame.function as usize),
                    line: frame.line.into(),
                    column: frame.column.into(),
                }],
                attribute_indices: vec![attribute],
                ..Location::default()
            });
        }
        let hashes = symbols.checked_hashes().unwrap_or_default();
        for (position, hash) in hashes.into_iter().enumerate() {
            let frames = symbols.stacks[position].iter().rev();
            let location_indices = frames.map(|frame| row_of(*frame as usize)).collect();
            dictionary
                .tables
                .stack_table
                .push(Stack { location_indices });
            dictionary.stacks.insert(hash, row_of(position));
        }
        dictionary
    }

    fn function(&mut self, function: &StoredFunction) -> Function {
        let name = self.string(&function.name);
        Function {
            name_strindex: name,
            system_name_strindex: name,
            filename_strindex: self.string(&function.file),
            start_line: function.line.into(),
        }
    }

    fn profile(&mut self, series: &Series, window: &Window) -> Profile {
        let samples = window.counts.iter().map(|count| Sample {
            stack_index: self.stacks.get(&count.stack).copied().unwrap_or_default(),
            attribute_indices: vec![self.attribute(THREAD, count.role().label())],
            values: vec![i64::try_from(count.count).unwrap_or(i64::MAX)],
            timestamps_unix_nano: Vec::new(),
        });
        let samples = samples.collect();
        let unit = match series.unit {
            WeightUnit::Nanoseconds => "nanoseconds",
            WeightUnit::Bytes => "bytes",
            WeightUnit::Samples | WeightUnit::Events => "count",
        };
        let of_event = ValueType {
            type_strindex: self.string(&series.event),
            unit_strindex: self.string(unit),
        };
        // Samples of time are counted, as OpenTelemetry's own profiler does; what each stands for is the period.
        let is_counted = series.unit == WeightUnit::Nanoseconds;
        let sample_type = match is_counted {
            true => ValueType {
                type_strindex: self.string("samples"),
                unit_strindex: self.string("count"),
            },
            false => of_event,
        };
        Profile {
            sample_type: Some(sample_type),
            samples,
            time_unix_nano: window.start.saturating_mul(SECOND),
            duration_nano: WINDOW_SECONDS * SECOND,
            period_type: Some(of_event),
            period: i64::try_from(series.period).unwrap_or(i64::MAX),
            profile_id: profile_id(series, window),
        }
    }

    fn string(&mut self, text: &str) -> i32 {
        if let Some(known) = self.strings.get(text) {
            return *known;
        }
        let row = self.tables.string_table.len() as i32;
        self.tables.string_table.push(text.to_owned());
        self.strings.insert(text.to_owned(), row);
        row
    }

    fn attribute(&mut self, key: &'static str, value: &'static str) -> i32 {
        if let Some(known) = self.attributes.get(&(key, value)) {
            return *known;
        }
        let row = self.tables.attribute_table.len() as i32;
        let attribute = KeyValueAndUnit {
            key_strindex: self.string(key),
            value: Some(AnyValue {
                value: Some(Value::Text(value.to_owned())),
            }),
        };
        self.tables.attribute_table.push(attribute);
        self.attributes.insert((key, value), row);
        row
    }
}

/// The row of something that is at this position of its table here: rows count from one.
fn row_of(position: usize) -> i32 {
    i32::try_from(position + 1).unwrap_or_default()
}
