//! What makes samples: the events of a profile, and what their weights count.

use std::borrow::Cow;

use crate::profile::Profile;
use crate::text::printable;

/// An event of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct EventIndex(pub u16);

impl EventIndex {
    /// The position in its table.
    pub fn at(self) -> usize {
        usize::from(self.0)
    }
}

/// How many events a profile can have.
pub const MAX_EVENTS: usize = 1024;

/// What the weight of a sample counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WeightUnit {
    /// Samples.
    #[default]
    Samples,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Occurrences of the event: cycles, faults, calls.
    Events,
}

impl WeightUnit {
    /// Every unit, in the order they are stored.
    pub const ALL: [Self; 4] = [Self::Samples, Self::Nanoseconds, Self::Bytes, Self::Events];

    /// The word shown for it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Nanoseconds => "ns",
            Self::Bytes => "bytes",
            Self::Events => "events",
        }
    }
}

/// How often an event makes a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Sampling {
    /// Not known.
    #[default]
    Unknown,
    /// So many samples per second of CPU time and thread.
    Rate(u32),
    /// One sample for so many occurrences.
    Period(u64),
}

/// What the weights of an event measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Measure {
    /// Time on a CPU.
    CpuTime,
    /// Time by the clock on the wall, waiting included.
    WallTime,
    /// Memory, in bytes.
    Memory,
    /// How often something happened: page faults, instructions, calls.
    Occurrences,
}

/// What made a sample: the CPU clock, a page fault, an allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct EventType {
    /// Its name, such as `cpu-clock` or `cycles`; empty when not known.
    pub name: String,
    /// What its weights count.
    pub unit: WeightUnit,
    /// How often it makes a sample.
    pub sampling: Sampling,
}

impl EventType {
    /// An event whose sampling is not known.
    pub fn new(name: &str, unit: WeightUnit) -> Self {
        Self {
            name: printable(name).into_owned(),
            unit,
            sampling: Sampling::Unknown,
        }
    }

    /// The same at so many samples per second; 0 when not known.
    pub fn at_rate(mut self, rate_hz: u32) -> Self {
        self.sampling = match rate_hz {
            0 => Sampling::Unknown,
            rate_hz => Sampling::Rate(rate_hz),
        };
        self
    }

    /// Samples per second of CPU time and thread; 0 when not known.
    pub fn rate_hz(&self) -> u32 {
        match self.sampling {
            Sampling::Rate(rate_hz) => rate_hz,
            Sampling::Unknown | Sampling::Period(_) => 0,
        }
    }

    /// Nanoseconds from sample to sample, where samples are taken by time and the rate is known.
    pub fn interval(&self) -> Option<u64> {
        let interval = 1_000_000_000_u64.checked_div(u64::from(self.rate_hz()))?;
        let is_by_time = matches!(self.unit, WeightUnit::Samples | WeightUnit::Nanoseconds);
        (is_by_time && interval > 0).then_some(interval)
    }

    /// Its name, or what its weights count where it has none.
    pub fn label(&self) -> &str {
        match &*self.name {
            "" => self.unit.label(),
            name => name,
        }
    }

    /// Whether it measures the use of the CPU: `cycles`, `cycles:u`, `cpu-cycles`,
    /// `cpu_core/cycles/`, `cpu-clock:HpppP`, `task-clock`.
    pub fn is_cpu(&self) -> bool {
        let base = base_name(&self.name);
        matches!(base, "cycles" | "cpu-cycles") || self.is_clock()
    }

    /// Whether its occurrences are nanoseconds.
    pub fn is_clock(&self) -> bool {
        matches!(base_name(&self.name), "cpu-clock" | "task-clock")
    }

    /// What its weights measure. Samples whose event has no name, or one that says nothing, are
    /// taken for CPU time, unless each stands for a number of occurrences.
    pub fn measure(&self) -> Measure {
        let base = base_name(&self.name);
        match self.unit {
            WeightUnit::Bytes => Measure::Memory,
            _ if self.is_cpu() => Measure::CpuTime,
            WeightUnit::Events => Measure::Occurrences,
            WeightUnit::Samples if is_occurrence(base) => Measure::Occurrences,
            WeightUnit::Samples if matches!(self.sampling, Sampling::Period(_)) => {
                Measure::Occurrences
            }
            _ if WALL_CLOCKS.contains(&base) => Measure::WallTime,
            WeightUnit::Samples | WeightUnit::Nanoseconds => Measure::CpuTime,
        }
    }

    /// Whether its samples stand for time, of the CPU or of the wall clock.
    pub fn is_time(&self) -> bool {
        matches!(self.measure(), Measure::CpuTime | Measure::WallTime)
    }

    /// What it counts, as a noun in the plural: `page faults` for `page-faults:u`; of a name that is
    /// none, such as that of a tracepoint, `sched:sched_switch events`.
    pub fn noun(&self) -> String {
        let base = base_name(&self.name);
        let is_noun = base.ends_with('s')
            && base
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
        match base {
            "" => self.unit.label().to_owned(),
            "cs" => "context switches".to_owned(),
            "faults" => "page faults".to_owned(),
            base if is_noun => base.replace(['-', '_'], " "),
            base => format!("{base} events"),
        }
    }

    /// The noun for so many of it: `1 page fault`, `2 page faults`.
    pub fn noun_for(&self, count: u64) -> String {
        let mut noun = self.noun();
        if count == 1 {
            let plural = ["ches", "shes", "sses"];
            let is_long = plural.iter().any(|end| noun.ends_with(end));
            noun.truncate(noun.len() - if is_long { 2 } else { 1 });
        }
        noun
    }

    /// The event that a user means: by its whole name, else without modifiers, else without the
    /// unit that pprof puts after a name (`cpu/nanoseconds`).
    pub fn find(events: &[Self], name: &str) -> Option<EventIndex> {
        let find = |is_meant: &dyn Fn(&Self) -> bool| {
            let position = events.iter().position(is_meant);
            position.map(|position| EventIndex(position as u16))
        };
        let without_unit = name.split_once('/').map(|(name, _)| name);
        find(&|event| event.label() == name)
            .or_else(|| find(&|event| without_modifiers(&event.name) == name))
            .or_else(|| find(&|event| Some(event.label()) == without_unit))
    }

    /// Whether both are what the samples of one event can have.
    fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && self.unit == other.unit
    }
}

impl From<WeightUnit> for EventType {
    fn from(unit: WeightUnit) -> Self {
        Self {
            unit,
            ..Self::default()
        }
    }
}

/// An event's name without its PMU and modifiers.
fn base_name(name: &str) -> &str {
    let name = name.trim_end_matches('/');
    let name = name.rsplit('/').next().unwrap_or(name);
    without_modifiers(name)
}

/// The names of events that sample by the clock on the wall: V8's CPU profiler, pprof's `wall` and
/// `delay`.
const WALL_CLOCKS: [&str; 6] = [
    "wall clock",
    "wall-clock",
    "wall",
    "delay",
    "off-cpu",
    "offcpu",
];

/// How the names of events end that count something else than time, of perf and of pprof.
const OCCURRENCES: [&str; 13] = [
    "faults",
    "switches",
    "misses",
    "migrations",
    "loads",
    "stores",
    "references",
    "instructions",
    "branches",
    "prefetches",
    "objects",
    "contentions",
    "goroutine",
];

/// Whether an event is known to count something else than time: by name, or as a tracepoint.
fn is_occurrence(base: &str) -> bool {
    OCCURRENCES.iter().any(|end| base.ends_with(end)) || base == "cs" || base.contains(':')
}

/// `cycles:u` is `cycles`; the name of a tracepoint, such as `sched:sched_switch`, stays whole.
fn without_modifiers(name: &str) -> &str {
    match name.split_once(':') {
        Some((base, modifiers))
            if modifiers
                .bytes()
                .all(|byte| b"ukhHGpPSDIWeb".contains(&byte)) =>
        {
            base
        }
        _ => name,
    }
}

/// Where `event` is in `events`, which get it unless they are full.
pub(crate) fn intern(events: &mut Vec<EventType>, event: &EventType) -> Option<EventIndex> {
    let position = match events.iter().position(|known| known.is_same(event)) {
        Some(position) => position,
        None if events.len() < MAX_EVENTS => {
            events.push(event.clone());
            events.len() - 1
        }
        None => return None,
    };
    Some(EventIndex(position as u16))
}

impl Profile {
    /// The only event of a profile, or the first where nothing depends on its weights. Weights of
    /// two events are never added: code that sums them up asks for a profile of one event, which
    /// [`Self::select`] makes.
    pub fn event(&self) -> &EventType {
        const NONE: &EventType = &EventType {
            name: String::new(),
            unit: WeightUnit::Samples,
            sampling: Sampling::Unknown,
        };
        self.events.first().unwrap_or(NONE)
    }

    /// For whatever is about to add weights up: they are of one event.
    pub fn assert_one_event(&self) {
        debug_assert!(self.events.len() < 2, "weights of several events");
    }

    /// What the weights of a profile of one event count.
    pub fn unit(&self) -> WeightUnit {
        self.event().unit
    }

    /// How many samples each event has.
    pub fn event_counts(&self) -> Vec<u64> {
        let mut counts = vec![0; self.events.len()];
        for sample in &self.samples {
            counts[sample.event.at()] += 1;
        }
        counts
    }

    /// The samples of one event; the rest of the profile stays.
    pub fn select(mut self, event: EventIndex) -> Self {
        if self.events.len() > 1 {
            self.samples.retain(|sample| sample.event == event);
            for sample in &mut self.samples {
                sample.event = EventIndex(0);
            }
            self.events = vec![self.events.swap_remove(event.at())];
        }
        self
    }

    /// The samples of the event that views show.
    pub fn first_event(&self) -> Cow<'_, Self> {
        match self.events.len() {
            0 | 1 => Cow::Borrowed(self),
            _ => Cow::Owned(self.clone().select(EventIndex(0))),
        }
    }

    /// Puts the event that views show before the others.
    pub fn put_first(&mut self, event: EventIndex) {
        if event.at() == 0 {
            return;
        }
        self.events[..=event.at()].rotate_right(1);
        for sample in &mut self.samples {
            sample.event.0 = match sample.event {
                moved if moved == event => 0,
                before if before < event => before.0 + 1,
                after => after.0,
            };
        }
    }

    /// The event to show where nothing else decides: of those that measure the CPU the one with
    /// most samples, else of all.
    pub fn main_event(&self) -> EventIndex {
        let counts = self.event_counts();
        let rank = |position: &usize| {
            let (count, event) = (counts[*position], &self.events[*position]);
            (count > 0 && event.is_cpu(), count)
        };
        // The first of several with as many.
        let main = (0..counts.len()).rev().max_by_key(rank);
        EventIndex(main.unwrap_or(0) as u16)
    }

    /// Where the weights of an event are its periods and all of them are equal, counts its samples
    /// instead, and keeps the period with the event.
    pub fn count_equal_periods(&mut self) {
        let mut periods: Vec<Option<u64>> = vec![None; self.events.len()];
        let mut is_equal = vec![true; self.events.len()];
        for sample in &self.samples {
            let at = sample.event.at();
            is_equal[at] &= *periods[at].get_or_insert(sample.weight) == sample.weight;
        }
        for (event, (period, is_equal)) in self.events.iter_mut().zip(periods.iter().zip(&is_equal))
        {
            if let (Some(period), true, false) =
                (period, *is_equal, event.unit == WeightUnit::Samples)
            {
                event.unit = WeightUnit::Samples;
                if event.rate_hz() == 0 || !event.is_cpu() {
                    event.sampling = Sampling::Period(*period);
                }
            }
        }
        for sample in &mut self.samples {
            if is_equal[sample.event.at()] {
                sample.weight = 1;
            }
        }
    }

    /// Leaves out events without samples, unless no event has any.
    pub(crate) fn drop_empty_events(&mut self) {
        if self.events.len() < 2 {
            return;
        }
        let counts = self.event_counts();
        if counts.iter().all(|count| *count == 0) {
            self.events.truncate(1);
            return;
        }
        let mut moved = Vec::with_capacity(counts.len());
        let mut next = 0;
        for count in &counts {
            moved.push(EventIndex(next));
            next += u16::from(*count > 0);
        }
        for sample in &mut self.samples {
            sample.event = moved[sample.event.at()];
        }
        let mut counts = counts.iter();
        self.events
            .retain(|_| counts.next().is_some_and(|count| *count > 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{About, Notes, Process, ProfileBuilder, Sample, Thread};
    use proptest::prelude::*;

    fn profile(weights: &[(u16, u64)]) -> Profile {
        let mut builder = ProfileBuilder::new(EventType::new("page-faults", WeightUnit::Events));
        builder.event(&EventType::new("cycles:u", WeightUnit::Events).at_rate(99));
        builder.event(&EventType::new("sched:sched_switch", WeightUnit::Events));
        let process = builder.process(Process::default());
        let thread = builder.thread(Thread {
            process,
            ..Thread::default()
        });
        for &(event, weight) in weights {
            builder.add_sample(Sample {
                event: EventIndex(event),
                weight,
                thread,
                ..Sample::default()
            });
        }
        builder.finish(About::default(), Notes::default())
    }

    #[test]
    fn cpu_events_are_known_by_name() {
        let is_cpu = |name: &str| EventType::new(name, WeightUnit::Samples).is_cpu();
        for name in ["cycles", "cycles:u", "cpu_core/cycles/", "cpu-clock:HpppP"] {
            assert!(is_cpu(name), "{name}");
        }
        for name in ["page-faults", "sched:sched_switch", "instructions"] {
            assert!(!is_cpu(name), "{name}");
        }
    }

    #[test]
    fn what_is_measured_is_known_by_unit_and_name() {
        use WeightUnit::{Bytes, Events, Nanoseconds, Samples};
        let measure = |name: &str, unit| EventType::new(name, unit).at_rate(99).measure();
        for (name, unit) in [("", Samples), ("tick", Samples), ("cycles", Events)] {
            assert_eq!(measure(name, unit), Measure::CpuTime, "{name}");
        }
        for (name, unit) in [("wall clock", Nanoseconds), ("wall", Samples)] {
            assert_eq!(measure(name, unit), Measure::WallTime, "{name}");
        }
        for (name, unit) in [
            ("page-faults", Samples),
            ("context-switches:u", Samples),
            ("sched:sched_switch", Samples),
            ("alloc_objects", Samples),
            ("r01c2", Events),
        ] {
            assert_eq!(measure(name, unit), Measure::Occurrences, "{name}");
        }
        assert_eq!(measure("inuse_space", Bytes), Measure::Memory);
        let mut by_period = EventType::new("r01c2", Samples);
        by_period.sampling = Sampling::Period(1000);
        assert_eq!(by_period.measure(), Measure::Occurrences);
    }

    #[test]
    fn what_is_counted_has_a_noun() {
        let noun = |name: &str| EventType::new(name, WeightUnit::Events).noun();
        assert_eq!(noun("page-faults:u"), "page faults");
        assert_eq!(noun("cs"), "context switches");
        assert_eq!(noun("cpu_core/cache-misses/"), "cache misses");
        assert_eq!(noun("sched:sched_switch"), "sched:sched_switch events");
        assert_eq!(noun(""), "events");
        let one = |name: &str| EventType::new(name, WeightUnit::Events).noun_for(1);
        assert_eq!(one("page-faults:u"), "page fault");
        assert_eq!(one("cs"), "context switch");
        assert_eq!(one("cache-misses"), "cache miss");
        assert_eq!(one("cycles"), "cycle");
        assert_eq!(one("sched:sched_switch"), "sched:sched_switch event");
        assert_eq!(one(""), "event");
    }

    #[test]
    #[should_panic(expected = "weights of several events")]
    fn weights_of_two_events_are_never_added() {
        profile(&[(0, 1), (1, 1)]).total_weight();
    }

    #[test]
    fn an_event_is_found_by_its_name_with_and_without_modifiers() {
        let profile = profile(&[(0, 1), (1, 1), (2, 1)]);
        assert_eq!(
            EventType::find(&profile.events, "cycles:u"),
            Some(EventIndex(1))
        );
        assert_eq!(
            EventType::find(&profile.events, "cycles"),
            Some(EventIndex(1))
        );
        assert_eq!(EventType::find(&profile.events, "sched"), None);
        assert_eq!(
            EventType::find(&profile.events, "sched:sched_switch"),
            Some(EventIndex(2))
        );
    }

    proptest! {
        #[test]
        fn selecting_every_event_gives_each_sample_once(
            rows in prop::collection::vec((0u16..3, 0u64..100), 1..50)
        ) {
            let profile = profile(&rows);
            let mut left = profile.samples.clone();
            for event in 0..profile.events.len() as u16 {
                let one = profile.clone().select(EventIndex(event));
                prop_assert_eq!(&one.events[..], &profile.events[usize::from(event)..][..1]);
                let of_event = left.extract_if(.., |sample| sample.event == EventIndex(event));
                let weights: Vec<u64> = of_event.map(|sample| sample.weight).collect();
                let selected: Vec<u64> = one.samples.iter().map(|it| it.weight).collect();
                prop_assert_eq!(selected, weights);
            }
            prop_assert!(left.is_empty());
        }
    }

    #[test]
    fn an_event_without_samples_is_not_kept() {
        let profile = profile(&[(2, 5), (1, 4), (2, 1)]);
        let names: Vec<&str> = profile.events.iter().map(EventType::label).collect();
        assert_eq!(names, ["cycles:u", "sched:sched_switch"]);
        assert_eq!(profile.event_counts(), [1, 2]);
    }

    #[test]
    fn the_cpu_comes_first_however_many_samples_others_have() {
        let mut profile = profile(&[(0, 5), (0, 4), (1, 1), (2, 7)]);
        profile.put_first(profile.main_event());
        let names: Vec<&str> = profile.events.iter().map(EventType::label).collect();
        assert_eq!(names, ["cycles:u", "page-faults", "sched:sched_switch"]);
        assert_eq!(profile.event_counts(), [1, 2, 1]);
        assert_eq!(profile.clone().select(EventIndex(1)).total_weight(), 9);
        assert_eq!(profile.select(EventIndex(0)).total_weight(), 1);
    }

    #[test]
    fn equal_periods_are_counted_as_samples_and_others_as_what_they_are() {
        let mut profile = profile(&[(0, 100), (0, 100), (1, 3), (1, 4)]);
        profile.count_equal_periods();
        assert_eq!(profile.events[0].unit, WeightUnit::Samples);
        assert_eq!(profile.events[0].sampling, Sampling::Period(100));
        assert_eq!(profile.events[1].unit, WeightUnit::Events);
        assert_eq!(profile.events[1].sampling, Sampling::Rate(99));
        let weights: Vec<u64> = profile.samples.iter().map(|sample| sample.weight).collect();
        assert_eq!(weights, [1, 1, 3, 4]);
    }
}
