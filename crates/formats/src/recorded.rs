//! What was recorded, as lines of text: for formats that have room for comments only.
//!
//! The first line says `nodespy VERSION`, each of the others `key: value`. A person can read them,
//! and [`Recorded::from_lines`] takes them back.

use nodespy_model::{
    About, EventType, FastMap, Labels, MAX_EVENTS, NameSource, Notes, Process, Profile, Sampling,
    WeightUnit, printable,
};

/// How the first line starts.
const START: &str = "nodespy";

/// The key under which formats of V8 have the lines of [`lines_of_place`].
pub(crate) const PLACE_KEY: &str = "nodespy";

/// The keys of lines that only some profiles have.
const FURTHER_EVENT: &str = "further event";
const CONTEXT_KEY: &str = "samples are labelled with";

const COUNTS: [&str; 7] = [
    "lost samples",
    "lost records",
    "throttled",
    "cut stacks",
    "incomplete stacks",
    "unwound stacks",
    "JIT frames",
];

/// The label of a sample with the machine it was taken on.
pub(crate) const HOST_LABEL: &str = "host";

/// The lines that record what a profile is of, how good it is, and where its processes ran.
pub(crate) fn lines(profile: &Profile) -> Vec<String> {
    let mut lines = lines_without_labels(profile);
    lines.extend(profile.processes.iter().flat_map(label_lines));
    lines
}

/// The same for formats that hold labels in their own way.
pub(crate) fn lines_without_labels(profile: &Profile) -> Vec<String> {
    let about = &profile.about;
    let notes = &profile.notes;
    let event = profile.event();
    let mut lines = vec![first_line(about), format!("unit: {}", event.unit.label())];
    let mut say = |key: &str, value: &str| {
        if !value.is_empty() {
            lines.push(format!("{key}: {value}"));
        }
    };
    say("app", &about.app);
    say("host", &about.host);
    say("engine", &about.engine);
    say("event", &event.name);
    let mut say_count = |key: &str, count: u64| {
        if count > 0 {
            say(key, &count.to_string());
        }
    };
    say_count("samples per second", u64::from(event.rate_hz()));
    if let Sampling::Period(period) = event.sampling {
        say_count("events per sample", period);
    }
    say_count("started in ns since 1970", about.started_unix);
    say_count("lasted ns", about.duration);
    for (key, count) in COUNTS.into_iter().zip(counts(notes)) {
        say_count(key, count);
    }
    for source in NameSource::ALL {
        let key = format!("JIT frames named by {}", source.label());
        say_count(&key, notes.jit_named[source.at()]);
    }
    for event in profile.events.iter().skip(1) {
        say(FURTHER_EVENT, &event_line(event));
    }
    for key in context_keys(profile) {
        say(CONTEXT_KEY, key);
    }
    for sentence in notes.sentences() {
        say("remark", &sentence);
    }
    for process in &profile.processes {
        say(&format!("command of {}", process.pid), &process.command);
    }
    lines
}

/// An event after the first, as the value of a line: its unit, its sampling, its name.
fn event_line(event: &EventType) -> String {
    let sampling = match event.sampling {
        Sampling::Unknown => "-".to_owned(),
        Sampling::Rate(rate_hz) => format!("{rate_hz} Hz"),
        Sampling::Period(period) => format!("1 in {period}"),
    };
    format!("{}, {sampling}, {}", event.unit.label(), event.name)
}

/// Takes such a value back.
fn event_of_line(line: &str) -> Option<EventType> {
    let mut parts = line.splitn(3, ", ");
    let unit = unit_called(parts.next()?);
    let sampling = parts.next()?;
    let rate = sampling.strip_suffix(" Hz").and_then(|it| it.parse().ok());
    let period = sampling
        .strip_prefix("1 in ")
        .and_then(|it| it.parse().ok());
    Some(EventType {
        sampling: match (rate, period) {
            (Some(rate_hz), _) => Sampling::Rate(rate_hz),
            (None, Some(period)) => Sampling::Period(period),
            (None, None) => Sampling::Unknown,
        },
        ..EventType::new(parts.next().unwrap_or(""), unit)
    })
}

fn unit_called(label: &str) -> WeightUnit {
    let known = WeightUnit::ALL.into_iter().find(|it| it.label() == label);
    known.unwrap_or_default()
}

/// The keys that samples are tagged with, each once.
fn context_keys(profile: &Profile) -> Vec<&str> {
    let sets = profile.contexts.iter();
    let mut keys: Vec<&str> = sets
        .flat_map(|set| set.iter().map(|(key, _)| key))
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Where and as what these processes ran: for formats that hold the rest in their own way. Nothing
/// when that is not known.
pub(crate) fn lines_of_place<'p>(
    profile: &'p Profile,
    processes: impl Iterator<Item = &'p Process>,
) -> Vec<String> {
    let about = &profile.about;
    let known = [("app", &about.app), ("host", &about.host)];
    let known = known.into_iter().filter(|(_, value)| !value.is_empty());
    let mut lines: Vec<String> = known
        .map(|(key, value)| format!("{key}: {value}"))
        .chain(processes.flat_map(label_lines))
        .collect();
    if !lines.is_empty() {
        lines.insert(0, first_line(about));
    }
    lines
}

fn first_line(about: &About) -> String {
    match &*about.nodespy_version {
        "" => START.to_owned(),
        version => format!("{START} {version}"),
    }
}

fn label_lines(process: &Process) -> impl Iterator<Item = String> {
    let pid = process.pid;
    let labels = process.labels.iter();
    labels.map(move |(key, value)| format!("label {key} of {pid}: {value}"))
}

fn counts(notes: &Notes) -> [u64; 7] {
    [
        notes.lost_samples,
        notes.lost_records,
        notes.throttled,
        notes.cut_stacks,
        notes.incomplete_stacks,
        notes.unwound_stacks,
        notes.jit_frames,
    ]
}

/// What such lines record.
#[derive(Debug)]
pub(crate) struct Recorded {
    /// What was recorded.
    pub(crate) about: About,
    /// How good it is.
    pub(crate) notes: Notes,
    /// What made the samples, at least one event.
    pub(crate) events: Vec<EventType>,
    /// The keys of the labels that samples are tagged with.
    pub(crate) context_keys: Vec<String>,
    /// Where and as what processes ran.
    pub(crate) labels: ProcessLabels,
}

impl Default for Recorded {
    fn default() -> Self {
        Self {
            about: About::default(),
            notes: Notes::default(),
            events: vec![EventType::default()],
            context_keys: Vec::new(),
            labels: ProcessLabels::default(),
        }
    }
}

/// The labels of processes, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct ProcessLabels(FastMap<u32, Labels>);

impl ProcessLabels {
    /// Gives every process its labels. A format that knows no numbers has one process: it is meant.
    pub(crate) fn give_to(&self, processes: &mut [Process]) {
        let has_no_numbers = self.0.len() == 1 && matches!(processes, [only] if only.pid == 0);
        for process in processes {
            let labels = match has_no_numbers {
                true => self.0.values().next(),
                false => self.0.get(&process.pid),
            };
            if let Some(labels) = labels {
                process.labels = labels.clone();
            }
        }
    }

    /// Takes the line `label KEY of PID: VALUE`.
    fn take(&mut self, key: &str, value: &str) -> Option<()> {
        let (key, pid) = key.strip_prefix("label ")?.rsplit_once(" of ")?;
        let labels = self.0.entry(pid.parse().ok()?).or_default();
        labels.set(key, value);
        Some(())
    }
}

impl Recorded {
    /// Takes lines back; none when nodespy did not write them.
    pub(crate) fn from_lines<'a>(mut lines: impl Iterator<Item = &'a str>) -> Option<Self> {
        let version = match lines.next()?.strip_prefix(START)? {
            "" => "",
            rest => rest.strip_prefix(' ')?,
        };
        let mut recorded = Self::default();
        recorded.about.nodespy_version = printable(version).into_owned();
        for (key, value) in lines.filter_map(|line| line.split_once(": ")) {
            recorded.take(key, &printable(value));
        }
        Some(recorded)
    }

    fn take(&mut self, key: &str, value: &str) {
        let count = || value.parse().unwrap_or(0);
        let about = &mut self.about;
        let notes = &mut self.notes;
        let has_room = self.events.len() < MAX_EVENTS;
        let first = &mut self.events[0];
        match key {
            "app" => about.app = value.to_owned(),
            "host" => about.host = value.to_owned(),
            "engine" => about.engine = value.to_owned(),
            "event" => first.name = value.to_owned(),
            "samples per second" => first.sampling = Sampling::Rate(value.parse().unwrap_or(0)),
            "events per sample" => first.sampling = Sampling::Period(count()),
            FURTHER_EVENT if has_room => {
                self.events.extend(event_of_line(value));
            }
            CONTEXT_KEY => self.context_keys.push(value.to_owned()),
            "started in ns since 1970" => about.started_unix = count(),
            "lasted ns" => about.duration = count(),
            "unit" => first.unit = unit_called(value),
            "lost samples" => notes.lost_samples = count(),
            "lost records" => notes.lost_records = count(),
            "throttled" => notes.throttled = count(),
            "cut stacks" => notes.cut_stacks = count(),
            "incomplete stacks" => notes.incomplete_stacks = count(),
            "unwound stacks" => notes.unwound_stacks = count(),
            "JIT frames" => notes.jit_frames = count(),
            "remark" => notes.take_sentence(value),
            _ => {
                let source = key.strip_prefix("JIT frames named by ");
                let known = NameSource::ALL
                    .into_iter()
                    .find(|known| source == Some(known.label()));
                if let Some(known) = known {
                    notes.jit_named[known.at()] = count();
                }
                self.labels.take(key, value);
            }
        }
    }
}
