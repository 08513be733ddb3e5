//! V8's sampled heap profile, `.heapprofile`: which code allocated what is still alive.
//!
//! Weights are bytes. A node's `selfSize` is the truth; where the file lists the samples behind it
//! (Node 12 and later) and they add up to it, each becomes a sample, in the order of allocation.

use nodespy_model::{
    About, Contents, EventType, Notes, Process, ProfileBuilder, Recording, SmallSort, Thread,
    ThreadRole, WeightUnit,
};

use super::cpuprofile::{Functions, Nodes, Row};
use super::{ImportError, ImportOptions, Importer};
use crate::detect::{Confidence, ends_contain, head};
use crate::input::Input;
use crate::json::{JsonError, Kind, Reader};

/// The importer of `.heapprofile`.
pub(crate) struct HeapProfile;

impl Importer for HeapProfile {
    fn name(&self) -> &'static str {
        "heapprofile"
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        let starts_as_object = Reader::new(head(bytes)).kind() == Ok(Kind::Object);
        let has = |key: &str| ends_contain(bytes, key.as_bytes());
        match starts_as_object && has("\"selfSize\"") && has("\"callFrame\"") {
            true => Confidence::Sure,
            false => Confidence::No,
        }
    }

    fn import(&self, input: Input, options: &ImportOptions) -> Result<Recording, ImportError> {
        let meter = input.budget(&options.limits).meter();
        let mut builder =
            ProfileBuilder::new(EventType::new("live allocations", WeightUnit::Bytes));
        let mut notes = Notes::default();
        let mut nodes = Nodes::default();
        let mut allocations = Vec::new();
        let mut reader = Reader::metered(&input, &meter);
        let read = read(&mut reader, &mut nodes, &mut allocations, &mut builder);
        match read {
            Err(error) if nodes.len() == 0 => return Err(error.into()),
            Err(error) => notes.remark(format!("{error}; what comes before it was read")),
            Ok(()) => {}
        }
        nodes.join();
        add_samples(&mut nodes, allocations, &mut builder);
        nodes.remark(&mut notes);
        if builder.so_far().samples.is_empty() {
            return Err(meter.explain(ImportError::NoStacks));
        }
        let about = About {
            engine: "V8 heap profiler".to_owned(),
            ..About::default()
        };
        Ok(Recording {
            about: about.clone(),
            notes: notes.clone(),
            contents: Contents::Named(Box::new(builder.finish(about, notes))),
            ..Recording::default()
        })
    }
}

/// One allocation that was sampled.
#[derive(Default)]
struct Allocation {
    node: u32,
    bytes: u64,
    /// How many allocations were sampled before it.
    ordinal: u64,
}

fn read<'a>(
    reader: &mut Reader<'a>,
    nodes: &mut Nodes,
    allocations: &mut Vec<Allocation>,
    builder: &mut ProfileBuilder,
) -> Result<(), JsonError> {
    let mut functions = Functions::default();
    reader.enter_object()?;
    let mut depth = 1;
    while depth > 0 {
        let Some(key) = reader.key()? else {
            depth -= 1;
            continue;
        };
        match (&*key, reader.kind()?) {
            // The answer of the inspector has the profile one or two levels down.
            ("profile" | "result", Kind::Object) => {
                reader.enter_object()?;
                depth += 1;
            }
            ("head", Kind::Object) => nodes.read_node(reader, &mut functions, builder)?,
            ("samples", Kind::Array) => {
                reader.enter_array()?;
                while reader.element()? {
                    allocations.push(Allocation::read(reader)?);
                }
            }
            _ => reader.skip()?,
        }
    }
    match reader.is_at_end() {
        true => Ok(()),
        false => Err(reader.expected("nothing after the profile")),
    }
}

impl Allocation {
    fn read(reader: &mut Reader<'_>) -> Result<Self, JsonError> {
        let mut allocation = Self::default();
        reader.enter_object()?;
        while let Some(key) = reader.key()? {
            let field = match &*key {
                "nodeId" | "size" | "ordinal" => reader.any_number()?,
                _ => {
                    reader.skip()?;
                    continue;
                }
            };
            let value = field.map_or(0, |number| number.as_i64().max(0) as u64);
            match &*key {
                "nodeId" => allocation.node = u32::try_from(value).unwrap_or(u32::MAX),
                "size" => allocation.bytes = value,
                _ => allocation.ordinal = value,
            }
        }
        Ok(allocation)
    }
}

fn add_samples(nodes: &mut Nodes, mut allocations: Vec<Allocation>, builder: &mut ProfileBuilder) {
    allocations.small_sort_by_key(|allocation| allocation.ordinal);
    let allocations: Vec<(Row, u64)> = allocations
        .iter()
        .filter_map(|allocation| Some((nodes.row_of(allocation.node)?, allocation.bytes)))
        .collect();
    // What is left of each node's size when its allocations are taken off: nothing, if the file
    // is right.
    let mut unexplained = vec![0u64; nodes.len()];
    for (row, bytes) in nodes.counts() {
        unexplained[row as usize] = bytes;
    }
    for (row, bytes) in &allocations {
        let left = &mut unexplained[*row as usize];
        *left = left.wrapping_sub(*bytes);
    }
    let process = builder.process(Process::default());
    let thread = builder.thread(Thread {
        process,
        role: ThreadRole::Main,
        ..Thread::default()
    });
    let explained = allocations
        .into_iter()
        .filter(|(row, bytes)| unexplained[*row as usize] == 0 && *bytes > 0);
    let whole = nodes
        .counts()
        .filter(|(row, _)| unexplained[*row as usize] != 0);
    let samples: Vec<(Row, u64)> = explained.chain(whole).collect();
    let mut room = u64::MAX;
    for (row, bytes) in samples {
        let stack = nodes.stack(row, builder);
        let weight = bytes.min(room);
        room -= weight;
        builder.sample(0, thread, stack, weight);
    }
}
