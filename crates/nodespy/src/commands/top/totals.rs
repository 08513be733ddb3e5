//! Slices added up: over the last seconds, and since the start.

use std::collections::{HashMap, VecDeque};

use nodespy_analysis::Shares;
use nodespy_model::{Category, FastMap, Nanoseconds, SmallSort, ThreadRole};

use super::capture::{FunctionCount, FunctionKey, Slice};

/// How many slices the short window has: as many seconds.
pub(super) const WINDOW_SLICES: usize = 10;
/// More functions than this are counted as one, so that days of code made at run time don't fill
/// the memory.
const FUNCTION_LIMIT: usize = 100_000;

/// Which slices are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Window {
    #[default]
    Last,
    SinceStart,
}

/// What functions are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Sort {
    #[default]
    Own,
    Total,
    Name,
}

/// Own and total samples of a function.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    own: u64,
    total: u64,
}

#[derive(Debug, Clone)]
struct Function {
    key: FunctionKey,
    category: Category,
    since_start: Count,
}

/// Everything but functions, of one slice or of many.
#[derive(Debug, Clone, Default)]
pub(super) struct Sums {
    pub(super) length: Nanoseconds,
    pub(super) shares: Shares,
    /// How many were taken, however many each counts for.
    pub(super) samples: u64,
    threads: HashMap<(u32, u32), ThreadSum>,
    js_frames: u64,
    js_frames_named: u64,
}

#[derive(Debug, Clone)]
struct ThreadSum {
    name: String,
    role: ThreadRole,
    cpu_time: Nanoseconds,
}

/// One slice, with functions by their number.
#[derive(Debug, Clone)]
struct Counted {
    functions: Vec<(u32, Count)>,
    sums: Sums,
}

/// All slices so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    functions: Vec<Function>,
    numbers: FastMap<FunctionKey, u32>,
    last: VecDeque<Counted>,
    since_start: Sums,
    pub(super) lost: u64,
    /// What libuv's pool did at the end of the last slice.
    pub(super) pool: Option<String>,
}

/// A function to show.
#[derive(Debug, Clone)]
pub(super) struct FunctionRow<'a> {
    pub(super) key: &'a FunctionKey,
    pub(super) category: Category,
    pub(super) own: u64,
    pub(super) total: u64,
}

/// A thread to show.
#[derive(Debug, Clone)]
pub(super) struct ThreadRow {
    pub(super) tid: u32,
    pub(super) name: String,
    pub(super) role: ThreadRole,
    /// 100 is one core.
    pub(super) cpu_percent: f64,
}

impl Totals {
    /// Adds a slice; the oldest leaves the window.
    pub(super) fn add(&mut self, slice: Slice) {
        let functions = slice
            .functions
            .iter()
            .map(|function| self.add_function(function))
            .collect();
        let sums = Sums::of(&slice);
        self.since_start.add(&sums);
        self.lost += slice.lost;
        self.pool = slice.pool;
        self.last.push_back(Counted { functions, sums });
        if self.last.len() > WINDOW_SLICES {
            self.last.pop_front();
        }
    }

    fn add_function(&mut self, counted: &FunctionCount) -> (u32, Count) {
        let count = Count {
            own: counted.own,
            total: counted.total,
        };
        let known = self.numbers.get(&counted.function).copied();
        let number = known.unwrap_or_else(|| self.number_for(counted));
        self.functions[number as usize].since_start.add(count);
        (number, count)
    }

    fn number_for(&mut self, counted: &FunctionCount) -> u32 {
        if self.functions.len() > FUNCTION_LIMIT {
            return FUNCTION_LIMIT as u32;
        }
        let is_last = self.functions.len() == FUNCTION_LIMIT;
        let key = match is_last {
            true => FunctionKey {
                name: "(other functions)".to_owned(),
                ..Default::default()
            },
            false => counted.function.clone(),
        };
        let number = self.functions.len() as u32;
        self.numbers.insert(key.clone(), number);
        self.functions.push(Function {
            key,
            category: counted.category,
            since_start: Count::default(),
        });
        number
    }

    /// Everything but functions.
    pub(super) fn sums(&self, window: Window) -> Sums {
        match window {
            Window::SinceStart => self.since_start.clone(),
            Window::Last => {
                let mut sums = Sums::default();
                self.last.iter().for_each(|slice| sums.add(&slice.sums));
                sums
            }
        }
    }

    /// The functions whose name or file has `filter` in it, sorted.
    pub(super) fn rows(&self, window: Window, sort: Sort, filter: &str) -> Vec<FunctionRow<'_>> {
        let counts: Vec<(u32, Count)> = match window {
            Window::SinceStart => (0..)
                .zip(&self.functions)
                .map(|(number, function)| (number, function.since_start))
                .collect(),
            Window::Last => self.sum_last(),
        };
        let filter = filter.to_lowercase();
        let mut rows: Vec<FunctionRow<'_>> = counts
            .into_iter()
            .map(|(number, count)| {
                let function = &self.functions[number as usize];
                FunctionRow {
                    key: &function.key,
                    category: function.category,
                    own: count.own,
                    total: count.total,
                }
            })
            .filter(|row| row.key.has(&filter))
            .collect();
        match sort {
            Sort::Own => {
                rows.small_sort_by_key(|row| std::cmp::Reverse((row.own, row.total, row.key)))
            }
            Sort::Total => {
                rows.small_sort_by_key(|row| std::cmp::Reverse((row.total, row.own, row.key)))
            }
            Sort::Name => rows.small_sort_by_key(|row| row.key),
        }
        rows
    }

    fn sum_last(&self) -> Vec<(u32, Count)> {
        let mut counts: FastMap<u32, Count> = FastMap::default();
        for (number, count) in self.last.iter().flat_map(|slice| &slice.functions) {
            counts.entry(*number).or_default().add(*count);
        }
        counts.into_iter().collect()
    }
}

impl Count {
    fn add(&mut self, other: Self) {
        self.own += other.own;
        self.total += other.total;
    }
}

impl FunctionKey {
    fn has(&self, lower_case: &str) -> bool {
        lower_case.is_empty()
            || self.name.to_lowercase().contains(lower_case)
            || self.file.to_lowercase().contains(lower_case)
    }
}

impl Sums {
    fn of(slice: &Slice) -> Self {
        let threads = slice.threads.iter().map(|thread| {
            let sum = ThreadSum {
                name: thread.name.clone(),
                role: thread.role,
                cpu_time: thread.cpu_time,
            };
            ((thread.pid, thread.tid), sum)
        });
        Self {
            length: slice.length,
            shares: slice.shares,
            samples: slice.samples,
            threads: threads.collect(),
            js_frames: slice.js_frames,
            js_frames_named: slice.js_frames_named,
        }
    }

    fn add(&mut self, other: &Self) {
        self.length += other.length;
        self.samples += other.samples;
        self.shares.javascript += other.shares.javascript;
        self.shares.native += other.shares.native;
        self.shares.kernel += other.shares.kernel;
        self.shares.gc += other.shares.gc;
        self.shares.idle += other.shares.idle;
        self.shares.unknown += other.shares.unknown;
        self.js_frames += other.js_frames;
        self.js_frames_named += other.js_frames_named;
        for (key, thread) in &other.threads {
            let sum = self.threads.entry(*key).or_insert_with(|| ThreadSum {
                cpu_time: 0,
                ..thread.clone()
            });
            sum.cpu_time += thread.cpu_time;
            // The latest slice knows best what a thread is for.
            sum.name.clone_from(&thread.name);
            sum.role = thread.role;
        }
    }

    /// CPU of all threads: 100 is one core.
    pub(super) fn cpu_percent(&self) -> f64 {
        let used: Nanoseconds = self.threads.values().map(|thread| thread.cpu_time).sum();
        self.percent_of_length(used)
    }

    fn percent_of_length(&self, used: Nanoseconds) -> f64 {
        used as f64 * 100.0 / self.length.max(1) as f64
    }

    /// The threads, busiest first.
    pub(super) fn threads(&self) -> Vec<ThreadRow> {
        let mut rows: Vec<ThreadRow> = self
            .threads
            .iter()
            .map(|((_, tid), thread)| ThreadRow {
                tid: *tid,
                name: thread.name.clone(),
                role: thread.role,
                cpu_percent: self.percent_of_length(thread.cpu_time),
            })
            .collect();
        rows.small_sort_by(|one, other| {
            let by_cpu = other.cpu_percent.total_cmp(&one.cpu_percent);
            by_cpu.then(one.tid.cmp(&other.tid))
        });
        rows
    }

    /// The share of JavaScript frames without a name, 0 to 100.
    pub(super) fn unnamed_percent(&self) -> f64 {
        let unnamed = self.js_frames.saturating_sub(self.js_frames_named);
        unnamed as f64 * 100.0 / self.js_frames.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(functions: &[(&str, u64, u64)]) -> Slice {
        Slice {
            length: 1_000_000_000,
            functions: functions
                .iter()
                .map(|&(name, own, total)| FunctionCount {
                    function: FunctionKey {
                        name: name.to_owned(),
                        file: "/app/a.js".to_owned(),
                        line: 1,
                        column: 0,
                    },
                    category: Category::App,
                    own,
                    total,
                })
                .collect(),
            ..Default::default()
        }
    }

    fn names(totals: &Totals, window: Window, sort: Sort, filter: &str) -> Vec<String> {
        let rows = totals.rows(window, sort, filter);
        rows.iter().map(|row| row.key.name.clone()).collect()
    }

    #[test]
    fn what_is_old_leaves_the_window_but_not_the_total() {
        let mut totals = Totals::default();
        totals.add(slice(&[("startUp", 1000, 1000)]));
        for _ in 0..WINDOW_SLICES {
            totals.add(slice(&[("work", 50, 60), ("main", 0, 60)]));
        }
        assert_eq!(
            names(&totals, Window::Last, Sort::Own, ""),
            ["work", "main"]
        );
        assert_eq!(
            names(&totals, Window::SinceStart, Sort::Own, ""),
            ["startUp", "work", "main"]
        );
        assert_eq!(totals.sums(Window::Last).length, 10_000_000_000);
        assert_eq!(totals.sums(Window::SinceStart).length, 11_000_000_000);
        let rows = totals.rows(Window::Last, Sort::Own, "");
        assert_eq!((rows[0].own, rows[0].total), (500, 600));
    }

    #[test]
    fn functions_are_sorted_and_filtered() {
        let mut totals = Totals::default();
        totals.add(slice(&[("b", 3, 3), ("a", 1, 9), ("Cache", 2, 2)]));
        let last = |sort, filter| names(&totals, Window::Last, sort, filter);
        assert_eq!(last(Sort::Own, ""), ["b", "Cache", "a"]);
        assert_eq!(last(Sort::Total, ""), ["a", "b", "Cache"]);
        assert_eq!(last(Sort::Name, ""), ["Cache", "a", "b"]);
        assert_eq!(last(Sort::Own, "CACHE"), ["Cache"]);
        assert_eq!(last(Sort::Own, "a.js").len(), 3);
        assert!(last(Sort::Own, "nothing").is_empty());
    }
}
