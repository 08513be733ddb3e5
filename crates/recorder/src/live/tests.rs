use std::cell::Cell;
use std::process::{Child, Command, Stdio};

use nodespy_capture::target::Target;
use nodespy_model::Event;

use super::*;
use crate::stand_in::{StandIn, subject};

#[derive(Default)]
struct Seen {
    slices: Vec<(usize, Nanoseconds, u64)>,
    targets: Vec<usize>,
    lost_samples: u64,
    added: Vec<u32>,
    not_added: usize,
    /// Ends the recording after so many slices.
    max_slices: Option<usize>,
}

impl Observer for Seen {
    fn progress(&mut self, progress: &mut Progress<'_>) {
        self.lost_samples = progress.lost_samples;
    }

    fn added(&mut self, target: &Target) {
        self.added.push(target.pid());
    }

    fn not_added(&mut self, _error: &CaptureError) {
        self.not_added += 1;
    }

    fn slice(&mut self, slice: Slice<'_>) -> bool {
        let samples = slice.profile.samples.len();
        let noted = slice.profile.notes.lost_samples;
        assert_eq!(noted, slice.losses.samples);
        self.slices.push((samples, slice.length, noted));
        self.targets.push(slice.targets.len());
        Some(self.slices.len()) != self.max_slices
    }
}

fn limits(duration_ms: Option<u64>, slice_ms: Option<u64>) -> Limits<'static> {
    Limits {
        duration: duration_ms.map(Duration::from_millis),
        slice: slice_ms.map(Duration::from_millis),
        first_slice: None,
        slice_stretch: 0,
        idle_slice: None,
        is_stopped: &|| false,
    }
}

fn live<'e>(engine: &'e mut StandIn, subject: Subject, seen: &mut Seen) -> Live<'e> {
    Live::attach(engine, subject, LiveOptions::default(), seen).unwrap()
}

/// A process that ends when its standard input does.
fn waiting_child() -> Child {
    let mut command = Command::new("cat");
    command.stdin(Stdio::piped()).stdout(Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn it_ends_with_its_time() {
    let (mut engine, mut seen) = (StandIn::new(EngineId::PerfEvents), Seen::default());
    let asked = engine.asked.clone();
    let mut live = live(&mut engine, subject(), &mut seen);
    assert_eq!(
        live.run(&limits(Some(20), None), &mut seen).unwrap(),
        End::Duration
    );
    assert!(asked.borrow().is_finished);
    let profile = live.slice();
    assert_eq!(profile.samples.len(), asked.borrow().drains);
    assert!(profile.about.duration >= 20_000_000);
    assert_eq!(profile.about.engine, "perf events");
}

#[test]
fn samples_that_wait_for_others_are_read_when_their_slice_ends() {
    let (mut engine, mut seen) = (StandIn::new(EngineId::PerfEvents), Seen::default());
    engine.reads_late = true;
    let mut live = live(&mut engine, subject(), &mut seen);
    live.run(&limits(Some(40), Some(10)), &mut seen).unwrap();
    let samples: Vec<usize> = seen.slices.iter().map(|slice| slice.0).collect();
    assert!(
        samples.len() > 1 && samples.iter().all(|of_slice| *of_slice > 0),
        "{samples:?}"
    );
}

#[test]
fn its_time_counts_from_when_everything_is_sampled() {
    let (mut engine, mut seen) = (StandIn::new(EngineId::PerfEvents), Seen::default());
    engine.attaching = Duration::from_millis(30);
    let mut live = live(&mut engine, subject(), &mut seen);
    live.run(&limits(Some(20), None), &mut seen).unwrap();
    assert!(live.elapsed() >= 50_000_000, "{}", live.elapsed());
}

#[test]
fn it_ends_when_the_user_wants_it_to() {
    let (mut engine, mut seen) = (StandIn::new(EngineId::PerfEvents), Seen::default());
    let rounds = Cell::new(0);
    let limits = Limits {
        is_stopped: &|| {
            rounds.set(rounds.get() + 1);
            rounds.get() == 3
        },
        ..limits(None, None)
    };
    let asked = engine.asked.clone();
    let mut live = live(&mut engine, subject(), &mut seen);
    assert_eq!(live.run(&limits, &mut seen).unwrap(), End::Interrupted);
    assert_eq!(asked.borrow().drains, 3);
    assert!(asked.borrow().is_finished);
}

#[test]
fn it_ends_with_its_processes_or_with_what_the_engine_can_see() {
    let (mut engine, mut seen) = (StandIn::new(EngineId::PerfEvents), Seen::default());
    let mut child = waiting_child();
    let target = Target::hold(child.id()).unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
    let gone = Subject {
        targets: vec![target],
        ..subject()
    };
    let end = live(&mut engine, gone, &mut seen).run(&limits(Some(60_000), None), &mut seen);
    assert_eq!(end.unwrap(), End::TargetsGone);
    engine.last_drain = Some(engine.asked.borrow().drains + 2);
    // Behind an address there is no process to watch.
    let remote = Subject {
        targets: Vec::new(),
        ..subject()
    };
    let end = live(&mut engine, remote, &mut seen).run(&limits(Some(60_000), None), &mut seen);
    assert_eq!(end.unwrap(), End::TargetsGone);
}

#[test]
fn slices_follow_one_another_and_each_has_its_own_losses() {
    let (mut engine, mut seen) = (StandIn::new(EngineId::PerfEvents), Seen::default());
    engine.losses.samples = 2;
    let asked = engine.asked.clone();
    let mut live = live(&mut engine, subject(), &mut seen);
    // Long enough for three slices on a machine that is busy with other work.
    live.run(&limits(Some(600), Some(15)), &mut seen).unwrap();
    live.hand_out(&mut seen);
    assert!(seen.slices.len() >= 3, "{:?}", seen.slices);
    for (samples, length, lost) in &seen.slices[..seen.slices.len() - 1] {
        assert_eq!(*lost, 2 * *samples as u64);
        assert!(*length >= 15_000_000);
    }
    let drains = asked.borrow().drains;
    let counted: usize = seen.slices.iter().map(|(samples, ..)| samples).sum();
    let lost: u64 = seen.slices.iter().map(|(.., lost)| lost).sum();
    assert_eq!(counted, drains);
    // What the end lost is the last slice's.
    assert_eq!(lost, 2 * (drains as u64 + 1));
    assert_eq!(seen.lost_samples, 2 * (drains as u64 - 1));
}

#[test]
fn the_first_slice_may_be_longer_and_all_times_count_from_the_start() {
    let (mut engine, mut seen) = (StandIn::new(EngineId::PerfEvents), Seen::default());
    let mut live = live(&mut engine, subject(), &mut seen);
    let limits = Limits {
        first_slice: Some(Duration::from_millis(150)),
        ..limits(Some(600), Some(15))
    };
    live.run(&limits, &mut seen).unwrap();
    let (_, first, _) = seen.slices[0];
    assert!(first >= 150_000_000, "{:?}", seen.slices);
    assert!(seen.slices.len() >= 2, "{:?}", seen.slices);
    let last = live.slice();
    assert!(last.about.duration >= 600_000_000, "{:?}", last.about);
    let is_late = |sample: &nodespy_model::Sample| sample.time >= first;
    assert!(last.samples.iter().all(is_late));
}

#[test]
fn an_observer_that_has_seen_enough_ends_it() {
    let mut engine = StandIn::new(EngineId::PerfEvents);
    let mut seen = Seen {
        max_slices: Some(2),
        ..Seen::default()
    };
    let mut live = live(&mut engine, subject(), &mut seen);
    let end = live.run(&limits(None, Some(5)), &mut seen).unwrap();
    assert_eq!((end, seen.slices.len()), (End::Interrupted, 2));
}

/// Lets a process join at the second poll, and keeps every other event back.
struct Joins {
    child: Option<Target>,
    polls: usize,
    events: usize,
}

impl Joining for Joins {
    fn pass(&mut self, event: Event<'_>, take: &mut dyn FnMut(Event<'_>)) {
        self.events += 1;
        if self.events.is_multiple_of(2) {
            take(event);
        }
    }

    fn joined(&mut self) -> Vec<Target> {
        self.polls += 1;
        match self.polls {
            2 => self.child.take().into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

#[test]
fn new_processes_join_and_events_of_others_are_kept_back() {
    for refuses_to_add in [false, true] {
        let (mut engine, mut seen) = (StandIn::new(EngineId::PerfEvents), Seen::default());
        engine.refuses_to_add = refuses_to_add;
        let mut child = waiting_child();
        let pid = child.id();
        let joining = Joins {
            child: Some(Target::hold(pid).unwrap()),
            polls: 0,
            events: 0,
        };
        let asked = engine.asked.clone();
        let mut live = live(&mut engine, subject(), &mut seen).with_joining(joining);
        // Long enough for two polls on a machine that is busy with other work.
        live.run(&limits(Some(500), None), &mut seen).unwrap();
        live.hand_out(&mut seen);
        assert_eq!(seen.slices[0].0, asked.borrow().drains / 2);
        let (added, targets, refused) = match refuses_to_add {
            false => (vec![pid], 2, 0),
            true => (vec![], 1, 1),
        };
        assert_eq!(asked.borrow().added, added);
        assert_eq!((seen.targets[0], seen.not_added), (targets, refused));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}

#[test]
fn a_process_that_is_attached_to_meanwhile_joins_once_it_is() {
    for is_refused in [false, true] {
        let (mut engine, mut seen) = (StandIn::new(EngineId::Inspector), Seen::default());
        engine.meanwhile = Some(is_refused);
        let mut child = waiting_child();
        let pid = child.id();
        let joining = Joins {
            child: Some(Target::hold(pid).unwrap()),
            polls: 0,
            events: 0,
        };
        let asked = engine.asked.clone();
        let mut live = live(&mut engine, subject(), &mut seen).with_joining(joining);
        live.run(&limits(Some(500), None), &mut seen).unwrap();
        assert_eq!(asked.borrow().added, [pid]);
        let (added, refused) = match is_refused {
            false => (vec![pid], 0),
            true => (vec![], 1),
        };
        assert_eq!((&seen.added, seen.not_added), (&added, refused));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
