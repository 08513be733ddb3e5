use std::cell::RefCell;
use std::rc::Rc;
use std::time::Instant;

use nodespy_capture::engine::Engine;
use nodespy_capture::engines::EngineId;

use super::*;
use crate::observer::Started;
use crate::stand_in::{Asked, StandIn, subject};

/// Engines that see this process; perf events are refused if asked for.
#[derive(Default)]
struct StandIns {
    refuses_perf_events: bool,
    has_ebpf: bool,
    inspector: Rc<RefCell<Asked>>,
}

impl EngineSource for StandIns {
    fn perf_events(&self, _request: &RecordRequest, _events: Vec<EventSpec>) -> Box<dyn Engine> {
        Box::new(StandIn {
            is_refused: self.refuses_perf_events,
            has_ebpf: self.has_ebpf,
            ..StandIn::new(EngineId::PerfEvents)
        })
    }

    fn inspector(&self, _request: &RecordRequest) -> Result<Box<dyn Engine>, RecordError> {
        Ok(Box::new(StandIn {
            asked: Rc::clone(&self.inspector),
            ..StandIn::new(EngineId::Inspector)
        }))
    }
}

#[derive(Default)]
struct Heard {
    engines: Vec<EngineId>,
    notes: Vec<String>,
}

impl Observer for Heard {
    fn started(&mut self, started: &Started<'_>) {
        self.engines.push(started.engine);
    }

    fn note(&mut self, line: &str) {
        self.notes.push(line.to_owned());
    }
}

/// A request for this test's own process.
fn request(engine: EngineChoice) -> RecordRequest {
    RecordRequest {
        wanted: Wanted {
            pids: vec![std::process::id()],
            ..Wanted::default()
        },
        engine,
        duration: Some(Duration::from_millis(10)),
        ..RecordRequest::default()
    }
}

fn recorded(
    engines: &StandIns,
    request: &RecordRequest,
    heard: &mut Heard,
) -> Result<Recorded, RecordError> {
    record_with(engines, request, subject(), None, heard)
}

#[test]
fn perf_events_are_preferred() {
    let mut heard = Heard::default();
    let recorded = recorded(
        &StandIns::default(),
        &request(EngineChoice::Auto),
        &mut heard,
    );
    assert_eq!(recorded.unwrap().profile.about.engine, "perf events");
    assert_eq!(heard.engines, [EngineId::PerfEvents]);
    assert!(heard.notes.is_empty());
}

/// How long after the start of a recording its journal has a file.
fn file_after(has_ebpf: bool, duration: Duration) -> Duration {
    let (sender, created) = std::sync::mpsc::channel();
    let create: CreateJournal = Box::new(move || {
        let _ = sender.send(Instant::now());
        tempfile::tempfile()
    });
    let request = RecordRequest {
        duration: Some(duration),
        ..request(EngineChoice::Auto)
    };
    let engines = StandIns {
        has_ebpf,
        ..StandIns::default()
    };
    let (started, mut heard) = (Instant::now(), Heard::default());
    record_with(&engines, &request, subject(), Some(create), &mut heard).unwrap();
    created.recv().unwrap() - started
}

#[test]
fn a_journal_that_can_have_a_file_has_it_after_a_second() {
    let after = file_after(true, Duration::from_secs(10));
    assert!(after < Duration::from_secs(9), "{after:?}");
}

/// The first slice takes long, and what waits meanwhile is lost.
#[test]
fn a_short_recording_without_ebpf_is_named_when_it_is_over() {
    let duration = Duration::from_secs(3);
    let after = file_after(false, duration);
    assert!(after >= duration, "{after:?}");
}

#[test]
fn only_the_engine_that_was_asked_for_may_not_be_replaced() {
    let engines = StandIns {
        refuses_perf_events: true,
        ..StandIns::default()
    };
    let mut heard = Heard::default();
    let refused = recorded(&engines, &request(EngineChoice::Perf), &mut heard).unwrap_err();
    assert!(matches!(
        refused.capture(),
        Some(CaptureError::NotPermitted { .. })
    ));
    assert!(heard.engines.is_empty() && heard.notes.is_empty());
}

#[test]
fn both_engines_run_at_once_and_are_joined() {
    let engines = StandIns::default();
    let mut heard = Heard::default();
    let recorded = recorded(&engines, &request(EngineChoice::Both), &mut heard).unwrap();
    assert_eq!(heard.engines, [EngineId::Inspector, EngineId::PerfEvents]);
    assert_eq!(
        recorded.profile.about.engine,
        "perf events and V8 inspector"
    );
    assert!(engines.inspector.borrow().drains > 0 && engines.inspector.borrow().is_finished);
}

#[test]
fn the_inspector_s_own_samples_are_the_profile() {
    let mut heard = Heard::default();
    let request = request(EngineChoice::Inspector);
    let recorded = recorded(&StandIns::default(), &request, &mut heard).unwrap();
    let profile = recorded.profile;
    assert_eq!(profile.about.engine, "V8 inspector");
    assert_eq!((profile.samples.len(), profile.processes[0].pid), (3, 7));
    // Three milliseconds of samples and one after them, five after the start.
    assert_eq!(profile.samples[0].time, 6_000_000);
    assert_eq!(profile.about.duration, 9_000_000);
}

#[test]
fn what_needs_the_inspector_is_refused_to_other_engines() {
    let allocations = |engine| RecordRequest {
        sampled: Sampled::Allocations,
        ..request(engine)
    };
    assert!(allocations(EngineChoice::Auto).needs_inspector().unwrap());
    let refused = allocations(EngineChoice::Perf).needs_inspector();
    assert_eq!(
        refused.unwrap_err().to_string(),
        "-e alloc needs --engine inspector"
    );
    let remote = RecordRequest {
        inspect_url: Some("ws://127.0.0.1:9229".to_owned()),
        ..request(EngineChoice::Both)
    };
    assert!(remote.needs_inspector().is_err());
    let launching = RecordRequest {
        command: vec!["true".into()],
        ..request(EngineChoice::Inspector)
    };
    assert!(matches!(launching.prepare(), Err(RecordError::Usage(_))));
}

#[test]
fn a_refused_engine_falls_back_to_the_inspector_unless_any_program_is_wanted() {
    let error = CaptureError::NotPermitted {
        sentence: String::new(),
        source: std::io::Error::from(std::io::ErrorKind::PermissionDenied),
    };
    let gone = CaptureError::Gone { pid: 1 };
    assert!(request(EngineChoice::Auto).falls_back(&error));
    assert!(!request(EngineChoice::Auto).falls_back(&gone));
    assert!(!request(EngineChoice::Both).falls_back(&error));
    let mut any = request(EngineChoice::Auto);
    any.wanted.any = true;
    assert!(!any.falls_back(&error));
    let mut launching = request(EngineChoice::Auto);
    launching.command = vec!["/bin/true".into()];
    assert!(!launching.falls_back(&error));
}

#[test]
fn where_perf_events_are_refused_the_inspector_records() {
    // A program that is called node, and waits until its standard input ends.
    let folder = tempfile::tempdir().unwrap();
    let node = folder.path().join("node");
    std::fs::copy("/bin/cat", &node).unwrap();
    let mut command = std::process::Command::new(&node);
    let mut process = command.stdin(std::process::Stdio::piped()).spawn().unwrap();
    let mut request = request(EngineChoice::Auto);
    request.wanted.pids = vec![process.id()];
    // The name is that of the file which runs: it is known once that does.
    while !nodespy_capture::target::looks_like_node(process.id()) {
        std::thread::yield_now();
    }
    let engines = StandIns {
        refuses_perf_events: true,
        ..StandIns::default()
    };
    let mut heard = Heard::default();
    let recorded = recorded(&engines, &request, &mut heard);
    drop(process.stdin.take());
    process.wait().unwrap();
    assert_eq!(recorded.unwrap().profile.about.engine, "V8 inspector");
    assert_eq!(heard.engines, [EngineId::Inspector]);
    assert_eq!(
        heard.notes,
        ["not here: permission denied. Using V8's inspector instead."]
    );
}
