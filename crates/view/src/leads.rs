//! Where findings lead: the functions and threads that their sentences name between backticks, and
//! the main thread.

use std::fmt;

use nodespy_analysis::{FunctionWeights, Package, function_weights};
use nodespy_model::{FunctionIndex, Profile, SmallSort, Thread, ThreadIndex, ThreadRole};

use crate::columns::short_name;
use crate::wording::place;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lead {
    Function(FunctionIndex),
    Thread(ThreadIndex),
    /// Neither, such as a process.
    Nothing,
}

impl fmt::Display for Lead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Function(function) => write!(formatter, "f{}", function.0),
            Self::Thread(thread) => write!(formatter, "t{}", thread.0),
            Self::Nothing => Ok(()),
        }
    }
}

/// Finds what sentences about a profile name.
#[derive(Debug)]
pub(crate) struct Leads<'a> {
    profile: &'a Profile,
    /// The heaviest first.
    functions: Vec<FunctionWeights>,
}

impl<'a> Leads<'a> {
    /// Of the functions and threads of a profile of one event.
    pub(crate) fn of(profile: &'a Profile) -> Self {
        let mut functions = function_weights(profile, |_| true);
        functions.small_sort_by_key(|weights| std::cmp::Reverse(weights.total_weight));
        Self { profile, functions }
    }

    /// One for each name between backticks, and one more where the sentence speaks of the main thread.
    pub(crate) fn in_sentence(&self, sentence: &str) -> Vec<Lead> {
        let parts: Vec<&str> = sentence.split('`').collect();
        let name_at = |position: usize| {
            let after = parts.get(position + 1).copied().unwrap_or("");
            self.named(parts[position - 1], parts[position], after)
        };
        let names = (1..parts.len()).step_by(2).map(name_at);
        let is_of_main = parts
            .iter()
            .step_by(2)
            .any(|text| text.contains(MAIN_THREAD));
        let main = is_of_main.then(|| self.main_thread());
        names.chain(main).collect()
    }

    fn named(&self, before: &str, name: &str, after: &str) -> Lead {
        if name.is_empty() {
            return Lead::Nothing;
        }
        let is_named = |thread: &Thread| thread.name.replace('`', "'") == name;
        let thread = || self.thread(is_named).map(Lead::Thread);
        let function = || self.function(name, after).map(Lead::Function);
        let found = match is_before_a_thread(before) {
            true => thread().or_else(function),
            false => function().or_else(thread),
        };
        found.unwrap_or(Lead::Nothing)
    }

    /// The function of a name and of the place after it; of several the heaviest.
    fn function(&self, name: &str, after: &str) -> Option<FunctionIndex> {
        let is_named = |function: &FunctionIndex| {
            short_name(self.profile.name_of(*function)).replace('`', "'") == name
        };
        let functions = self.functions.iter().map(|weights| weights.function);
        // Of those that fit as well the last one is taken.
        let lightest_first = functions.filter(is_named).rev();
        lightest_first.max_by_key(|function| self.words_that_fit(*function, after))
    }

    /// How many of the words after a name, one or those in brackets, are the function's package or
    /// place.
    fn words_that_fit(&self, function: FunctionIndex, after: &str) -> usize {
        let after = after.trim_start();
        let words = match after.strip_prefix('(') {
            Some(inside) => inside.split(')').next(),
            None => after.split_whitespace().next(),
        };
        let place = place(self.profile, function);
        let package = Package::of(self.profile, function);
        let words = words.unwrap_or("").split([' ', ',', ';']);
        words
            .map(|word| word.trim_end_matches(':'))
            .filter(|word| !word.is_empty() && (place.ends_with(word) || package.name == *word))
            .count()
    }

    fn main_thread(&self) -> Lead {
        let main = self.thread(|thread| thread.role == ThreadRole::Main);
        main.map_or(Lead::Nothing, Lead::Thread)
    }

    /// Of the threads that are meant the one with the most weight.
    fn thread(&self, is_meant: impl Fn(&Thread) -> bool) -> Option<ThreadIndex> {
        let mut weights = vec![0u64; self.profile.threads.len()];
        for sample in &self.profile.samples {
            let weight = &mut weights[sample.thread.at()];
            *weight = weight.saturating_add(sample.weight);
        }
        let threads = self.profile.threads.iter().enumerate();
        threads
            .filter(|(_, thread)| is_meant(thread))
            .max_by_key(|(position, _)| weights[*position])
            .map(|(position, _)| ThreadIndex(position as u32))
    }
}

/// The page looks for the same words.
const MAIN_THREAD: &str = "main thread";

fn is_before_a_thread(text: &str) -> bool {
    let text = text.trim_end_matches(['(', ' ']);
    ["thread", "worker", "pool", "V8's own"]
        .iter()
        .any(|word| text.ends_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::{
        About, Category, FrameSpec, FunctionSpec, Notes, Process, ProfileBuilder, WeightUnit,
    };

    /// Functions in this order: two called `work` in different files, one of a dependency, and one
    /// called as a thread is; then threads `node` and `worker 1`.
    fn profile() -> Profile {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        let process = builder.process(Process::default());
        let threads = [
            (1, "node", ThreadRole::Main),
            (2, "worker 1", ThreadRole::Worker),
        ];
        let threads = threads.map(|(tid, name, role)| {
            builder.thread(Thread {
                process,
                tid,
                name: name.to_owned(),
                role,
                ..Thread::default()
            })
        });
        for (name, file, category, weight) in [
            ("work", "/srv/lib/a.js", Category::App, 10),
            ("work", "/srv/lib/b.js", Category::App, 20),
            ("get", "/srv/node_modules/qs/i.js", Category::Dependency, 5),
            ("node", "/srv/lib/c.js", Category::App, 1),
        ] {
            let frame = builder.frame(FrameSpec {
                function: FunctionSpec {
                    name,
                    file,
                    line: 7,
                    column: 1,
                    category,
                },
                ..FrameSpec::default()
            });
            let stack = Some(builder.stack(None, frame));
            builder.sample(0, threads[0], stack, weight);
        }
        builder.finish(About::default(), Notes::default())
    }

    #[test]
    fn names_lead_to_functions_and_threads() {
        let profile = profile();
        let leads = Leads::of(&profile);
        let f = |at| Lead::Function(FunctionIndex(at));
        let t = |at| Lead::Thread(ThreadIndex(at));
        for (sentence, expected) in [
            ("30 % is in `work` a.js:7 itself", vec![f(0)]),
            (
                "30 % is in `work` lib/b.js:7, called from `get` (dependency qs)",
                vec![f(1), f(2)],
            ),
            // Of two that fit the heavier one.
            ("30 % is in `work`", vec![f(1)]),
            (
                "30 % is in `get` (qs, i.js:7), called from `work` a.js:7",
                vec![f(2), f(0)],
            ),
            ("The main thread was busy, `get` (qs)", vec![f(2), t(0)]),
            ("busy, thread `node` 90 %", vec![t(0)]),
            ("busy, `worker 1` 90 %", vec![t(1)]),
            ("a thread of libuv's pool (`worker 1`)", vec![t(1)]),
            ("10 % is in `node` c.js:7", vec![f(3)]),
            ("`shop` (pid 7) differs", vec![Lead::Nothing]),
            ("The kernel takes 30 %", vec![]),
            ("an odd `", vec![Lead::Nothing]),
        ] {
            assert_eq!(leads.in_sentence(sentence), expected, "{sentence}");
        }
        assert_eq!(f(3).to_string() + &t(1).to_string(), "f3t1");
    }
}
