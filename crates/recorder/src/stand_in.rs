//! An engine without a kernel, for the tests of the loop.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use nodespy_capture::engine::{
    Attached, Drained, Engine, Losses, NamedEvent, Outcome, Sink, Subject as AttachSubject,
};
use nodespy_capture::engines::{EngineId, Finding};
use nodespy_capture::target::Target;
use nodespy_capture::{CaptureError, monotonic_now};
use nodespy_model::{
    About, Event, EventIndex, EventType, FrameSpec, Nanoseconds, Notes, Process, ProfileBuilder,
    RawSample, Thread, ThreadRole, ThreadState, UserStack, WeightUnit,
};

use crate::subject::Subject;

/// What a stand-in was asked to do.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) added: Vec<u32>,
    /// Of those, for which it was asked what became of them.
    pub(crate) reported: usize,
    pub(crate) drains: usize,
    pub(crate) read_by: Option<Nanoseconds>,
    pub(crate) is_finished: bool,
}

/// An engine that sees this test's own process, once per drain.
pub(crate) struct StandIn {
    pub(crate) id: EngineId,
    pub(crate) is_refused: bool,
    pub(crate) has_ebpf: bool,
    /// How long attaching takes.
    pub(crate) attaching: Duration,
    /// Whether samples wait until they have to be read.
    pub(crate) reads_late: bool,
    /// After this many drains nothing follows.
    pub(crate) last_drain: Option<usize>,
    /// Lost with each drain and at the end.
    pub(crate) losses: Losses,
    pub(crate) refuses_to_add: bool,
    /// Whether what is added is attached to meanwhile, and whether it then refuses.
    pub(crate) meanwhile: Option<bool>,
    pub(crate) asked: Rc<RefCell<Asked>>,
}

impl StandIn {
    pub(crate) fn new(id: EngineId) -> Self {
        Self {
            id,
            is_refused: false,
            has_ebpf: false,
            attaching: Duration::ZERO,
            reads_late: false,
            last_drain: None,
            losses: Losses::default(),
            refuses_to_add: false,
            meanwhile: None,
            asked: Rc::default(),
        }
    }
}

fn not_permitted() -> CaptureError {
    CaptureError::NotPermitted {
        sentence: "not here".to_owned(),
        source: io::Error::from(io::ErrorKind::PermissionDenied),
    }
}

/// This process, as what is recorded.
pub(crate) fn subject() -> Subject {
    Subject {
        targets: vec![Target::hold(std::process::id()).unwrap()],
        launched: None,
        load: None,
        app: "app".to_owned(),
        remarks: Vec::new(),
    }
}

fn sample() -> Event<'static> {
    Event::Sample(RawSample {
        labels: Default::default(),
        event: EventIndex::default(),
        weight: 1,
        time: monotonic_now(),
        pid: std::process::id(),
        tid: std::process::id(),
        cpu: None,
        state: ThreadState::Unknown,
        kernel: Vec::new().into(),
        user: UserStack::Absent,
        memory: Default::default(),
        is_copied_at_sample: false,
        stands_still: false,
    })
}

/// The events of a session that V8 would report, with `samples` of one thread.
pub(crate) fn named_session(pid: u32, samples: u64) -> Vec<NamedEvent> {
    let process = Process {
        pid,
        ..Process::default()
    };
    let mut builder = ProfileBuilder::new(WeightUnit::Nanoseconds);
    let thread = Thread {
        process: builder.process(process.clone()),
        tid: pid,
        name: String::new(),
        role: ThreadRole::Main,
        ..Thread::default()
    };
    let thread = builder.thread(thread);
    let frame = builder.frame(FrameSpec::default());
    let stack = builder.stack(None, frame);
    for number in 1..=samples {
        builder.sample(number * 1_000_000, thread, Some(stack), 1_000_000);
    }
    let about = About {
        duration: (samples + 1) * 1_000_000,
        ..About::default()
    };
    let profile = Box::new(builder.finish(about, Notes::default()));
    vec![
        NamedEvent::Process(Box::new(process), EventType::from(WeightUnit::Nanoseconds)),
        NamedEvent::Thread {
            tid: pid,
            name: "main".to_owned(),
            role: ThreadRole::Main,
        },
        NamedEvent::Samples {
            thread: 0,
            start: 5_000_000,
            profile,
        },
    ]
}

impl Engine for StandIn {
    fn id(&self) -> EngineId {
        self.id
    }

    fn events(&self) -> Vec<EventType> {
        vec![EventType::new("stand-in", WeightUnit::Samples).at_rate(99)]
    }

    fn probe(&self, _pid: u32) -> Vec<Finding> {
        Vec::new()
    }

    fn attach(&mut self, _subject: AttachSubject<'_>) -> Result<Attached, CaptureError> {
        match self.is_refused {
            true => Err(not_permitted()),
            false => {
                let started = monotonic_now();
                std::thread::sleep(self.attaching);
                Ok(Attached {
                    started,
                    sampling_since: monotonic_now(),
                    has_ebpf: self.has_ebpf,
                    ..Attached::default()
                })
            }
        }
    }

    fn add(&mut self, targets: &[Target]) -> Result<(), CaptureError> {
        if self.refuses_to_add {
            return Err(not_permitted());
        }
        let pids = targets.iter().map(Target::pid);
        self.asked.borrow_mut().added.extend(pids);
        Ok(())
    }

    fn attaches_meanwhile(&self) -> bool {
        self.meanwhile.is_some()
    }

    fn take_outcomes(&mut self) -> Vec<Outcome> {
        let Some(is_refused) = self.meanwhile else {
            return Vec::new();
        };
        let mut asked = self.asked.borrow_mut();
        let new = asked.added[asked.reported..].to_vec();
        asked.reported += new.len();
        let outcome = |pid| Outcome {
            pid,
            result: match is_refused {
                true => Err(not_permitted()),
                false => Ok(()),
            },
        };
        new.into_iter().map(outcome).collect()
    }

    fn drain(&mut self, _timeout: Duration, sink: &mut dyn Sink) -> Result<Drained, CaptureError> {
        std::thread::sleep(Duration::from_millis(1));
        let mut asked = self.asked.borrow_mut();
        asked.drains += 1;
        let is_late = asked.read_by.is_some_and(|time| monotonic_now() >= time);
        if self.id != EngineId::Inspector && (is_late || !self.reads_late) {
            sink.batch();
            sink.event(sample());
        }
        Ok(Drained {
            losses: self.losses,
            is_over: Some(asked.drains) == self.last_drain,
        })
    }

    fn read_by(&mut self, time: Option<Nanoseconds>) {
        self.asked.borrow_mut().read_by = time;
    }

    fn finish(&mut self, sink: &mut dyn Sink) -> Result<Losses, CaptureError> {
        self.asked.borrow_mut().is_finished = true;
        if self.id == EngineId::Inspector {
            for event in named_session(7, 3) {
                sink.named(0, event);
            }
        }
        Ok(self.losses)
    }

    fn take_remarks(&mut self) -> Vec<String> {
        Vec::new()
    }
}
