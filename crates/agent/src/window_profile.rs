//! A window as a profile of its own, for receivers that take pprof.

use nodespy_formats::{ExportError, exporter};
use nodespy_model::{About, EventType, FastMap, Notes, Profile, ThreadRole, WeightUnit};
use nodespy_store::{
    Series, StackHash, StackId, StackWeight, StoredThread, Symbols, WINDOW_SECONDS, Window,
    profile_of_threads,
};

pub(crate) const SECOND: u64 = 1_000_000_000;

/// The names of a batch, by stack.
pub(crate) struct Names<'a> {
    symbols: &'a Symbols,
    places: FastMap<StackHash, usize>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(symbols: &'a Symbols) -> Self {
        let hashes = symbols.checked_hashes().unwrap_or_default();
        Self {
            symbols,
            places: hashes.into_iter().zip(0..).collect(),
        }
    }

    /// A window as a gzipped pprof, with the names of its own stacks alone.
    pub(crate) fn pprof(&self, series: &Series, window: &Window) -> Result<Vec<u8>, ExportError> {
        let mut bytes = Vec::new();
        let pprof = exporter("pprof").expect("it is one of the formats");
        pprof.export(&self.profile(series, window), &mut bytes)?;
        Ok(bytes)
    }

    fn profile(&self, series: &Series, window: &Window) -> Profile {
        let threads: Vec<StoredThread> = ThreadRole::ALL
            .into_iter()
            .map(|role| self.thread(role, window))
            .filter(|thread| !thread.stacks.is_empty())
            .collect();
        let about = About {
            app: series.service.clone(),
            started_unix: window.start.saturating_mul(SECOND),
            duration: WINDOW_SECONDS * SECOND,
            ..About::default()
        };
        profile_of_threads(about, Notes::default(), event_of(series), &threads)
    }

    fn thread(&self, role: ThreadRole, window: &Window) -> StoredThread {
        let mut names = Subset::of(self.symbols);
        let mut stacks = Vec::new();
        for count in window.counts.iter().filter(|count| count.role() == role) {
            names.push(self.places.get(&count.stack).copied());
            stacks.push(StackWeight {
                stack: StackId(0),
                count: count.count,
                weight: count.count,
            });
        }
        StoredThread {
            role,
            symbols: names.kept,
            stacks,
        }
    }
}

/// Some stacks of a batch with the frames and functions that they have: a process is not sent with the names of all others.
struct Subset<'a> {
    all: &'a Symbols,
    kept: Symbols,
    frames: FastMap<u32, u32>,
    functions: FastMap<u32, u32>,
}

impl<'a> Subset<'a> {
    fn of(all: &'a Symbols) -> Self {
        Self {
            all,
            kept: Symbols::default(),
            frames: FastMap::default(),
            functions: FastMap::default(),
        }
    }

    /// Keeps the stack at this place; one that has no names is without frames.
    fn push(&mut self, place: Option<usize>) {
        let all = self.all;
        let path: &[u32] = place.map_or(&[], |place| &all.stacks[place]);
        let path = path.iter().map(|frame| self.frame(*frame)).collect();
        self.kept.stacks.push(path);
    }

    fn frame(&mut self, at: u32) -> u32 {
        if let Some(known) = self.frames.get(&at) {
            return *known;
        }
        let mut frame = self.all.frames[at as usize];
        let next = self.kept.functions.len() as u32;
        let function = *self.functions.entry(frame.function).or_insert(next);
        if function == next {
            let named = &self.all.functions[frame.function as usize];
            self.kept.functions.push(named.clone());
        }
        frame.function = function;
        let new = self.kept.frames.len() as u32;
        self.kept.frames.push(frame);
        self.frames.insert(at, new);
        new
    }
}

fn event_of(series: &Series) -> EventType {
    match series.unit {
        WeightUnit::Nanoseconds => {
            EventType::new("cpu-clock", WeightUnit::Samples).at_rate(rate_of(series))
        }
        unit => EventType::new(&series.event, unit),
    }
}

/// Samples a second.
pub(crate) fn rate_of(series: &Series) -> u32 {
    (SECOND as f64 / series.period as f64).round() as u32
}
