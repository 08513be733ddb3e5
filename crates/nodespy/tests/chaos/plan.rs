//! What a seed makes: one round of trouble.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// Random numbers that are the same for the same seed (splitmix64).
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

/// What nodespy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Job {
    Perf,
    Inspector,
    Both,
    Top,
    Dump,
    DumpNonblocking,
}

impl Job {
    const ALL: [Self; 6] = [
        Self::Perf,
        Self::Inspector,
        Self::Both,
        Self::Top,
        Self::Dump,
        Self::DumpNonblocking,
    ];
    const RECORDINGS: [Self; 3] = [Self::Perf, Self::Inspector, Self::Both];
    const PERF: [Self; 4] = [Self::Perf, Self::Top, Self::Dump, Self::DumpNonblocking];

    /// How long it takes when nothing happens.
    pub(crate) fn length(self) -> Duration {
        match self {
            Self::Dump | Self::DumpNonblocking => Duration::from_millis(250),
            _ => Duration::from_millis(1500),
        }
    }

    /// Its words on the command line, without the target.
    pub(crate) fn words(self) -> Vec<&'static str> {
        let record = |engine| {
            vec![
                "record", "-q", "-d", "1500ms", "-F", "499", "-o", "out.nspy", "--engine", engine,
            ]
        };
        match self {
            Self::Perf => record("perf"),
            Self::Inspector => record("inspector"),
            Self::Both => record("both"),
            Self::Top => vec!["top", "--lines", "-d", "1500ms"],
            Self::Dump => vec!["dump"],
            Self::DumpNonblocking => vec!["dump", "--nonblocking"],
        }
    }

    pub(crate) fn is_recording(self) -> bool {
        Self::RECORDINGS.contains(&self)
    }

    pub(crate) fn uses_inspector(self) -> bool {
        matches!(self, Self::Inspector | Self::Both)
    }
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Nothing,
    KillTarget,
    StopTarget,
    Exec,
    ForkStorm,
    WorkerStorm,
    OutOfMemory,
    Freeze,
    Quota,
    FewDescriptors,
    FullDisk,
    DiskFills,
    ReadOnlyDisk,
    UnmountedRoot,
    RemovedContainer,
    ClockSteps,
    TwoAtOnce,
    ManyProcesses,
    ManyThreads,
    KillNodespy,
    StopNodespy,
    InterruptNodespy,
    InterruptTwice,
    HangUp,
}

impl Trouble {
    pub(crate) const ALL: [Self; 24] = [
        Self::Nothing,
        Self::KillTarget,
        Self::StopTarget,
        Self::Exec,
        Self::ForkStorm,
        Self::WorkerStorm,
        Self::OutOfMemory,
        Self::Freeze,
        Self::Quota,
        Self::FewDescriptors,
        Self::FullDisk,
        Self::DiskFills,
        Self::ReadOnlyDisk,
        Self::UnmountedRoot,
        Self::RemovedContainer,
        Self::ClockSteps,
        Self::TwoAtOnce,
        Self::ManyProcesses,
        Self::ManyThreads,
        Self::KillNodespy,
        Self::StopNodespy,
        Self::InterruptNodespy,
        Self::InterruptTwice,
        Self::HangUp,
    ];

    /// Seeds in a row go through all of them.
    fn of(seed: u64) -> Self {
        let kinds = Self::ALL.len() as u64;
        Self::ALL[usize::try_from(seed % kinds).unwrap()]
    }

    /// Whether the target ends by it.
    pub(crate) fn is_deadly(self) -> bool {
        matches!(
            self,
            Self::KillTarget | Self::OutOfMemory | Self::RemovedContainer
        )
    }

    /// Whether nodespy is asked to end early.
    pub(crate) fn interrupts(self) -> bool {
        matches!(
            self,
            Self::InterruptNodespy | Self::InterruptTwice | Self::HangUp
        )
    }

    fn jobs(self) -> &'static [Job] {
        match self {
            Self::FullDisk | Self::DiskFills | Self::ReadOnlyDisk => &Job::RECORDINGS,
            // What these happen to is not Node.
            Self::ManyThreads => &Job::PERF,
            // A group is followed by perf events only.
            Self::RemovedContainer => &[Job::Perf, Job::Top],
            _ => &Job::ALL,
        }
    }
}

/// The seeds of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seeds {
    pub(crate) first: u64,
    pub(crate) rounds: u64,
}

impl Seeds {
    pub(crate) fn all(self) -> Range<u64> {
        self.first..self.first + self.rounds
    }

    /// The troubles of which no round is among the first so many.
    pub(crate) fn missed_after(self, begun: u64) -> Vec<Trouble> {
        let mut all = self.all().map(Trouble::of);
        let begun: Vec<Trouble> = all.by_ref().take(begun as usize).collect();
        // Those after these come around again.
        let missed = all.take(Trouble::ALL.len());
        missed.filter(|trouble| !begun.contains(trouble)).collect()
    }
}

/// One round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    pub(crate) seed: u64,
    pub(crate) trouble: Trouble,
    pub(crate) job: Job,
    /// What the second nodespy does, where there are two.
    pub(crate) other: Job,
    /// The Node version.
    pub(crate) version: &'static str,
    /// When the trouble comes, after nodespy's start.
    pub(crate) moment: Duration,
    /// How long it lasts, where it lasts.
    pub(crate) lasting: Duration,
}

impl Round {
    /// The round of a seed.
    pub(crate) fn of(seed: u64) -> Self {
        let trouble = Trouble::of(seed);
        let mut draw = Draw::new(seed);
        let job = draw.one_of(trouble.jobs());
        let version = match trouble {
            // `process.execve` came with Node 23.
            Trouble::Exec => draw.one_of(&["24", "26"]),
            _ => draw.one_of(&["16", "20", "26"]),
        };
        let length = u64::try_from(job.length().as_millis()).unwrap();
        Self {
            seed,
            trouble,
            job,
            other: draw.one_of(&Job::ALL),
            version,
            moment: Duration::from_millis(draw.below(length * 5 / 4)),
            lasting: Duration::from_millis(100 + draw.below(500)),
        }
    }

    /// The exit codes that are promised; an empty list where a signal ends it.
    pub(crate) fn promised_codes(&self) -> &'static [i32] {
        match self.trouble {
            Trouble::KillNodespy => &[],
            // It may have been over already.
            Trouble::InterruptTwice => &[0, 5, 130],
            Trouble::InterruptNodespy | Trouble::HangUp if self.job.is_recording() => &[0, 5],
            Trouble::InterruptNodespy | Trouble::HangUp => &[0, 5, 129, 130],
            Trouble::FullDisk | Trouble::ReadOnlyDisk => &[1],
            Trouble::FewDescriptors => &[0, 1],
            // What was written before is there.
            Trouble::DiskFills => &[0, 1, 5],
            trouble if trouble.is_deadly() => &[0, 4, 5],
            // Stopped, slowed down or started anew, it may have no time to be sampled or to
            // open its inspector in.
            Trouble::StopTarget | Trouble::Freeze | Trouble::Quota => &[0, 1, 5],
            Trouble::Exec if self.job.uses_inspector() => &[0, 1, 4, 5],
            // On a busy machine it may not have run while it was sampled.
            _ => &[0, 5],
        }
    }
}

impl fmt::Display for Round {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "seed {:4}: {:?} at {:4} ms of {:?} on node {}",
            self.seed,
            self.trouble,
            self.moment.as_millis(),
            self.job,
            self.version
        )
    }
}

#[test]
fn a_run_cut_short_names_the_troubles_it_has_not_played() {
    let kinds = Trouble::ALL.len() as u64;
    let seeds = |first, rounds| Seeds { first, rounds };
    assert_eq!(seeds(0, kinds).missed_after(kinds), []);
    assert_eq!(
        seeds(0, kinds).missed_after(kinds - 2),
        [Trouble::InterruptTwice, Trouble::HangUp]
    );
    // From any seed on each has its turn, and only once.
    for first in [1, 7, 1_000_003] {
        assert_eq!(
            seeds(first, kinds).missed_after(0).len(),
            Trouble::ALL.len()
        );
        assert_eq!(
            seeds(first, 9 * kinds).missed_after(1).len(),
            Trouble::ALL.len() - 1
        );
        assert_eq!(seeds(first, 9 * kinds).missed_after(kinds), []);
    }
    assert_eq!(seeds(2, 1).missed_after(0), [Trouble::StopTarget]);
}
