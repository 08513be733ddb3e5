//! Who submitted the jobs of libuv's pool.

use nodespy_model::{
    EventIndex, FastMap, PoolSubmitter, ProcessIndex, Profile, SmallSort, StackIndex, printable,
};

use crate::charged::charged_stacks;

/// More lines than this are not told apart; the heaviest are.
const MAX_SUBMITTERS: usize = 64;

/// The lines that submitted jobs, by process, most first: `event` has a sample for each job, or for several. A job is
/// charged to the nearest line of the application or a package, else to Node's: the steps of `fs.readFile` beyond the
/// first are submitted by Node itself.
pub fn pool_submitters(
    profile: &Profile,
    event: EventIndex,
) -> Vec<(ProcessIndex, Vec<PoolSubmitter>)> {
    let charged = charged_stacks(profile);
    let mut jobs: FastMap<(ProcessIndex, Option<StackIndex>), u64> = FastMap::default();
    for sample in profile.samples.iter().filter(|it| it.event == event) {
        let process = profile.threads[sample.thread.at()].process;
        let stack = sample.stack.and_then(|stack| charged[stack.at()]);
        let sum = jobs.entry((process, stack)).or_default();
        *sum = sum.saturating_add(sample.weight);
    }
    let mut lines: FastMap<(ProcessIndex, String, String), u64> = FastMap::default();
    for ((process, stack), count) in jobs {
        let (function, place) = stack.map_or_else(Default::default, |it| line_of(profile, it));
        let sum = lines.entry((process, function, place)).or_default();
        *sum = sum.saturating_add(count);
    }
    let mut by_process: FastMap<ProcessIndex, Vec<PoolSubmitter>> = FastMap::default();
    for ((process, function, place), jobs) in lines {
        by_process.entry(process).or_default().push(PoolSubmitter {
            function,
            place,
            jobs,
        });
    }
    let mut found: Vec<_> = by_process.into_iter().collect();
    found.small_sort_by_key(|(process, _)| process.at());
    for (_, submitters) in &mut found {
        submitters.small_sort_by(|one, other| {
            let by_number = other.jobs.cmp(&one.jobs);
            by_number
                .then_with(|| (&one.place, &one.function).cmp(&(&other.place, &other.function)))
        });
        submitters.truncate(MAX_SUBMITTERS);
    }
    found
}

/// The function at the end of a stack, and the line that is run there.
fn line_of(profile: &Profile, stack: StackIndex) -> (String, String) {
    let frame = profile.frame(profile.stacks[stack.at()].frame);
    let function = profile.function(frame.function);
    let file = printable(profile.file_of(frame.function));
    let place = match (frame.line, function.line) {
        (0, 0) => file.into_owned(),
        (0, line) | (line, _) => format!("{file}:{line}"),
    };
    let name = printable(profile.name_of(frame.function)).into_owned();
    (name, place)
}

#[cfg(test)]
mod tests {
    use nodespy_model::{
        About, Category, EventType, FrameSpec, FunctionSpec, Notes, Process, ProfileBuilder,
        Sample, Thread, WeightUnit,
    };

    use super::*;

    #[test]
    fn jobs_are_charged_to_the_nearest_line_of_the_application() {
        let mut builder = ProfileBuilder::with_events(vec![
            EventType::new("cpu-clock", WeightUnit::Samples),
            EventType::new("pool-jobs", WeightUnit::Events),
        ]);
        let process = builder.process(Process::default());
        let thread = builder.thread(Thread {
            process,
            ..Thread::default()
        });
        let mut push = |frames: &[(&str, &str, u32, Category)], event: u16, weight: u64| {
            let mut stack = None;
            for (name, file, line, category) in frames {
                let frame = builder.frame(FrameSpec {
                    function: FunctionSpec {
                        name,
                        file,
                        line: 1,
                        column: 1,
                        category: *category,
                    },
                    line: *line,
                    ..FrameSpec::default()
                });
                stack = Some(builder.stack(stack, frame));
            }
            builder.add_sample(Sample {
                weight,
                thread,
                stack,
                event: EventIndex(event),
                ..Sample::default()
            });
        };
        let login = ("login", "/app/auth.js", 41, Category::App);
        let hash = ("pbkdf2", "node:crypto", 7, Category::NodeCore);
        let step = ("readFileAfterOpen", "node:fs", 9, Category::NodeCore);
        push(&[login, hash], 1, 2);
        push(&[login, hash], 1, 1);
        push(&[login], 0, 100);
        push(&[step], 1, 1);
        push(&[], 1, 1);
        let profile = builder.finish(About::default(), Notes::default());
        let found = pool_submitters(&profile, EventIndex(1));
        let told: Vec<(&str, &str, u64)> = found[0]
            .1
            .iter()
            .map(|it| (&*it.function, &*it.place, it.jobs))
            .collect();
        let expected = [
            ("login", "/app/auth.js:41", 3),
            ("", "", 1),
            ("readFileAfterOpen", "node:fs:9", 1),
        ];
        assert_eq!(told, expected);
    }
}
