//! The samples of one slice, as stacks of identified frames, each held once. Naming consumes it.

use nodespy_model::{EventIndex, FastMap, FastSet, Nanoseconds, Notes, ProcessIndex, ThreadState};

use super::labels::LabelSets;
use super::paths::{NO_PATH, Paths};
use super::routes::Routes;
use crate::address_map::ImageId;
use crate::frame::Identified;

/// The process of a frame that is the same in every process.
const ANY_PROCESS: ProcessIndex = ProcessIndex(u32::MAX);

/// One sample.
#[derive(Debug, Clone, Copy)]
pub(super) struct SampleRow {
    pub(super) time: Nanoseconds,
    pub(super) thread: u32,
    /// A path, or [`NO_PATH`].
    pub(super) stack: u32,
    pub(super) cpu: Option<u16>,
    pub(super) event: EventIndex,
    pub(super) weight: u64,
    pub(super) state: ThreadState,
    /// One of the routes of the batch, or [`NO_ROUTE`](super::routes::NO_ROUTE).
    pub(super) route: u32,
    /// One of the sets of labels of the batch, or [`NO_LABELS`](super::labels::NO_LABELS).
    pub(super) labels: u32,
}

/// An identified frame and the process whose memory gives it a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FrameOf {
    pub(super) process: ProcessIndex,
    pub(super) frame: Identified,
}

impl FrameOf {
    pub(super) fn new(process: ProcessIndex, frame: Identified) -> Self {
        let process = match frame {
            Identified::Jit(_) | Identified::Js(_) => process,
            Identified::Kernel(_)
            | Identified::Image(..)
            | Identified::UnknownJs
            | Identified::LostCaller => ANY_PROCESS,
        };
        Self { process, frame }
    }
}

/// What one slice holds, and nothing older.
#[derive(Debug, Default)]
pub(super) struct Batch {
    frames: Vec<FrameOf>,
    ids: FastMap<FrameOf, u32>,
    pub(super) paths: Paths,
    pub(super) samples: Vec<SampleRow>,
    pub(super) notes: Notes,
    pub(super) routes: Routes,
    pub(super) labels: LabelSets,
    /// Leaf frames and how often each was seen since this was last asked for.
    recent: FastMap<u32, u32>,
}

impl Batch {
    /// The number of a frame.
    pub(super) fn frame_id(&mut self, process: ProcessIndex, frame: Identified) -> u32 {
        let frame = FrameOf::new(process, frame);
        *self.ids.entry(frame).or_insert_with(|| {
            self.frames.push(frame);
            self.frames.len() as u32 - 1
        })
    }

    /// The frame with this number.
    pub(super) fn frame(&self, number: u32) -> FrameOf {
        self.frames[number as usize]
    }

    pub(super) fn frame_count(&self) -> usize {
        self.frames.len()
    }

    pub(super) fn frames(&self) -> impl Iterator<Item = Identified> + '_ {
        self.frames.iter().map(|frame| frame.frame)
    }

    pub(super) fn frames_with_process(&self) -> impl Iterator<Item = FrameOf> + '_ {
        self.frames.iter().copied()
    }

    /// The images that have frames, each once, in the order they were first seen.
    pub(super) fn images(&self) -> Vec<ImageId> {
        let mut seen = FastSet::default();
        let images = self.frames().filter_map(|frame| match frame {
            Identified::Image(image, _) => Some(image),
            _ => None,
        });
        images.filter(|image| seen.insert(*image)).collect()
    }

    pub(super) fn has_kernel_frames(&self) -> bool {
        self.frames()
            .any(|frame| matches!(frame, Identified::Kernel(_)))
    }

    /// Adds a sample.
    pub(super) fn add(&mut self, sample: SampleRow) {
        if sample.stack != NO_PATH {
            let leaf = self.paths.get(sample.stack).frame;
            *self.recent.entry(leaf).or_default() += 1;
        }
        self.samples.push(sample);
    }

    /// The leaf frames since the last call, and how often each was seen.
    pub(super) fn take_recent(&mut self) -> FastMap<u32, u32> {
        std::mem::take(&mut self.recent)
    }

    /// Adds what another source of notes has counted.
    pub(super) fn merge_notes(&mut self, notes: Notes) {
        self.notes.lost_samples += notes.lost_samples;
        self.notes.lost_records += notes.lost_records;
        self.notes.throttled += notes.throttled;
        self.notes.add_sentences(&notes);
    }
}
