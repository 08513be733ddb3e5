//! Recording a workload and asking the profile questions.

use std::path::Path;

use nodespy_analysis::{FunctionWeights, function_weights};
use nodespy_model::{Contents, Process, Profile, Sample, Thread, ThreadRole};

use super::certainty::{effective, margin};
use super::workload::{Running, forget_perf_map};
use crate::run::{Outcome, nodespy, run};
use crate::scratch::Scratch;

/// A profile that was recorded and read back, and what nodespy said meanwhile.
pub(crate) struct Recorded {
    pub(crate) profile: Profile,
    pub(crate) outcome: Outcome,
}

/// Records a running workload and reads the profile back.
#[track_caller]
pub(crate) fn record(target: &Running, arguments: &[&str]) -> Recorded {
    record_pids(&target.pid_text(), arguments)
}

/// Records a running workload for so many seconds; where a busy machine gave it too little of a CPU for so many samples,
/// again for longer.
#[track_caller]
pub(crate) fn record_enough(
    target: &Running,
    seconds: u32,
    arguments: &[&str],
    samples: usize,
) -> Recorded {
    let mut longer = LONGER.into_iter();
    loop {
        let factor = longer.next().unwrap_or(1);
        let length = (seconds * factor).to_string();
        let mut all = vec!["-d", &length];
        all.extend(arguments);
        let recorded = record(target, &all);
        if recorded.profile.samples.len() >= samples || longer.len() == 0 {
            return recorded;
        }
    }
}

/// How many times as long recordings get that have too few samples.
const LONGER: [u32; 3] = [1, 3, 9];

/// Records the processes of a comma-separated list and reads the profile back.
#[track_caller]
pub(crate) fn record_pids(pids: &str, arguments: &[&str]) -> Recorded {
    let mut all = vec!["record", "-p", pids];
    all.extend(arguments);
    record_with(&all)
}

/// Runs nodespy with `record` arguments, an output added, and reads the profile back.
#[track_caller]
pub(crate) fn record_with(arguments: &[&str]) -> Recorded {
    let scratch = Scratch::new();
    let output = scratch.file("out.nspy");
    let mut all = vec![arguments[0], "-o", &output];
    all.extend(&arguments[1..]);
    let mut command = nodespy(&all);
    // A launched Node with its flags writes a log where it stands.
    command.current_dir(scratch.path());
    let outcome = run(command);
    outcome.expect_code(0);
    let profile = read(Path::new(&output));
    Recorded { profile, outcome }
}

/// Reads a profile that nodespy wrote.
#[track_caller]
pub(crate) fn read(path: &Path) -> Profile {
    let recording = nodespy_formats::import_file(path, &Default::default())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    match recording.contents {
        Contents::Named(profile) | Contents::PartlyNamed(profile, _) => *profile,
        Contents::Events(_) => panic!("{} holds raw events", path.display()),
    }
}

impl Recorded {
    /// Self and total weights of all functions, heaviest self weight first.
    pub(crate) fn weights(&self) -> Vec<FunctionWeights> {
        function_weights(&self.profile, |_| true)
    }

    /// The part of the samples that `keep` accepts which has a function of this name anywhere in its
    /// stack, 0 to 1.
    pub(crate) fn total_share_in<Keep: Fn(&Sample) -> bool>(&self, name: &str, keep: Keep) -> f64 {
        self.share_in(name, &keep, |entry| entry.total_weight)
    }

    /// The part of the samples that `keep` accepts which is in a function of this name itself, 0 to 1.
    pub(crate) fn self_share_in<Keep: Fn(&Sample) -> bool>(&self, name: &str, keep: Keep) -> f64 {
        self.share_in(name, &keep, |entry| entry.self_weight)
    }

    fn share_in(
        &self,
        name: &str,
        keep: &impl Fn(&Sample) -> bool,
        weight: fn(&FunctionWeights) -> u64,
    ) -> f64 {
        let of_function: u64 = function_weights(&self.profile, keep)
            .iter()
            .filter(|entry| self.profile.name_of(entry.function) == name)
            .map(weight)
            .sum();
        share(of_function, self.weight_of(keep))
    }

    /// The part of all samples that has a function of this name anywhere in its stack, 0 to 1.
    pub(crate) fn total_share(&self, name: &str) -> f64 {
        self.total_share_in(name, |_| true)
    }

    /// The part of all samples that is in a function of this name itself, 0 to 1.
    pub(crate) fn self_share(&self, name: &str) -> f64 {
        self.self_share_in(name, |_| true)
    }

    /// The weight of the samples that `keep` accepts.
    pub(crate) fn weight_of(&self, keep: impl Fn(&Sample) -> bool) -> u64 {
        self.profile
            .samples
            .iter()
            .filter(|sample| keep(sample))
            .map(|sample| sample.weight)
            .sum()
    }

    /// How many samples of equal weight tell as much as those that `keep` accepts.
    pub(crate) fn effective_samples(&self, keep: impl Fn(&Sample) -> bool) -> f64 {
        let samples = self.profile.samples.iter().filter(|sample| keep(sample));
        effective(samples.map(|sample| sample.weight))
    }

    /// The answer that the name of a function of a sample leads to, the nearest to the leaf first.
    pub(crate) fn answer_of<T>(
        &self,
        sample: &Sample,
        answer: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let profile = &self.profile;
        let frames = sample
            .stack
            .into_iter()
            .flat_map(|stack| profile.frames_of(stack));
        let mut names = frames.map(|frame| profile.name_of(profile.frame(frame).function));
        names.find_map(answer)
    }

    /// The thread of a sample.
    pub(crate) fn thread_of(&self, sample: &Sample) -> &Thread {
        &self.profile.threads[sample.thread.at()]
    }

    /// The process of a sample.
    pub(crate) fn process_of(&self, sample: &Sample) -> &Process {
        &self.profile.processes[self.thread_of(sample).process.at()]
    }

    /// The process with this pid.
    #[track_caller]
    pub(crate) fn process(&self, pid: u32) -> &Process {
        self.profile
            .processes
            .iter()
            .find(|process| process.pid == pid)
            .unwrap_or_else(|| panic!("no process {pid} in the profile\n{}", self.describe()))
    }

    /// The part of all samples on threads of this role, 0 to 1.
    pub(crate) fn role_share(&self, role: ThreadRole) -> f64 {
        let on = self.weight_of(|sample| self.thread_of(sample).role == role);
        share(on, self.profile.total_weight())
    }

    /// Fails the test when a sample was lost.
    #[track_caller]
    pub(crate) fn expect_nothing_lost(&self) -> &Self {
        let notes = &self.profile.notes;
        assert_eq!(
            (notes.lost_samples, notes.lost_records),
            (0, 0),
            "{}",
            self.describe()
        );
        self
    }

    /// The profile in a screenful, for the message of a test that fails.
    pub(crate) fn describe(&self) -> String {
        let total = self.profile.total_weight();
        let mut text = format!(
            "{} samples; {:?}\nthreads:\n",
            self.profile.samples.len(),
            self.profile.notes
        );
        for (position, thread) in self.profile.threads.iter().enumerate() {
            let weight = self.weight_of(|sample| sample.thread.at() == position);
            if weight > 0 {
                text += &format!(
                    "  {:5.1} %  pid {} tid {} {:?} {:?}\n",
                    100.0 * share(weight, total),
                    self.profile.processes[thread.process.at()].pid,
                    thread.tid,
                    thread.name,
                    thread.role,
                );
            }
        }
        text += "self, total:\n";
        for entry in self.weights().iter().take(20) {
            text += &format!(
                "  {:5.1} % {:5.1} %  {} ({}) {:?}\n",
                100.0 * share(entry.self_weight, total),
                100.0 * share(entry.total_weight, total),
                self.profile.name_of(entry.function),
                self.profile.location_of(entry.function),
                self.profile.function(entry.function).category,
            );
        }
        text
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // After the message of the test that fails: a log that is cut then still has the message.
        if std::thread::panicking() {
            eprintln!("{}", self.outcome.stdout);
        }
        for process in &self.profile.processes {
            if !Path::new(&format!("/proc/{}", process.pid)).exists() {
                forget_perf_map(process.pid);
            }
        }
    }
}

/// `part` of `whole`, 0 to 1; 0 when there is no whole.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    part as f64 / whole as f64
}

/// Fails the test unless `found` is `expected`, both parts of one. The margin is two points for the
/// machine, and what that many samples can't tell.
#[track_caller]
pub(crate) fn expect_share(what: &str, found: f64, expected: f64, recorded: &Recorded) {
    let samples = recorded.effective_samples(|_| true);
    let margin = 0.02 + margin(expected, samples);
    assert!(
        (found - expected).abs() <= margin,
        "{what}: {:.1} %, expected {:.1} % give or take {:.1}\n{}",
        100.0 * found,
        100.0 * expected,
        100.0 * margin,
        recorded.describe()
    );
}
