//! What a page shows before it has unpacked its recording: who, how, what stands out, and the
//! heavy part of the flame graph, as one JSON object.
//!
//! It stands inside a `<script>` element of the page, so no `<` is in it, whatever the names are.

use nodespy_analysis::{Outline, OutlineNode, Subsystem, SubsystemWeights, subsystem_of};
use nodespy_model::{
    EventIndex, FastMap, FunctionIndex, Profile, SmallSort, UtcTime, WeightUnit, label_key,
    printable,
};

use crate::leads::{Lead, Leads};
use crate::report::Answers;
use crate::wording;

/// A node of the tree weighs at least this part of the whole: about a pixel's worth of it.
const PARTS: u64 = 2000;
const MAX_NODES: usize = 6000;
/// Rows that are in sight at first on a tall screen; the rest comes with the recording.
const MAX_ROWS: u32 = 64;
/// Weights are written in this many parts of the whole, which takes a third of the letters.
const SCALE: u64 = 1 << 15;
const MAX_FINDINGS: usize = 4;
/// How many events are described, each by itself; of more the page has the names and totals.
const MAX_EVENTS: usize = 16;
/// How many processes are listed one by one.
const MAX_PROCESSES: usize = 8;

/// The preview of a profile, as JSON: of its first event, and what the others are.
pub(crate) fn of(whole: &Profile, title: &str) -> String {
    let first = whole.first_event();
    let profile = &*first;
    let mut json = Json::default();
    json.open('{');
    json.key("title").text(title);
    json.key("who").text(&wording::who(profile));
    json.key("how").text(&wording::how(profile));
    json.key("confidence").texts(&wording::confidence(profile));
    json.key("remarks").texts(&profile.notes.remarks);
    write_findings(profile, &mut json);
    write_waits(profile, &mut json);
    json.key("facts").open('[');
    for (label, value) in facts(profile) {
        json.texts(&[label, value]);
    }
    json.close(']');
    if whole.events.len() > 1 {
        write_events(whole, &mut json);
    }
    json.key("event").text(&profile.event().name);
    json.key("unit").text(match profile.unit() {
        WeightUnit::Samples => "samples",
        WeightUnit::Nanoseconds => "nanoseconds",
        WeightUnit::Bytes => "bytes",
        WeightUnit::Events => "events",
    });
    json.key("durationNs").number(profile.about.duration);
    json.key("samples").number(profile.samples.len() as u64);
    json.key("subsystemOf")
        .text(&subsystems_of_functions(whole));
    let mut outline = Outline::of(profile, PARTS, MAX_NODES);
    outline.nodes.retain(|node| node.depth < MAX_ROWS);
    write_tree(profile, &outline, &mut json);
    json.close('}');
    json.text
}

/// What stands out, for each sentence where the names in it lead, and the subsystems.
fn write_findings(profile: &Profile, json: &mut Json) {
    let answers = Answers::of(profile);
    let mut findings = answers.findings;
    findings.truncate(MAX_FINDINGS);
    json.key("findings").texts(&findings);
    let leads = Leads::of(profile);
    json.key("leads").open('[');
    for finding in &findings {
        let leads = leads.in_sentence(finding);
        let leads: Vec<String> = leads.iter().map(Lead::to_string).collect();
        json.texts(&leads);
    }
    json.close(']');
    write_subsystems(&answers.subsystems, answers.total, json);
}

/// What event loops and pools did, in pieces of text, each with where it leads.
fn write_waits(profile: &Profile, json: &mut Json) {
    let mut lines = crate::event_loops::lines(profile);
    // There is room for two: those of the main thread and its pool.
    let others = lines.split_off(lines.len().min(1));
    lines.extend(crate::pools::lines(profile));
    lines.extend(crate::gc_pauses::lines(profile));
    lines.extend(crate::exact_waits::lines(profile));
    json.key("waits").open('[');
    for line in lines.into_iter().chain(others) {
        json.open('[');
        for (text, lead) in line.pieces {
            json.texts(&[text, lead]);
        }
        json.close(']');
    }
    json.close(']');
}

/// The subsystems with their shares in words, each with the search that shows where it is.
fn write_subsystems(subsystems: &[SubsystemWeights], total: u64, json: &mut Json) {
    let share = |weight: u64| wording::percent(wording::percent_of(weight, total));
    json.key("subsystems").open('[');
    for entry in subsystems {
        let subsystem = entry.subsystem;
        json.open('{');
        json.key("label").text(subsystem.label());
        json.key("share").text(&share(entry.weight));
        json.key("search").text(&format!("in:{}", subsystem.key()));
        json.key("category").number(subsystem.category() as u64);
        json.key("members").open('[');
        for (name, weight) in wording::named_members(entry, total) {
            json.texts(&[name.clone(), share(*weight), search_of(subsystem, name)]);
        }
        json.close(']');
        json.close('}');
    }
    json.close(']');
}

/// The search that finds a package or module; none for libraries that are linked into another file.
fn search_of(subsystem: Subsystem, member: &str) -> String {
    match subsystem {
        Subsystem::Dependencies => format!("node_modules/{member}/"),
        Subsystem::Addons | Subsystem::OtherNative | Subsystem::Unknown => member.to_owned(),
        _ => String::new(),
    }
}

/// A letter for each function: A for the first of [`Subsystem::ALL`].
fn subsystems_of_functions(profile: &Profile) -> String {
    let functions = (0..profile.functions.len() as u32).map(FunctionIndex);
    let letter = |function| char::from(b'A' + subsystem_of(profile, function).0 as u8);
    functions.map(letter).collect()
}

/// What differs from event to event.
fn write_events(profile: &Profile, json: &mut Json) {
    let mut totals = vec![0u64; profile.events.len()];
    for sample in &profile.samples {
        let total = &mut totals[sample.event.at()];
        *total = total.saturating_add(sample.weight);
    }
    json.key("events").open('[');
    for (position, (event, total)) in profile.events.iter().zip(totals).enumerate() {
        json.open('{');
        json.key("label").text(event.label());
        json.key("total").text(&wording::weight(total, event));
        if position < MAX_EVENTS {
            let one = profile.clone().select(EventIndex(position as u16));
            json.key("how").text(&wording::how(&one));
            write_findings(&one, json);
        }
        json.close('}');
    }
    json.close(']');
}

/// What is known of the recording, each with its label.
fn facts(profile: &Profile) -> Vec<(String, String)> {
    let about = &profile.about;
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut add = |label: &str, value: String| {
        if !value.is_empty() {
            facts.push((label.to_owned(), value));
        }
    };
    add("app", about.app.clone());
    let mut versions: Vec<&str> = profile
        .processes
        .iter()
        .filter_map(|process| process.node_version.as_deref())
        .collect();
    versions.small_sort();
    versions.dedup();
    add("node", versions.join(", "));
    add("host", about.host.clone());
    for process in profile.processes.iter().take(MAX_PROCESSES) {
        if process.pid > 0 {
            add("pid", process.pid.to_string());
        }
        add("command", process.command.clone());
        for (key, value) in process.labels.iter() {
            match key {
                // The page shows these already.
                label_key::APP if value == about.app => {}
                label_key::NODE => {}
                label_key::STARTED => add("process started", value.to_owned()),
                key => add(key, value.to_owned()),
            }
        }
    }
    let further = profile.processes.len().saturating_sub(MAX_PROCESSES);
    if further > 0 {
        add("further processes", further.to_string());
    }
    if profile.event().rate_hz() > 0 {
        add("rate", format!("{} Hz", profile.event().rate_hz()));
    }
    if about.duration > 0 {
        add("duration", wording::duration(about.duration));
    }
    add("engine", about.engine.clone());
    add("event", profile.event().name.clone());
    if about.started_unix > 0 {
        add("started", iso_8601(about.started_unix / 1_000_000_000));
    }
    add("nodespy", about.nodespy_version.clone());
    facts
}

fn iso_8601(unix_seconds: u64) -> String {
    let time = UtcTime::of(unix_seconds);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        time.year, time.month, time.day, time.hour, time.minute, time.second
    )
}

/// The functions of the tree, then the tree as columns.
fn write_tree(profile: &Profile, outline: &Outline, json: &mut Json) {
    let mut rows: FastMap<FunctionIndex, u64> = FastMap::default();
    let mut functions = Vec::new();
    let mut row_of = |function: FunctionIndex| {
        *rows.entry(function).or_insert_with(|| {
            functions.push(function);
            functions.len() as u64 - 1
        })
    };
    let rows_of_nodes: Vec<Option<u64>> = outline
        .nodes
        .iter()
        .map(|node| node.function.map(&mut row_of))
        .collect();
    json.key("functions").open('[');
    for function in functions {
        let row = profile.function(function);
        json.open('[');
        json.text(profile.name_of(function));
        // Boxes have no room for more than the end of a path.
        let file = profile.file_of(function);
        json.text(file.rsplit_once('/').map_or(file, |(_, name)| name));
        json.number(u64::from(row.line));
        json.number(row.category as u64);
        json.close(']');
    }
    json.close(']');
    json.key("tree").open('{');
    json.key("fn").open('[');
    for row in rows_of_nodes {
        match row {
            Some(row) => json.number(row),
            None => json.none(),
        }
    }
    json.close(']');
    let mut depth_before = None;
    json.key("pop").open('[');
    for node in &outline.nodes {
        let next = depth_before.map_or(0, |depth: u32| depth + 1);
        json.number(u64::from(next - node.depth));
        depth_before = Some(node.depth);
    }
    json.close(']');
    let whole = outline.nodes.first().map_or(0, |root| root.total_weight);
    json.key("total")
        .numbers(outline, |node| share_of(node.total_weight, whole));
    json.key("tier").numbers(outline, |node| node.tier as u64);
    json.close('}');
    json.key("whole").number(whole);
}

/// A weight in parts of the whole.
fn share_of(weight: u64, whole: u64) -> u64 {
    (u128::from(weight) * u128::from(SCALE) / u128::from(whole.max(1))) as u64
}

/// JSON in the making, without spaces.
#[derive(Default)]
struct Json {
    text: String,
}

impl Json {
    fn key(&mut self, key: &str) -> &mut Self {
        self.text(key);
        self.text.push(':');
        self
    }

    fn open(&mut self, bracket: char) {
        self.separate();
        self.text.push(bracket);
    }

    fn close(&mut self, bracket: char) {
        self.text.push(bracket);
    }

    fn number(&mut self, value: u64) {
        self.separate();
        self.text.push_str(&value.to_string());
    }

    /// A number of every node.
    fn numbers(&mut self, outline: &Outline, of: impl Fn(&OutlineNode) -> u64) {
        self.open('[');
        outline.nodes.iter().for_each(|node| self.number(of(node)));
        self.close(']');
    }

    /// The row that no function has.
    fn none(&mut self) {
        self.separate();
        self.text.push_str("-1");
    }

    fn texts(&mut self, texts: &[impl AsRef<str>]) {
        self.open('[');
        texts.iter().for_each(|text| self.text(text.as_ref()));
        self.close(']');
    }

    fn text(&mut self, text: &str) {
        self.separate();
        self.text.push('"');
        for character in printable(text).chars() {
            match character {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                // No name can end the element that holds the text, or start a comment in it.
                '<' => self.text.push_str("\\u003c"),
                character => self.text.push(character),
            }
        }
        self.text.push('"');
    }

    /// Sets a value apart from the one before it.
    fn separate(&mut self) {
        if !self.text.ends_with(['[', '{', ':', ',']) && !self.text.is_empty() {
            self.text.push(',');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::{
        About, Category, EventType, FrameSpec, FunctionSpec, Notes, Process, ProfileBuilder,
        Sample, Thread,
    };

    fn hostile() -> Profile {
        let mut builder =
            ProfileBuilder::new(nodespy_model::EventType::from(WeightUnit::Samples).at_rate(99));
        let process = builder.process(Process {
            pid: 7,
            command: "node \"a\\b\".js".to_owned(),
            node_version: Some("v22.1.0".to_owned()),
            ..Process::default()
        });
        let thread = builder.thread(Thread {
            process,
            ..Thread::default()
        });
        let mut parent = None;
        for (name, weight) in [("</script><!--", 2), ("say \"hi\"\n", 1)] {
            let frame = builder.frame(FrameSpec {
                function: FunctionSpec {
                    name,
                    file: "/srv/app.js",
                    line: 3,
                    column: 1,
                    category: Category::App,
                },
                ..FrameSpec::default()
            });
            parent = Some(builder.stack(parent, frame));
            builder.sample(0, thread, parent, weight);
        }
        let about = About {
            started_unix: 1_700_000_000_500_000_000,
            ..About::default()
        };
        builder.finish(about, Notes::default())
    }

    #[test]
    fn no_name_can_end_the_element_or_a_string() {
        let json = of(&hostile(), "a <b>");
        assert!(!json.contains('<'), "{json}");
        for part in [
            r#""title":"a \u003cb>""#,
            r#""functions":[["\u003c/script>\u003c!--","app.js",3,0],["say \"hi\"�","#,
            r#""tree":{"fn":[-1,0,1],"pop":[0,0,0],"total":[32768,32768,10922],"tier":[0,0,0]},"whole":3"#,
            r#"["node","v22.1.0"],["pid","7"],["command","node \"a\\b\".js"],["rate","99 Hz"]"#,
            r#"["started","2023-11-14T22:13:20Z"]"#,
            r#""unit":"samples","durationNs":0,"samples":2,"subsystemOf":"AA""#,
            r#""subsystems":[{"label":"app","share":"100 %","search":"in:app","category":0,"members":[]}]"#,
        ] {
            assert!(json.contains(part), "{part} is not in {json}");
        }
    }

    /// A profile with so many events; the event `at` has `at + 1` samples of ten each.
    fn several(events: u16) -> Profile {
        let names = (0..events).map(|at| match at {
            0 => EventType::new("cpu-clock", WeightUnit::Nanoseconds),
            1 => EventType::new("</script>", WeightUnit::Bytes),
            at => EventType::new(&format!("e{at}"), WeightUnit::Events),
        });
        let mut builder = ProfileBuilder::with_events(names.collect());
        let process = builder.process(Process::default());
        let thread = builder.thread(Thread {
            process,
            ..Thread::default()
        });
        for event in 0..events {
            for _ in 0..=event {
                builder.add_sample(Sample {
                    thread,
                    weight: 10,
                    event: EventIndex(event),
                    ..Sample::default()
                });
            }
        }
        builder.finish(About::default(), Notes::default())
    }

    #[test]
    fn events_are_described_one_by_one() {
        let json = of(&several(3), "");
        assert!(!json.contains('<'), "{json}");
        for part in [
            r#""events":[{"label":"cpu-clock","total":"0 µs","how":"1 sample, 0 µs, cpu-clock","findings":["#,
            r#"{"label":"\u003c/script>","total":"20 bytes","how":"2 samples, 20 bytes, \u003c/script>","#,
            r#"{"label":"e2","total":"30 e2 events","how":"3 samples, 30 e2 events, e2","#,
            r#""event":"cpu-clock","unit":"nanoseconds","durationNs":0,"samples":1"#,
        ] {
            assert!(json.contains(part), "{part} is not in {json}");
        }
        assert!(!of(&several(1), "").contains("\"events\":["));
    }

    #[test]
    fn of_very_many_events_only_the_first_are_described() {
        let json = of(&several(40), "");
        // The first is also the one that is shown.
        assert_eq!(json.matches("\"how\":").count(), 1 + MAX_EVENTS);
        assert!(json.contains(r#"{"label":"e39","total":"400 e39 events"}"#));
    }
}
