//! Names of worker threads, which older Nodes do not tell the kernel.
//!
//! A thread that runs a worker has the address of its `node::worker::Worker` near the bottom of its
//! stack. The object is known by its virtual table, which Node exports, and from 18.16 on it holds
//! the name the program gave. Where in it differs, but a `std::string` is told by its shape.

use super::heap::Heap;
use crate::x86_64::is_data_address;

/// How much of a stack is looked at.
pub(super) const STACK_BYTES: usize = 8192 * 8;
/// How many bytes of a worker are looked at for its name; it has more.
const WORKER_BYTES: u64 = 0x200;
/// An object's first word leads past the first two words of its table.
const TABLE_HEADER: u64 = 16;
const NAME_LIMIT: u64 = 256;
/// Strings up to this length are inside the `std::string` itself.
const SHORT: u64 = 15;

/// The name of the worker a thread runs: empty when it has none, nothing when there is no worker.
/// `table` is where the virtual table of workers is.
pub(super) fn worker_name(heap: &mut Heap<'_>, table: u64, stack: &[u8]) -> Option<String> {
    let mut last = 0;
    // From the top: a copy may reach beyond the end of the stack, into memory of others.
    let worker = stack
        .chunks_exact(8)
        .take(STACK_BYTES / 8)
        .map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes")))
        .filter(|&word| word % 8 == 0 && is_data_address(word))
        .find(|&word| {
            let is_new = std::mem::replace(&mut last, word) != word;
            is_new && heap.word(word) == Some(table + TABLE_HEADER)
        })?;
    let name = (8..WORKER_BYTES)
        .step_by(8)
        .find_map(|at| string_at(heap, worker + at));
    Some(name.unwrap_or_default())
}

/// The text of a `std::string`: pointer, length, then the text itself or how much room it has.
fn string_at(heap: &mut Heap<'_>, address: u64) -> Option<String> {
    let (pointer, length) = (heap.word(address)?, heap.word(address + 8)?);
    if !(1..=NAME_LIMIT).contains(&length) {
        return None;
    }
    let is_inside = pointer == address + 16;
    if is_inside != (length <= SHORT) {
        return None;
    }
    if !is_inside && !(length..1 << 32).contains(&heap.word(address + 16)?) {
        return None;
    }
    let mut bytes = vec![0; length as usize + 1];
    if !heap.read(pointer, &mut bytes) || bytes.pop() != Some(0) {
        return None;
    }
    let text = String::from_utf8(bytes).ok()?;
    (!text.chars().any(char::is_control)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v8::stand_in::{Words, with_heap};

    const BASE: u64 = 0x20_0000;
    const TABLE: u64 = 0x9000;
    const WORKER: u64 = BASE + 0x1000;

    /// Memory with a worker, and a stack that leads to it.
    fn worker() -> (Words, Vec<u8>) {
        let mut memory = Words::new(BASE, 0x3000);
        memory.put(WORKER, TABLE + TABLE_HEADER);
        // A vector of strings is not a string.
        memory.put(WORKER + 0xe8, BASE + 0x2000);
        memory.put(WORKER + 0xf0, BASE + 0x2020);
        let words = [7, BASE + 0x1008, WORKER, 0, u64::MAX];
        (
            memory,
            words.iter().flat_map(|word| word.to_ne_bytes()).collect(),
        )
    }

    fn name(memory: &Words, stack: &[u8]) -> Option<String> {
        with_heap(memory, |heap| worker_name(heap, TABLE, stack))
    }

    #[test]
    fn a_worker_without_a_name_is_still_a_worker() {
        let (memory, stack) = worker();
        assert_eq!(name(&memory, &stack).as_deref(), Some(""));
        assert_eq!(name(&memory, &stack[..16]), None);
    }

    #[test]
    fn short_and_long_names_are_read() {
        let (mut memory, stack) = worker();
        memory.put(WORKER + 0x108, WORKER + 0x118);
        memory.put(WORKER + 0x110, 6);
        memory.put_bytes(WORKER + 0x118, b"resize\0");
        assert_eq!(name(&memory, &stack).as_deref(), Some("resize"));
        let long = "a worker with a long näme";
        memory.put(WORKER + 0x108, BASE + 0x2000);
        memory.put(WORKER + 0x110, long.len() as u64);
        memory.put(WORKER + 0x118, 40);
        memory.put_bytes(BASE + 0x2000, long.as_bytes());
        assert_eq!(name(&memory, &stack).as_deref(), Some(long));
        // Room for less than there is.
        memory.put(WORKER + 0x118, 4);
        assert_eq!(name(&memory, &stack).as_deref(), Some(""));
    }
}
