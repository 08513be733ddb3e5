//! A batch that is refused for some of its windows: its halves are tried, and theirs, until what is refused is one window. All
//! processes of a machine are in a batch, and none may cost the others theirs.

use nodespy_model::printable;
use nodespy_store::{Batch, Series};

use crate::log_line::{Level, Log, LogLine};

/// How often parts of a batch are halved, which takes two tries each. One window of 128 is found by seven; where everything is
/// refused, a receiver is not asked about each window of a very large machine.
pub(crate) const MAX_SPLITS: usize = 128;
/// How many services of one reason are named.
const MAX_NAMED: usize = 5;

/// The parts of a batch.
pub(crate) struct Parts {
    /// Those that wait, the next one last.
    left: Vec<Batch>,
    /// After them, and as a whole: windows of series that were refused lately.
    doubtful: Option<Batch>,
    had_doubtful: bool,
    splits: usize,
    refusals: Vec<Refusal>,
    /// The series of what was refused, and whether it was a window on its own.
    refused: Vec<(Series, bool)>,
    /// Series that are taken again.
    taken_again: Vec<Series>,
}

/// Windows that were refused for one reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) windows: u64,
    /// Whose, as far as that is known.
    services: Vec<String>,
    pub(crate) why: String,
}

impl Parts {
    /// A batch in one part.
    pub(crate) fn of(batch: Batch) -> Self {
        Self::and_doubtful(batch, None)
    }

    /// A batch in one part, and what is tried after it without being halved.
    pub(crate) fn and_doubtful(batch: Batch, doubtful: Option<Batch>) -> Self {
        let is_wanted = !batch.windows.is_empty() || doubtful.is_none();
        Self {
            left: is_wanted.then_some(batch).into_iter().collect(),
            had_doubtful: doubtful.is_some(),
            doubtful,
            splits: 0,
            refusals: Vec::new(),
            refused: Vec::new(),
            taken_again: Vec::new(),
        }
    }

    /// The part that is tried next.
    pub(crate) fn next(&self) -> Option<&Batch> {
        self.left.last().or(self.doubtful.as_ref())
    }

    /// Whether that is the one that is not halved.
    pub(crate) fn is_next_doubtful(&self) -> bool {
        self.left.is_empty()
    }

    /// That one is there.
    pub(crate) fn take(&mut self) {
        if self.left.pop().is_none() {
            let taken = self.doubtful.take().map(|it| it.series);
            self.taken_again.extend(taken.into_iter().flatten());
        }
    }

    /// That one was refused: its halves are next.
    pub(crate) fn refuse(&mut self, why: String) {
        let Some(part) = self.left.pop() else {
            return self.drop_doubtful(why);
        };
        let windows = part.windows.len();
        if windows < 2 || self.splits >= MAX_SPLITS {
            let series = part.windows.iter().map(|it| part.series.get(it.series));
            let series = series.flatten().map(|it| (it.clone(), windows == 1));
            self.refused.extend(series);
            return self.note(&part, windows as u64, why);
        }
        self.splits += 1;
        let [first, second] = part.halves();
        self.left.extend([second, first]);
    }

    /// So many windows of that one are not taken, and its halves are not tried.
    pub(crate) fn drop_windows(&mut self, windows: u64, why: String) {
        if let Some(part) = self.left.pop().or_else(|| self.doubtful.take()) {
            self.note(&part, windows, why);
        }
    }

    fn drop_doubtful(&mut self, why: String) {
        if let Some(part) = self.doubtful.take() {
            self.note(&part, part.windows.len() as u64, why);
        }
    }

    /// Whether it is in parts by now.
    pub(crate) fn is_split(&self) -> bool {
        self.splits > 0 || self.had_doubtful
    }

    /// The series of what was refused but for those that were doubtful, and whether each was so on its own.
    pub(crate) fn take_refused_series(&mut self) -> Vec<(Series, bool)> {
        std::mem::take(&mut self.refused)
    }

    /// Series that were doubtful and are taken.
    pub(crate) fn series_taken_again(&self) -> &[Series] {
        &self.taken_again
    }

    /// What was refused.
    pub(crate) fn into_refusals(self) -> Vec<Refusal> {
        self.refusals
    }

    fn note(&mut self, part: &Batch, windows: u64, why: String) {
        let known = self.refusals.iter().position(|known| known.why == why);
        let at = known.unwrap_or_else(|| {
            self.refusals.push(Refusal {
                windows: 0,
                services: Vec::new(),
                why,
            });
            self.refusals.len() - 1
        });
        let refusal = &mut self.refusals[at];
        refusal.windows += windows;
        // Otherwise it is not known which of them.
        let named = match windows == part.windows.len() as u64 {
            true => &part.windows[..],
            false => &[],
        };
        for window in named {
            let service = part.series.get(window.series).map(|it| &it.service);
            if let Some(service) = service.filter(|it| !refusal.services.contains(it))
                && refusal.services.len() <= MAX_NAMED
            {
                refusal.services.push(service.clone());
            }
        }
    }
}

impl Refusal {
    /// Of windows whose services are not known.
    pub(crate) fn of_unknown(windows: u64, why: String) -> Self {
        Self {
            windows,
            services: Vec::new(),
            why,
        }
    }

    /// Says it: `msg="windows refused" windows=1 service=shop why=…`.
    pub(crate) fn say(&self, message: &'static str, log: &Log) {
        let line = LogLine::new(Level::Error, message)
            .with("windows", self.windows)
            .with("service", self.services_text())
            .with("why", &self.why);
        log(&line);
    }

    fn services_text(&self) -> String {
        let named = self.services.iter().take(MAX_NAMED);
        let named: Vec<_> = named.map(|service| printable(service)).collect();
        let more = match self.services.len() > MAX_NAMED {
            true => " and others",
            false => "",
        };
        format!("{}{more}", named.join(", "))
    }
}
