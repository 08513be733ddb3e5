//! What a file says of the addresses that were seen, each at its time.

use nodespy_model::{FastMap, FastSet, NameSource, Nanoseconds};

use super::name::JitName;
use super::texts::{Description, Texts};

/// How many addresses the entries of a file may name: this many for every file, and some for each
/// address that was seen and each entry that covers one. Code covers a handful of the addresses
/// seen, and an address belongs to a few dozen functions in days; a file where each entry covers
/// everything would cost the product of both.
const ADDRESSES_PER_FILE: u64 = 1 << 20;
const ENTRIES_PER_ADDRESS: u64 = 32;
const ADDRESSES_PER_ENTRY: u64 = 64;

/// The name of an entry that was not read: its code is there, and has no name.
const UNREAD: u32 = u32::MAX;

/// What a source knows of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JitEntry {
    /// From when on it holds.
    pub(crate) since: Nanoseconds,
    /// Position in [`JitNames::names`], or [`UNREAD`].
    pub(crate) name: u32,
    /// The line being run, where the source has lines; else 0.
    pub(crate) line: u32,
}

/// The names of the JIT code of one process, for the addresses that were seen.
#[derive(Debug)]
pub(crate) struct JitNames {
    pub(crate) source: NameSource,
    pub(crate) names: Vec<JitName>,
    /// What was at each address, in order of time.
    pub(crate) entries: FastMap<u64, Vec<JitEntry>>,
    /// Addresses where an entry took the place of another function's at an unknown time.
    pub(super) undated: FastSet<u64>,
    /// Addresses where different functions were at different times.
    reused: FastSet<u64>,
    /// How many more addresses entries may name.
    budget: u64,
    /// Entries that were not used because of that.
    over_budget: u64,
    /// What should be known of the file.
    pub(crate) remarks: Vec<String>,
}

impl JitNames {
    /// Names for the `wanted` addresses.
    pub(super) fn new(source: NameSource, wanted: &[u64]) -> Self {
        Self {
            source,
            names: Vec::new(),
            entries: FastMap::default(),
            undated: FastSet::default(),
            reused: FastSet::default(),
            budget: ADDRESSES_PER_FILE + ENTRIES_PER_ADDRESS * wanted.len() as u64,
            over_budget: 0,
            remarks: Vec::new(),
        }
    }

    /// What was at `address` at `time`: the last entry written until then, else the first
    /// written later (the file may lag behind the code).
    pub(crate) fn entry_at(&self, address: u64, time: Nanoseconds) -> Option<&JitEntry> {
        let entries = self.entries.get(&address)?;
        let after = entries.partition_point(|entry| entry.since <= time);
        let entry = &entries[after.saturating_sub(1)];
        (entry.name != UNREAD).then_some(entry)
    }

    /// Whether any code that was at `address` has a name.
    pub(crate) fn names_some_code_at(&self, address: u64) -> bool {
        let entries = self.entries.get(&address);
        entries.is_some_and(|entries| entries.iter().any(|entry| entry.name != UNREAD))
    }

    /// Name and line at `address` at `time`.
    #[cfg(test)]
    pub(super) fn at(&self, address: u64, time: Nanoseconds) -> Option<(&JitName, u32)> {
        let entry = self.entry_at(address, time)?;
        Some((&self.names[entry.name as usize], entry.line))
    }

    /// Whether different functions were at `address` at different times.
    pub(crate) fn is_reused(&self, address: u64) -> bool {
        self.reused.contains(&address)
    }

    /// Whether the file has several functions at `address` and no times: the name is that of the
    /// last, which is only likely.
    pub(crate) fn is_undated(&self, address: u64) -> bool {
        self.undated.contains(&address)
    }

    /// Ends the reading of `file`: everything is added, but for so many names and lines.
    pub(super) fn settle(&mut self, file: &str, without_text: u64) {
        for (address, entries) in &self.entries {
            let name_of = |entry: &JitEntry| self.names.get(entry.name as usize);
            let first = &entries[0];
            let is_other =
                |entry: &JitEntry| entry.name != first.name && name_of(entry) != name_of(first);
            if entries.iter().skip(1).any(is_other) {
                self.reused.insert(*address);
            }
        }
        if self.over_budget > 0 {
            self.remarks.push(format!(
                "{} entries of {file} are not used: its entries cover one another too often",
                self.over_budget
            ));
        }
        if without_text > 0 {
            self.remarks.push(format!(
                "{without_text} entries of {file} were read without a name or without lines: what it says of the sampled \
                 addresses is more than nodespy reads"
            ));
        }
    }

    /// Adds an entry for every wanted address in the code from `start` to `end`. Name and lines are
    /// read only where there is one.
    pub(super) fn add(
        &mut self,
        wanted: &[u64],
        (start, end): (u64, u64),
        since: Nanoseconds,
        description: &Description<'_>,
        texts: &mut Texts<'_>,
    ) {
        let first = wanted.partition_point(|&address| address < start);
        let wanted = &wanted[first..];
        let wanted = &wanted[..wanted.partition_point(|&address| address < end)];
        if wanted.is_empty() {
            return;
        }
        self.budget += ADDRESSES_PER_ENTRY;
        let Some(left) = self.budget.checked_sub(wanted.len() as u64) else {
            self.over_budget += 1;
            return;
        };
        let names = &mut self.names;
        let name = texts.name(description, |text| {
            names.push(JitName::parse(text));
            names.len() as u32 - 1
        });
        self.budget = left;
        let Some(name) = name else {
            // What was there before is not there any more.
            let (name, line) = (UNREAD, 0);
            for &address in wanted {
                self.add_entry(address, JitEntry { since, name, line });
            }
            return;
        };
        let lines = texts.lines(description.lines);
        for &address in wanted {
            let after = lines.partition_point(|(at, _)| *at <= address);
            let line = after.checked_sub(1).map_or(0, |at| lines[at].1);
            self.add_entry(address, JitEntry { since, name, line });
        }
    }

    fn add_entry(&mut self, address: u64, entry: JitEntry) {
        let entries = self.entries.entry(address).or_default();
        match entries.last_mut() {
            // Written later, so it took the place of what was there.
            Some(last) if last.since == entry.since => {
                let names = [last.name, entry.name].map(|at| self.names.get(at as usize));
                let is_same = match names {
                    [Some(before), Some(after)] => before.is_same_function(after),
                    _ => false,
                };
                if last.name != entry.name && !is_same {
                    self.undated.insert(address);
                }
                *last = entry;
            }
            _ => entries.push(entry),
        }
    }
}
