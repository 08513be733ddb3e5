//! The callers in a tick, of which most are as they were in the tick before.
//!
//! A tick lists them innermost first, so what two ticks share is at the end of both lines: it is
//! compared as text and never read again.

use super::fields::leading_number;
use super::isolate::PlaceKind;

/// No stack of V8's sampler is deeper than 256; what is deeper is damaged.
const DEEPEST_STACK: usize = 4096;

/// One caller of the tick that was read last.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Caller {
    pub(super) address: u64,
    /// How long the text is from this caller to the end of the line.
    text_bytes: usize,
    /// Whether the text says the address without the one before it.
    is_absolute: bool,
    /// How many frames there are up to and with this caller's.
    pub(super) frames: usize,
    /// How many callers there are up to here, by what they are.
    pub(super) count: PlaceCount,
}

/// How many places of a stack are in V8's code.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PlaceCount {
    /// In code of the log.
    pub(super) named: u64,
    /// In code that is not in the log.
    pub(super) unknown: u64,
}

impl PlaceCount {
    pub(super) fn add(&mut self, kind: PlaceKind) {
        match kind {
            PlaceKind::Code => self.named += 1,
            PlaceKind::Unknown => self.unknown += 1,
            PlaceKind::Library => {}
        }
    }
}

/// The callers of the tick that was read last.
#[derive(Debug, Default)]
pub(super) struct Callers<'a> {
    text: &'a [u8],
    /// Those that are looked up, outermost first.
    pub(super) list: Vec<Caller>,
    /// Those that stand on them and are not looked up yet, outermost first.
    pub(super) new: Vec<Caller>,
}

impl<'a> Callers<'a> {
    /// Forgets the tick.
    pub(super) fn clear(&mut self) {
        self.text = &[];
        self.list.clear();
        self.new.clear();
    }

    /// Adds the next of the new ones to the list: it ends `frames` frames from the root.
    pub(super) fn push(&mut self, at: usize, frames: usize, count: PlaceCount) {
        self.list.push(Caller {
            frames,
            count,
            ..self.new[at]
        });
    }

    /// Goes to the next tick: what is the same in it stays in the list. None if the text makes no
    /// sense.
    pub(super) fn read(&mut self, text: &'a [u8], pc: u64) -> Option<()> {
        let mut same = self.same_text(text);
        let mut is_read = self.read_new(text, same, pc);
        let is_too_deep = same + self.new.len() > DEEPEST_STACK;
        if is_read.is_some() && is_too_deep {
            // The outermost are left out, which are those that were the same.
            same = 0;
            is_read = self.read_new(text, same, pc);
            self.new.truncate(DEEPEST_STACK);
        }
        if is_read.is_none() {
            self.clear();
            return None;
        }
        self.new.reverse();
        let pairs = self.list[same..].iter_mut().zip(&self.new);
        let more = pairs
            .take_while(|(known, new)| known.address == new.address)
            .map(|(known, new)| {
                known.text_bytes = new.text_bytes;
                known.is_absolute = new.is_absolute;
            })
            .count();
        self.new.drain(..more);
        self.list.truncate(same + more);
        self.text = if is_too_deep { &[] } else { text };
        Some(())
    }

    /// How many callers of the list have the same text at the end of `text`.
    fn same_text(&self, text: &[u8]) -> usize {
        let common = common_end(self.text, text);
        let is_same = |caller: &Caller| {
            caller.text_bytes <= common
                && matches!(text[..text.len() - caller.text_bytes], [] | [.., b','])
        };
        let same = self.list.partition_point(is_same);
        // Where the innermost of them is depends on the one before it if it is not absolute.
        let is_absolute = |caller: &Caller| caller.is_absolute;
        self.list[..same]
            .iter()
            .rposition(is_absolute)
            .map_or(0, |innermost| innermost + 1)
    }

    /// Reads all callers of `text` but the outermost, which are the `same`; innermost first.
    fn read_new(&mut self, text: &[u8], same: usize, pc: u64) -> Option<()> {
        self.new.clear();
        let shared = same.checked_sub(1).map_or(0, |at| self.list[at].text_bytes);
        let mut rest = Some(text).filter(|text| !text.is_empty());
        let mut previous = pc;
        while let Some(text) = rest
            && (shared == 0 || text.len() > shared)
        {
            let (number, after) = match text {
                // `overflow`
                [b'o', ..] => {
                    rest = after_comma(text);
                    continue;
                }
                [b'+' | b'-', distance @ ..] => leading_number(distance)?,
                absolute => leading_number(absolute)?,
            };
            rest = after;
            previous = match text[0] {
                b'+' => previous.wrapping_add(number),
                b'-' => previous.wrapping_sub(number),
                _ => number,
            };
            self.new.push(Caller {
                address: previous,
                text_bytes: text.len(),
                is_absolute: text[0].is_ascii_digit(),
                ..Caller::default()
            });
        }
        Some(())
    }
}

/// The rest of a list after its first comma.
fn after_comma(list: &[u8]) -> Option<&[u8]> {
    let comma = list.iter().position(|byte| *byte == b',')?;
    Some(&list[comma + 1..])
}

/// How many bytes at the end of both are the same.
fn common_end(left: &[u8], right: &[u8]) -> usize {
    const CHUNK: usize = 32;
    let chunks = left.rchunks_exact(CHUNK).zip(right.rchunks_exact(CHUNK));
    let whole = CHUNK * chunks.take_while(|(left, right)| left == right).count();
    let left = left[..left.len() - whole].iter().rev();
    let right = right[..right.len() - whole].iter().rev();
    whole
        + left
            .zip(right)
            .take_while(|(left, right)| left == right)
            .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads ticks one after the other: of each, how many callers are known and all addresses.
    fn read(texts: &[&'static str]) -> Vec<Option<(usize, Vec<u64>)>> {
        let mut callers = Callers::default();
        let mut read = |text: &'static str| {
            callers.read(text.as_bytes(), 0x100)?;
            let known = callers.list.len();
            let new = std::mem::take(&mut callers.new);
            callers.list.extend(new);
            let addresses = callers.list.iter().rev().map(|caller| caller.address);
            Some((known, addresses.collect()))
        };
        texts.iter().map(|text| read(text)).collect()
    }

    #[test]
    fn what_two_ticks_share_is_at_the_end_of_both() {
        assert_eq!(
            read(&[
                "0x1,0x2,0x33",
                "0x2,0x33",
                "0x9,0x12,0x33",
                "",
                "0x33",
                "0x333"
            ]),
            [
                Some((0, vec![1, 2, 0x33])),
                Some((2, vec![2, 0x33])),
                Some((1, vec![9, 0x12, 0x33])),
                Some((0, vec![])),
                Some((0, vec![0x33])),
                Some((0, vec![0x333])),
            ]
        );
    }

    #[test]
    fn distances_are_from_the_caller_before() {
        assert_eq!(
            read(&[
                "+0x1,-0x2,0x7,+0x1",
                "overflow,0x200,-0x2,0x7,+0x1",
                "+0x2,-0x3"
            ]),
            [
                Some((0, vec![0x101, 0xff, 7, 8])),
                Some((2, vec![0x200, 0x1fe, 7, 8])),
                Some((0, vec![0x102, 0xff])),
            ]
        );
    }

    #[test]
    fn damaged_callers_are_refused_and_the_next_tick_is_read_anew() {
        assert_eq!(
            read(&["0x1,0x2", "zz,0x2", "0x2", "0x1,", "0x1,,0x2", "0x2"]),
            [
                Some((0, vec![1, 2])),
                None,
                Some((0, vec![2])),
                None,
                None,
                Some((0, vec![2])),
            ]
        );
    }

    #[test]
    fn of_endless_stacks_the_innermost_callers_are_kept() {
        let deep: String = (1..6000u64).map(|at| format!("{at:#x},")).collect();
        let deep: &'static str = deep.trim_end_matches(',').to_owned().leak();
        let deeper: &'static str = format!("0x9999,{deep}").leak();
        for read in read(&[deep, deeper, deep]) {
            let (_, addresses) = read.unwrap();
            assert_eq!(addresses.len(), DEEPEST_STACK);
            assert!(matches!(addresses[0], 1 | 0x9999));
        }
    }
}
