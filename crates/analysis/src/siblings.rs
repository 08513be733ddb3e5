//! Processes of one application side by side: which of them does something else than the others.

use nodespy_model::FastMap;
use nodespy_model::label_key;
use nodespy_model::{Category, FunctionIndex, ProcessIndex, Profile, WeightUnit};

/// Fewer samples than this say nothing of a process.
const FEWEST_SAMPLES: u64 = 20;
/// A difference below this is how processes differ.
const LEAST_DIFFERENCE: f64 = 0.15;

/// A process that differs from the others of its application.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OddProcess {
    /// Which one.
    pub process: ProcessIndex,
    /// How many others there are.
    pub siblings: usize,
    /// How much of its time is spent otherwise than theirs, from 0 to 1.
    pub difference: f64,
    /// The function in which they differ most.
    pub function: FunctionIndex,
    /// The function's share of the process's time.
    pub share: f64,
    /// The function's share of the others' time.
    pub share_of_siblings: f64,
}

/// The process that differs most from the others of its application, by the functions its time is
/// spent in; none when there are fewer than three alike or all do the same.
pub fn odd_process(profile: &Profile) -> Option<OddProcess> {
    let weights = weights_by_process(profile);
    let mut families: FastMap<&str, Vec<usize>> = FastMap::default();
    for (position, process) in profile.processes.iter().enumerate() {
        let app = process.labels.get(label_key::APP).unwrap_or(&process.name);
        if total(&weights[position]) >= FEWEST_SAMPLES && !app.is_empty() {
            families.entry(app).or_default().push(position);
        }
    }
    families
        .values()
        .filter(|family| family.len() > 2)
        .flat_map(|family| family.iter().map(move |member| (*member, family)))
        .filter_map(|(member, family)| compare(&weights, member, family))
        .max_by(|one, other| one.difference.total_cmp(&other.difference))
}

type Weights = FastMap<FunctionIndex, u64>;

/// The weight of each function itself, by process. Waiting is no work.
fn weights_by_process(profile: &Profile) -> Vec<Weights> {
    let mut weights = vec![Weights::default(); profile.processes.len()];
    for sample in &profile.samples {
        let Some(stack) = sample.stack else {
            continue;
        };
        let frame = profile.frame(profile.stacks[stack.at()].frame);
        if profile.function(frame.function).category == Category::Idle {
            continue;
        }
        let process = profile.threads[sample.thread.at()].process;
        let weight = weights[process.at()].entry(frame.function).or_default();
        *weight = weight.saturating_add(match profile.unit {
            // How many there are says how sure it is, not how long they stand for.
            WeightUnit::Nanoseconds => 1,
            WeightUnit::Samples | WeightUnit::Bytes => sample.weight,
        });
    }
    weights
}

fn total(weights: &Weights) -> u64 {
    weights
        .values()
        .fold(0, |sum, weight| sum.saturating_add(*weight))
}

fn compare(weights: &[Weights], member: usize, family: &[usize]) -> Option<OddProcess> {
    let own = &weights[member];
    let mut others = Weights::default();
    for position in family.iter().filter(|position| **position != member) {
        for (function, weight) in &weights[*position] {
            let sum = others.entry(*function).or_default();
            *sum = sum.saturating_add(*weight);
        }
    }
    let (own_total, others_total) = (total(own) as f64, total(&others) as f64);
    let share = |weights: &Weights, whole: f64, function: &FunctionIndex| {
        weights
            .get(function)
            .map_or(0.0, |weight| *weight as f64 / whole)
    };
    let mut difference = 0.0;
    let mut most: Option<OddProcess> = None;
    let mut functions: Vec<&FunctionIndex> = own.keys().chain(others.keys()).collect();
    functions.sort_unstable();
    functions.dedup();
    for function in functions {
        let (here, there) = (
            share(own, own_total, function),
            share(&others, others_total, function),
        );
        let apart = (here - there).abs();
        difference += apart / 2.0;
        let is_most =
            most.is_none_or(|known| apart > (known.share - known.share_of_siblings).abs());
        if is_most {
            most = Some(OddProcess {
                process: ProcessIndex(member as u32),
                siblings: family.len() - 1,
                difference: 0.0,
                function: *function,
                share: here,
                share_of_siblings: there,
            });
        }
    }
    // A few samples scatter: what chance alone can do is not pointed at.
    let chance = 1.0 / own_total.min(others_total).sqrt();
    (difference >= LEAST_DIFFERENCE + chance)
        .then_some(most)
        .flatten()
        .map(|most| OddProcess { difference, ..most })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::Notes;
    use nodespy_model::{About, Process, Thread};
    use nodespy_model::{FrameSpec, FunctionSpec, ProfileBuilder};

    /// Processes whose samples are in these functions.
    fn profile_of(processes: &[&[(&str, u64)]]) -> Profile {
        let mut builder = ProfileBuilder::new(WeightUnit::Samples);
        for (position, functions) in processes.iter().enumerate() {
            let process = builder.process(Process {
                pid: position as u32 + 1,
                name: "shop".to_owned(),
                ..Process::default()
            });
            let thread = builder.thread(Thread {
                process,
                ..Thread::default()
            });
            for (name, weight) in *functions {
                let function = FunctionSpec {
                    name,
                    ..FunctionSpec::default()
                };
                let frame = builder.frame(FrameSpec {
                    function,
                    ..FrameSpec::default()
                });
                let stack = builder.stack(None, frame);
                builder.sample(0, thread, Some(stack), *weight);
            }
        }
        builder.finish(About::default(), Notes::default())
    }

    #[test]
    fn the_one_that_does_something_else_is_found() {
        let usual: &[(&str, u64)] = &[("price", 90), ("render", 10)];
        let odd: &[(&str, u64)] = &[("price", 20), ("recount", 80)];
        let profile = profile_of(&[usual, odd, usual]);
        let found = odd_process(&profile).unwrap();
        assert_eq!((found.process, found.siblings), (ProcessIndex(1), 2));
        assert_eq!(profile.name_of(found.function), "recount");
        assert!((found.difference - 0.8).abs() < 1e-9, "{found:?}");
        assert_eq!((found.share, found.share_of_siblings), (0.8, 0.0));
    }

    #[test]
    fn alike_ones_and_pairs_are_not_told_apart() {
        let usual: &[(&str, u64)] = &[("price", 90), ("render", 10)];
        let similar: &[(&str, u64)] = &[("price", 85), ("render", 15)];
        let odd: &[(&str, u64)] = &[("recount", 100)];
        let few: &[(&str, u64)] = &[("recount", 5)];
        assert_eq!(odd_process(&profile_of(&[usual, similar, usual])), None);
        assert_eq!(odd_process(&profile_of(&[usual, odd])), None);
        assert_eq!(odd_process(&profile_of(&[usual, few, usual])), None);
        assert_eq!(odd_process(&Profile::default()), None);
    }
}
