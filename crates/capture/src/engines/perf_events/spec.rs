//! Events as users name them: `page-faults`, `sched:sched_switch`, `uprobe:node:uv_fs_open`.

use std::path::PathBuf;

use nodespy_model::{EventIndex, EventType, Sampling as HowOften, WeightUnit};

use super::names::{self, Class, Named};
use crate::sys::perf_event::Every;

/// How often threads are polled unless more is asked for.
const MAX_POLL_RATE_HZ: u32 = 99;

/// Jobs of libuv's pool, where they are submitted.
pub const POOL_JOBS: &str = "pool-jobs";
/// `uv_queue_work` has `uv__work_submit` inlined: one alone misses crypto and zlib, or files and names.
const POOL_SUBMITTING: [&str; 2] = ["uv__work_submit", "uv_queue_work"];

/// What is sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSpec {
    /// As it was asked for, without how often.
    name: String,
    pub(super) source: EventSource,
    /// How often it is sampled, where that was asked for.
    every: Option<Every>,
    /// `:u`: not while the kernel runs.
    pub(super) is_user_only: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EventSource {
    /// CPU time, by the best clock there is.
    Cpu,
    /// All time: CPU time, and what polls from outside see.
    Wall,
    /// What polls from outside see alone.
    OffCpu,
    Named(Named),
    Tracepoint(Tracepoint),
    Uprobe(Uprobe),
}

/// A place in the kernel's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tracepoint {
    Name { system: String, name: String },
    Id(u64),
}

/// A place in a program's code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uprobe {
    /// `node` for the program, a path, or how a library's file name starts.
    pub binary: String,
    /// The function.
    pub symbol: String,
    /// How far into it.
    pub offset: u64,
    /// Whether it fires when the function returns.
    pub is_return: bool,
    /// Whether only threads call it that run JavaScript.
    pub is_of_javascript: bool,
    /// Whether it is one that the authors have put there: `binary` is its provider then, and `symbol` its name.
    pub is_usdt: bool,
    /// The file and the place in it, once found.
    pub place: Option<ProbePlace>,
}

/// Where a breakpoint goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbePlace {
    /// A path that leads to the file from here.
    pub file: PathBuf,
    /// Bytes from its start.
    pub offset: u64,
    /// The same to the counter of those that watch the place; 0 where there is none.
    pub semaphore: u64,
}

impl EventSpec {
    /// CPU time.
    pub fn cpu() -> Self {
        Self {
            name: "cpu".to_owned(),
            source: EventSource::Cpu,
            every: None,
            is_user_only: false,
        }
    }

    /// The jobs that are submitted to libuv's pool: one event, made in two places.
    pub fn pool_jobs() -> Vec<Self> {
        let at = |symbol: &&str| Self {
            name: POOL_JOBS.to_owned(),
            source: EventSource::Uprobe(Uprobe {
                binary: "node".to_owned(),
                symbol: (*symbol).to_owned(),
                offset: 0,
                is_return: false,
                is_of_javascript: true,
                is_usdt: false,
                place: None,
            }),
            every: None,
            is_user_only: false,
        };
        POOL_SUBMITTING.iter().map(at).collect()
    }

    /// Reads one event: a name of perf's, `SYSTEM:TRACEPOINT`, `tracepoint:ID`,
    /// `uprobe:BINARY:FUNCTION`, `uretprobe:BINARY:FUNCTION` or `usdt:PROVIDER:NAME`, with `/period=N/` or `/freq=N/`
    /// behind it and `:u` behind that.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (text, every) = split_every(text.trim())?;
        let of_time = match text {
            "cpu" => Some(EventSource::Cpu),
            "wall" => Some(EventSource::Wall),
            "off-cpu" => Some(EventSource::OffCpu),
            _ => None,
        };
        if let Some(source) = of_time {
            if source != EventSource::Cpu && matches!(every, Some(Every::Period(_))) {
                return Err(format!("{text} has a rate and no period: {text}/freq=99/"));
            }
            return Ok(Self {
                name: text.to_owned(),
                source,
                every,
                is_user_only: false,
            });
        }
        let (plain, is_user_only) = match text.strip_suffix(":u") {
            Some(plain) if !plain.contains(':') => (plain, true),
            _ => (text, false),
        };
        let source = parse_source(plain)?;
        Ok(Self {
            name: text.to_owned(),
            source,
            every,
            is_user_only,
        })
    }

    /// As it was asked for, without how often.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is CPU time.
    pub fn is_cpu(&self) -> bool {
        self.source == EventSource::Cpu
    }

    /// Whether it is CPU time, or has it as a part.
    pub(super) fn samples_cpu(&self) -> bool {
        matches!(self.source, EventSource::Cpu | EventSource::Wall)
    }

    /// Whether threads are polled from outside for it.
    pub(super) fn is_polled(&self) -> bool {
        matches!(self.source, EventSource::Wall | EventSource::OffCpu)
    }

    /// How often threads are polled where the user wants `rate_hz`: a poll of every thread costs
    /// more than a sample of those that run.
    pub(super) fn poll_rate_hz(&self, rate_hz: u32) -> u32 {
        match self.every {
            Some(Every::Rate(rate_hz)) => rate_hz,
            _ => rate_hz.min(MAX_POLL_RATE_HZ),
        }
    }

    /// Whether it is a tracepoint, by name or number.
    pub fn is_tracepoint(&self) -> bool {
        matches!(self.source, EventSource::Tracepoint(_))
    }

    /// Whether it is a breakpoint.
    pub(super) fn is_uprobe(&self) -> bool {
        matches!(self.source, EventSource::Uprobe(_))
    }

    /// The probe, which needs a place before it can be opened.
    pub fn uprobe_mut(&mut self) -> Option<&mut Uprobe> {
        match &mut self.source {
            EventSource::Uprobe(probe) => Some(probe),
            _ => None,
        }
    }

    /// Of so many occurrences one is sampled.
    pub(super) fn set_period(&mut self, period: u64) {
        self.every = Some(Every::Period(period));
    }

    /// Whether only threads that run JavaScript make it happen.
    pub(super) fn is_of_javascript(&self) -> bool {
        matches!(&self.source, EventSource::Uprobe(probe) if probe.is_of_javascript)
    }

    /// The event that each of these makes: those with one name are one.
    pub(super) fn event_indexes(specs: &[Self]) -> Vec<EventIndex> {
        let mut names: Vec<&str> = Vec::new();
        let mut indexes = Vec::new();
        for spec in specs {
            let known = names.iter().position(|name| *name == spec.name);
            indexes.push(EventIndex(known.unwrap_or(names.len()) as u16));
            if known.is_none() {
                names.push(&spec.name);
            }
        }
        indexes
    }

    /// When a sample is taken where the user wants `rate_hz` for what has a rate.
    pub(super) fn every(&self, rate_hz: u32) -> Every {
        self.every.unwrap_or(match &self.source {
            EventSource::Cpu | EventSource::Wall | EventSource::OffCpu => Every::Rate(rate_hz),
            EventSource::Named(named) => named.period.map_or(Every::Rate(rate_hz), Every::Period),
            EventSource::Tracepoint(_) | EventSource::Uprobe(_) => Every::Period(1),
        })
    }

    /// Whether it happens inside the kernel only.
    pub(super) fn is_kernel_only(&self) -> bool {
        match &self.source {
            EventSource::Named(named) => named.class == Class::KernelOnly,
            // Those of system calls see the registers of the program, the others those of the kernel.
            EventSource::Tracepoint(Tracepoint::Name { system, .. }) => system != "syscalls",
            EventSource::Tracepoint(Tracepoint::Id(_)) => false,
            EventSource::Cpu | EventSource::Wall | EventSource::OffCpu | EventSource::Uprobe(_) => {
                false
            }
        }
    }

    /// Whether it can be had without the right to look into the kernel.
    pub(super) fn can_exclude_kernel(&self) -> bool {
        !self.is_kernel_only() && !matches!(self.source, EventSource::Uprobe(_))
    }

    /// Whether its samples stand for time.
    pub(super) fn is_clock(&self) -> bool {
        match &self.source {
            EventSource::Cpu | EventSource::Wall | EventSource::OffCpu => true,
            EventSource::Named(named) => named.class == Class::Clock,
            EventSource::Tracepoint(_) | EventSource::Uprobe(_) => false,
        }
    }

    /// What the samples of a recording stand for, with the name of the clock that was found for CPU
    /// time.
    pub(super) fn event_type(&self, rate_hz: u32, clock: &str) -> EventType {
        if self.is_polled() {
            return EventType::new(&self.name, WeightUnit::Nanoseconds)
                .at_rate(self.poll_rate_hz(rate_hz));
        }
        let name = match self.source {
            EventSource::Cpu => clock,
            _ => &self.name,
        };
        let every = self.every(rate_hz);
        match (self.is_clock(), every) {
            (true, Every::Rate(rate_hz)) => {
                EventType::new(name, WeightUnit::Samples).at_rate(rate_hz)
            }
            (_, Every::Rate(rate_hz)) => EventType::new(name, WeightUnit::Events).at_rate(rate_hz),
            (_, Every::Period(period)) => EventType {
                sampling: HowOften::Period(period),
                ..EventType::new(name, WeightUnit::Events)
            },
        }
    }
}

fn parse_source(text: &str) -> Result<EventSource, String> {
    if let Some(named) = names::find(text) {
        return Ok(EventSource::Named(named));
    }
    if let Some(probe) = text.strip_prefix("uprobe:") {
        return parse_uprobe(probe, false);
    }
    if let Some(probe) = text.strip_prefix("uretprobe:") {
        return parse_uprobe(probe, true);
    }
    if let Some(probe) = text.strip_prefix("usdt:") {
        return parse_usdt(probe);
    }
    match text.split_once(':') {
        Some(("tracepoint", id)) => id
            .parse()
            .map(|id| EventSource::Tracepoint(Tracepoint::Id(id)))
            .map_err(|_| format!("`{id}` is no number of a tracepoint")),
        Some((system, name)) if is_word(system) && is_word(name) => {
            Ok(EventSource::Tracepoint(Tracepoint::Name {
                system: system.to_owned(),
                name: name.to_owned(),
            }))
        }
        _ => Err(format!(
            "there is no event `{text}` (`nodespy events` lists them)"
        )),
    }
}

/// `node:uv_fs_open+9`.
fn parse_uprobe(text: &str, is_return: bool) -> Result<EventSource, String> {
    let kind = if is_return { "uretprobe" } else { "uprobe" };
    // Folders may have colons in their names, and so have functions of C++.
    let folder = text.starts_with('/').then(|| text.rfind('/')).flatten();
    let (folder, rest) = text.split_at(folder.unwrap_or(0));
    let parts = rest
        .split_once(':')
        .map(|(file, place)| (&text[..folder.len() + file.len()], place));
    let Some((binary, place)) =
        parts.filter(|(binary, place)| !binary.is_empty() && !place.is_empty())
    else {
        return Err(format!(
            "`{kind}:{text}` names no function: {kind}:node:uv_fs_open, or {kind}:/PATH/OF/LIBRARY:FUNCTION"
        ));
    };
    let (symbol, offset) = match place.split_once('+') {
        None => (place, 0),
        Some((symbol, offset)) => {
            let digits = offset.strip_prefix("0x");
            let offset = match digits {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => offset.parse(),
            };
            let offset = offset.map_err(|_| format!("`{place}` has no number behind its +"))?;
            (symbol, offset)
        }
    };
    if is_return && offset != 0 {
        return Err(format!(
            "`{text}`: a function returns as a whole, not from +{offset}"
        ));
    }
    Ok(EventSource::Uprobe(Uprobe {
        binary: binary.to_owned(),
        symbol: symbol.to_owned(),
        offset,
        is_return,
        is_of_javascript: false,
        is_usdt: false,
        place: None,
    }))
}

/// `libc:setjmp`.
fn parse_usdt(text: &str) -> Result<EventSource, String> {
    let is_named = |name: &str| !name.is_empty() && !name.contains(':');
    match text.split_once(':') {
        Some((provider, name)) if is_named(provider) && is_named(name) => {
            Ok(EventSource::Uprobe(Uprobe {
                binary: provider.to_owned(),
                symbol: name.to_owned(),
                offset: 0,
                is_return: false,
                is_of_javascript: false,
                is_usdt: true,
                place: None,
            }))
        }
        _ => Err(format!(
            "`usdt:{text}` names no probe: usdt:PROVIDER:NAME, as `readelf -n FILE` lists them"
        )),
    }
}

/// Takes `/period=100/` or `/freq=99/` off the end.
fn split_every(text: &str) -> Result<(&str, Option<Every>), String> {
    let Some(inner) = text.strip_suffix('/') else {
        return Ok((text, None));
    };
    let Some((name, setting)) = inner.rsplit_once('/') else {
        return Err(format!("`{text}` ends with a slash that nothing opens"));
    };
    let every = match setting.split_once('=') {
        Some(("period", number)) => number
            .parse()
            .ok()
            .filter(|period| *period > 0)
            .map(Every::Period),
        Some(("freq", number)) => number
            .parse()
            .ok()
            .filter(|rate| (1..=100_000).contains(rate))
            .map(Every::Rate),
        _ => None,
    };
    match every {
        Some(every) => Ok((name, Some(every))),
        None => Err(format!(
            "`/{setting}/` says nothing: /period=100/ takes a sample every 100 times, /freq=99/ 99 \
             times a second"
        )),
    }
}

/// Whether it can be a folder of tracefs: nothing that leads elsewhere.
fn is_word(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    !text.is_empty() && text.len() <= 128 && text.bytes().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> EventSpec {
        EventSpec::parse(text).unwrap()
    }

    #[test]
    fn periods_and_rates_have_defaults_and_can_be_given() {
        assert_eq!(spec("cpu").every(99), Every::Rate(99));
        assert_eq!(spec("instructions").every(99), Every::Rate(99));
        assert_eq!(spec("page-faults").every(99), Every::Period(100));
        assert_eq!(spec("page-faults/period=7/").every(99), Every::Period(7));
        assert_eq!(
            spec("sched:sched_switch/freq=49/").every(99),
            Every::Rate(49)
        );
        assert_eq!(spec("sched:sched_switch").every(99), Every::Period(1));
        let wall = spec("wall").event_type(999, "cpu-clock");
        assert_eq!((&*wall.name, wall.rate_hz()), ("wall", 99));
        assert_eq!(wall.unit, WeightUnit::Nanoseconds);
        assert_eq!(spec("off-cpu/freq=199/").poll_rate_hz(99), 199);
        let event = spec("page-faults").event_type(99, "");
        assert_eq!(
            (&*event.name, event.unit),
            ("page-faults", WeightUnit::Events)
        );
        assert_eq!(event.sampling, HowOften::Period(100));
    }

    #[test]
    fn probes_of_the_authors_have_a_provider_and_a_name() {
        let mut probe = spec("usdt:libc:setjmp/period=3/");
        let found = probe.uprobe_mut().unwrap();
        assert!(found.is_usdt);
        assert_eq!((&*found.binary, &*found.symbol), ("libc", "setjmp"));
        assert_eq!(probe.every(99), Every::Period(3));
        for text in ["usdt:", "usdt:libc", "usdt:libc:", "usdt:a:b:c"] {
            assert!(EventSpec::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn probes_have_a_binary_that_may_be_a_path() {
        let mut probe = spec("uprobe:/opt/lib:2/libuv.so.1:uv_fs_open+0x9/period=5/");
        let found = probe.uprobe_mut().unwrap();
        assert_eq!(found.binary, "/opt/lib:2/libuv.so.1");
        assert_eq!((&*found.symbol, found.offset), ("uv_fs_open", 9));
        assert_eq!(probe.every(99), Every::Period(5));
        let mut probe = spec("uprobe:node:v8::internal::Heap::Scavenge");
        let found = probe.uprobe_mut().unwrap();
        assert_eq!(
            (&*found.binary, &*found.symbol),
            ("node", "v8::internal::Heap::Scavenge")
        );
        let mut probe = spec("uretprobe:node:uv_fs_open");
        assert!(probe.uprobe_mut().unwrap().is_return);
    }

    #[test]
    fn places_with_one_name_make_one_event() {
        let mut specs = vec![spec("cpu")];
        specs.extend(EventSpec::pool_jobs());
        specs.push(spec("page-faults"));
        let indexes = EventSpec::event_indexes(&specs);
        let indexes: Vec<u16> = indexes.into_iter().map(|index| index.0).collect();
        assert_eq!(indexes, [0, 1, 1, 2]);
        assert!(specs[1].is_of_javascript() && !specs[0].is_of_javascript());
        assert_eq!(specs[2].every(99), Every::Period(1));
        specs[2].set_period(7);
        assert_eq!(specs[2].every(99), Every::Period(7));
    }

    #[test]
    fn what_the_kernel_alone_sees_is_known() {
        for (text, is_kernel_only) in [
            ("context-switches", true),
            ("page-faults", false),
            ("sched:sched_switch", true),
            ("syscalls:sys_enter_openat", false),
        ] {
            assert_eq!(spec(text).is_kernel_only(), is_kernel_only, "{text}");
        }
        assert!(spec("page-faults:u").is_user_only);
        assert_eq!(spec("page-faults:u").name(), "page-faults:u");
    }

    #[test]
    fn what_is_no_event_gets_a_sentence() {
        for (text, part) in [
            ("", "no event"),
            ("pagefaults", "`nodespy events`"),
            ("sched:../../etc", "no event"),
            ("sched:", "no event"),
            ("uprobe:node", "names no function"),
            ("uprobe::f", "names no function"),
            ("uprobe:node:f+x", "no number"),
            ("uretprobe:node:f+4", "as a whole"),
            ("cpu/period=0/", "says nothing"),
            ("cpu/freq=1000000/", "says nothing"),
            ("cpu/", "nothing opens"),
            ("wall/period=5/", "wall/freq=99/"),
            ("tracepoint:x", "no number"),
        ] {
            let error = EventSpec::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
