//! Every suspended async function of a process, and who awaits it.
//!
//! No thread's stack has them and no root of V8 lists them, so V8's pages are searched for objects that look like one. What is
//! no longer reachable looks the same until it is collected; a function that has ended does not, since its promise is settled.

use std::ops::Range;

use nodespy_model::{FastMap, FastSet};

use super::async_callers::async_frame;
use super::async_chain::{AsyncCaller, Chain, ChainEnd, Search};
use super::async_layout::AsyncLayout;
use super::functions::Functions;
use super::heap::{Heap, is_pointer, small_integer};
use super::sampled::Sampled;
use crate::frame::Identified;

/// V8's pages have this size and alignment; objects never cross them but for large ones, which no suspended function is.
const V8_PAGE: u64 = 256 * 1024;
/// How much memory is read.
const MAX_BYTES: u64 = 1 << 30;
/// What a page costs of that which turns out to be none of V8's.
const LOOK_BYTES: u64 = 4096;
/// How many suspended functions are looked at.
const MAX_FUNCTIONS: usize = 50_000;
/// Chains of fewer functions than this end before the limit of what is followed: one that breaks was not whole.
const LONG_CHAIN: usize = 30;
/// The size of a suspended function, in words.
const WORDS: usize = 11;

/// The suspended functions of a process.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// Those that await no other suspended function, each followed by its async callers.
    pub(crate) stacks: Vec<Vec<Identified>>,
    /// Whether there may be more.
    pub(crate) is_cut: bool,
    /// How many were left out because their promise leads to memory that is something else by now: what was collected, or
    /// goes on while it is looked at.
    pub(crate) stale: u64,
}

/// Finds the suspended functions in the writable memory of a process; none where the layout of this V8 is not known.
pub(super) fn find(
    heap: &mut Heap<'_>,
    functions: &mut Functions,
    memory: &[Range<u64>],
) -> Option<Pending> {
    let layout = heap.layout.async_objects.clone()?;
    let mut search = Search {
        objects: Sampled { heap },
        layout: &layout,
        microtasks: None,
    };
    let (generators, is_cut) = scan(&mut search, memory);
    let (chains, stale) = innermost(&mut search, &generators);
    let mut known: FastMap<AsyncCaller, Identified> = FastMap::default();
    let stacks = chains.into_iter().map(|chain| {
        let frames = chain.callers.iter().map(|caller| {
            let named = known.entry(*caller);
            *named.or_insert_with(|| async_frame(search.objects.heap, functions, caller))
        });
        let mut frames: Vec<Identified> = frames.collect();
        frames.extend((chain.end == ChainEnd::Broken).then_some(Identified::LostCaller));
        frames
    });
    Some(Pending {
        stacks: stacks.collect(),
        is_cut,
        stale,
    })
}

/// The addresses of suspended functions, and whether a limit ended the search.
fn scan(search: &mut Search<'_, '_>, memory: &[Range<u64>]) -> (Vec<u64>, bool) {
    let mut found = Vec::new();
    let mut left = MAX_BYTES;
    for range in memory {
        let Some(first) = range.start.checked_next_multiple_of(V8_PAGE) else {
            continue;
        };
        let mut page = first;
        while page < range.end {
            let length = (range.end - page).min(V8_PAGE);
            let is_v8 = is_page(search.objects.heap, page);
            let cost = if is_v8 { length } else { LOOK_BYTES };
            if left < cost || found.len() >= MAX_FUNCTIONS {
                return (found, true);
            }
            left -= cost;
            if is_v8 && let Some(bytes) = search.objects.heap.read_bulk(page, length as usize) {
                scan_page(search, page, &bytes, &mut found);
            }
            let Some(next) = page.checked_add(V8_PAGE) else {
                break;
            };
            page = next;
        }
    }
    (found, false)
}

/// Whether a page may be one of V8's, which start with a header. The untouched part of a thread's stack does not.
fn is_page(heap: &mut Heap<'_>, page: u64) -> bool {
    let header = heap.read_bulk(page, 16);
    header.is_some_and(|bytes| bytes.iter().any(|byte| *byte != 0))
}

fn scan_page(search: &mut Search<'_, '_>, page: u64, bytes: &[u8], found: &mut Vec<u64>) {
    let word_at = |number: usize| -> u64 {
        let word = bytes.get(number * 8..number * 8 + 8);
        word.map_or(0, |word| {
            u64::from_ne_bytes(word.try_into().expect("eight bytes"))
        })
    };
    for start in 0..(bytes.len() / 8).saturating_sub(WORDS - 1) {
        let field = |offset: u64| word_at(start + offset as usize / 8);
        // Nearly all words are ruled out here, where it costs no read. The collector leaves an address without a tag in place
        // of the map of what it has moved.
        if !is_pointer(field(0)) || !looks_suspended(&field) {
            continue;
        }
        let object = (page + 8 * start as u64) | 1;
        if is_suspended(search, object) {
            found.push(object);
            if found.len() >= MAX_FUNCTIONS {
                return;
            }
        }
    }
}

fn looks_suspended(field: &dyn Fn(u64) -> u64) -> bool {
    let is_number = |offset| small_integer(field(offset)).is_some_and(|number| number >= 0);
    let pointers = [
        AsyncLayout::GENERATOR_FUNCTION,
        AsyncLayout::GENERATOR_CONTEXT,
        AsyncLayout::GENERATOR_REGISTERS,
        AsyncLayout::GENERATOR_PROMISE,
    ];
    // A running function has a negative continuation, and so has one that has ended.
    is_number(AsyncLayout::GENERATOR_CONTINUATION)
        && is_number(AsyncLayout::GENERATOR_POSITION)
        && pointers.iter().all(|&offset| is_pointer(field(offset)))
}

/// Whether an object that looks like it is a suspended function whose promise is pending.
fn is_suspended(search: &mut Search<'_, '_>, object: u64) -> bool {
    if !search.is_async(object) {
        return false;
    }
    let mut type_of = |offset| {
        let field = search.objects.field(object, offset)?;
        search.objects.type_of(field)
    };
    let context = type_of(AsyncLayout::GENERATOR_CONTEXT);
    let registers = type_of(AsyncLayout::GENERATOR_REGISTERS);
    context.is_some_and(|kind| search.layout.contexts.contains(&kind))
        && registers.is_some()
        && search.caller(object).is_some()
        && pending_promise(search, object).is_some()
}

fn pending_promise(search: &mut Search<'_, '_>, generator: u64) -> Option<u64> {
    let promise = search.promise_of_generator(generator)?;
    let flags = search.objects.field(promise, AsyncLayout::PROMISE_FLAGS)?;
    let is_pending = small_integer(flags)? & AsyncLayout::PROMISE_STATUS == 0;
    is_pending.then_some(promise)
}

/// The chains of those that are no async callers of others, and how many were left out as stale.
fn innermost(search: &mut Search<'_, '_>, generators: &[u64]) -> (Vec<Chain>, u64) {
    let mut promises = FastSet::default();
    let mut callers = FastSet::default();
    let mut chains = Vec::new();
    let mut stale = 0;
    for &generator in generators {
        // The collector may just have copied it: both have the same promise.
        let promise = pending_promise(search, generator).filter(|it| promises.insert(*it));
        let (Some(promise), Some(own)) = (promise, search.caller(generator)) else {
            continue;
        };
        let mut chain = Chain::new(0);
        chain.callers.push(own);
        chain.end = search.follow(Some(promise), &mut chain);
        if chain.generators().any(|other| other == generator) {
            // Functions that await one another have no innermost: one of them stands for all.
            if chain.generators().any(|other| other < generator) {
                continue;
            }
            chain.end = ChainEnd::Whole;
        } else if chain.end == ChainEnd::Broken && chain.generators().count() < LONG_CHAIN {
            stale += 1;
            continue;
        } else {
            callers.extend(chain.generators());
        }
        chains.push((generator, chain));
    }
    chains.retain(|(generator, _)| !callers.contains(generator));
    let chains = chains.into_iter().map(|(_, chain)| chain);
    (chains.collect(), stale)
}

#[cfg(test)]
mod tests;
