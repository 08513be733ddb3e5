//! The processed format of the Firefox profiler: opens in <https://profiler.firefox.com>.
//!
//! Version 57 of the format, which every later profiler upgrades by itself. Each thread has its
//! own tables with what it uses. Categories are nodespy's, subcategories the compilers of
//! JavaScript, and runs of samples in the garbage collector become markers. What was recorded is
//! shown under the profile's details (`meta.extra`).
//! <https://github.com/firefox-devtools/profiler/blob/main/docs-developer/processed-profile-format.md>

mod thread;

pub(crate) use thread::name_with_event;

use std::borrow::Cow;
use std::io::Write;

use flate2::{Compression, GzBuilder};
use nodespy_model::{
    Category, EventIndex, FastMap, Function, FunctionIndex, Profile, ThreadIndex, Tier,
};

use super::by_thread::samples_by_thread;
use super::{Detail, ExportError, Exporter};
use crate::json::Writer;
use crate::recorded;
use thread::ThreadTables;

/// The version of the format that is written.
const VERSION: u32 = 57;
/// The version of Gecko's own format that goes with it.
const GECKO_VERSION: u32 = 31;
/// The schema of the markers for garbage collection.
const GC_MARKER: &str = "V8 GC";

/// The exporter of the Firefox profiler's format.
pub(crate) struct Firefox;

impl Exporter for Firefox {
    fn name(&self) -> &'static str {
        "firefox"
    }

    fn extensions(&self) -> &'static [&'static str] {
        &["profile.json.gz", "firefox.json.gz", "firefox.json"]
    }

    fn leaves_out(&self) -> &'static [Detail] {
        &[
            Detail::Processors,
            Detail::AsyncFrames,
            Detail::ThreadRoles,
            Detail::ProcessDetails,
            Detail::DeoptReasons,
            Detail::Sources,
            Detail::GeneratedPlaces,
        ]
    }

    fn holds_events(&self) -> bool {
        true
    }

    fn export(&self, profile: &Profile, output: &mut dyn Write) -> Result<(), ExportError> {
        // No time and no host in gzip's own header: equal profiles give equal bytes.
        let mut packed = GzBuilder::new()
            .operating_system(255)
            .write(output, Compression::fast());
        let mut json = Writer::new(&mut packed);
        json.begin_object();
        write_meta(profile, &mut json);
        let libs = write_libs(profile, &mut json);
        let mut strings = Strings::default();
        json.key("threads");
        json.begin_array();
        let parts = parts(profile);
        let mut samples: Vec<_> = parts
            .of_events
            .iter()
            .map(|profile| samples_by_thread(profile))
            .collect();
        for (thread, of_event) in &parts.list {
            let samples = std::mem::take(&mut samples[*of_event][thread.at()]);
            let tables = ThreadTables::of(&parts.of_events[*of_event], *thread, samples);
            tables.write(&libs, *of_event > 0, &mut strings, &mut json);
        }
        json.end_array();
        if profile.events.len() > 1 || !profile.contexts.is_empty() {
            write_tags(profile, &parts, &mut json);
        }
        json.key("shared");
        json.begin_object();
        json.key("stringArray");
        array(&mut json, strings.order.iter(), |json, text| {
            json.string(text);
        });
        json.end_object();
        json.end_object();
        json.finish()?;
        packed.finish()?;
        Ok(())
    }
}

/// What becomes a thread of the file: the samples of one event on one thread. Every thread has one
/// of the first event, and one of each other event that it has samples of.
struct Parts<'p> {
    /// The profile of each event.
    of_events: Vec<Cow<'p, Profile>>,
    list: Vec<(ThreadIndex, usize)>,
}

fn parts(profile: &Profile) -> Parts<'_> {
    let of_events: Vec<Cow<'_, Profile>> = match profile.events.len() {
        0 | 1 => vec![Cow::Borrowed(profile)],
        events => (0..events as u16)
            .map(|event| Cow::Owned(profile.clone().select(EventIndex(event))))
            .collect(),
    };
    let mut has_samples = vec![false; profile.threads.len() * of_events.len()];
    for sample in &profile.samples {
        has_samples[sample.thread.at() * of_events.len() + sample.event.at()] = true;
    }
    let mut list = Vec::new();
    for thread in 0..profile.threads.len() {
        for event in 0..of_events.len() {
            if event == 0 || has_samples[thread * of_events.len() + event] {
                list.push((ThreadIndex(thread as u32), event));
            }
        }
    }
    Parts { of_events, list }
}

/// What the profiler has no place for, for our own importer: the event of each thread of the file,
/// and the contexts of its samples.
fn write_tags(profile: &Profile, parts: &Parts<'_>, json: &mut Writer<'_>) {
    json.key("nodespy");
    json.begin_object();
    json.key("events");
    array(json, parts.list.iter(), |json, (_, event)| {
        json.number(*event as i128);
    });
    if !profile.contexts.is_empty() {
        json.key("contexts");
        crate::contexts::write(&profile.contexts, json);
        json.key("sampleContexts");
        let samples: Vec<_> = parts
            .of_events
            .iter()
            .map(|profile| samples_by_thread(profile))
            .collect();
        array(json, parts.list.iter(), |json, (thread, event)| {
            let samples = &samples[*event][thread.at()];
            array(json, samples.iter(), |json, sample| {
                json.number(sample.context.0.into());
            });
        });
    }
    json.end_object();
}

/// The colours of the profiler nearest to what a category looks like in nodespy's own views.
fn colour_of(category: Category) -> &'static str {
    match category {
        Category::App => "green",
        Category::Dependency => "lightblue",
        Category::NodeCore => "blue",
        Category::Builtin => "purple",
        Category::Wasm => "magenta",
        Category::RegExp => "brown",
        Category::Gc => "red",
        Category::Native => "yellow",
        Category::Kernel => "orange",
        Category::Idle => "transparent",
        Category::Unknown => "grey",
        Category::Internal => "darkgrey",
    }
}

fn write_meta(profile: &Profile, json: &mut Writer<'_>) {
    let about = &profile.about;
    let product = match &*about.app {
        "" => "nodespy",
        app => app,
    };
    json.key("meta");
    json.begin_object();
    json.number_field("preprocessedProfileVersion", VERSION);
    json.number_field("version", GECKO_VERSION);
    json.string_field("product", product);
    json.string_field("importedFrom", "nodespy");
    json.key("startTime");
    json.millionths(about.started_unix);
    json.key("interval");
    json.millionths(profile.event().interval().unwrap_or(1_000_000));
    for number in ["processType", "debug"] {
        json.number_field(number, 0);
    }
    json.number_field("stackwalk", 1);
    for yes in ["symbolicated", "sourceCodeIsNotOnSearchfox"] {
        json.key(yes);
        json.word("true");
    }
    json.key("categories");
    array(json, Category::ALL.into_iter(), |json, category| {
        json.begin_object();
        json.string_field("name", category.label());
        json.string_field("color", colour_of(category));
        json.key("subcategories");
        array(json, Tier::ALL.into_iter(), |json, tier| {
            json.string(match tier {
                Tier::None => "Other",
                tier => tier.label(),
            });
        });
        json.end_object();
    });
    write_marker_schema(json);
    write_extra(profile, json);
    json.end_object();
}

fn write_marker_schema(json: &mut Writer<'_>) {
    json.key("markerSchema");
    json.begin_array();
    json.begin_object();
    json.string_field("name", GC_MARKER);
    json.string_field("tooltipLabel", "Garbage collection");
    json.string_field("tableLabel", "{marker.data.samples} samples");
    json.string_field("chartLabel", "GC");
    json.key("display");
    let places = ["marker-chart", "marker-table", "timeline-overview"];
    array(json, places.into_iter(), |json, place| json.string(place));
    json.key("fields");
    json.begin_array();
    json.begin_object();
    json.string_field("key", "samples");
    json.string_field("label", "Samples");
    json.string_field("format", "integer");
    json.end_object();
    json.end_array();
    json.end_object();
    json.end_array();
}

/// What was recorded, as the profiler shows it under the profile's details.
fn write_extra(profile: &Profile, json: &mut Writer<'_>) {
    json.key("extra");
    json.begin_array();
    json.begin_object();
    json.string_field("label", "nodespy");
    json.key("entries");
    let lines = recorded::lines(profile);
    array(json, lines.iter(), |json, line| {
        let (key, value) = line.split_once(": ").unwrap_or((line, ""));
        json.begin_object();
        json.string_field("label", key);
        json.string_field("format", "string");
        json.string_field("value", value);
        json.end_object();
    });
    json.end_object();
    json.end_array();
}

/// Writes the libraries of native code, and returns where in the list each is.
fn write_libs<'p>(profile: &'p Profile, json: &mut Writer<'_>) -> FastMap<&'p str, u32> {
    let mut libs = FastMap::default();
    json.key("libs");
    json.begin_array();
    for position in 0..profile.functions.len() {
        let function = FunctionIndex(position as u32);
        let path = profile.file_of(function);
        let next = libs.len() as u32;
        if has_source(profile.function(function)) || path.is_empty() || libs.contains_key(path) {
            continue;
        }
        libs.insert(path, next);
        let name = path.rsplit('/').next().unwrap_or(path);
        json.begin_object();
        json.string_field("arch", "");
        json.string_field("name", name);
        json.string_field("path", path);
        json.string_field("debugName", name);
        json.string_field("debugPath", path);
        json.string_field("breakpadId", "");
        json.key("codeId");
        json.word("null");
        json.end_object();
    }
    json.end_array();
    libs
}

/// Whether the file of a function is a source rather than a library.
fn has_source(function: &Function) -> bool {
    let is_javascript = matches!(
        function.category,
        Category::App | Category::Dependency | Category::NodeCore | Category::Wasm
    );
    is_javascript || function.line > 0
}

/// The strings of the file, each once.
#[derive(Default)]
struct Strings {
    known: FastMap<Box<str>, u32>,
    order: Vec<Box<str>>,
}

impl Strings {
    fn index(&mut self, text: &str) -> u32 {
        if let Some(&index) = self.known.get(text) {
            return index;
        }
        let index = self.order.len() as u32;
        self.known.insert(text.into(), index);
        self.order.push(text.into());
        index
    }
}

/// Writes an array.
fn array<T>(
    json: &mut Writer<'_>,
    items: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut Writer<'_>, T),
) {
    json.begin_array();
    for item in items {
        write(json, item);
    }
    json.end_array();
}
