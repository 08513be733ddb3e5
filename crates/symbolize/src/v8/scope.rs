//! What a `ScopeInfo` says of its function: name and start.

use super::heap::{Heap, small_integer};
use super::layout::ScopeEncoding;

/// From this many context variables on V8 keeps their names in a hash table, where it does so.
const LOCALS_IN_TABLE: i64 = 75;

/// What a scope says of its function.
pub(super) struct Scope {
    pub(super) name: Option<String>,
    pub(super) start: Option<u32>,
}

/// Reads what a `ScopeInfo` says of its function. Its slots after the fixed ones: names of
/// variables (one slot if they are in a table), their infos, then what the flags announce.
pub(super) fn read_scope(heap: &mut Heap<'_>, scope: u64) -> Option<Scope> {
    let first = heap.layout.scope_first_variable;
    let is_listed = heap.layout.scope == ScopeEncoding::Listed;
    let has_positions_first = first >= 5;
    let slot = |heap: &mut Heap<'_>, index: u64| heap.field(scope, 8 + 8 * index);
    let flags = slot(heap, 0)?;
    let flags = if has_positions_first {
        flags & 0xffff_ffff
    } else {
        small_integer(flags)? as u64
    };
    let locals = small_integer(slot(heap, 2)?)?;
    if !(0..=100_000).contains(&locals) {
        return None;
    }
    let names = if locals >= LOCALS_IN_TABLE && !is_listed {
        1
    } else {
        locals
    };
    let mut next = first + names as u64 + locals as u64;
    if flags >> 10 & 1 != 0 {
        next += 1;
    }
    // Then there is a slot for the receiver when it lives on the stack or in a context.
    if is_listed && matches!(flags >> 7 & 3, 1 | 2) {
        next += 1;
    }
    let mut name = None;
    if flags >> 12 & 3 != 0 {
        let own = slot(heap, next)?;
        if heap.is_string(own) {
            name = heap.string(own).filter(|name| !name.is_empty());
        }
        next += 2;
    }
    if flags >> 14 & 1 != 0 {
        let inferred = slot(heap, next)?;
        if name.is_none() && heap.is_string(inferred) {
            name = heap.string(inferred);
        }
        next += 1;
    }
    let start = if has_positions_first {
        slot(heap, 3)?
    } else {
        slot(heap, next)?
    };
    let start = small_integer(start).and_then(|start| u32::try_from(start).ok());
    Some(Scope { name, start })
}
