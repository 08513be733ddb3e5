//! Regular expressions: how much they take, and single matches that do not end.

use nodespy_model::{
    Category, FastMap, FunctionIndex, Nanoseconds, Profile, Sample, SmallSort, ThreadIndex,
};

use super::{Finding, Scene, rounded_share};
use crate::columns::short_name;
use crate::wording::{duration, percent_of};

/// Share of the whole, in percent, from which regular expressions are worth a sentence, and from
/// which a match that does not end is.
const MUCH: f64 = 10.0;
const MUCH_OF_ONE: f64 = 3.0;
/// A match of this length, in this many samples on end, is a long one.
const LONG_MATCH: Nanoseconds = 100_000_000;
const LONG_MATCH_SAMPLES: u64 = 10;
/// Part of the time, in percent, that is spent in the expression rather than in entering it when
/// matches are long: short ones enter it again and again.
const INSIDE: f64 = 99.0;

/// How a sample is at work on a regular expression.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// Matching, in compiled code or V8's interpreter of expressions.
    Inside(FunctionIndex),
    /// On the way in or out.
    Entering,
}

fn work_of(profile: &Profile, function: FunctionIndex) -> Option<Work> {
    let name = profile.name_of(function);
    match profile.function(function).category {
        Category::RegExp => Some(Work::Inside(function)),
        Category::Native if name.contains("IrregexpInterpreter") || name.contains("RawMatch<") => {
            Some(Work::Inside(function))
        }
        Category::Native | Category::Builtin if name.contains("RegExp") => Some(Work::Entering),
        _ => None,
    }
}

/// What is known of the expressions that a function runs.
#[derive(Default)]
struct Matches {
    inside: u64,
    entering: u64,
    longest: Run,
}

/// Samples on end inside of one expression.
#[derive(Clone, Copy, Default)]
struct Run {
    expression: FunctionIndex,
    started: Nanoseconds,
    lasted: Nanoseconds,
    samples: u64,
}

/// What a thread's last sample was in.
struct Current {
    caller: FunctionIndex,
    run: Run,
}

/// The matches of each function with a source that runs any.
fn matches_by_caller(scene: &Scene<'_>) -> FastMap<FunctionIndex, Matches> {
    let profile = scene.profile();
    let functions = (0..profile.functions.len() as u32).map(FunctionIndex);
    let works: Vec<Option<Work>> = functions
        .map(|function| work_of(profile, function))
        .collect();
    let mut callers: FastMap<FunctionIndex, Matches> = FastMap::default();
    let mut current: FastMap<ThreadIndex, Current> = FastMap::default();
    for sample in &profile.samples {
        let at = sample.stack.and_then(|stack| {
            let work = works[profile.function_of(stack).at()]?;
            Some((scene.charged_function(stack)?, work))
        });
        let Some((caller, work)) = at else {
            current.remove(&sample.thread);
            continue;
        };
        let matches = callers.entry(caller).or_default();
        let Work::Inside(expression) = work else {
            matches.entering = matches.entering.saturating_add(sample.weight);
            current.remove(&sample.thread);
            continue;
        };
        matches.inside = matches.inside.saturating_add(sample.weight);
        let run = continued(current.get(&sample.thread), caller, expression, sample);
        if run.lasted > matches.longest.lasted {
            matches.longest = run;
        }
        current.insert(sample.thread, Current { caller, run });
    }
    callers
}

/// The run that a sample belongs to.
fn continued(
    current: Option<&Current>,
    caller: FunctionIndex,
    expression: FunctionIndex,
    sample: &Sample,
) -> Run {
    match current {
        Some(current) if current.caller == caller && current.run.expression == expression => Run {
            lasted: sample.time.saturating_sub(current.run.started),
            samples: current.run.samples + 1,
            ..current.run
        },
        _ => Run {
            expression,
            started: sample.time,
            lasted: 0,
            samples: 1,
        },
    }
}

impl Matches {
    fn is_long(&self) -> bool {
        self.longest.lasted >= LONG_MATCH
            && self.longest.samples >= LONG_MATCH_SAMPLES
            && percent_of(self.inside, self.inside.saturating_add(self.entering)) >= INSIDE
    }
}

/// The function whose matches do not end, or how much all of them take.
pub(super) fn regular_expressions(scene: &Scene<'_>) -> Option<Finding> {
    let profile = scene.profile();
    let callers = matches_by_caller(scene);
    let long = callers
        .iter()
        .filter(|(_, matches)| matches.is_long())
        .max_by_key(|(function, matches)| (matches.inside, std::cmp::Reverse(**function)));
    if let Some((function, matches)) = long
        && scene.share_of_all(matches.inside) >= MUCH_OF_ONE
    {
        let share = scene.share_of_all(matches.inside);
        let name = short_name(profile.name_of(matches.longest.expression)).replace('`', "'");
        let longest = duration(matches.longest.lasted);
        return Some(Finding {
            kind: "regexp_backtracking",
            percent: share,
            sentence: format!(
                "{} of {} is in the regular expression `{name}` under {}, one match for {longest} on \
                 end: it backtracks, or its text is very long",
                rounded_share(share),
                scene.whole_of_all(),
                scene.named(*function),
            ),
            function: Some(*function),
        });
    }
    let weight_of = |matches: &Matches| matches.inside.saturating_add(matches.entering);
    let mut all: Vec<(FunctionIndex, u64)> = callers
        .iter()
        .map(|(function, matches)| (*function, weight_of(matches)))
        .collect();
    all.small_sort_by_key(|(function, weight)| (std::cmp::Reverse(*weight), *function));
    let whole = all
        .iter()
        .fold(0u64, |sum, (_, weight)| sum.saturating_add(*weight));
    let share = scene.share_of_all(whole);
    (share >= MUCH).then(|| Finding {
        kind: "regexp",
        percent: share,
        sentence: format!(
            "Regular expressions take {} of {}{}",
            rounded_share(share),
            scene.whole_of_all(),
            scene.under(&all, whole)
        ),
        function: all.first().map(|(function, _)| *function),
    })
}
