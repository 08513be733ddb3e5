//! Whether processes do what they usually do, which decides how often an agent takes samples.
//!
//! A process is unusual when it uses much more CPU than it did lately (hot), or when its main thread has not let go of the CPU for
//! seconds though it usually does (stalling: its event loop is stuck in JavaScript). A loop that is stuck waiting for something has no CPU
//! time to sample. What goes on for minutes becomes usual.

use std::fmt;

use nodespy_model::{FastMap, Nanoseconds};

/// How often processes are judged.
pub(crate) const INTERVAL: Nanoseconds = 2_000_000_000;
/// For how long a process is only watched: starting is work, and no habit.
const LEARNING: Nanoseconds = 30_000_000_000;
/// Over how long habits are averaged.
const MEMORY: Nanoseconds = 300_000_000_000;
/// A hot process uses so many times what it usually does, and so much of a CPU more.
const HOT_FACTOR: f64 = 2.0;
const HOT_SHARE: f64 = 0.25;
/// A main thread that runs for so much of the time does not come back to its event loop.
const STALLING_SHARE: f64 = 0.95;
/// Unless it usually does that.
const BUSY_SHARE: f64 = 0.7;
/// So many intervals in a row have to be unusual.
const MIN_ODD: u32 = 2;
/// Below this, of one CPU and all processes together, nothing goes on.
const IDLE_SHARE: f64 = 0.02;

/// What was read of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) pid: u32,
    /// CPU time since it started.
    pub(crate) cpu: Nanoseconds,
    /// That of its main thread.
    pub(crate) main: Nanoseconds,
}

/// What all processes do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Activity {
    /// Next to nothing.
    Idle,
    /// What they usually do.
    Usual,
    /// One of them does something else.
    Unusual(Unusual),
}

/// A process that does not do what it usually does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unusual {
    /// The process.
    pub pid: u32,
    /// What it does.
    pub how: Oddity,
}

/// What is unusual.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Oddity {
    /// It uses much more CPU than it did lately; both of one CPU.
    Hot {
        /// What it uses.
        share: f64,
        /// What it used.
        usual: f64,
    },
    /// Its main thread does not come back to its event loop.
    Stalling,
}

impl fmt::Display for Oddity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hot { share, usual } => write!(
                out,
                "hot: {:.0} % of a CPU, usually {:.0} %",
                100.0 * share,
                100.0 * usual
            ),
            Self::Stalling => out.write_str("stalling: its event loop waits for JavaScript"),
        }
    }
}

/// What processes usually do.
#[derive(Debug, Default)]
pub(crate) struct Habits {
    known: FastMap<u32, Habit>,
    last: Option<Nanoseconds>,
}

/// What one process usually does.
#[derive(Debug, Clone, Copy)]
struct Habit {
    since: Nanoseconds,
    last: Usage,
    /// Averages, of one CPU.
    cpu: f64,
    main: f64,
    odd: u32,
}

impl Habits {
    pub(crate) fn is_due(&self, now: Nanoseconds) -> bool {
        let next = self.last.map(|last| last.saturating_add(INTERVAL));
        next.is_none_or(|next| now >= next)
    }

    /// Judges what processes did since the last call.
    pub(crate) fn judge(
        &mut self,
        now: Nanoseconds,
        read: impl Iterator<Item = Usage>,
    ) -> Activity {
        let Some(last) = self.last.replace(now) else {
            let new = read.map(|usage| (usage.pid, Habit::new(now, usage)));
            self.known = new.collect();
            return Activity::Usual;
        };
        let elapsed = now.saturating_sub(last).max(1);
        let mut before = std::mem::take(&mut self.known);
        let mut all = 0.0;
        let mut unusual = None;
        for usage in read {
            // Another process may have got the same number.
            let habit = before.remove(&usage.pid);
            let habit = habit.filter(|habit| habit.last.cpu <= usage.cpu);
            let mut habit = habit.unwrap_or_else(|| Habit::new(now, usage));
            let share = habit.share_since(&usage, elapsed);
            all += share.cpu;
            unusual = unusual.or(habit.judge(now, elapsed, share).map(|how| Unusual {
                pid: usage.pid,
                how,
            }));
            habit.last = usage;
            self.known.insert(usage.pid, habit);
        }
        match unusual {
            Some(unusual) => Activity::Unusual(unusual),
            None if all < IDLE_SHARE => Activity::Idle,
            None => Activity::Usual,
        }
    }
}

/// What a process used of one CPU, and its main thread.
#[derive(Debug, Clone, Copy)]
struct Share {
    cpu: f64,
    main: f64,
}

impl Habit {
    fn new(now: Nanoseconds, first: Usage) -> Self {
        Self {
            since: now,
            last: first,
            cpu: 0.0,
            main: 0.0,
            odd: 0,
        }
    }

    fn share_since(&self, usage: &Usage, elapsed: Nanoseconds) -> Share {
        let of =
            |now: Nanoseconds, then: Nanoseconds| now.saturating_sub(then) as f64 / elapsed as f64;
        Share {
            cpu: of(usage.cpu, self.last.cpu),
            main: of(usage.main, self.last.main),
        }
    }

    fn judge(&mut self, now: Nanoseconds, elapsed: Nanoseconds, share: Share) -> Option<Oddity> {
        let known_for = now.saturating_sub(self.since);
        let (usual_cpu, usual_main) = (self.cpu, self.main);
        // A plain average while little is known.
        let weight = elapsed as f64 / known_for.clamp(elapsed, MEMORY) as f64;
        self.cpu += weight * (share.cpu - self.cpu);
        self.main += weight * (share.main - self.main);
        let is_hot = share.cpu > HOT_FACTOR * usual_cpu && share.cpu > usual_cpu + HOT_SHARE;
        let is_stalling = share.main > STALLING_SHARE && usual_main < BUSY_SHARE;
        if known_for < LEARNING || !(is_hot || is_stalling) {
            self.odd = 0;
            return None;
        }
        self.odd += 1;
        (self.odd >= MIN_ODD).then_some(match is_stalling {
            true => Oddity::Stalling,
            false => Oddity::Hot {
                share: share.cpu,
                usual: usual_cpu,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanoseconds = 1_000_000_000;

    /// Processes that use what they are told to.
    struct Machine {
        habits: Habits,
        now: Nanoseconds,
        used: Vec<Usage>,
    }

    impl Machine {
        fn new(processes: u32) -> Self {
            let used = (0..processes).map(|pid| Usage {
                pid,
                cpu: 7 * SECOND,
                main: 5 * SECOND,
            });
            Self {
                habits: Habits::default(),
                now: 100 * SECOND,
                used: used.collect(),
            }
        }

        /// Judges intervals in which processes use so many percent of a CPU, the main thread so many of that; the last one.
        fn run(&mut self, intervals: u32, percent: &[(u64, u64)]) -> Activity {
            let mut activity = Activity::Usual;
            for _ in 0..intervals {
                self.now += INTERVAL;
                for (usage, (cpu, main)) in self.used.iter_mut().zip(percent) {
                    usage.cpu += INTERVAL * cpu / 100;
                    usage.main += INTERVAL * main / 100;
                }
                assert!(self.habits.is_due(self.now));
                activity = self.habits.judge(self.now, self.used.iter().copied());
            }
            activity
        }
    }

    #[test]
    fn a_process_that_is_hotter_than_usual_is_seen_and_becomes_usual() {
        let mut machine = Machine::new(2);
        assert_eq!(machine.run(30, &[(20, 20), (40, 30)]), Activity::Usual);
        // A blip is not enough, a little more is not either.
        assert_eq!(machine.run(1, &[(80, 60), (40, 30)]), Activity::Usual);
        assert_eq!(machine.run(5, &[(20, 20), (55, 30)]), Activity::Usual);
        match machine.run(2, &[(80, 60), (40, 30)]) {
            Activity::Unusual(Unusual {
                pid: 0,
                how: Oddity::Hot { share, usual },
            }) => {
                assert!((share - 0.8).abs() < 0.01, "{share}");
                assert!((0.2..0.3).contains(&usual), "{usual}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(machine.run(150, &[(80, 60), (40, 30)]), Activity::Usual);
    }

    #[test]
    fn a_main_thread_that_does_not_let_go_is_stalling_unless_it_never_does() {
        let mut machine = Machine::new(1);
        machine.run(30, &[(60, 60)]);
        match machine.run(2, &[(99, 99)]) {
            Activity::Unusual(unusual) => assert_eq!(unusual.how, Oddity::Stalling),
            other => panic!("{other:?}"),
        }
        let mut machine = Machine::new(1);
        assert_eq!(machine.run(60, &[(100, 100)]), Activity::Usual);
    }

    #[test]
    fn a_start_is_no_habit_and_nothing_at_all_is_idle() {
        let mut machine = Machine::new(1);
        machine.run(5, &[(0, 0)]);
        assert_eq!(machine.run(5, &[(100, 100)]), Activity::Usual);
        assert_eq!(machine.run(30, &[(1, 1)]), Activity::Idle);
        // Another process with the same number has other habits.
        machine.used[0].cpu = 0;
        machine.run(1, &[(0, 0)]);
        assert_eq!(machine.run(5, &[(90, 90)]), Activity::Usual);
    }
}
