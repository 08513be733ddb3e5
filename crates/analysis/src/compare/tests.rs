//! Runs whose right answer is known.

use super::blocks::SplitMix;
use super::*;
use crate::testing::profile_of;

/// The stacks of a program of twelve functions and the samples they usually get.
const PROGRAM: [(&str, f64); 12] = [
    ("main@/srv/a/main.js;parse@/srv/a/lib/parse.js", 400.0),
    (
        "main@/srv/a/main.js;parse@/srv/a/lib/parse.js;scan@/srv/a/lib/parse.js",
        300.0,
    ),
    ("main@/srv/a/main.js;hashInts@/srv/a/lib/hash.js", 600.0),
    ("main@/srv/a/main.js;sort@/srv/a/lib/sort.js", 500.0),
    (
        "main@/srv/a/main.js;sort@/srv/a/lib/sort.js;compare@/srv/a/lib/sort.js",
        700.0,
    ),
    ("main@/srv/a/main.js;render@/srv/a/lib/render.js", 450.0),
    (
        "main@/srv/a/main.js;render@/srv/a/lib/render.js;escape@/srv/a/lib/render.js",
        250.0,
    ),
    (
        "main@/srv/a/main.js;d:map@/srv/a/node_modules/lodash/lodash.js",
        350.0,
    ),
    ("main@/srv/a/main.js;n:malloc@/usr/lib/libc.so.6", 150.0),
    ("main@/srv/a/main.js;gc:Scavenge@node", 200.0),
    ("main@/srv/a/main.js;bubble@/srv/a/lib/sort.js", 160.0),
    ("main@/srv/a/main.js", 100.0),
];

/// A normal variate, nearly: the sum of twelve uniform ones.
fn normal(random: &mut SplitMix) -> f64 {
    let sum: f64 = (0..12).map(|_| random.below(1_000_000) as f64 / 1e6).sum();
    sum - 6.0
}

/// A run of stacks whose samples vary by `noise`.
fn run(stacks: &[(&str, f64)], noise: f64, random: &mut SplitMix) -> RunCosts {
    let mut lines = String::new();
    for (path, samples) in stacks {
        let samples = (samples * (noise * normal(random)).exp()).round();
        lines.push_str(&format!("{path} {samples}\n"));
    }
    RunCosts::of("run.nspy", &profile_of(&lines), None)
}

fn runs(stacks: &[(&str, f64)], count: usize, noise: f64, random: &mut SplitMix) -> Vec<RunCosts> {
    (0..count).map(|_| run(stacks, noise, random)).collect()
}

/// The program with functions whose name holds `part` times `factor`.
fn with<'a>(part: &str, factor: f64) -> Vec<(&'a str, f64)> {
    let leaf = |path: &str| path.rsplit(';').next().unwrap_or("").to_owned();
    let changed = |&(path, samples): &(&'a str, f64)| match leaf(path).contains(part) {
        true => (path, samples * factor),
        false => (path, samples),
    };
    PROGRAM.iter().map(changed).collect()
}

fn verdict_of(comparison: &Comparison, name: &str) -> Verdict {
    let mut functions = comparison.functions.iter();
    functions
        .find(|function| function.id.name == name)
        .unwrap()
        .own
        .verdict
}

fn regressions(comparison: &Comparison) -> Vec<&str> {
    let functions = comparison.functions.iter();
    let regressed = functions.filter(|function| function.own.verdict == Verdict::Regression);
    regressed
        .map(|function| function.id.name.as_str())
        .collect()
}

#[test]
fn a_planted_regression_is_found_and_nothing_else() {
    let mut random = SplitMix(7);
    let before = runs(&PROGRAM, 5, 0.01, &mut random);
    let after = runs(&with("hashInts", 1.25), 5, 0.01, &mut random);
    let comparison = compare(before, after, &CompareOptions::default()).unwrap();
    assert_eq!(regressions(&comparison), ["hashInts"]);
    assert_eq!(comparison.functions[0].id.file, "lib/hash.js");
    let (low, high) = comparison.functions[0].own.interval.unwrap();
    assert!(
        low > 1.2 && low < 1.25 && high > 1.25 && high < 1.3,
        "{low} {high}"
    );
    assert!(comparison.common.is_none());
}

#[test]
fn equal_programs_are_rarely_called_different() {
    let mut random = SplitMix(3);
    let mut alarms = 0;
    for _ in 0..200 {
        let before = runs(&PROGRAM, 5, 0.04, &mut random);
        let after = runs(&PROGRAM, 5, 0.04, &mut random);
        let comparison = compare(before, after, &CompareOptions::default()).unwrap();
        alarms += usize::from(!regressions(&comparison).is_empty());
    }
    assert!(alarms <= 10, "{alarms} of 200");
}

#[test]
fn a_small_change_is_found_with_enough_runs() {
    let mut random = SplitMix(11);
    let mut found = 0;
    for _ in 0..40 {
        let before = runs(&PROGRAM, 10, 0.01, &mut random);
        let after = runs(&with("hashInts", 1.05), 10, 0.01, &mut random);
        let comparison = compare(before, after, &CompareOptions::default()).unwrap();
        found += usize::from(regressions(&comparison).contains(&"hashInts"));
    }
    assert!(found >= 32, "{found} of 40");
}

#[test]
fn a_slower_machine_is_no_regression_of_functions() {
    let mut random = SplitMix(5);
    let before = runs(&PROGRAM, 5, 0.01, &mut random);
    let after = runs(&with("", 1.1), 5, 0.01, &mut random);
    let comparison = compare(before, after, &CompareOptions::default()).unwrap();
    let common = comparison.common.unwrap();
    assert!((common.ratio - 1.1).abs() < 0.02, "{common:?}");
    assert!(regressions(&comparison).is_empty());
    assert_eq!(comparison.total.verdict, Verdict::Regression);
}

#[test]
fn a_callee_that_was_inlined_has_moved_its_cost() {
    let mut random = SplitMix(9);
    let mut inlined = with("escape", 0.0);
    for (path, samples) in &mut inlined {
        if path.ends_with("render@/srv/a/lib/render.js") {
            *samples += 250.0;
        }
    }
    inlined.retain(|(_, samples)| *samples > 0.0);
    let before = runs(&PROGRAM, 5, 0.01, &mut random);
    let after = runs(&inlined, 5, 0.01, &mut random);
    let comparison = compare(before, after, &CompareOptions::default()).unwrap();
    assert_eq!(verdict_of(&comparison, "render"), Verdict::Moved);
    assert_eq!(verdict_of(&comparison, "escape"), Verdict::Moved);
    assert!(regressions(&comparison).is_empty());
}

#[test]
fn renamed_functions_and_moved_files_are_the_same_function() {
    let mut random = SplitMix(13);
    let elsewhere: Vec<(String, f64)> = PROGRAM
        .iter()
        .map(|(path, samples)| {
            let path = path
                .replace(
                    "/srv/a/node_modules/lodash/",
                    "/x/node_modules/.pnpm/lodash@4.1.0/node_modules/lodash/",
                )
                .replace("/srv/a/", "/home/ci/build/")
                .replace("hashInts", "hashNumbers")
                .replace("lib/render.js", "lib/html/render.js");
            (path, *samples)
        })
        .collect();
    let elsewhere: Vec<(&str, f64)> = elsewhere
        .iter()
        .map(|(path, samples)| (path.as_str(), *samples))
        .collect();
    let before = runs(&PROGRAM, 5, 0.01, &mut random);
    let after = runs(&elsewhere, 5, 0.01, &mut random);
    let comparison = compare(before, after, &CompareOptions::default()).unwrap();
    let of_name = |name: &str| {
        comparison
            .functions
            .iter()
            .find(|function| function.id.name == name)
            .unwrap()
    };
    assert_eq!(
        of_name("hashNumbers").was.as_ref().unwrap().name,
        "hashInts"
    );
    assert_eq!(
        of_name("render").was.as_ref().unwrap().file,
        "lib/render.js"
    );
    assert_eq!(
        of_name("escape").was.as_ref().unwrap().file,
        "lib/render.js"
    );
    assert!(
        comparison
            .functions
            .iter()
            .all(|function| function.own.verdict == Verdict::NoChange
                || function.own.verdict == Verdict::Untested),
        "{comparison:#?}"
    );
}

#[test]
fn one_run_a_side_has_an_interval_and_no_verdict() {
    let mut random = SplitMix(17);
    let before = runs(&PROGRAM, 1, 0.01, &mut random);
    let after = runs(&with("hashInts", 2.0), 1, 0.01, &mut random);
    let comparison = compare(before, after, &CompareOptions::default()).unwrap();
    assert_eq!(verdict_of(&comparison, "hashInts"), Verdict::Untested);
    assert_eq!(comparison.functions[0].id.name, "hashInts");
    assert!(comparison.functions[0].own.interval.is_some());
    assert!(
        comparison.remarks[0].contains("1 against 1 is not a test"),
        "{:?}",
        comparison.remarks
    );
}

#[test]
fn shares_are_at_most_likely() {
    let mut random = SplitMix(19);
    let options = CompareOptions {
        basis: Some(Basis::Share),
        ..CompareOptions::default()
    };
    let before = runs(&PROGRAM, 5, 0.01, &mut random);
    let after = runs(&with("hashInts", 1.5), 5, 0.01, &mut random);
    let comparison = compare(before, after, &options).unwrap();
    assert_eq!(verdict_of(&comparison, "hashInts"), Verdict::LikelySlower);
}

#[test]
fn twice_the_work_at_twice_the_cost_is_no_change() {
    let mut random = SplitMix(23);
    let options = CompareOptions {
        work: Some(Work::Known {
            name: "requests".to_owned(),
            before: 1000.0,
            after: 2000.0,
        }),
        ..CompareOptions::default()
    };
    let before = runs(&PROGRAM, 5, 0.01, &mut random);
    let after = runs(&with("", 2.0), 5, 0.01, &mut random);
    let comparison = compare(before, after, &options).unwrap();
    assert_eq!(comparison.basis, Basis::Work);
    assert!(regressions(&comparison).is_empty());
    assert!((comparison.total.ratio - 1.0).abs() < 0.02);
}

#[test]
fn a_noisy_machine_is_said_with_the_number_of_runs_it_takes() {
    let mut random = SplitMix(29);
    let before = runs(&PROGRAM, 3, 0.15, &mut random);
    let after = runs(&PROGRAM, 3, 0.15, &mut random);
    let comparison = compare(before, after, &CompareOptions::default()).unwrap();
    assert!(comparison.smallest_seen.unwrap() > 1.2);
    assert!(comparison.runs_needed.unwrap() > 10);
}

#[test]
fn what_cannot_be_compared_is_an_error_that_says_why() {
    let mut random = SplitMix(31);
    let options = CompareOptions::default();
    let one = || runs(&PROGRAM, 1, 0.0, &mut SplitMix(1));
    let empty = vec![run(&[], 0.0, &mut random)];
    assert_eq!(
        compare(one(), empty, &options).unwrap_err(),
        CompareError::Empty("run.nspy".to_owned())
    );
    let other = vec![run(&[("x@/y/z.js;q@/y/z.js", 50.0)], 0.0, &mut random)];
    assert_eq!(
        compare(one(), other, &options).unwrap_err().to_string(),
        "the two sides have no function in common (Scavenge and q): are they recordings of the same program?"
    );
    // Any two programs have the collector in common.
    let other = vec![run(
        &[("x@/y/z.js;gc:Scavenge@node", 50.0), ("x@/y/z.js", 50.0)],
        0.0,
        &mut random,
    )];
    let error = compare(one(), other, &options).unwrap_err().to_string();
    assert!(
        error.contains("no function of the application in common (bubble and x)"),
        "{error}"
    );
    let mut bytes = one();
    bytes[0].event.unit = nodespy_model::WeightUnit::Bytes;
    let error = compare(one(), bytes, &options).unwrap_err();
    assert!(matches!(error, CompareError::OtherEvent { .. }), "{error}");
    let mut timed = one();
    timed[0].event = timed[0].event.clone().at_rate(999);
    timed[0].name = "timed.nspy".to_owned();
    assert_eq!(
        compare(one(), timed.clone(), &options)
            .unwrap_err()
            .to_string(),
        "run.nspy does not say how often it was sampled, timed.nspy does: compare shares of them with --share"
    );
    let shares = CompareOptions {
        basis: Some(Basis::Share),
        ..CompareOptions::default()
    };
    let comparison = compare(one(), timed, &shares).unwrap();
    assert!(
        comparison
            .functions
            .iter()
            .all(|function| (function.own.ratio - 1.0).abs() < 1e-9)
    );
    let per_label = CompareOptions {
        work: Some(Work::Label("request".to_owned())),
        ..CompareOptions::default()
    };
    let error = compare(one(), one(), &per_label).unwrap_err().to_string();
    assert_eq!(
        error,
        "no sample of run.nspy has the label request: there is no work to divide by"
    );
}

#[test]
fn work_is_counted_by_the_values_of_a_label() {
    use nodespy_model::{About, Labels, Notes, Process, ProfileBuilder, Thread, ThreadIndex};
    let run = |requests: u64, samples_each: u64| {
        let mut builder = ProfileBuilder::new(nodespy_model::WeightUnit::Samples);
        let process = builder.process(Process::default());
        builder.thread(Thread {
            process,
            ..Thread::default()
        });
        let frame = builder.frame(nodespy_model::FrameSpec {
            function: nodespy_model::FunctionSpec {
                name: "handle",
                ..Default::default()
            },
            ..Default::default()
        });
        let stack = builder.stack(None, frame);
        for request in 0..requests {
            let mut labels = Labels::default();
            labels.set("request", request.to_string());
            let context = builder.context(labels);
            builder.add_sample(nodespy_model::Sample {
                thread: ThreadIndex(0),
                stack: Some(stack),
                weight: samples_each,
                context,
                ..Default::default()
            });
        }
        RunCosts::of(
            "run.pb",
            &builder.finish(About::default(), Notes::default()),
            Some("request"),
        )
    };
    let options = CompareOptions {
        work: Some(Work::Label("request".to_owned())),
        ..CompareOptions::default()
    };
    let (before, after) = (vec![run(50, 4); 3], vec![run(150, 5); 3]);
    let comparison = compare(before, after, &options).unwrap();
    assert_eq!(
        (comparison.total.before, comparison.total.after),
        (4.0, 5.0)
    );
    assert_eq!(verdict_of(&comparison, "handle"), Verdict::Regression);
}

#[test]
fn small_functions_of_a_package_are_judged_together() {
    let mut random = SplitMix(41);
    let side = |factor: f64, random: &mut SplitMix| -> Vec<RunCosts> {
        let small: Vec<(String, f64)> = (0..30)
            .map(|number| {
                let path = format!("main@/srv/a/main.js;d:f{number}@/srv/a/node_modules/tiny/i.js");
                (path, 10.0 * factor)
            })
            .collect();
        let mut stacks: Vec<(&str, f64)> = PROGRAM.to_vec();
        stacks.extend(
            small
                .iter()
                .map(|(path, samples)| (path.as_str(), *samples)),
        );
        runs(&stacks, 5, 0.02, random)
    };
    let comparison = compare(
        side(1.0, &mut random),
        side(1.5, &mut random),
        &CompareOptions::default(),
    )
    .unwrap();
    assert!(regressions(&comparison).is_empty());
    let family = &comparison.families[0];
    assert_eq!(
        (family.package.name.as_str(), family.functions),
        ("tiny", 30)
    );
    assert_eq!(family.own.verdict, Verdict::Regression);
}

#[test]
fn runs_of_one_program_pass_the_check_of_themselves() {
    let mut random = SplitMix(37);
    let check = self_check(
        runs(&PROGRAM, 12, 0.03, &mut random),
        &CompareOptions::default(),
    )
    .unwrap();
    assert_eq!((check.splits, check.runs), (200, 6));
    assert!(check.alarms <= 20, "{check:?}");
    let few = self_check(
        runs(&PROGRAM, 4, 0.03, &mut random),
        &CompareOptions::default(),
    );
    assert_eq!(
        few.unwrap_err(),
        CompareError::TooFewRuns {
            needed: 6,
            given: 4
        }
    );
}

/// Runs whose version of Node is known.
fn with_node(mut runs: Vec<RunCosts>, version: &str) -> Vec<RunCosts> {
    for run in &mut runs {
        run.versions = quality::Versions::of_node(version);
    }
    runs
}

#[test]
fn what_another_version_of_node_inlines_is_no_regression() {
    let mut random = SplitMix(17);
    // What `main` calls lost a little each, and `main` itself has all of it: far less than each varies.
    let inlined: Vec<_> = PROGRAM
        .iter()
        .map(|&(path, samples)| match path {
            "main@/srv/a/main.js" => (path, 160.0),
            _ => (path, samples * 0.985),
        })
        .collect();
    let compared = |version: &str, after: &[(&'static str, f64)], random: &mut SplitMix| {
        let before = with_node(runs(&PROGRAM, 5, 0.04, random), "v24.0.0");
        let after = with_node(runs(after, 5, 0.04, random), version);
        compare(before, after, &CompareOptions::default()).unwrap()
    };
    let same = compared("v24.0.0", &inlined, &mut random);
    assert_eq!(verdict_of(&same, "main"), Verdict::Regression);
    let other = compared("v24.1.0", &inlined, &mut random);
    assert_eq!(verdict_of(&other, "main"), Verdict::LikelySlower);
    // A function that calls nothing is slower whatever ran it.
    let slower = compared("v24.1.0", &with("hashInts", 1.5), &mut random);
    assert_eq!(verdict_of(&slower, "hashInts"), Verdict::Regression);
}

#[test]
fn what_the_kernel_does_in_interrupts_is_the_machines() {
    let mut random = SplitMix(19);
    let program = |switches: f64| {
        let mut stacks = PROGRAM.to_vec();
        stacks.extend([
            (
                "main@/srv/a/main.js;k:asm_sysvec_apic_timer_interrupt@;k:schedule@;k:finish_task_switch@",
                switches,
            ),
            ("main@/srv/a/main.js;k:do_syscall_64@;k:vfs_read@", switches),
        ]);
        stacks
    };
    let before = runs(&program(50.0), 5, 0.02, &mut random);
    let after = runs(&program(200.0), 5, 0.02, &mut random);
    let comparison = compare(before, after, &CompareOptions::default()).unwrap();
    assert_eq!(regressions(&comparison), ["vfs_read"]);
    let preempted = verdict_of(&comparison, "finish_task_switch");
    assert_eq!(preempted, Verdict::LikelySlower);
}
