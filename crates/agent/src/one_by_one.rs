//! What became of the windows of a batch whose receiver takes them in several requests and has no ids for them: what it has is
//! remembered while the rest is tried again, so that only an agent that is killed in between sends something twice.

use nodespy_model::FastSet;
use nodespy_store::{Appended, Series, UnixSeconds};

use crate::receiver::Verdict;

/// What a window is known by.
pub(crate) type WindowId = (Series, UnixSeconds);

/// What became of the windows of a batch so far.
#[derive(Debug, Default)]
pub(crate) struct OneByOne {
    /// Windows that were taken or refused for good.
    settled: FastSet<WindowId>,
    refused: u64,
    why: String,
}

impl OneByOne {
    /// Whether a window is not to be sent any more.
    pub(crate) fn is_settled(&self, id: &WindowId) -> bool {
        self.settled.contains(id)
    }

    /// Takes note of what became of some windows; a verdict if the rest has to wait.
    pub(crate) fn settle(&mut self, ids: Vec<WindowId>, verdict: Verdict) -> Option<Verdict> {
        match verdict {
            Verdict::Later { .. } => return Some(verdict),
            // Others are sent meanwhile, and this one from its beginning.
            Verdict::TooEarly { .. } => {
                *self = Self::default();
                return Some(verdict);
            }
            Verdict::Refused(why) => {
                self.refused += ids.len() as u64;
                self.why = match &ids[..] {
                    [(series, _)] => format!("{}: {why}", series.service),
                    _ => why,
                };
            }
            Verdict::Taken(_) | Verdict::TakenInPart { .. } => {}
        }
        self.settled.extend(ids);
        None
    }

    /// What became of all windows, so many; the next batch begins anew.
    pub(crate) fn finish(&mut self, windows: u64) -> Verdict {
        let done = std::mem::take(self);
        match done.refused {
            0 => Verdict::Taken(Appended {
                windows,
                ..Appended::default()
            }),
            refused if refused >= windows => Verdict::Refused(done.why),
            refused => Verdict::TakenInPart {
                windows: windows - refused,
                refused,
                why: done.why,
            },
        }
    }
}
