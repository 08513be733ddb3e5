//! What rows are: the groups that samples or their frames fall into.

use nodespy_model::{
    Category, FastMap, FunctionIndex, Labels, ProcessIndex, Profile, Sample, StackIndex,
    StringIndex, ThreadIndex, Tier,
};

use crate::expression::Field;
use crate::filter::label_of;
use crate::package::Package;
use crate::subsystem::{Division, Subsystem};

/// What a row is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RowKey {
    /// A function, or the caller of one.
    Function(FunctionIndex),
    /// A line of a function; 0 when not known.
    Line(FunctionIndex, u32),
    /// A file or module.
    File(StringIndex),
    /// A package.
    Package(Package),
    /// A subsystem.
    Subsystem(Subsystem),
    /// A category.
    Category(Category),
    /// A tier.
    Tier(Tier),
    /// A thread.
    Thread(ThreadIndex),
    /// A process.
    Process(ProcessIndex),
    /// The value of a label, or all labels of a sample as `key=value`.
    Label(String),
    /// What has no such thing: no caller, no file, no label, no stack.
    None,
}

/// Whether a group is of frames, of which a stack has many, or of whole samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Membership {
    Frames,
    Samples,
}

/// The groups of a profile. The first is that of what has no such thing.
pub(super) struct Groups<'a> {
    profile: &'a Profile,
    membership: Membership,
    keys: Vec<RowKey>,
    /// By stack, or by thread.
    group_of: Vec<u32>,
    /// By context, where its labels decide before those of the process.
    of_context: Vec<Option<u32>>,
}

impl<'a> Groups<'a> {
    pub(super) fn by(profile: &'a Profile, field: &Field) -> Self {
        let mut groups = Self {
            profile,
            membership: Membership::Frames,
            keys: vec![RowKey::None],
            group_of: Vec::new(),
            of_context: Vec::new(),
        };
        let mut known = FastMap::default();
        match field {
            Field::Thread | Field::Process | Field::Label(_) | Field::Context => {
                groups.membership = Membership::Samples;
                groups.of_samples(field, &mut known);
            }
            field => groups.of_frames(field, &mut known),
        }
        groups
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn membership(&self) -> Membership {
        self.membership
    }

    pub(super) fn into_keys(self) -> Vec<RowKey> {
        self.keys
    }

    /// The group of a sample, or of its frame at `stack`.
    pub(super) fn of_sample(&self, sample: &Sample, stack: Option<StackIndex>) -> usize {
        match self.membership {
            Membership::Frames => self.of_frame(stack),
            Membership::Samples => {
                let context = self.of_context.get(sample.context.0 as usize);
                let group = context.copied().flatten();
                group.unwrap_or_else(|| self.group_of[sample.thread.at()]) as usize
            }
        }
    }

    /// The group of the frame that a stack ends with.
    pub(super) fn of_frame(&self, stack: Option<StackIndex>) -> usize {
        stack.map_or(0, |stack| self.group_of[stack.at()] as usize)
    }

    fn intern(&mut self, known: &mut FastMap<RowKey, u32>, key: RowKey) -> u32 {
        if key == RowKey::None {
            return 0;
        }
        let next = self.keys.len() as u32;
        let group = *known.entry(key.clone()).or_insert(next);
        if group == next {
            self.keys.push(key);
        }
        group
    }

    fn of_frames(&mut self, field: &Field, known: &mut FastMap<RowKey, u32>) {
        let profile = self.profile;
        let division = (*field == Field::Subsystem).then(|| Division::of(profile));
        let packages: Vec<RowKey> = match field {
            Field::Package => (0..profile.functions.len() as u32)
                .map(|at| RowKey::Package(Package::of(profile, FunctionIndex(at))))
                .collect(),
            _ => Vec::new(),
        };
        for (position, stack) in profile.stacks.iter().enumerate() {
            let frame = profile.frame(stack.frame);
            let function = profile.function(frame.function);
            let key = match field {
                Field::Caller => stack.parent.map_or(RowKey::None, |parent| {
                    RowKey::Function(profile.function_of(parent))
                }),
                Field::Line => RowKey::Line(frame.function, frame.line),
                Field::File => function.file.map_or(RowKey::None, RowKey::File),
                Field::Package => packages[frame.function.at()].clone(),
                Field::Subsystem => {
                    let stack = StackIndex::new(position as u32);
                    let subsystem = division.as_ref().map(|division| division.of_stack(stack).0);
                    subsystem.map_or(RowKey::None, RowKey::Subsystem)
                }
                Field::Category => RowKey::Category(function.category),
                Field::Tier if frame.tier == Tier::None => RowKey::None,
                Field::Tier => RowKey::Tier(frame.tier),
                _ => RowKey::Function(frame.function),
            };
            let group = self.intern(known, key);
            self.group_of.push(group);
        }
    }

    fn of_samples(&mut self, field: &Field, known: &mut FastMap<RowKey, u32>) {
        let profile = self.profile;
        for (position, thread) in profile.threads.iter().enumerate() {
            let process = &profile.processes[thread.process.at()];
            let key = match field {
                Field::Thread => RowKey::Thread(ThreadIndex(position as u32)),
                Field::Process => RowKey::Process(thread.process),
                Field::Label(key) => label_of(profile, process, key)
                    .map_or(RowKey::None, |value| RowKey::Label(value.into_owned())),
                _ => RowKey::None,
            };
            let group = self.intern(known, key);
            self.group_of.push(group);
        }
        if !matches!(field, Field::Label(_) | Field::Context) {
            return;
        }
        self.of_context.push(None);
        for labels in profile.contexts.iter() {
            let key = match field {
                Field::Label(key) => labels.get(key).map(|value| RowKey::Label(value.to_owned())),
                _ => Some(RowKey::Label(all_of(labels))),
            };
            let group = key.map(|key| self.intern(known, key));
            self.of_context.push(group);
        }
    }
}

/// Every label of a set, as one text.
fn all_of(labels: &Labels) -> String {
    let labels: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    labels.join(" ")
}
