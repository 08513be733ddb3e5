//! What the tables of all processes may hold together.
//!
//! A process chooses how many functions it has, how long their names are and what its scripts say, and there may be hundreds of
//! such processes beside an agent. So they share one pool of each kind. None takes more than half of what it has and nobody else
//! does, and where one was refused something, those with more than an equal share start afresh when the slice ends.

use std::cell::Cell;
use std::rc::Rc;

/// Ends of lines, four bytes each: those of a thousand large services.
const LINE_ENDS: usize = 32 << 20;
/// Bytes of addresses of source maps: a map may be in one.
const MAP_URL_BYTES: usize = 512 << 20;
/// Bytes of names and urls of functions.
const TEXT_BYTES: usize = 256 << 20;
/// Functions, with some 100 bytes each beside their names.
const FUNCTIONS: usize = 4 << 20;

/// The pools of all processes; clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Pools {
    pub(super) line_ends: Pool,
    pub(super) map_urls: Pool,
    pub(super) texts: Pool,
    pub(super) functions: Pool,
}

impl Default for Pools {
    fn default() -> Self {
        Self {
            line_ends: Pool::of(LINE_ENDS),
            map_urls: Pool::of(MAP_URL_BYTES),
            texts: Pool::of(TEXT_BYTES),
            functions: Pool::of(FUNCTIONS),
        }
    }
}

impl Pools {
    /// To be called when those with more than their share have given it back.
    pub(crate) fn end_slice(&self) {
        let pools = self.all();
        pools.iter().for_each(|pool| pool.0.is_short.set(false));
    }

    /// With room for half of so many functions in the first process.
    #[cfg(test)]
    pub(crate) fn of_functions(limit: usize) -> Self {
        Self {
            functions: Pool::of(limit),
            ..Self::default()
        }
    }

    fn all(&self) -> [&Pool; 4] {
        [
            &self.line_ends,
            &self.map_urls,
            &self.texts,
            &self.functions,
        ]
    }
}

/// What was left out in a slice because the pools had no room for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Functions without a name, at most [`MAX_COUNTED`] of each process.
    pub(crate) functions: usize,
    /// Scripts whose functions have no lines.
    pub(crate) lines: usize,
    /// Scripts whose source maps are not looked for.
    pub(crate) maps: usize,
}

/// No more functions of a process are counted: their addresses are kept meanwhile.
pub(super) const MAX_COUNTED: usize = 10_000;

impl LeftOut {
    /// The same with what was left out of another process.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            functions: self.functions + other.functions,
            lines: self.lines + other.lines,
            maps: self.maps + other.maps,
        }
    }

    /// What is to be said of it.
    pub(crate) fn remarks(self, pools: &Pools) -> Vec<String> {
        let [line_ends, map_urls, texts, functions] = pools.all().map(|pool| pool.0.limit);
        let of_functions =
            format!("{functions} functions, and {texts} bytes of their names and files");
        let all = [
            (self.functions, ("function", "name"), of_functions),
            (
                self.lines,
                ("script", "line number"),
                format!("{line_ends} lines"),
            ),
            (
                self.maps,
                ("script", "source map"),
                format!("{map_urls} bytes of addresses of source maps"),
            ),
        ];
        let said = all.into_iter().filter(|(count, ..)| *count > 0);
        said.map(|(count, (what, lost), limit)| {
            let (least, plural) = match count {
                1 => ("", ""),
                MAX_COUNTED.. => ("at least ", "s"),
                _ => ("", "s"),
            };
            let have = if count == 1 { "has" } else { "have" };
            format!(
                "{least}{count} {what}{plural} {have} no {lost}{plural}: all processes together may have {limit}"
            )
        })
        .collect()
    }
}

/// Something that all processes have of together.
#[derive(Debug, Clone)]
pub(super) struct Pool(Rc<Counts>);

#[derive(Debug)]
struct Counts {
    limit: usize,
    left: Cell<usize>,
    shares: Cell<usize>,
    /// Whether somebody was refused something in this slice.
    is_short: Cell<bool>,
}

impl Pool {
    pub(super) fn of(limit: usize) -> Self {
        Self(Rc::new(Counts {
            limit,
            left: Cell::new(limit),
            shares: Cell::new(0),
            is_short: Cell::new(false),
        }))
    }

    /// The share of one more process, with nothing in it.
    pub(super) fn share(&self) -> Share {
        self.0.shares.set(self.0.shares.get() + 1);
        Share {
            pool: self.clone(),
            held: 0,
        }
    }

    /// How much all processes hold.
    #[cfg(test)]
    pub(crate) fn held(&self) -> usize {
        self.0.limit - self.0.left.get()
    }
}

/// What one process holds; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    pool: Pool,
    held: usize,
}

impl Share {
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// How much more may be taken.
    pub(super) fn room(&self) -> usize {
        let left = self.pool.0.left.get();
        let room = (left.saturating_add(self.held) / 2).saturating_sub(self.held);
        if room == 0 {
            self.pool.0.is_short.set(true);
        }
        room
    }

    /// Takes so much if there is room.
    pub(super) fn draw(&mut self, count: usize) -> bool {
        let has_room = count <= self.room();
        match has_room {
            true => self.take(count),
            false => self.pool.0.is_short.set(true),
        }
        has_room
    }

    /// Takes so much, or what is left: for what is small, where room was asked for before.
    pub(super) fn take(&mut self, count: usize) {
        let left = &self.pool.0.left;
        let taken = count.min(left.get());
        left.set(left.get() - taken);
        self.held += taken;
    }

    pub(super) fn give_back(&mut self, count: usize) {
        let given = count.min(self.held);
        self.held -= given;
        let left = &self.pool.0.left;
        left.set(left.get() + given);
    }

    /// Whether others need what this one has beyond an equal share.
    pub(super) fn is_too_much(&self) -> bool {
        let Counts {
            limit,
            shares,
            is_short,
            ..
        } = &*self.pool.0;
        is_short.get() && self.held > limit / shares.get().max(1)
    }

    /// Another share of the same pool, with nothing in it.
    pub(super) fn sibling(&self) -> Self {
        self.pool.share()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back(self.held);
        self.pool.0.shares.set(self.pool.0.shares.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_out_is_said_with_the_number() {
        let pools = Pools::default();
        assert!(LeftOut::default().remarks(&pools).is_empty());
        let left_out = LeftOut {
            functions: 10_000,
            lines: 2,
            maps: 1,
        };
        assert_eq!(
            left_out.remarks(&pools),
            [
                "at least 10000 functions have no names: all processes together may have 4194304 functions, and 268435456 \
                 bytes of their names and files",
                "2 scripts have no line numbers: all processes together may have 33554432 lines",
                "1 script has no source map: all processes together may have 536870912 bytes of addresses of source maps",
            ]
        );
    }

    #[test]
    fn nobody_takes_what_others_need() {
        let pool = Pool::of(1024);
        let mut shares: Vec<Share> = (0..8).map(|_| pool.share()).collect();
        for share in &mut shares {
            while share.draw(1) {}
        }
        let held = shares.iter().map(Share::held).collect::<Vec<_>>();
        assert_eq!(held[..4], [512, 256, 128, 64]);
        // Somebody was refused: at the end of the slice the first ones start afresh.
        assert!(shares[0].is_too_much() && shares[1].is_too_much());
        assert!(!shares[3].is_too_much());
        shares.drain(..2);
        assert_eq!(pool.held(), held[2..].iter().sum::<usize>());
        assert!(shares[0].room() > 300);
    }

    #[test]
    fn what_was_too_much_is_none_where_nobody_is_short() {
        let pool = Pool::of(100);
        let mut share = pool.share();
        let _other = pool.share();
        assert!(share.draw(50));
        share.take(10);
        assert!(!share.is_too_much());
        assert!(!share.draw(1));
        assert!(share.is_too_much());
        share.give_back(60);
        share.give_back(1);
        assert_eq!((pool.held(), share.held()), (0, 0));
    }
}
