//! A request as a batch: each process a series, each ten seconds of it a window.
//!
//! A process is known by the attributes of its resource, or by those of samples where a sender puts all processes of a host into
//! one resource, as OpenTelemetry's eBPF profiler does. Samples with times are in the windows of those, others in the one in which
//! their profile begins.

use std::collections::BTreeMap;
use std::io::Read;

use flate2::read::GzDecoder;
use nodespy_model::classify::{category_of_file, category_of_native, role_of_name};
use nodespy_model::{Category, FastMap, FrameKind, Labels, ThreadRole, WeightUnit};
use nodespy_store::{
    Batch, CPU_EVENT, Count, MAX_DEPTH, MAX_TEXT_BYTES, Series, StackHash, StoredFrame,
    StoredFunction, Symbols, UnixSeconds, WINDOW_SECONDS, Window,
};
use prost::Message;

use crate::attributes::{
    EXECUTABLE, FRAME_TYPE, PROCESS_ID, SERVICE, THREAD, UNKNOWN_SERVICE, label_of,
};
use crate::limits::{MAX_STACK_FRAMES, MAX_UNPACKED_BYTES, OtlpError, check_messages};
use crate::messages::{
    AnyValue, ExportProfilesServiceRequest, Location, Profile, ProfilesDictionary, Resource,
    Sample, Value,
};

const SECOND: u64 = 1_000_000_000;
/// What stands for the callers that are left out of a stack that is too deep.
const TRUNCATED: &str = "[truncated]";

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
        let resource = of_resource.resource.clone().unwrap_or_default();
        let profiles = of_resource.scope_profiles.iter();
        for profile in profiles.flat_map(|scope| &scope.profiles) {
            decoding.profile(&resource, profile);
        }
    }
    let left_out = decoding.left_out;
    Ok(Decoded {
        batch: decoding.finish(),
        left_out,
    })
}

fn unpacked(body: &[u8], encoding: Option<&str>) -> Result<Vec<u8>, OtlpError> {
    let mut request = Vec::new();
    match encoding.unwrap_or("identity") {
        "identity" => request.extend_from_slice(body),
        "gzip" => {
            let mut unpacking = GzDecoder::new(body).take(MAX_UNPACKED_BYTES + 1);
            let read = unpacking.read_to_end(&mut request);
            read.map_err(OtlpError::Gzip)?;
        }
        other => return Err(OtlpError::Encoding(other.chars().take(40).collect())),
    }
    match request.len() as u64 > MAX_UNPACKED_BYTES {
        true => Err(OtlpError::TooLarge),
        false => Ok(request),
    }
}

/// The counts of a window, by stack and role.
type Counts = FastMap<(usize, ThreadRole), u64>;

struct Decoding<'a> {
    dictionary: &'a ProfilesDictionary,
    symbols: Symbols,
    hashes: Vec<StackHash>,
    series: Vec<Series>,
    known: FastMap<Series, usize>,
    windows: BTreeMap<(usize, UnixSeconds), Counts>,
    left_out: u64,
}

impl<'a> Decoding<'a> {
    fn new(dictionary: &'a ProfilesDictionary) -> Result<Self, OtlpError> {
        let mut symbols = symbols_of(dictionary)?;
        // What stands for samples without a stack: a stack without frames.
        symbols.stacks.push(Vec::new());
        Ok(Self {
            dictionary,
            hashes: symbols.hashes(),
            symbols,
            series: Vec::new(),
            known: FastMap::default(),
            windows: BTreeMap::new(),
            left_out: 0,
        })
    }

    fn profile(&mut self, resource: &Resource, profile: &Profile) {
        let measured = Measured::of(self.dictionary, profile);
        // Samples of one process come with the same attributes again and again.
        let mut places: FastMap<&[i32], (usize, ThreadRole)> = FastMap::default();
        for sample in &profile.samples {
            let of_sample = sample.attribute_indices.as_slice();
            let (series, role) = match places.get(of_sample) {
                Some(place) => *place,
                None => {
                    let place = self.place(resource, of_sample, &measured);
                    places.insert(of_sample, place);
                    place
                }
            };
            let no_stack = self.symbols.stacks.len() - 1;
            let stack = usize::try_from(sample.stack_index).unwrap_or(no_stack);
            // The first row means none.
            let stack = match stack {
                0 => no_stack,
                stack => stack.min(no_stack),
            };
            for (time, value) in observations(sample, profile.time_unix_nano) {
                let start = time / SECOND / WINDOW_SECONDS * WINDOW_SECONDS;
                let counts = self.windows.entry((series, start)).or_default();
                let count = counts.entry((stack, role)).or_default();
                *count = count.saturating_add(measured.count_of(value));
            }
        }
    }

    /// The series and thread role of samples with these attributes.
    fn place(
        &mut self,
        resource: &Resource,
        of_sample: &[i32],
        measured: &Measured,
    ) -> (usize, ThreadRole) {
        let mut labels = Labels::default();
        let mut service = None;
        let mut executable = None;
        let mut role = ThreadRole::Main;
        let strings = Strings(self.dictionary);
        let of_resource = resource.attributes.iter().map(|attribute| {
            let key = match attribute.key_strindex {
                0 => attribute.key.as_str(),
                row => strings.get(row),
            };
            (key, &attribute.value, true)
        });
        let of_sample = of_sample.iter().filter_map(|row| {
            let attribute = row_in(&self.dictionary.attribute_table, *row)?;
            Some((strings.get(attribute.key_strindex), &attribute.value, false))
        });
        for (key, value, is_of_resource) in of_resource.chain(of_sample) {
            let Some(value) = strings.value(value.as_ref()) else {
                continue;
            };
            match key {
                SERVICE => service = Some(value),
                THREAD => role = role_called(&value),
                EXECUTABLE => executable = Some(value),
                // What else samples have tells no processes apart.
                key if is_of_resource || key == PROCESS_ID => {
                    labels.set(label_of(key), value);
                    let is_full = labels.iter().len() >= Labels::MAX;
                    let is_left_out = is_full && labels.get(label_of(key)).is_none();
                    self.left_out += u64::from(is_left_out);
                }
                _ => {}
            }
        }
        let service = service.or(executable);
        let series = Series {
            service: service.unwrap_or_else(|| UNKNOWN_SERVICE.to_owned()),
            event: measured.event.clone(),
            unit: measured.unit,
            period: measured.period,
            labels,
        };
        let next = self.series.len();
        let all = &mut self.series;
        let index = *self.known.entry(series).or_insert_with_key(|series| {
            all.push(series.clone());
            next
        });
        (index, role)
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
        Batch {
            windows: windows.collect(),
            series: self.series,
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
            event: event.to_owned(),
            unit,
            period,
            divisor,
        }
    }

    fn count_of(&self, value: i64) -> u64 {
        u64::try_from(value).unwrap_or(0) / self.divisor
    }
}

/// The texts of a dictionary.
#[derive(Clone, Copy)]
struct Strings<'a>(&'a ProfilesDictionary);

impl<'a> Strings<'a> {
    fn get(self, row: i32) -> &'a str {
        row_in(&self.0.string_table, row).map_or("", String::as_str)
    }

    fn value(self, value: Option<&AnyValue>) -> Option<String> {
        Some(match value?.value.as_ref()? {
            Value::Text(text) => text.clone(),
            Value::Bool(it) => it.to_string(),
            Value::Number(number) => number.to_string(),
            Value::TextIndex(row) => self.get(*row).to_owned(),
        })
    }
}

/// A row of a table, if it is one.
fn row_in<T>(table: &[T], row: i32) -> Option<&T> {
    table.get(usize::try_from(row).ok()?)
}

/// The stacks of a dictionary, in their order, cut to what a store takes.
fn symbols_of(dictionary: &ProfilesDictionary) -> Result<Symbols, OtlpError> {
    let mut symbols = Symbols::default();
    let mut frames_of: Vec<Vec<u32>> = Vec::with_capacity(dictionary.location_table.len());
    let mut functions: FastMap<StoredFunction, u32> = FastMap::default();
    let mut function_row = |function: StoredFunction| {
        let next = functions.len() as u32;
        *functions.entry(function).or_insert(next)
    };
    for location in &dictionary.location_table {
        let frames = frames_at(dictionary, location, &mut function_row);
        let first = symbols.frames.len() as u32;
        frames_of.push((first..first + frames.len() as u32).collect());
        symbols.frames.extend(frames);
    }
    let truncated = symbols.frames.len() as u32;
    symbols.frames.push(StoredFrame {
        function: function_row(StoredFunction {
            name: TRUNCATED.to_owned(),
            ..StoredFunction::default()
        }),
        ..StoredFrame::default()
    });
    let mut functions: Vec<(StoredFunction, u32)> = functions.into_iter().collect();
    functions.sort_unstable_by_key(|(_, row)| *row);
    symbols.functions = functions.into_iter().map(|(it, _)| it).collect();
    let mut left = MAX_STACK_FRAMES;
    for stack in &dictionary.stack_table {
        let rows = stack.location_indices.iter();
        let frames = rows.filter_map(|row| row_in(&frames_of, *row)).flatten();
        let mut path: Vec<u32> = frames.copied().take(MAX_DEPTH + 1).collect();
        if path.len() > MAX_DEPTH {
            path.truncate(MAX_DEPTH - 1);
            path.push(truncated);
        }
        left = left.checked_sub(path.len()).ok_or(OtlpError::TooMany {
            what: "frames of stacks",
            most: MAX_STACK_FRAMES,
        })?;
        path.reverse();
        symbols.stacks.push(path);
    }
    Ok(symbols)
}

/// The frames of a location, the innermost first.
fn frames_at(
    dictionary: &ProfilesDictionary,
    location: &Location,
    function_row: &mut impl FnMut(StoredFunction) -> u32,
) -> Vec<StoredFrame> {
    let strings = Strings(dictionary);
    let frame_type = location.attribute_indices.iter().find_map(|row| {
        let attribute = row_in(&dictionary.attribute_table, *row)?;
        let is_type = strings.get(attribute.key_strindex) == FRAME_TYPE;
        is_type.then(|| strings.value(attribute.value.as_ref()))?
    });
    let frame_type = frame_type.unwrap_or_default();
    let mapping = row_in(&dictionary.mapping_table, location.mapping_index);
    let module = mapping.map_or("", |it| strings.get(it.filename_strindex));
    if location.lines.is_empty() {
        let name = match location.address {
            0 => String::new(),
            address => format!("0x{address:x}"),
        };
        let function = function_row(stored_function(&name, module, 0, &frame_type));
        return vec![StoredFrame {
            function,
            ..StoredFrame::default()
        }];
    }
    let outermost = location.lines.len() - 1;
    let lines = location.lines.iter().enumerate();
    lines
        .map(|(position, line)| {
            let function = row_in(&dictionary.function_table, line.function_index);
            let function = function.copied().unwrap_or_default();
            let file = match strings.get(function.filename_strindex) {
                "" => module,
                file => file,
            };
            let name = strings.get(function.name_strindex);
            let start = number(function.start_line);
            StoredFrame {
                function: function_row(stored_function(name, file, start, &frame_type)),
                line: number(line.line),
                column: number(line.column),
                kind: FrameKind::inlined_if(position < outermost),
                ..StoredFrame::default()
            }
        })
        .collect()
}

fn stored_function(name: &str, file: &str, line: u32, frame_type: &str) -> StoredFunction {
    let category = match frame_type {
        "kernel" => Category::Kernel,
        "wasm" => Category::Wasm,
        "native" => category_of_native(name),
        _ if name.is_empty() => Category::Unknown,
        _ => category_of_file(file),
    };
    StoredFunction {
        name: cut(name).to_owned(),
        file: cut(file).to_owned(),
        line,
        column: 0,
        category,
    }
}

/// A line or column; those that can't be are not known.
fn number(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

/// The beginning of a text that is too long.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The role of threads of this name: one of ours, or what Node calls them.
fn role_called(name: &str) -> ThreadRole {
    let known = ThreadRole::ALL.into_iter().find(|it| it.label() == name);
    known.unwrap_or_else(|| role_of_name(name))
}
