//! A batch as bytes: how an agent sends windows to a server, and what it keeps on disk until then.
//!
//! One zstd frame that says its size. In it, `nspw` and the number 1, then tables one after the other, each with its length
//! first: series, functions, frames, stacks, hashes of the stacks that are counted, windows. Numbers are LEB128, texts have
//! their length in bytes first. A window counts stacks by their place among the hashes; the names of those that a receiver
//! knows already can be left out ([`Batch::keep_names_of`]).
//!
//! What is read may come from anybody: each table has a limit, and memory is taken for what is there, not for what is claimed.

use nodespy_model::{Category, FastMap, FastSet, Labels, ThreadRole, WeightUnit};

use crate::block::put;
use crate::open_windows::merged;
use crate::symbols::{
    MAX_DEPTH, MAX_TEXT_BYTES, StackHash, StoredFrame, StoredFunction, Symbols, category_number,
};
use crate::window::{Batch, Count, Series, Window};

const MAGIC: &[u8; 4] = b"nspw";
const VERSION: u64 = 1;
/// tools/dist.sh leaves out what higher levels need.
const ZSTD_LEVEL: i32 = 3;
/// How large a batch may be once it is unpacked.
const MAX_UNPACKED: u64 = 16 << 20;
/// How large a batch is made: with that, a server takes it in one request of 8 MiB, however badly it packs.
const MAX_SENT: usize = 8_000_000;
const MAX_SERIES: u64 = 10_000;
const MAX_LABELS: u64 = 64;
const MAX_FUNCTIONS: u64 = 1 << 17;
const MAX_FRAMES: u64 = 1 << 18;
const MAX_STACKS: u64 = 1 << 17;
const MAX_WINDOWS: u64 = 20_000;
/// Of all windows together.
const MAX_COUNTS: usize = 1 << 20;

/// Why bytes are no batch.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WireError {
    /// They are something else.
    #[error("not windows of nodespy")]
    NotWindows,
    /// They are too many.
    #[error("more than {MAX_UNPACKED} bytes unpacked")]
    TooLarge,
    /// They were written by a later nodespy.
    #[error("windows of version {0}, of which only 1 is known: use a newer nodespy here")]
    TooNew(u64),
    /// There are too many of something.
    #[error("more than {most} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        most: u64,
    },
    /// They say something that can't be.
    #[error("byte {at} of the unpacked windows: {what}")]
    Bad {
        /// Where.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
}

impl Batch {
    /// The batch in parts that [`batch_from_bytes`] takes, one after the other: most often it is one. Each window is in one of
    /// them, with its names; a window that is too large alone stays so, since a store takes it whole or not at all.
    pub fn into_parts(self) -> Vec<Self> {
        if self.windows.len() < 2 || fits(&self) {
            return vec![self];
        }
        let halves = self.halves().into_iter();
        halves.flat_map(Self::into_parts).collect()
    }

    /// Its earlier and its later windows, with the names of their stacks. A batch that breaks no rule of its own has each window in
    /// one of them: where a batch is refused for one window, the other half is not.
    pub fn halves(mut self) -> [Self; 2] {
        let later = Self {
            series: self.series.clone(),
            windows: self.windows.split_off(self.windows.len() / 2),
            symbols: self.symbols.clone(),
        };
        // With the series and the names of its own windows alone.
        [self, later].map(|half| merged([half], |_| true))
    }
}

/// Whether a batch is within the limits of what is read.
fn fits(batch: &Batch) -> bool {
    let symbols = &batch.symbols;
    let counts = batch.windows.iter().flat_map(|window| &window.counts);
    let is_within = |rows: usize, most: u64| rows as u64 <= most;
    let are_tables_within = is_within(batch.series.len(), MAX_SERIES)
        && is_within(symbols.functions.len(), MAX_FUNCTIONS)
        && is_within(symbols.frames.len(), MAX_FRAMES)
        && is_within(symbols.stacks.len(), MAX_STACKS)
        && is_within(batch.windows.len(), MAX_WINDOWS)
        && counts.clone().count() <= MAX_COUNTS;
    let counted: FastSet<StackHash> = counts.map(|count| count.stack).collect();
    are_tables_within && is_within(counted.len(), MAX_STACKS) && unpacked(batch).len() <= MAX_SENT
}

/// A batch as bytes.
pub fn batch_to_bytes(batch: &Batch) -> Vec<u8> {
    let bytes = unpacked(batch);
    zstd::bulk::compress(&bytes, ZSTD_LEVEL).expect("zstd packs any bytes that fit into memory")
}

fn unpacked(batch: &Batch) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    put(&mut bytes, VERSION);
    put(&mut bytes, batch.series.len() as u64);
    for series in &batch.series {
        put_series(&mut bytes, series);
    }
    put_symbols(&mut bytes, &batch.symbols);
    let mut places: FastMap<StackHash, u64> = FastMap::default();
    let mut hashes: Vec<StackHash> = Vec::new();
    for count in batch.windows.iter().flat_map(|window| &window.counts) {
        places.entry(count.stack).or_insert_with(|| {
            hashes.push(count.stack);
            hashes.len() as u64 - 1
        });
    }
    put(&mut bytes, hashes.len() as u64);
    hashes.iter().for_each(|hash| bytes.extend(hash.0));
    put(&mut bytes, batch.windows.len() as u64);
    for window in &batch.windows {
        put(&mut bytes, window.series as u64);
        put(&mut bytes, window.start);
        put(&mut bytes, window.counts.len() as u64);
        for count in &window.counts {
            put(&mut bytes, places[&count.stack]);
            put(&mut bytes, u64::from(count.role_number()));
            put(&mut bytes, count.count);
        }
    }
    bytes
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    put(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

fn put_series(bytes: &mut Vec<u8>, series: &Series) {
    put_text(bytes, &series.service);
    put_text(bytes, &series.event);
    put_text(bytes, series.unit.label());
    put(bytes, series.period);
    put(bytes, series.labels.iter().len() as u64);
    for (key, value) in series.labels.iter() {
        put_text(bytes, key);
        put_text(bytes, value);
    }
}

fn put_symbols(bytes: &mut Vec<u8>, symbols: &Symbols) {
    put(bytes, symbols.functions.len() as u64);
    for function in &symbols.functions {
        put_text(bytes, &function.name);
        put_text(bytes, &function.file);
        put(bytes, u64::from(function.line));
        put(bytes, u64::from(function.column));
        bytes.push(category_number(function.category));
    }
    put(bytes, symbols.frames.len() as u64);
    for frame in &symbols.frames {
        put(bytes, u64::from(frame.function));
        put(bytes, u64::from(frame.line));
        put(bytes, u64::from(frame.column));
        bytes.push(frame.flags());
    }
    put(bytes, symbols.stacks.len() as u64);
    for stack in &symbols.stacks {
        put(bytes, stack.len() as u64);
        stack.iter().for_each(|frame| put(bytes, u64::from(*frame)));
    }
}

/// The batch that bytes hold, whoever sent them. What a store would refuse for other reasons is still in it.
pub fn batch_from_bytes(bytes: &[u8]) -> Result<Batch, WireError> {
    let size = zstd::zstd_safe::get_frame_content_size(bytes);
    let size = size.ok().flatten().ok_or(WireError::NotWindows)?;
    if size > MAX_UNPACKED {
        return Err(WireError::TooLarge);
    }
    let bytes = zstd::bulk::decompress(bytes, size as usize).map_err(|_| WireError::NotWindows)?;
    let mut reader = Reader { all: &bytes, at: 0 };
    if reader.bytes(MAGIC.len() as u64) != Ok(MAGIC) {
        return Err(WireError::NotWindows);
    }
    match reader.number()? {
        VERSION => {}
        version => return Err(WireError::TooNew(version)),
    }
    let series = reader.table("series", MAX_SERIES, Reader::series)?;
    let symbols = Symbols {
        functions: reader.table("functions", MAX_FUNCTIONS, Reader::function)?,
        frames: reader.table("frames", MAX_FRAMES, Reader::frame)?,
        stacks: reader.table("stacks", MAX_STACKS, Reader::stack)?,
    };
    let hashes = reader.table("stacks", MAX_STACKS, Reader::hash)?;
    let mut left = MAX_COUNTS;
    let windows = reader.table("windows", MAX_WINDOWS, |reader| {
        reader.window(&hashes, &mut left)
    })?;
    match reader.at == bytes.len() {
        true => Ok(Batch {
            series,
            windows,
            symbols,
        }),
        false => Err(reader.bad("something follows the windows")),
    }
}

/// Hashes as bytes: what a server answers when it misses names.
pub fn hashes_to_bytes(hashes: &[StackHash]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| hash.0).collect()
}

/// The hashes that bytes hold.
pub fn hashes_from_bytes(bytes: &[u8]) -> Result<Vec<StackHash>, WireError> {
    let (hashes, rest) = bytes.as_chunks::<16>();
    match rest.is_empty() {
        true => Ok(hashes.iter().map(|hash| StackHash(*hash)).collect()),
        false => Err(WireError::NotWindows),
    }
}

struct Reader<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn bad(&self, what: &'static str) -> WireError {
        WireError::Bad { at: self.at, what }
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8], WireError> {
        let rest = &self.all[self.at..];
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let bytes = rest.get(..length).ok_or(self.bad("it ends too early"))?;
        self.at += length;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<u64, WireError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.bytes(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.bad("a number is too long"))
    }

    fn small(&mut self) -> Result<u32, WireError> {
        u32::try_from(self.number()?).map_err(|_| self.bad("a number is too large"))
    }

    fn table<T>(
        &mut self,
        what: &'static str,
        most: u64,
        mut row: impl FnMut(&mut Self) -> Result<T, WireError>,
    ) -> Result<Vec<T>, WireError> {
        let length = self.number()?;
        if length > most {
            return Err(WireError::TooMany { what, most });
        }
        // Grows with what is there: a row has a byte at least.
        let mut rows = Vec::new();
        for _ in 0..length {
            rows.push(row(self)?);
        }
        Ok(rows)
    }

    fn text(&mut self) -> Result<String, WireError> {
        let length = self.number()?;
        if length > MAX_TEXT_BYTES as u64 {
            return Err(self.bad("a text has more than 8,192 bytes"));
        }
        let text = str::from_utf8(self.bytes(length)?);
        let text = text.map_err(|_| self.bad("a text is not UTF-8"))?;
        match text.chars().any(char::is_control) {
            true => Err(self.bad("a text has control characters")),
            false => Ok(text.to_owned()),
        }
    }

    fn series(&mut self) -> Result<Series, WireError> {
        let (service, event, unit) = (self.text()?, self.text()?, self.text()?);
        let unit = WeightUnit::ALL.iter().find(|known| known.label() == unit);
        let unit = *unit.ok_or(self.bad("a unit that is not known"))?;
        let period = self.number()?;
        let mut labels = Labels::default();
        for (key, value) in self.table("labels", MAX_LABELS, |it| Ok((it.text()?, it.text()?)))? {
            if key.len() > 128 {
                return Err(self.bad("a label has more than 128 bytes"));
            }
            labels.set(&key, value);
        }
        Ok(Series {
            service,
            event,
            unit,
            period,
            labels,
        })
    }

    fn function(&mut self) -> Result<StoredFunction, WireError> {
        Ok(StoredFunction {
            name: self.text()?,
            file: self.text()?,
            line: self.small()?,
            column: self.small()?,
            category: {
                let number = self.bytes(1)?[0];
                let category = Category::ALL.get(usize::from(number));
                *category.ok_or(self.bad("a category that is not known"))?
            },
        })
    }

    fn frame(&mut self) -> Result<StoredFrame, WireError> {
        let (function, line, column) = (self.small()?, self.small()?, self.small()?);
        let flags = StoredFrame::from_flags(self.bytes(1)?[0]);
        let (tier, kind) = flags.ok_or(self.bad("a tier or a kind of frame that is not known"))?;
        Ok(StoredFrame {
            function,
            line,
            column,
            tier,
            kind,
        })
    }

    fn stack(&mut self) -> Result<Vec<u32>, WireError> {
        self.table("frames of a stack", MAX_DEPTH as u64, Self::small)
    }

    fn hash(&mut self) -> Result<StackHash, WireError> {
        let bytes = self.bytes(16)?;
        Ok(StackHash(bytes.try_into().expect("there are 16")))
    }

    fn window(&mut self, hashes: &[StackHash], left: &mut usize) -> Result<Window, WireError> {
        let series = self.number()?;
        let start = self.number()?;
        let counts = self.table("counts of all windows", *left as u64, |it| it.count(hashes))?;
        *left -= counts.len();
        Ok(Window {
            series: usize::try_from(series).unwrap_or(usize::MAX),
            start,
            counts,
        })
    }

    fn count(&mut self, hashes: &[StackHash]) -> Result<Count, WireError> {
        let place = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        let stack = *hashes
            .get(place)
            .ok_or(self.bad("a count of a stack that is not there"))?;
        let role = usize::try_from(self.number()?).unwrap_or(usize::MAX);
        let role = *ThreadRole::ALL
            .get(role)
            .ok_or(self.bad("a role of threads that is not known"))?;
        Ok(Count::new(stack, role, self.number()?))
    }
}

#[cfg(test)]
mod tests {
    use nodespy_model::{FrameKind, SmallSort, Tier};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn batch() -> Batch {
        let function = |name: &str, category| StoredFunction {
            name: name.to_owned(),
            file: "/app/shop.js".to_owned(),
            line: 3,
            column: 1,
            category,
        };
        let frame = |function, line| StoredFrame {
            function,
            line,
            column: 9,
            tier: Tier::ALL[2],
            kind: FrameKind::ALL[1],
        };
        let symbols = Symbols {
            functions: vec![
                function("main", Category::App),
                function("größe", Category::Kernel),
            ],
            frames: vec![frame(0, 70_000), frame(1, 0)],
            stacks: vec![vec![0], vec![0, 1], vec![]],
        };
        let hashes = symbols.hashes();
        let mut labels = Labels::default();
        labels.set("version", "1.0.0");
        labels.set("host", "web-1");
        let window = |start| Window {
            series: 0,
            start,
            counts: vec![
                Count::new(hashes[0], ThreadRole::Main, 1),
                Count::new(hashes[1], ThreadRole::Worker, 1_000),
                Count::new(hashes[2], ThreadRole::Other, 7),
            ],
        };
        Batch {
            series: vec![Series {
                service: "shop".to_owned(),
                event: "cpu".to_owned(),
                unit: WeightUnit::Nanoseconds,
                period: 52_631_578,
                labels,
            }],
            windows: vec![window(1_700_000_000), window(1_700_000_010)],
            symbols,
        }
    }

    #[test]
    fn a_batch_is_read_as_it_was_written() {
        let batch = batch();
        assert_eq!(batch_from_bytes(&batch_to_bytes(&batch)).unwrap(), batch);
        let empty = Batch::default();
        assert_eq!(batch_from_bytes(&batch_to_bytes(&empty)).unwrap(), empty);
    }

    #[test]
    fn names_that_are_known_are_left_out() {
        let mut few = batch();
        let hashes = few.symbols.hashes();
        few.keep_names_of(&hashes[..1]);
        assert_eq!(few.symbols.hashes(), &hashes[..1]);
        assert_eq!(
            (few.symbols.functions.len(), few.symbols.frames.len()),
            (1, 1)
        );
        let read = batch_from_bytes(&batch_to_bytes(&few)).unwrap();
        assert_eq!(read.windows, batch().windows);
        assert_eq!(
            hashes_from_bytes(&hashes_to_bytes(&hashes)).unwrap(),
            hashes
        );
        assert!(hashes_from_bytes(&[0; 17]).is_err());
    }

    #[test]
    fn what_is_cut_off_or_too_new_is_refused_with_its_place() {
        let packed = batch_to_bytes(&batch());
        let bytes = zstd::bulk::decompress(&packed, 1 << 20).unwrap();
        for end in 0..bytes.len() {
            let cut = zstd::bulk::compress(&bytes[..end], 1).unwrap();
            assert!(batch_from_bytes(&cut).is_err(), "{end}");
        }
        let mut newer = bytes.clone();
        newer[4] = 2;
        let newer = zstd::bulk::compress(&newer, 1).unwrap();
        assert_eq!(batch_from_bytes(&newer), Err(WireError::TooNew(2)));
        assert_eq!(batch_from_bytes(b"tea"), Err(WireError::NotWindows));
        let mut longer = bytes;
        longer.push(0);
        let longer = zstd::bulk::compress(&longer, 1).unwrap();
        assert!(matches!(
            batch_from_bytes(&longer),
            Err(WireError::Bad { .. })
        ));
    }

    /// So many stacks, each a line of one function, in windows of two series with as many of them each.
    fn many_stacks(stacks: u32, in_a_window: usize) -> Batch {
        let small = batch();
        let frame = |line| StoredFrame {
            line,
            ..small.symbols.frames[0]
        };
        let symbols = Symbols {
            functions: vec![small.symbols.functions[0].clone()],
            frames: (1..=stacks).map(frame).collect(),
            stacks: (0..stacks).map(|frame| vec![frame]).collect(),
        };
        let hashes = symbols.hashes();
        let window = |(number, hashes): (usize, &[StackHash])| Window {
            series: number % 2,
            start: 1_700_000_000 + number as u64 / 2 * 10,
            counts: hashes
                .iter()
                .map(|hash| Count::new(*hash, ThreadRole::Main, 1))
                .collect(),
        };
        let other = Series {
            service: "mail".to_owned(),
            ..small.series[0].clone()
        };
        Batch {
            series: vec![small.series[0].clone(), other],
            windows: hashes.chunks(in_a_window).enumerate().map(window).collect(),
            symbols,
        }
    }

    /// What each window is, wherever its series is in the batch.
    fn windows_of(batch: &Batch) -> Vec<(u64, &str, FastSet<Count>)> {
        let windows = batch.windows.iter();
        windows
            .map(|it| {
                let counts = it.counts.iter().copied().collect();
                (it.start, &*batch.series[it.series].service, counts)
            })
            .collect()
    }

    /// Checks that the parts are read, and are all of a batch in its order.
    #[track_caller]
    fn expect_parts(batch: &Batch, parts: &[Batch]) {
        for part in parts {
            let packed = batch_to_bytes(part);
            assert!(packed.len() <= 8 << 20, "{} bytes packed", packed.len());
            assert_eq!(batch_from_bytes(&packed).as_ref(), Ok(part));
            let named: FastSet<StackHash> = part.symbols.hashes().into_iter().collect();
            let counted = part.windows.iter().flat_map(|window| &window.counts);
            let counted: FastSet<StackHash> = counted.map(|count| count.stack).collect();
            assert!(counted == named, "it names what it counts");
        }
        let all = parts.iter().flat_map(windows_of);
        assert!(
            all.clone().is_sorted_by_key(|(start, ..)| start),
            "in their order"
        );
        let by_series = |windows: &mut Vec<(u64, &str, FastSet<Count>)>| {
            windows.small_sort_by_key(|(start, service, _)| (*start, *service));
        };
        let (mut sent, mut expected) = (all.collect(), windows_of(batch));
        by_series(&mut sent);
        by_series(&mut expected);
        assert!(sent == expected, "each window once");
    }

    #[test]
    fn a_batch_with_one_stack_too_many_is_sent_in_parts() {
        let largest = many_stacks(MAX_STACKS as u32, 1 << 15);
        assert_eq!(largest.clone().into_parts(), [largest]);
        let larger = many_stacks(MAX_STACKS as u32 + 1, 1 << 15);
        let refused = batch_from_bytes(&batch_to_bytes(&larger));
        assert!(matches!(refused, Err(WireError::TooMany { .. })));
        let parts = larger.clone().into_parts();
        assert_eq!(parts.len(), 2);
        expect_parts(&larger, &parts);
    }

    #[test]
    fn a_batch_with_too_many_bytes_is_sent_in_parts() {
        let mut large = many_stacks(2_200, 100);
        let function = large.symbols.functions[0].clone();
        let name = |number: usize| format!("{number:0>MAX_TEXT_BYTES$}");
        let functions = (0..2_200).map(|number| StoredFunction {
            name: name(number),
            ..function.clone()
        });
        large.symbols.functions = functions.collect();
        for (frame, function) in large.symbols.frames.iter_mut().zip(0..) {
            frame.function = function;
        }
        let hashes = large.symbols.hashes();
        let counts = large.windows.iter_mut().flat_map(|it| &mut it.counts);
        for (count, hash) in counts.zip(hashes) {
            *count = Count::new(hash, ThreadRole::Main, 1);
        }
        let refused = batch_from_bytes(&batch_to_bytes(&large));
        assert_eq!(refused, Err(WireError::TooLarge));
        let parts = large.clone().into_parts();
        assert!((3..=4).contains(&parts.len()), "{} parts", parts.len());
        expect_parts(&large, &parts);
    }

    #[test]
    fn a_batch_that_claims_to_be_huge_is_not_given_the_memory() {
        let zeros = zstd::bulk::compress(&vec![0; 17 << 20], 1).unwrap();
        assert_eq!(batch_from_bytes(&zeros), Err(WireError::TooLarge));
        let mut many = MAGIC.to_vec();
        put(&mut many, VERSION);
        put(&mut many, u64::MAX);
        let many = zstd::bulk::compress(&many, 1).unwrap();
        let refused = batch_from_bytes(&many).unwrap_err();
        assert_eq!(refused.to_string(), "more than 10000 series");
    }

    proptest! {
        #[test]
        fn bytes_that_mean_nothing_are_refused_or_read(
            at in 0_usize..200, byte in any::<u8>(), bytes in vec(any::<u8>(), 0..300),
        ) {
            let _ = batch_from_bytes(&bytes);
            let mut inner = MAGIC.to_vec();
            inner.push(1);
            inner.extend(&bytes);
            let _ = batch_from_bytes(&zstd::bulk::compress(&inner, 1).unwrap());
            let mut almost = zstd::bulk::decompress(&batch_to_bytes(&batch()), 1 << 20).unwrap();
            let at = at % almost.len();
            almost[at] = byte;
            let _ = batch_from_bytes(&zstd::bulk::compress(&almost, 1).unwrap());
        }
    }
}
