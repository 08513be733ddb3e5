//! Everything about x86-64 that unwinding and V8's frames depend on: register numbers, frames,
//! instructions, addresses. Registers are in DWARF's numbering
//! ([`Registers`](nodespy_model::Registers)). A test looks for such constants elsewhere in this crate.

use std::ops::Range;

pub(crate) mod epilogue;
pub(crate) mod plt;

/// The registers a function keeps for its caller: rbx rbp r12 r13 r14 r15.
pub(crate) const SAVED_REGISTERS: [usize; 6] = [3, 6, 12, 13, 14, 15];
/// Where the return address is, from the caller's stack pointer.
pub(crate) const RETURN_ADDRESS: i64 = -8;
/// What a function may use below the stack pointer without moving it: 128 bytes by the ABI, and
/// what code that pushes there has left.
pub(crate) const RED_ZONE_BYTES: u64 = 256;
/// Frame pointers are multiples of this, by the ABI.
pub(crate) const FRAME_ALIGNMENT: u64 = 16;

/// Where a frame has its caller's return address and where it ends, from the frame pointer, which
/// points to the caller's frame pointer.
pub(crate) const FRAME_RETURN_ADDRESS: u64 = 8;
pub(crate) const FRAME_SIZE: u64 = 16;

/// User memory that may hold code: nothing is mapped in the first page, nor above the user half.
pub(crate) const CODE_ADDRESSES: Range<u64> = 0x1000..1 << 47;
/// User memory that may hold objects: Linux maps nothing in its first 64 KiB (`mmap_min_addr`).
const DATA_ADDRESSES: Range<u64> = 0x1_0000..1 << 47;

/// Whether an object, or anything else a program has mapped, can be at an address.
pub(crate) fn is_data_address(address: u64) -> bool {
    DATA_ADDRESSES.contains(&address)
}

/// How long the check of an argument is that a function starts with, as `uv_queue_work` of Node 16, 18, 24 and 26 does:
/// `test %rdx,%rdx; je`. Behind it is a `push`, which the kernel emulates in 2 µs, where stepping through another
/// instruction takes 11.
pub fn argument_check_length(code: &[u8; 10]) -> u64 {
    let is_push = |at: usize| matches!(code[at], 0x50..=0x57) || code[at] == 0x41;
    match code {
        [0x48, 0x85, 0xd2, 0x0f, 0x84, ..] if is_push(9) => 9,
        [0x48, 0x85, 0xd2, 0x74, ..] if is_push(5) => 5,
        _ => 0,
    }
}

/// What V8 uses registers for.
pub(crate) mod v8 {
    /// Where the interpreter has the offset of its bytecode: r9.
    pub(crate) const BYTECODE_OFFSET: usize = 9;
    /// Where it has the bytecode: r12.
    pub(crate) const BYTECODE_ARRAY: usize = 12;
    /// Where a function gets itself when it is called: rdi.
    pub(crate) const FUNCTION: usize = 5;
    /// How long it is there for sure: `push rbp`, `mov rbp, rsp`, `push rsi`, `push rdi`.
    pub(crate) const PROLOGUE_BYTES: u64 = 6;
    /// Behind so many bytes the frame of compiled code is set up: before the prologue it asks whether it was deoptimized.
    pub(crate) const SETUP_BYTES: u64 = 64;
    /// Where a frame is taken down already, a return is within so many bytes: `cmp rcx, count`, `jg`, `ret size`, or
    /// `pop r10`, `lea rsp, [rsp + 8 * rcx]`, `push r10`, `ret`.
    pub(crate) const RETURN_BYTES: usize = 16;
    /// Where the instance is while a frame of Liftoff is set up: rsi.
    pub(crate) const LIFTOFF_INSTANCE: usize = 4;
    /// Where the return address into its function is meanwhile: rdi.
    pub(crate) const LIFTOFF_RETURN_ADDRESS: usize = 5;

    /// How far below the frame pointer V8 has the words of a frame.
    pub(crate) const MARKER: u64 = 8;
    pub(crate) const FRAME_FUNCTION: u64 = 16;
    pub(crate) const FRAME_BYTECODE: u64 = 32;
    pub(crate) const FRAME_BYTECODE_OFFSET: u64 = 40;
    pub(crate) const FRAME_FEEDBACK: u64 = 48;

    /// How many words above the stack pointer the return address of WebAssembly is, so many bytes
    /// into its function; none once its frame is set up: `push rbp`, `mov rbp, rsp`.
    pub(crate) fn words_before_frame(offset: u64) -> Option<u64> {
        match offset {
            0 => Some(1),
            1..=3 => Some(2),
            _ => None,
        }
    }

    /// How many bytes of code show that a frame of Liftoff is being set up, and how many of them
    /// come before the instruction that is run.
    pub(crate) const LIFTOFF_SETUP_BYTES: usize = 9;
    pub(crate) const LIFTOFF_SETUP_BEFORE: u64 = 2;

    /// Whether the return address is put back last: `push rdi`, `ret`.
    pub(crate) fn is_liftoff_end(code: &[u8; LIFTOFF_SETUP_BYTES]) -> bool {
        code[2..4] == [0x57, 0xc3]
    }

    /// Which instruction of the start of a frame is run, counted from 0: `pop rdi`, `push rbp`,
    /// `mov rbp, rsp`, `push kind`; none when it is none of the first three.
    pub(crate) fn liftoff_step(code: &[u8; LIFTOFF_SETUP_BYTES], kind: u8) -> Option<usize> {
        let setup = [0x5f, 0x55, 0x48, 0x89, 0xe5, 0x6a, kind];
        (0..3).find(|step| code[2 - step..9 - step] == setup)
    }
}

/// How many bytes before a return address show whether it follows a call.
pub(crate) const CALL_BYTES: usize = 7;
/// How long a call is that has its target in it.
pub(crate) const DIRECT_CALL_BYTES: usize = 5;

/// Whether code ends with a call: `e8` with an offset, or `ff /2` through a register or memory,
/// which takes 2 to 7 bytes.
pub(crate) fn ends_with_call(code: &[u8; CALL_BYTES]) -> bool {
    let through = |length: usize| {
        let at = code.len() - length;
        code[at] == 0xff && code[at + 1] >> 3 & 7 == 2
    };
    code[2] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(through)
}

/// How far behind itself a call leads, if its target is in it.
pub(crate) fn call_distance(call: [u8; DIRECT_CALL_BYTES]) -> Option<i64> {
    let [0xe8, distance @ ..] = call else {
        return None;
    };
    Some(i64::from(i32::from_le_bytes(distance)))
}

/// The relocation that is the address of the file plus a number.
pub(crate) const RELATIVE_RELOCATION: u32 = 8;

/// What a function that does nothing else returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returned {
    /// This address.
    Value(u64),
    /// What is at this address.
    At(u64),
}

/// What the function at `start` returns: a constant, an address relative to the instruction behind
/// (`lea`), or what is at one.
pub(crate) fn returned(start: u64, code: &[u8]) -> Option<Returned> {
    let mut body = code;
    // `endbr64`, and `push rbp` with `mov rbp, rsp`.
    for prefix in [&[0xf3, 0x0f, 0x1e, 0xfa], &[0x55, 0x48, 0x89, 0xe5]] {
        body = body.strip_prefix(prefix.as_slice()).unwrap_or(body);
    }
    let start = start.checked_add((code.len() - body.len()) as u64)?;
    let behind = |size: u64, distance: [u8; 4]| {
        start
            .wrapping_add(size)
            .wrapping_add_signed(i32::from_le_bytes(distance).into())
    };
    Some(match *body {
        [0xb8, a, b, c, d, ..] => Returned::Value(u32::from_le_bytes([a, b, c, d]).into()),
        [0x8b, 0x05, a, b, c, d, ..] => Returned::At(behind(6, [a, b, c, d])),
        [0x48, 0x8b, 0x05, a, b, c, d, ..] => Returned::At(behind(7, [a, b, c, d])),
        // Followed by a load from it, of eight bytes or four.
        [0x48, 0x8d, 0x05, a, b, c, d, 0x48, 0x8b, 0x00, ..]
        | [0x48, 0x8d, 0x05, a, b, c, d, 0x8b, 0x00, ..] => Returned::At(behind(7, [a, b, c, d])),
        [0x48, 0x8d, 0x05, a, b, c, d, ..] => Returned::Value(behind(7, [a, b, c, d])),
        _ => return None,
    })
}

/// The table that the function at `start` takes a row from: its address is loaded relative to the
/// instruction behind, or stands in the instruction that takes the row.
pub(crate) fn indexed_table(start: u64, code: &[u8]) -> Option<u64> {
    (0..code.len()).find_map(|at| match code[at..] {
        [0x48 | 0x4c, 0x8d, register, a, b, c, d, ..] if register & 0xc7 == 5 => {
            let distance = i32::from_le_bytes([a, b, c, d]);
            Some(
                start
                    .checked_add(at as u64 + 7)?
                    .wrapping_add_signed(distance.into()),
            )
        }
        // `mov rax, [rax * 8 + table]`
        [0x48, 0x8b, 0x04, 0xc5, a, b, c, d, ..] => Some(u32::from_le_bytes([a, b, c, d]).into()),
        _ => None,
    })
}

/// What V8 puts between code objects: `int3`.
pub(crate) const PADDING: u8 = 0xcc;

/// Whether an instruction returns to the caller.
pub(crate) fn is_return(first_byte: u8) -> bool {
    matches!(first_byte, 0xc2 | 0xc3)
}

/// How long a jump is that has a distance of four bytes at its end, by its first two bytes; none
/// when it is no such jump.
pub(crate) fn jump_bytes(start: [u8; 2]) -> Option<usize> {
    match start {
        [0x0f, 0x80..=0x8f] => Some(6),
        [0xe9, _] => Some(5),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_breakpoint_goes_behind_the_check_of_an_argument() {
        let far = [0x48, 0x85, 0xd2, 0x0f, 0x84, 1, 0, 0, 0, 0x55];
        assert_eq!(argument_check_length(&far), 9);
        assert_eq!(
            argument_check_length(&[0x48, 0x85, 0xd2, 0x74, 9, 0x41, 0, 0, 0, 0]),
            5
        );
        assert_eq!(
            argument_check_length(&[0x55, 0x48, 0x89, 0xe5, 0, 0, 0, 0, 0, 0]),
            0
        );
        assert_eq!(
            argument_check_length(&[0x48, 0x85, 0xd2, 0x74, 9, 0xc3, 0, 0, 0, 0]),
            0
        );
    }

    #[test]
    fn calls_are_told_from_other_code() {
        assert!(ends_with_call(&[0x90, 0x90, 0xe8, 1, 2, 3, 4]));
        // call rax, call [rax + 8], call [rip + 8]
        assert!(ends_with_call(&[0, 0, 0, 0, 0, 0xff, 0xd0]));
        assert!(ends_with_call(&[0, 0, 0, 0, 0xff, 0x50, 8]));
        assert!(ends_with_call(&[0, 0xff, 0x15, 8, 0, 0, 0]));
        // jmp rax
        assert!(!ends_with_call(&[0, 0, 0, 0, 0, 0xff, 0xe0]));
        assert_eq!(call_distance([0xe8, 0xfe, 0xff, 0xff, 0xff]), Some(-2));
        assert_eq!(call_distance([0xe9, 0, 0, 0, 0]), None);
    }

    #[test]
    fn what_short_functions_return_is_read() {
        let of = |code: &[u8]| returned(0x1000, code);
        assert_eq!(
            of(&[0xb8, 0, 0x40, 0x8c, 1, 0xc3]),
            Some(Returned::Value(0x18c_4000))
        );
        let framed = [0x55, 0x48, 0x89, 0xe5, 0x8b, 0x05, 6, 0, 0, 0, 0x5d, 0xc3];
        assert_eq!(of(&framed), Some(Returned::At(0x1010)));
        let indirect = [0x48, 0x8d, 0x05, 9, 0, 0, 0, 0x48, 0x8b, 0x00, 0xc3];
        assert_eq!(of(&indirect), Some(Returned::At(0x1010)));
        assert_eq!(of(&indirect[..7]), Some(Returned::Value(0x1010)));
        assert_eq!(of(&[0x90, 0xc3]), None);
        let table = [
            0x48, 0x63, 0xff, 0x48, 0x8b, 0x04, 0xc5, 0x40, 0x68, 0xbc, 2,
        ];
        assert_eq!(indexed_table(0x1000, &table), Some(0x2bc_6840));
        assert_eq!(indexed_table(0x1000, &table[..9]), None);
    }

    #[test]
    fn steps_of_a_frame_that_is_set_up_are_told_apart() {
        let setup = [0x5f, 0x55, 0x48, 0x89, 0xe5, 0x6a, 8];
        for step in 0..3 {
            let mut code = [0; v8::LIFTOFF_SETUP_BYTES];
            code[2 - step..9 - step].copy_from_slice(&setup);
            assert_eq!(v8::liftoff_step(&code, 8), Some(step));
            assert_eq!(v8::liftoff_step(&code, 9), None);
        }
        assert!(v8::is_liftoff_end(&[0, 0, 0x57, 0xc3, 0, 0, 0, 0, 0]));
    }
}
