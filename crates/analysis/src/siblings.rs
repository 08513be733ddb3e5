//! Processes of one application side by side: which of them does something else than the others.

use nodespy_model::label_key;
use nodespy_model::{Category, FunctionIndex, ProcessIndex, Profile, SmallSort, WeightUnit};
use nodespy_model::{FastMap, FastSet, Process};

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
    /// The function it spends more of its time in than they do, by the most.
    pub function: FunctionIndex,
    /// The function's share of the process's time.
    pub share: f64,
    /// The function's share of the others' time.
    pub share_of_siblings: f64,
}

/// The process that differs most from the others of its application, by the functions its time is
/// spent in; none when there are fewer than three alike or all do the same. A process that forked
/// another of the application is no sibling of it.
pub fn odd_process(profile: &Profile) -> Option<OddProcess> {
    let weights = weights_by_process(profile);
    let families = families(profile, |position| {
        total(&weights[position]) >= FEWEST_SAMPLES
    });
    families
        .iter()
        .filter(|family| family.len() > 2)
        .filter_map(|family| odd_member(&weights, family))
        .max_by(|one, other| one.difference.total_cmp(&other.difference))
}

/// The processes of each application that `counts` accepts, parents of others left out.
fn families(profile: &Profile, counts: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
    let app_of = |process: &'_ Process| -> String {
        let app = process.labels.get(label_key::APP);
        app.unwrap_or(&process.name).to_owned()
    };
    let parents: FastSet<(u32, String)> = profile
        .processes
        .iter()
        .filter(|process| process.parent_pid != 0)
        .map(|process| (process.parent_pid, app_of(process)))
        .collect();
    let mut families: FastMap<String, Vec<usize>> = FastMap::default();
    for (position, process) in profile.processes.iter().enumerate() {
        let app = app_of(process);
        let key = (process.pid, app);
        if counts(position) && !key.1.is_empty() && !parents.contains(&key) {
            families.entry(key.1).or_default().push(position);
        }
    }
    let mut families: Vec<Vec<usize>> = families.into_values().collect();
    families.sort_unstable();
    families
}

type Weights = FastMap<FunctionIndex, u64>;

/// The weight of each function itself, by process. Waiting is no work.
fn weights_by_process(profile: &Profile) -> Vec<Weights> {
    profile.assert_one_event();
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
        *weight = weight.saturating_add(match profile.unit() {
            // How many there are says how sure it is, not how long they stand for.
            WeightUnit::Nanoseconds | WeightUnit::Events => 1,
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

/// The shares of each function in some processes, those of 0 left out.
fn shares_of(weights: &[Weights], processes: &[usize]) -> FastMap<FunctionIndex, Vec<f64>> {
    let mut shares: FastMap<FunctionIndex, Vec<f64>> = FastMap::default();
    for process in processes {
        let whole = total(&weights[*process]) as f64;
        for (function, weight) in &weights[*process] {
            let list = shares.entry(*function).or_default();
            list.push(*weight as f64 / whole);
        }
    }
    shares
}

/// The member of a family that is farthest from what is usual in it. What is usual is the median
/// of each function's shares: unlike a sum, it is not bent by the odd one or by the busiest.
fn odd_member(weights: &[Weights], family: &[usize]) -> Option<OddProcess> {
    let usual: FastMap<FunctionIndex, f64> = shares_of(weights, family)
        .iter()
        .map(|(function, shares)| (*function, median(shares, family.len())))
        .collect();
    let usual_total: f64 = usual.values().sum();
    let distance = |member: usize| {
        let whole = total(&weights[member]) as f64;
        let own = weights[member].iter();
        let apart = own.map(|(function, weight)| {
            let usual = usual[function];
            (*weight as f64 / whole - usual).abs() - usual
        });
        (apart.sum::<f64>() + usual_total) / 2.0
    };
    let mut distances: Vec<(f64, usize)> = family
        .iter()
        .map(|member| (distance(*member), *member))
        .collect();
    distances.small_sort_by(|one, other| other.0.total_cmp(&one.0));
    let (difference, member) = distances[0];
    let others: Vec<f64> = distances[1..]
        .iter()
        .map(|(distance, _)| *distance)
        .collect();
    let spread = median(&others, others.len());
    // A few samples scatter: what chance alone can do is not pointed at, nor is one among many
    // that all differ.
    let chance = 1.0 / (total(&weights[member]) as f64).sqrt();
    (difference >= LEAST_DIFFERENCE + chance && difference >= 2.0 * spread).then(|| {
        let siblings: Vec<usize> = family
            .iter()
            .copied()
            .filter(|one| *one != member)
            .collect();
        describe(weights, member, &siblings, difference)
    })
}

/// The function that a process spends more of its time in than its siblings do, by the most.
fn describe(weights: &[Weights], member: usize, siblings: &[usize], difference: f64) -> OddProcess {
    let theirs = shares_of(weights, siblings);
    let own = &weights[member];
    let whole = total(own) as f64;
    let mut functions: Vec<FunctionIndex> = own.keys().chain(theirs.keys()).copied().collect();
    functions.sort_unstable();
    functions.dedup();
    let compared = functions.into_iter().map(|function| OddProcess {
        process: ProcessIndex(member as u32),
        siblings: siblings.len(),
        difference,
        function,
        share: own
            .get(&function)
            .map_or(0.0, |weight| *weight as f64 / whole),
        share_of_siblings: theirs
            .get(&function)
            .map_or(0.0, |shares| median(shares, siblings.len())),
    });
    let excess = |odd: &OddProcess| odd.share - odd.share_of_siblings;
    compared
        .max_by(|one, other| excess(one).total_cmp(&excess(other)))
        .expect("a process with samples has functions")
}

/// The median of `count` numbers, of which those not in the list are 0.
fn median(numbers: &[f64], count: usize) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let zeros = count.saturating_sub(sorted.len());
    let at = |position: usize| match position.checked_sub(zeros) {
        Some(position) => sorted.get(position).copied().unwrap_or(0.0),
        None => 0.0,
    };
    match count {
        0 => 0.0,
        odd if odd % 2 == 1 => at(odd / 2),
        even => f64::midpoint(at(even / 2 - 1), at(even / 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodespy_model::Notes;
    use nodespy_model::{About, Thread};
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
    fn the_odd_one_is_found_however_busy_it_is() {
        let odd: &[(&str, u64)] = &[("work", 598), ("render", 402)];
        let idler: &[(&str, u64)] = &[("work", 12), ("render", 88)];
        let other: &[(&str, u64)] = &[("work", 15), ("render", 85)];
        let found = odd_process(&profile_of(&[idler, other, odd])).unwrap();
        assert_eq!(found.process, ProcessIndex(2));
        assert!((found.share - 0.598).abs() < 1e-9, "{found:?}");
        assert!((found.share_of_siblings - 0.135).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_parent_is_no_sibling() {
        let parent: &[(&str, u64)] = &[("fork", 100)];
        let child: &[(&str, u64)] = &[("price", 90), ("render", 10)];
        let mut profile = profile_of(&[parent, child, child, child]);
        assert_eq!(odd_process(&profile).unwrap().process, ProcessIndex(0));
        for process in &mut profile.processes[1..] {
            process.parent_pid = 1;
        }
        assert_eq!(odd_process(&profile), None);
    }

    #[test]
    fn no_one_is_odd_where_all_differ() {
        let profile = profile_of(&[
            &[("price", 100)],
            &[("render", 100)],
            &[("recount", 100)],
            &[("sort", 100)],
        ]);
        assert_eq!(odd_process(&profile), None);
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
