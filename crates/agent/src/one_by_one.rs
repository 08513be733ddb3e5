//! What became of the windows of a file whose receiver takes them in several requests and has no ids for them: what it has is
//! remembered while the rest is tried again, so that only an agent that is killed in between sends something twice.

use std::collections::BTreeMap;

use nodespy_model::FastSet;
use nodespy_store::{Appended, Series, UnixSeconds};

use crate::parts::MAX_SPLITS;
use crate::receiver::Verdict;

/// How many files are remembered that have to wait while others are sent, the newest.
const MAX_BEGUN: usize = 16;

/// What a window is known by.
pub(crate) type WindowId = (Series, UnixSeconds);

/// What became of the windows of files so far.
#[derive(Debug, Default)]
pub(crate) struct OneByOne {
    /// The file that is sent.
    file: u64,
    /// By file: others may go first, and one that made room for newer ones never comes again.
    begun: BTreeMap<u64, Settled>,
}

/// What became of the windows of a file so far.
#[derive(Debug, Default)]
struct Settled {
    /// Windows that were taken or refused for good.
    ids: FastSet<WindowId>,
    refused: u64,
    why: String,
    /// How often a request was halved.
    splits: usize,
}

impl OneByOne {
    /// What follows is of this file.
    pub(crate) fn begin(&mut self, file: u64) {
        self.file = file;
        self.begun
            .retain(|_, it| it.splits > 0 || !it.ids.is_empty());
        while self.begun.len() > MAX_BEGUN {
            let oldest = self.begun.keys().copied().find(|it| *it != file);
            oldest.and_then(|it| self.begun.remove(&it));
        }
    }

    fn current(&mut self) -> &mut Settled {
        self.begun.entry(self.file).or_default()
    }

    /// Whether a window is not to be sent any more.
    pub(crate) fn is_settled(&self, id: &WindowId) -> bool {
        let settled = self.begun.get(&self.file);
        settled.is_some_and(|it| it.ids.contains(id))
    }

    /// Whether a request that was refused may be halved: where everything is, a receiver is not asked about each window.
    pub(crate) fn may_split(&mut self) -> bool {
        let settled = self.current();
        settled.splits += 1;
        settled.splits <= MAX_SPLITS
    }

    /// Takes note of what became of some windows; a verdict if the rest has to wait.
    pub(crate) fn settle(&mut self, ids: Vec<WindowId>, verdict: Verdict) -> Option<Verdict> {
        let settled = self.current();
        match verdict {
            Verdict::Later { .. } | Verdict::Failed { .. } | Verdict::TooEarly { .. } => {
                return Some(verdict);
            }
            Verdict::Refused(why) => {
                settled.refused += ids.len() as u64;
                settled.why = match &ids[..] {
                    [(series, _)] => format!("{}: {why}", series.service),
                    _ => why,
                };
            }
            Verdict::Taken(_) | Verdict::TakenInPart { .. } => {}
        }
        settled.ids.extend(ids);
        None
    }

    /// What became of all windows of the file, so many.
    pub(crate) fn finish(&mut self, windows: u64) -> Verdict {
        let done = self.begun.remove(&self.file).unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn id(service: &str) -> WindowId {
        let series = crate::bad_days::batch(0).series.remove(0);
        let service = service.to_owned();
        (Series { service, ..series }, 10)
    }

    fn taken(windows: u64) -> Verdict {
        Verdict::Taken(Appended {
            windows,
            ..Appended::default()
        })
    }

    #[test]
    fn what_is_settled_of_a_file_is_remembered_while_others_go_first() {
        let mut progress = OneByOne::default();
        progress.begin(1);
        assert!(progress.settle(vec![id("a")], taken(1)).is_none());
        let refused = Verdict::Refused("422".to_owned());
        assert!(progress.settle(vec![id("b")], refused).is_none());
        let early = Verdict::TooEarly {
            why: String::new(),
            after: std::time::Duration::ZERO,
        };
        assert!(progress.settle(vec![id("c")], early).is_some());
        // What is refused of one file is none of another's.
        progress.begin(2);
        assert!(!progress.is_settled(&id("a")));
        assert!(matches!(progress.finish(2), Verdict::Taken(it) if it.windows == 2));
        progress.begin(1);
        let settled = ["a", "b", "c"].map(|it| progress.is_settled(&id(it)));
        assert_eq!(settled, [true, true, false]);
        let Verdict::TakenInPart {
            windows, refused, ..
        } = progress.finish(3)
        else {
            panic!("one was refused")
        };
        assert_eq!((windows, refused), (2, 1));
        // Files that never come again.
        for file in 10..100 {
            progress.begin(file);
            progress.settle(vec![id("a")], taken(1));
        }
        assert!(progress.begun.len() <= MAX_BEGUN + 1);
    }
}
