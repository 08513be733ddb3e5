//! Random trouble at random moments: what is promised holds on a bad day too.
//!
//! A round starts a target and a nodespy, lets one of the troubles of `plan` happen, and then asks: does
//! the target live and answer as before, with the same descriptors, threads and listeners; did nodespy
//! end in time with a promised exit code; is no file, companion or zombie left?
//!
//! `make chaos` starts at a random seed, which it prints; `make chaos SEED=7 ROUNDS=1` plays round 7 again;
//! `make chaos CYCLES=200` attaches so often with each engine to each of `VERSIONS`. `tools/test.sh matrix`
//! plays one round of each trouble, the same on every machine, and fails where the time is not enough. Times of the
//! machine are random all the same: a seed repeats what is done and when, not what the scheduler makes of it.
//! The clock of the machine is left alone: the time of day that nodespy sees steps (`clock.c`).

#![allow(
    clippy::print_stderr,
    reason = "a long run says where it is, and a round that can't be played why"
)]

mod cycles;
mod full_disk;
mod group;
mod health;
mod many_threads;
mod plan;
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "../support/run.rs"]
mod run;
mod scene;
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "../support/scratch.rs"]
mod scratch;
#[path = "../support/skip.rs"]
mod skip;
#[allow(dead_code, reason = "shared with tests that need more of it")]
#[path = "../live/workload.rs"]
mod workload;

use std::fs::{self, File};
use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

use health::{Health, ask, comes_true, companions_of, latency, zombies_of};
use plan::{Job, Round, Seeds, Trouble};
use run::{Outcome, run_nodespy};
use scene::Scene;

/// Held by a test as long as it runs: every inspector wants the same port, and latencies are compared.
fn lock() -> File {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live.lock");
    let lock = File::create(path).unwrap();
    lock.lock().unwrap();
    lock
}

/// What nodespy may take longer than it was asked to: the inspector's wait for a busy process, naming,
/// writing, on a machine that does much else.
const GRACE: Duration = Duration::from_secs(30);

/// How long all rounds may take: one of each trouble takes less than a minute here, several on a slow machine.
const DEADLINE_SECONDS: u64 = 900;

/// A number of the environment.
fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    value.map_or(default, |value| {
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {value}"))
    })
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

#[test]
fn promises_hold_whatever_happens() {
    if !is_root() {
        return skip::skip("chaos needs root, for mounts, control groups and namespaces");
    }
    let _lock = lock();
    let seeds = Seeds {
        first: setting("NODESPY_CHAOS_SEED", 0),
        rounds: setting("NODESPY_CHAOS_ROUNDS", Trouble::ALL.len() as u64),
    };
    let limit = Duration::from_secs(setting("NODESPY_CHAOS_SECONDS", DEADLINE_SECONDS));
    eprintln!("{} rounds from seed {}", seeds.rounds, seeds.first);
    let since = Instant::now();
    let mut complaints = Vec::new();
    let mut unplayable = Vec::new();
    let mut begun = 0;
    for seed in seeds.all().take_while(|_| since.elapsed() < limit) {
        let round = Round::of(seed);
        let began = Instant::now();
        let ending = catch_unwind(|| ending_of(round))
            .unwrap_or_else(|_| Ending::Broken("the round itself failed, see above".to_owned()));
        let took = began.elapsed().as_secs_f64();
        eprintln!("{round}, {took:.1} s{}", ending.mark());
        match ending {
            Ending::Kept => {}
            Ending::Broken(complaint) => complaints.push(format!("{round}\n  {complaint}")),
            Ending::Unplayable(why) => unplayable.push(format!("{:?}: {why}", round.trouble)),
        }
        begun += 1;
    }
    assert!(
        complaints.is_empty(),
        "{} of {begun} rounds failed; `make chaos SEED=N ROUNDS=1` plays one again\n{}",
        complaints.len(),
        complaints.join("\n")
    );
    let missed = seeds.missed_after(begun);
    assert!(
        missed.is_empty(),
        "{limit:?} were over before these were played: {missed:?}; `make chaos SECONDS_AT_MOST=N` gives them longer"
    );
    if begun < seeds.rounds {
        eprintln!("{begun} of {} rounds in {limit:?}", seeds.rounds);
    }
    if !unplayable.is_empty() {
        unplayable.sort();
        unplayable.dedup();
        skip::skip(&format!("chaos can't play {}", unplayable.join("; ")));
    }
}

/// How a round ended.
enum Ending {
    Kept,
    /// A promise was not kept.
    Broken(String),
    /// The machine lacks something for it.
    Unplayable(String),
}

impl Ending {
    fn mark(&self) -> String {
        match self {
            Self::Kept => String::new(),
            Self::Broken(_) => ": FAILED".to_owned(),
            Self::Unplayable(why) => format!(": not played, {why}"),
        }
    }
}

fn ending_of(round: Round) -> Ending {
    match Scene::arrange(round).map(|scene| play(round, scene)) {
        Ok(Ok(())) => Ending::Kept,
        Ok(Err(complaint)) => Ending::Broken(complaint),
        Err(why) => Ending::Unplayable(why),
    }
}

/// Plays one round. An error is a promise that was not kept.
fn play(round: Round, mut scene: Scene) -> Result<(), String> {
    let pid = scene.pid();
    let before = Health::of(pid);
    let before_latency = scene.socket.as_deref().map(latency).transpose()?;
    let folder = scene.folder();
    let other_folder = scene.scratch.path().join("other");
    let _ = fs::create_dir(&folder);
    fs::create_dir(&other_folder).unwrap();
    scene.spoil_disk();
    let started = scene.start(round.job, &folder);
    std::thread::sleep(round.moment);
    let other =
        (round.trouble == Trouble::TwoAtOnce).then(|| scene.start(round.other, &other_folder));
    scene.strike(&started);
    let outcome = started.finish();
    expect_ending(&round, &outcome)?;
    expect_files(&round, round.job, &outcome, &folder, &scene)?;
    if let Some(other) = other {
        let outcome = other.finish();
        expect_ending(&round, &outcome).map_err(|why| format!("the second: {why}"))?;
        expect_files(&round, round.other, &outcome, &other_folder, &scene)?;
    }
    if !comes_true(|| companions_of(pid) == 0) {
        return Err(format!("a companion is left\n{outcome}"));
    }
    if round.trouble.is_deadly() {
        return Ok(());
    }
    if !scene.target.is_alive() {
        return Err(format!("the target ended\n{outcome}"));
    }
    before
        .expect_again(pid, round.trouble != Trouble::Exec)
        .map_err(|what| format!("{what}\n{outcome}"))?;
    if !comes_true(|| zombies_of(pid) == 0) {
        return Err(format!("the target has zombies\n{outcome}"));
    }
    if let (Some(before), Some(socket)) = (before_latency, &scene.socket) {
        // One that started anew takes a while on a busy machine.
        comes_true(|| ask(socket, "/").is_ok());
        let after = latency(socket)?;
        if after > before * 4 + Duration::from_millis(250) {
            return Err(format!(
                "answers took {before:?} before and {after:?} after"
            ));
        }
    }
    Ok(())
}

/// Did it end in time, with a promised code, and without a panic?
fn expect_ending(round: &Round, outcome: &Outcome) -> Result<(), String> {
    let codes = round.promised_codes();
    let is_promised = match outcome.status.code() {
        // What has nothing to write is simply ended.
        None if round.trouble.interrupts() => !round.job.is_recording(),
        None => round.trouble == Trouble::KillNodespy,
        // Who is killed late was done.
        Some(0) if round.trouble == Trouble::KillNodespy => true,
        // It had not begun.
        Some(1) if was_early(outcome) => round.trouble.interrupts(),
        Some(code) => codes.contains(&code),
    };
    if !is_promised {
        return Err(format!("promised was one of {codes:?}\n{outcome}"));
    }
    if outcome.stderr.contains("panicked") {
        return Err(format!("it panicked\n{outcome}"));
    }
    if outcome.status.code() == Some(1) && outcome.stderr.trim().is_empty() {
        return Err(format!("it failed without a word\n{outcome}"));
    }
    let longest = round.job.length() + round.lasting + GRACE;
    if outcome.took > longest {
        return Err(format!("it took longer than {longest:?}\n{outcome}"));
    }
    Ok(())
}

/// Whether it was interrupted before anything was recorded.
fn was_early(outcome: &Outcome) -> bool {
    let sentences = ["stopped before", "interrupted before"];
    sentences.iter().any(|words| outcome.stderr.contains(words))
}

/// Is what it wrote what it said, and nothing else?
fn expect_files(
    round: &Round,
    job: Job,
    outcome: &Outcome,
    folder: &Path,
    scene: &Scene,
) -> Result<(), String> {
    let mut names = names_in(folder);
    names.retain(|name| name != "filler");
    if round.trouble == Trouble::KillNodespy {
        // Killed between creating a journal and its first block.
        let is_empty = |name: &String| {
            let found = fs::metadata(folder.join(name));
            name.ends_with(".journal") && found.is_ok_and(|found| found.len() == 0)
        };
        names.retain(|name| !is_empty(name));
    }
    let temporary = names_in(&scene.scratch.path().join("tmp"));
    let complain = |what: &str| Err(format!("{what}: {names:?}, {temporary:?}\n{outcome}"));
    let is_rescue = |name: &String| name.starts_with("nodespy-rescued-");
    let is_good = match (round.trouble, outcome.status.code()) {
        // What was recorded is kept in the journal.
        (Trouble::KillNodespy, _) => names
            .iter()
            .all(|name| ["out.nspy", "out.nspy.journal"].contains(&name.as_str())),
        (Trouble::FullDisk, _) | (Trouble::DiskFills, Some(1)) => {
            names.is_empty() && temporary.iter().all(is_rescue)
        }
        (_, Some(0)) if job.is_recording() => names == ["out.nspy"],
        _ => names.is_empty(),
    };
    if !is_good {
        return complain("files");
    }
    if names.iter().any(|name| name == "out.nspy.journal") {
        expect_recoverable(&folder.join("out.nspy.journal"))?;
    }
    let is_filled = matches!(round.trouble, Trouble::FullDisk | Trouble::DiskFills);
    if !temporary.is_empty() && !is_filled {
        return complain("temporary files");
    }
    if names == ["out.nspy"] {
        let file = folder.join("out.nspy");
        let report = run_nodespy(&["report", file.to_str().unwrap(), "--format", "json"]);
        if report.status.code() != Some(0) {
            return Err(format!("what it wrote can't be read\n{report}\n{outcome}"));
        }
    }
    Ok(())
}

/// What a nodespy that was killed left behind must be of use.
fn expect_recoverable(journal: &Path) -> Result<(), String> {
    let recovered = journal.with_extension("recovered.nspy");
    let [journal, recovered] = [journal, &recovered].map(|path| path.to_str().unwrap());
    let outcome = run_nodespy(&["recover", journal, "-o", recovered]);
    if outcome.status.code() != Some(0) {
        return Err(format!("the journal can't be recovered\n{outcome}"));
    }
    let report = run_nodespy(&["report", recovered, "--format", "json"]);
    match report.status.code() {
        Some(0) => Ok(()),
        _ => Err(format!("what was recovered can't be read\n{report}")),
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
