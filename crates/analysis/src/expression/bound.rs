//! A condition bound to a profile: what each test says of every stack, thread and context, found once.

use nodespy_model::{FunctionIndex, Nanoseconds, Profile, Sample, StackIndex, ThreadIndex};

use super::Condition;
use super::condition::{Compare, Match, Node, Test};
use crate::filter::{has_label, is_folded, is_thread, label_of};
use crate::package::Package;
use crate::subsystem::Division;

/// What a test says, by what decides it.
enum Table {
    Stacks(Vec<bool>),
    Threads(Vec<bool>),
    /// The labels of a sample decide where they have the key, else those of its process.
    Labels {
        contexts: Vec<Option<bool>>,
        threads: Vec<bool>,
    },
    During(Nanoseconds, Nanoseconds),
    Time(Compare, Nanoseconds),
}

/// A condition that can be asked of the samples of one profile.
pub(crate) struct Bound<'a> {
    node: &'a Node,
    tables: Vec<Table>,
}

/// What the tests of samples say of one sample, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct SampleBits(u64);

impl<'a> Bound<'a> {
    pub(crate) fn new(condition: &'a Condition, profile: &Profile) -> Self {
        let mut tables = Tables {
            profile,
            division: None,
        };
        Self {
            node: &condition.node,
            tables: condition
                .tests
                .iter()
                .map(|test| tables.of_test(test))
                .collect(),
        }
    }

    /// What the tests of samples say.
    pub(crate) fn bits_of(&self, sample: &Sample) -> SampleBits {
        let mut bits = 0;
        for (position, table) in self.tables.iter().enumerate() {
            let is_true = match table {
                Table::Stacks(_) => false,
                Table::Threads(threads) => threads[sample.thread.at()],
                Table::Labels { contexts, threads } => contexts[sample.context.0 as usize]
                    .unwrap_or_else(|| threads[sample.thread.at()]),
                Table::During(start, end) => (*start..*end).contains(&sample.time),
                Table::Time(compare, bound) => compare.holds(sample.time, *bound),
            };
            bits |= u64::from(is_true) << position;
        }
        SampleBits(bits)
    }

    /// Whether the condition holds at a frame of a sample, of which `bits` are known.
    pub(crate) fn holds(&self, bits: SampleBits, stack: Option<StackIndex>) -> bool {
        self.node_holds(self.node, bits, stack)
    }

    /// The same of a sample's leaf.
    pub(crate) fn holds_at_leaf(&self, sample: &Sample) -> bool {
        self.holds(self.bits_of(sample), sample.stack)
    }

    // Recursion ends: nesting is bounded when the condition is read.
    fn node_holds(&self, node: &Node, bits: SampleBits, stack: Option<StackIndex>) -> bool {
        match node {
            Node::Always | Node::Share(_) => true,
            Node::Test(test) => match &self.tables[*test] {
                Table::Stacks(stacks) => stack.is_some_and(|stack| stacks[stack.at()]),
                _ => bits.0 >> test & 1 == 1,
            },
            Node::Not(inner) => !self.node_holds(inner, bits, stack),
            Node::And(parts) => parts.iter().all(|part| self.node_holds(part, bits, stack)),
            Node::Or(parts) => parts.iter().any(|part| self.node_holds(part, bits, stack)),
        }
    }
}

/// Makes the tables of tests.
struct Tables<'a> {
    profile: &'a Profile,
    /// Made when a test needs it.
    division: Option<Division<'a>>,
}

impl Tables<'_> {
    fn of_test(&mut self, test: &Test) -> Table {
        let profile = self.profile;
        match test {
            Test::Function(wanted) => {
                self.by_function(|function| is_function(profile, function, wanted))
            }
            Test::Caller(wanted) => {
                let callers = self.functions(|function| is_function(profile, function, wanted));
                let is_meant = |stack: &nodespy_model::Stack| {
                    let caller = stack.parent.map(|parent| profile.function_of(parent));
                    caller.is_some_and(|caller| callers[caller.at()])
                };
                Table::Stacks(profile.stacks.iter().map(is_meant).collect())
            }
            Test::Under(wanted) => {
                let functions = self.functions(|function| is_function(profile, function, wanted));
                // Parents come first, so one pass decides for every stack.
                let mut is_under: Vec<bool> = Vec::with_capacity(profile.stacks.len());
                for stack in &profile.stacks {
                    let own = functions[profile.frame(stack.frame).function.at()];
                    let above = stack.parent.is_some_and(|parent| is_under[parent.at()]);
                    is_under.push(own || above);
                }
                Table::Stacks(is_under)
            }
            Test::File(wanted) => self.by_function(|function| {
                let file = profile.file_of(function);
                wanted.is_met(file, |text| is_path(file, text))
            }),
            Test::Package(wanted) => self.by_function(|function| {
                let package = Package::of(profile, function);
                wanted.is_met(&package.name, |text| is_folded(&package, text))
            }),
            Test::Category(category) => {
                self.by_function(|function| profile.function(function).category == *category)
            }
            Test::Line(compare, line) => self.by_frame(|frame| {
                // A line that is not known is neither more nor less.
                frame.line > 0 && compare.holds(frame.line, *line)
            }),
            Test::Tier(tier) => self.by_frame(|frame| frame.tier == *tier),
            Test::Subsystem(subsystem) => {
                let division = self
                    .division
                    .get_or_insert_with(|| Division::of_stacks(profile));
                let stacks = (0..profile.stacks.len() as u32).map(StackIndex::new);
                let is_meant = |stack| division.of_stack(stack).0 == *subsystem;
                Table::Stacks(stacks.map(is_meant).collect())
            }
            Test::Thread(wanted) => self.by_thread(|thread| {
                let name = &profile.threads[thread.at()].name;
                wanted.is_met(name, |text| is_thread(profile, thread, text))
            }),
            Test::Process(wanted) => self.by_thread(|thread| {
                let process = profile.threads[thread.at()].process;
                let process = &profile.processes[process.at()];
                wanted.is_met(&process.name, |text| {
                    process.name == text || text.parse() == Ok(process.pid)
                })
            }),
            Test::Label(key, wanted) => self.by_label(key, wanted),
            Test::During(range) => {
                let (start, end) = range.in_profile(profile);
                Table::During(start, end)
            }
            Test::Time(compare, bound) => Table::Time(*compare, *bound),
        }
    }

    fn functions(&self, is_meant: impl Fn(FunctionIndex) -> bool) -> Vec<bool> {
        let functions = (0..self.profile.functions.len() as u32).map(FunctionIndex);
        functions.map(is_meant).collect()
    }

    fn by_function(&self, is_meant: impl Fn(FunctionIndex) -> bool) -> Table {
        let functions = self.functions(is_meant);
        self.by_frame(|frame| functions[frame.function.at()])
    }

    fn by_frame(&self, is_meant: impl Fn(&nodespy_model::Frame) -> bool) -> Table {
        let frames: Vec<bool> = self.profile.frames.iter().map(is_meant).collect();
        let stacks = self.profile.stacks.iter();
        Table::Stacks(stacks.map(|stack| frames[stack.frame.at()]).collect())
    }

    fn by_thread(&self, is_meant: impl Fn(ThreadIndex) -> bool) -> Table {
        let threads = (0..self.profile.threads.len() as u32).map(ThreadIndex);
        Table::Threads(threads.map(is_meant).collect())
    }

    fn by_label(&self, key: &str, wanted: &Match) -> Table {
        let profile = self.profile;
        let of_context = |labels: &nodespy_model::Labels| {
            let value = labels.get(key)?;
            Some(wanted.is_met(value, |text| value == text))
        };
        let contexts = std::iter::once(None).chain(profile.contexts.iter().map(of_context));
        let threads = profile.threads.iter().map(|thread| {
            let process = &profile.processes[thread.process.at()];
            let value = label_of(profile, process, key);
            value.is_some_and(|value| {
                wanted.is_met(&value, |text| has_label(profile, process, key, text))
            })
        });
        Table::Labels {
            contexts: contexts.collect(),
            threads: threads.collect(),
        }
    }
}

impl Match {
    /// Whether a text meets it, where `is_equal` says what equal means.
    fn is_met(&self, text: &str, is_equal: impl Fn(&str) -> bool) -> bool {
        match self {
            Self::Is(wanted) => is_equal(wanted),
            Self::Has(pattern) => pattern.is_match_in(text),
        }
    }
}

fn is_function(profile: &Profile, function: FunctionIndex, wanted: &Match) -> bool {
    match wanted {
        Match::Is(name) => profile.name_of(function) == name,
        Match::Has(pattern) => pattern.is_match(profile, function),
    }
}

/// Whether a file is called `wanted`: the whole path, or its last parts.
fn is_path(file: &str, wanted: &str) -> bool {
    let front = file.strip_suffix(wanted);
    front.is_some_and(|front| front.is_empty() || front.ends_with('/') || wanted.starts_with('/'))
}
