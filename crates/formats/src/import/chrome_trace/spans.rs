//! Events that have a length, as stacks of what ran inside what.
//!
//! Between any two moments at which something begins or ends, what is open is a stack, and that
//! time is a sample of it. An event that ends after the one around it is cut there.

use nodespy_model::{
    Category, FastMap, FunctionIndex, FunctionSpec, Notes, ProfileBuilder, SmallSort, StackIndex,
    ThreadIndex,
};

use super::events::{Event, Phase, ThreadKey};
use super::{FURTHEST, Names, Summary};
use crate::export::TRACE_ROOT;
use crate::import::cpuprofile::frame_at;

/// What happens at one moment.
#[derive(Debug, Clone, Copy)]
struct Mark {
    time: i64,
    function: Option<FunctionIndex>,
    what: What,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Begin,
    End,
    /// Begins, and ends after so long.
    Complete(i64),
}

/// The events of every thread.
#[derive(Default)]
pub(super) struct Spans {
    threads: FastMap<ThreadKey, Vec<Mark>>,
    count: u64,
}

/// What did not fit together.
#[derive(Default)]
struct Misfits {
    ends_without_begin: u64,
    never_ended: u64,
    cut: u64,
}

impl Spans {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes an event in.
    pub(super) fn add(&mut self, event: &Event<'_>, builder: &mut ProfileBuilder) {
        // Our own exporter writes it around a thread, because DevTools want to see the start.
        if event.name == TRACE_ROOT {
            return;
        }
        let is_named = !event.name.is_empty();
        let function = (is_named || event.phase != Phase::End).then(|| {
            builder.function(FunctionSpec {
                name: match &*event.name {
                    "" => "(anonymous)",
                    name => name,
                },
                category: Category::App,
                ..FunctionSpec::default()
            })
        });
        let what = match event.phase {
            Phase::Begin => What::Begin,
            Phase::End => What::End,
            _ => What::Complete(event.length),
        };
        self.count += 1;
        self.threads.entry(event.thread).or_default().push(Mark {
            time: event.time,
            function,
            what,
        });
    }

    /// Says that the events were not used.
    pub(super) fn remark_left_out(&self, notes: &mut Notes) {
        if self.count > 0 {
            let count = self.count;
            notes.remark(format!(
                "{count} events with a length were left out: the file has CPU profiles"
            ));
        }
    }

    /// Adds the samples of every thread.
    pub(super) fn add_samples(
        &mut self,
        names: &mut Names,
        builder: &mut ProfileBuilder,
        notes: &mut Notes,
    ) -> Summary {
        let mut summary = Summary::of("trace events");
        let mut threads: Vec<(ThreadKey, Vec<Mark>)> = self.threads.drain().collect();
        threads.small_sort_by_key(|(key, _)| *key);
        let times = threads.iter().flat_map(|(_, marks)| marks);
        let first = times.map(|mark| mark.time).min().unwrap_or(0);
        let mut misfits = Misfits::default();
        let mut room = u64::MAX;
        for (key, mut marks) in threads {
            sort(&mut marks, first);
            let thread = names.thread(key, builder);
            let mut walk = Walk {
                thread,
                builder: &mut *builder,
                open: Vec::new(),
                open_begins: FastMap::default(),
                now: 0,
                room: &mut room,
                misfits: &mut misfits,
            };
            walk.run(&marks);
            summary.duration = summary.duration.max(walk.now.max(0) as u64);
        }
        misfits.remark(notes);
        summary
    }
}

/// Puts marks in order of time, counted from `first`. At one moment the longer complete event is
/// around the shorter; otherwise the file's order holds.
fn sort(marks: &mut [Mark], first: i64) {
    for mark in &mut *marks {
        mark.time = mark.time.saturating_sub(first).clamp(0, FURTHEST);
        if let What::Complete(length) = &mut mark.what {
            *length = (*length).min(FURTHEST);
        }
    }
    marks.sort_by_key(|mark| match mark.what {
        What::Begin | What::End => (mark.time, 0),
        What::Complete(length) => (mark.time, FURTHEST - length + 1),
    });
}

impl Misfits {
    fn remark(&self, notes: &mut Notes) {
        for (count, what) in [
            (self.ends_without_begin, "end that never began"),
            (self.never_ended, "never end"),
            (self.cut, "end after the event around them and were cut"),
        ] {
            if count > 0 {
                notes.remark(format!("{count} events {what}"));
            }
        }
    }
}

/// An event that is open.
struct Open {
    function: Option<FunctionIndex>,
    stack: StackIndex,
    /// When it ends, if it was complete.
    end: Option<i64>,
}

/// A walk over the marks of one thread.
struct Walk<'a> {
    thread: ThreadIndex,
    builder: &'a mut ProfileBuilder,
    open: Vec<Open>,
    /// How many begun events of each name are open: an end that fits none is not searched for.
    open_begins: FastMap<Option<FunctionIndex>, u32>,
    now: i64,
    /// What may still be added to the total weight.
    room: &'a mut u64,
    misfits: &'a mut Misfits,
}

impl Walk<'_> {
    fn run(&mut self, marks: &[Mark]) {
        for mark in marks {
            self.close_until(mark.time);
            self.advance(mark.time);
            match mark.what {
                What::Begin => self.begin(mark.function, None),
                What::Complete(length) => self.begin(mark.function, Some(mark.time + length)),
                What::End => self.end(mark.function),
            }
        }
        self.close_until(i64::MAX);
        while let Some(open) = self.open.pop() {
            self.misfits.never_ended += u64::from(open.end.is_none());
        }
    }

    /// Closes complete events that end by `time`.
    fn close_until(&mut self, time: i64) {
        while let Some(end) = self.open.last().and_then(|open| open.end)
            && end <= time
        {
            self.advance(end);
            self.open.pop();
        }
    }

    /// Lets time pass: what is open was running.
    fn advance(&mut self, time: i64) {
        if time > self.now {
            if let Some(open) = self.open.last() {
                let weight = ((time - self.now) as u64).min(*self.room);
                *self.room -= weight;
                self.builder
                    .sample(self.now as u64, self.thread, Some(open.stack), weight);
            }
            self.now = time;
        }
    }

    fn begin(&mut self, function: Option<FunctionIndex>, end: Option<i64>) {
        let Some(index) = function else {
            return;
        };
        let around = self.open.last();
        let end = match (end, around.and_then(|around| around.end)) {
            (Some(end), Some(latest)) if end > latest => {
                self.misfits.cut += 1;
                Some(latest)
            }
            (end, _) => end,
        };
        let parent = around.map(|around| around.stack);
        let frame = self.builder.frame_of(frame_at(index, 0));
        let stack = self.builder.stack(parent, frame);
        if end.is_none() {
            *self.open_begins.entry(function).or_default() += 1;
            *self.open_begins.entry(None).or_default() += 1;
        }
        self.open.push(Open {
            function,
            stack,
            end,
        });
    }

    /// Ends the innermost begun event of this name, or of any name when it has none, and what is
    /// inside of it.
    fn end(&mut self, function: Option<FunctionIndex>) {
        if self
            .open_begins
            .get(&function)
            .is_none_or(|count| *count == 0)
        {
            self.misfits.ends_without_begin += 1;
            return;
        }
        while let Some(open) = self.open.pop() {
            if open.end.is_some() {
                self.misfits.cut += 1;
                continue;
            }
            for key in [open.function, None] {
                if let Some(count) = self.open_begins.get_mut(&key) {
                    *count -= 1;
                }
            }
            if function.is_none() || open.function == function {
                return;
            }
            self.misfits.never_ended += 1;
        }
    }
}
