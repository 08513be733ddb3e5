//! Lanes with sessions whose peer answers when the test makes it.

use std::collections::HashMap;

use serde_json::Value;

use super::*;

/// Lanes hand profiles on unread.
fn no_reader(
    _: InspectorEvent,
    _: &str,
) -> Result<nodespy_model::Recording, Box<dyn std::error::Error + Send + Sync>> {
    unreachable!("a lane reads no profile")
}

/// A session whose peer answers when the test makes it.
#[derive(Default)]
struct Scripted {
    sent: Vec<(u64, &'static str)>,
    replies: HashMap<u64, Result<String, InspectorError>>,
    has_ended: bool,
    is_forgotten: bool,
}

impl Scripted {
    /// Answers the last command, which must be `method`.
    #[track_caller]
    fn answer(&mut self, method: &str, reply: Result<&str, InspectorError>) {
        let &(id, last) = self.sent.last().expect("a command was sent");
        assert_eq!(last, method);
        self.replies.insert(id, reply.map(str::to_owned));
    }
}

impl Channel for Scripted {
    fn send(
        &mut self,
        _: &Recipient,
        method: &'static str,
        _: &Value,
    ) -> Result<u64, InspectorError> {
        let id = self.sent.len() as u64;
        self.sent.push((id, method));
        Ok(id)
    }

    fn post(
        &mut self,
        recipient: &Recipient,
        method: &'static str,
        params: &Value,
    ) -> Result<(), InspectorError> {
        self.send(recipient, method, params).map(drop)
    }

    fn try_reply(
        &mut self,
        _: &Recipient,
        id: u64,
        _: &'static str,
    ) -> Option<Result<String, InspectorError>> {
        let ended = self.has_ended.then_some(Err(InspectorError::Closed));
        self.replies.remove(&id).or(ended)
    }

    fn has_ended(&self, _: &Recipient) -> bool {
        self.has_ended
    }

    fn forget(&mut self, _: &Recipient) {
        self.is_forgotten = true;
    }

    fn poll(&mut self) -> Result<bool, InspectorError> {
        unreachable!("a lane takes what has arrived")
    }
}

/// A worker's lane, its two sessions and a clock that the test moves.
struct Bench {
    lane: Lane,
    sessions: [Scripted; 2],
    options: InspectorOptions,
    now: Instant,
}

impl Bench {
    fn new(options: InspectorOptions) -> Self {
        let mut sessions = [Scripted::default(), Scripted::default()];
        let now = Instant::now();
        let worker = |id: &str| Recipient::Worker(id.to_owned());
        let name = "resize".to_owned();
        let mut lane =
            Lane::start(3, name, (0, worker("a")), &mut sessions, &options, now).unwrap();
        lane.add_recipient(1, worker("b"));
        Self {
            lane,
            sessions,
            options,
            now,
        }
    }

    /// A lane whose first profiler runs.
    fn running(event: InspectorEvent) -> Self {
        let mut bench = Self::new(InspectorOptions {
            event,
            slice: Some(Duration::from_secs(10)),
            ..InspectorOptions::new(no_reader)
        });
        let start = start_method(&bench.options);
        bench.sessions[0].answer(start, Ok("{}"));
        assert!(matches!(bench.turn(), Turned::Nothing));
        bench
    }

    fn turn(&mut self) -> Turned {
        let turned = self.lane.turn(&mut self.sessions, &self.options, self.now);
        turned.unwrap()
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn last_sent(&self, session: usize) -> Option<&'static str> {
        self.sessions[session].sent.last().map(|sent| sent.1)
    }
}

#[test]
fn the_next_profiler_runs_before_the_last_one_is_stopped() {
    let mut bench = Bench::running(InspectorEvent::Cpu);
    bench.pass(9);
    assert!(!bench.lane.is_due(bench.now));
    bench.turn();
    assert_eq!(bench.last_sent(1), None);
    bench.pass(1);
    assert!(bench.lane.is_due(bench.now));
    bench.turn();
    assert_eq!(bench.last_sent(1), Some("Profiler.start"));
    // Until the next one runs, the first goes on.
    bench.turn();
    assert_eq!(bench.last_sent(0), Some("Profiler.start"));
    bench.sessions[1].answer("Profiler.start", Ok("{}"));
    bench.turn();
    assert_eq!(bench.last_sent(0), Some("Profiler.stop"));
    assert_eq!(bench.lane.at_stake(bench.now), Duration::ZERO);
    bench.sessions[0].answer("Profiler.stop", Ok("first"));
    assert!(matches!(bench.turn(), Turned::Profile(json) if json == "first"));
    // And back again.
    bench.pass(10);
    bench.turn();
    bench.sessions[0].answer("Profiler.start", Ok("{}"));
    bench.turn();
    bench.sessions[1].answer("Profiler.stop", Ok("second"));
    assert!(matches!(bench.turn(), Turned::Profile(json) if json == "second"));
}

#[test]
fn a_slow_start_makes_slices_longer_up_to_a_minute() {
    for (pause, slice) in [(0, 10), (50, 20), (1000, 60)] {
        let mut bench = Bench::new(InspectorOptions::new(no_reader));
        bench.now += Duration::from_millis(pause);
        bench.sessions[0].answer("Profiler.start", Ok("{}"));
        bench.turn();
        assert_eq!(bench.lane.slice.as_secs(), slice, "{pause} ms");
    }
}

#[test]
fn a_worker_that_ends_while_it_runs_is_forgotten_everywhere() {
    let mut bench = Bench::running(InspectorEvent::Cpu);
    bench.pass(4);
    bench.sessions[0].has_ended = true;
    let turned = bench.turn();
    let expected = "resize ended during the recording: its last 4.0 s are lost";
    assert!(
        matches!(&turned, Turned::Ended(why) if why == expected),
        "{turned:?}"
    );
    assert!(bench.sessions.iter().all(|session| session.is_forgotten));
    let stop = bench.lane.stop(&mut bench.sessions, &bench.options);
    assert!(stop.unwrap().is_empty());
    assert!(matches!(bench.turn(), Turned::Nothing));
}

#[test]
fn a_worker_that_ends_in_the_middle_of_a_change_keeps_the_profile_that_arrived() {
    let mut bench = Bench::running(InspectorEvent::Cpu);
    bench.pass(10);
    bench.turn();
    bench.sessions[1].answer("Profiler.start", Ok("{}"));
    bench.turn();
    // The profile was on its way when the worker ended.
    bench.sessions[0].answer("Profiler.stop", Ok("kept"));
    for session in &mut bench.sessions {
        session.has_ended = true;
    }
    bench.pass(2);
    assert!(matches!(bench.turn(), Turned::Profile(json) if json == "kept"));
    let turned = bench.turn();
    assert!(
        matches!(&turned, Turned::Ended(why) if why.contains("last 2.0 s")),
        "{turned:?}"
    );
}

#[test]
fn a_worker_that_ends_before_its_profiler_runs_lost_nothing_that_was_recorded() {
    let mut bench = Bench::new(InspectorOptions::new(no_reader));
    bench.sessions[0].has_ended = true;
    let turned = bench.turn();
    assert!(matches!(&turned, Turned::Ended(why) if why.contains("before its profiler")));
}

#[test]
fn a_profiler_that_fails_to_start_ends_the_lane_with_the_reason() {
    let mut bench = Bench::new(InspectorOptions::new(no_reader));
    let refused = InspectorError::Command {
        method: "Profiler.start",
        message: "no memory".to_owned(),
    };
    bench.sessions[0].answer("Profiler.start", Err(refused));
    let turned = bench.turn();
    assert!(
        matches!(&turned, Turned::Ended(why) if why.contains("no memory")),
        "{turned:?}"
    );
}

#[test]
fn a_slice_that_is_lost_does_not_end_the_lane() {
    let mut bench = Bench::running(InspectorEvent::Cpu);
    bench.pass(10);
    bench.turn();
    bench.sessions[1].answer("Profiler.start", Ok("{}"));
    bench.turn();
    let refused = InspectorError::Command {
        method: "Profiler.stop",
        message: "busy".to_owned(),
    };
    bench.sessions[0].answer("Profiler.stop", Err(refused));
    assert!(matches!(bench.turn(), Turned::Remark(_)));
    bench.pass(10);
    assert!(bench.lane.is_due(bench.now));
}

#[test]
fn the_end_asks_for_both_profiles_where_two_overlap_the_oldest_first() {
    let mut bench = Bench::running(InspectorEvent::Cpu);
    bench.pass(10);
    bench.turn();
    let sessions_asked = |bench: &mut Bench| -> Vec<usize> {
        let stop = bench.lane.stop(&mut bench.sessions, &bench.options);
        stop.unwrap()
            .iter()
            .map(|command| command.session)
            .collect()
    };
    assert_eq!(sessions_asked(&mut bench), [0, 1]);
    bench.sessions[1].answer("Profiler.stop", Ok("{}"));
    let mut bench = Bench::running(InspectorEvent::Cpu);
    bench.pass(10);
    bench.turn();
    bench.sessions[1].answer("Profiler.start", Ok("{}"));
    bench.turn();
    // The first was asked to stop already and is not asked again.
    let before = bench.sessions[0].sent.len();
    assert_eq!(sessions_asked(&mut bench), [0, 1]);
    assert_eq!(bench.sessions[0].sent.len(), before);
}

#[test]
fn allocations_are_asked_for_so_far_in_one_session() {
    let mut bench = Bench::running(InspectorEvent::Allocations);
    for round in 0..3 {
        bench.pass(10);
        bench.turn();
        bench.sessions[0].answer(SO_FAR, Ok("so far"));
        assert!(matches!(bench.turn(), Turned::Profile(_)), "{round}");
        assert!(!bench.lane.is_due(bench.now));
    }
    assert_eq!(bench.last_sent(1), None);
}
