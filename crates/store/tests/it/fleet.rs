//! Made-up services whose every count is known: a window follows from its place alone.

use nodespy_model::{Category, FrameKind, Labels, ThreadRole, Tier, WeightUnit, label_key};
use nodespy_store::{
    Batch, Count, HOST, PID, Series, StackHash, StoredFrame, StoredFunction, Symbols, UnixSeconds,
    WINDOW_SECONDS, Window,
};

/// When it begins: a full hour.
pub(crate) const START: UnixSeconds = 1_794_700_800;

/// Numbers that look random and are the same every time.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Stacks that grow as a tree: a part of an older one, and more.
pub(crate) fn stacks(count: u64, seed: u64) -> Symbols {
    let mut random = Random(seed);
    let functions: Vec<StoredFunction> = (0..200)
        .map(|number| StoredFunction {
            name: format!("handle{number}"),
            file: format!("/srv/app/node_modules/package-{}/index.js", number % 17),
            line: number + 1,
            column: 7,
            category: Category::ALL[number as usize % Category::ALL.len()],
        })
        .collect();
    let frames: Vec<StoredFrame> = (0..400)
        .map(|number| StoredFrame {
            function: number / 2,
            line: number + 3,
            column: number % 80,
            tier: Tier::ALL[number as usize % Tier::ALL.len()],
            kind: FrameKind::ALL[number as usize % FrameKind::ALL.len()],
        })
        .collect();
    let mut stacks: Vec<Vec<u32>> = vec![Vec::new()];
    while (stacks.len() as u64) < count {
        let older = &stacks[random.below(stacks.len() as u64) as usize];
        let keep = random.below(older.len() as u64 + 1) as usize;
        let mut stack = older[..keep].to_vec();
        stack.extend((0..=random.below(12)).map(|_| random.below(400) as u32));
        stacks.push(stack);
    }
    Symbols {
        functions,
        frames,
        stacks,
    }
}

/// A process of a service.
pub(crate) fn series(service: &str, version: &str, pid: u32, period: u64) -> Series {
    let mut labels = Labels::default();
    labels.set(label_key::VERSION, version);
    labels.set(HOST, format!("host-{}", pid % 3));
    labels.set(PID, pid.to_string());
    Series {
        service: service.to_owned(),
        event: "cpu-clock".to_owned(),
        unit: WeightUnit::Nanoseconds,
        period,
        labels,
    }
}

/// A window of a series with up to forty counts, which follow from `place` and `start`.
pub(crate) fn window(
    series: usize,
    place: u64,
    start: UnixSeconds,
    hashes: &[StackHash],
) -> Window {
    let mut random = Random(place.wrapping_mul(1_000_003) ^ start);
    let counts = (0..random.below(40))
        .map(|_| {
            let stack = random.below(hashes.len() as u64);
            let role = ThreadRole::ALL[(stack % 5) as usize];
            Count::new(hashes[stack as usize], role, 1 + random.below(3))
        })
        .collect();
    Window {
        series,
        start,
        counts,
    }
}

/// Processes of two services, each with a window at every ten seconds of a range.
pub(crate) fn batch(symbols: &Symbols, windows: std::ops::Range<u64>) -> Batch {
    let hashes = symbols.hashes();
    let series = vec![
        series("shop", "1.0", 11, 10_000_000),
        series("shop", "1.0", 12, 10_000_000),
        series("shop", "1.1", 13, 10_000_000),
        series("shop", "1.1", 14, 52_631_579),
        series("mail", "7", 15, 10_000_000),
    ];
    let windows = windows
        .flat_map(|number| (0..series.len()).map(move |series| (number, series)))
        .map(|(number, series)| {
            let start = START + number * WINDOW_SECONDS;
            window(series, series as u64, start, &hashes)
        })
        .collect();
    Batch {
        series,
        windows,
        symbols: symbols.clone(),
    }
}
