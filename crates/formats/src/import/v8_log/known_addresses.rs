//! What the addresses of callers stand for, remembered until the code there changes.
//!
//! A log has a hundred times as many callers as places they call from, and code comes and goes
//! between most ticks, nearly always where no tick has been.

use std::collections::BTreeSet;

use nodespy_model::FastMap;

use super::frames::FrameList;
use super::isolate::Place;

/// Every address that was looked up and still means the same.
#[derive(Debug, Default)]
pub(super) struct KnownAddresses {
    at: FastMap<u64, FrameList>,
    /// The addresses in each code.
    of_code: FastMap<u32, Vec<u64>>,
    /// Addresses that are not in the range of a code: other code could come there.
    outside: BTreeSet<u64>,
    /// How often something was forgotten.
    pub(super) forgotten: u64,
}

impl KnownAddresses {
    pub(super) fn get(&self, address: u64) -> Option<FrameList> {
        self.at.get(&address).copied()
    }

    /// Remembers the frames of an address, which is outside the ranges of code or not.
    pub(super) fn insert(
        &mut self,
        address: u64,
        place: Place,
        frames: FrameList,
        is_outside: bool,
    ) {
        self.at.insert(address, frames);
        if let Place::Code(code, _) = place {
            self.of_code.entry(code).or_default().push(address);
        }
        if is_outside {
            self.outside.insert(address);
        }
    }

    /// A code is no longer where it was, or no longer what it was.
    pub(super) fn forget_code(&mut self, code: u32) {
        for address in self.of_code.remove(&code).into_iter().flatten() {
            self.forget(address);
        }
    }

    /// Code came to a range.
    pub(super) fn forget_outside(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        while let Some(&address) = self.outside.range(start..end).next() {
            self.forget(address);
        }
    }

    pub(super) fn forget_all(&mut self) {
        self.at.clear();
        self.of_code.clear();
        self.outside.clear();
        self.forgotten += 1;
    }

    fn forget(&mut self, address: u64) {
        self.at.remove(&address);
        self.outside.remove(&address);
        self.forgotten += 1;
    }
}
