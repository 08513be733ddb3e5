//! Where a function that has no unwind table and no frame pointer has its return address: what it still
//! does to the stack before it returns says so.
//!
//! From an instruction the code is followed to a `ret`, adding up what is pushed and popped on the way.
//! Calls leave the stack as it was. Where a path ends in none (a jump through a register, a trap), the
//! branches that were passed are tried. For compilers' code without `alloca`, such as musl's.

use super::SAVED_REGISTERS;

/// How many instructions are followed, and how many branches are kept to be tried.
const INSTRUCTION_LIMIT: usize = 2000;
const BRANCH_LIMIT: usize = 64;
/// No function of musl needs more; `realpath` and `getaddrinfo` have buffers of pages.
const STACK_LIMIT_BYTES: i64 = 1 << 20;
/// The longest instruction.
pub(crate) const INSTRUCTION_BYTES: usize = 15;

/// What is left of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epilogue {
    /// How far above the stack pointer the return address is.
    pub(crate) return_address: i64,
    /// How far above it [`SAVED_REGISTERS`] are, those that are popped.
    pub(crate) saved: [Option<i64>; SAVED_REGISTERS.len()],
}

/// A place in the code, and what was done to the stack on the way there.
#[derive(Debug, Clone, Copy)]
struct Path {
    address: u64,
    stack: Epilogue,
}

/// What the function still does from `address` on; `code` reads instructions.
pub(crate) fn epilogue(
    address: u64,
    code: &mut dyn FnMut(u64) -> Option<[u8; INSTRUCTION_BYTES]>,
) -> Option<Epilogue> {
    let mut path = Path {
        address,
        stack: Epilogue {
            return_address: 0,
            saved: [None; SAVED_REGISTERS.len()],
        },
    };
    let mut branches: Vec<Path> = Vec::new();
    let mut seen = nodespy_model::FastMap::default();
    for _ in 0..INSTRUCTION_LIMIT {
        let effect = match seen.insert(path.address, ()) {
            Some(()) => Effect::Unknown,
            None => code(path.address).map_or(Effect::Unknown, |bytes| effect(&bytes)),
        };
        match effect {
            Effect::Return => return Some(path.stack),
            Effect::Stack { size, by } => {
                path.address = path.address.checked_add(size)?;
                path.stack.return_address += by;
            }
            Effect::Pop { size, register } => {
                let position = SAVED_REGISTERS.iter().position(|saved| *saved == register);
                if let Some(position) = position {
                    path.stack.saved[position] = Some(path.stack.return_address);
                }
                path.address = path.address.checked_add(size)?;
                path.stack.return_address += 8;
            }
            Effect::Jump {
                size,
                distance,
                is_sure,
            } => {
                let behind = path.address.checked_add(size)?;
                let target = behind.wrapping_add_signed(distance);
                match is_sure {
                    true => path.address = target,
                    false => {
                        path.address = behind;
                        if branches.len() < BRANCH_LIMIT {
                            branches.push(Path {
                                address: target,
                                ..path
                            });
                        }
                    }
                }
            }
            Effect::Unknown => path = branches.pop()?,
        }
        if !(0..STACK_LIMIT_BYTES).contains(&path.stack.return_address.saturating_add(4096)) {
            path = branches.pop()?;
        }
    }
    None
}

/// What an instruction does that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    Return,
    /// The return address is so much further up, or down.
    Stack {
        size: u64,
        by: i64,
    },
    Pop {
        size: u64,
        register: usize,
    },
    Jump {
        size: u64,
        distance: i64,
        is_sure: bool,
    },
    /// It ends the path: it sets the stack pointer, jumps through a register, traps, or is not known.
    Unknown,
}

fn effect(code: &[u8; INSTRUCTION_BYTES]) -> Effect {
    let Some(instruction) = Instruction::read(code) else {
        return Effect::Unknown;
    };
    let size = instruction.size as u64;
    let by = |by: i64| Effect::Stack { size, by };
    let jump = |is_sure| Effect::Jump {
        size,
        distance: instruction.immediate,
        is_sure,
    };
    // In DWARF's numbering the first eight registers are in another order than in instructions.
    let register =
        |number: u8| [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15][number as usize];
    const STACK_POINTER: u8 = 4;
    let is_wide = instruction.rex & 8 != 0;
    let modrm = instruction.modrm;
    let reg = modrm >> 3 & 7;
    let is_register = modrm >> 6 == 3;
    // Operands as numbers of registers, with the bits that the prefix adds.
    let first = modrm & 7 | (instruction.rex & 1) << 3;
    let second = reg | (instruction.rex & 4) << 1;
    match (instruction.map, instruction.opcode) {
        (0, 0xc2 | 0xc3) => Effect::Return,
        (0, low @ 0x50..=0x5f) => {
            let number = low & 7 | (instruction.rex & 1) << 3;
            match low < 0x58 {
                true => by(-8),
                false if number == STACK_POINTER => Effect::Unknown,
                false => Effect::Pop {
                    size,
                    register: register(number),
                },
            }
        }
        (0, 0x68 | 0x6a) => by(-8),
        // `pushf`, `popf`
        (0, 0x9c) => by(-8),
        (0, 0x9d) => by(8),
        (0, 0x81 | 0x83) if is_wide && is_register && first == STACK_POINTER => match reg {
            0 => by(instruction.immediate),
            5 => by(-instruction.immediate),
            // `cmp`
            7 => by(0),
            _ => Effect::Unknown,
        },
        // `lea rsp, [rsp + distance]`
        (0, 0x8d) if second == STACK_POINTER => match instruction.is_stack_relative() {
            true => by(instruction.displacement),
            false => Effect::Unknown,
        },
        // `mov rsp, …`, `xchg`, arithmetic on it.
        (0, 0x8b | 0x03 | 0x2b | 0x23) if second == STACK_POINTER => Effect::Unknown,
        (0, 0x89 | 0x87 | 0x01 | 0x29 | 0x21) if is_register && first == STACK_POINTER => {
            Effect::Unknown
        }
        // `leave`, `enter`
        (0, 0xc8 | 0xc9) => Effect::Unknown,
        (0, 0xff) => match reg {
            // `call`, `jmp`, `push`
            2 => by(0),
            3..=5 => Effect::Unknown,
            6 => by(-8),
            _ => by(0),
        },
        (0, 0x8f) => by(8),
        (0, 0xe9 | 0xeb) => jump(true),
        (0, 0x70..=0x7f | 0xe0..=0xe3) | (1, 0x80..=0x8f) => jump(false),
        // `int3`, `hlt`, `ud2`
        (0, 0xcc | 0xf4) | (1, 0x0b) => Effect::Unknown,
        _ => by(0),
    }
}

/// An instruction taken apart.
#[derive(Debug, Clone, Copy, Default)]
struct Instruction {
    size: usize,
    rex: u8,
    /// 0 for opcodes of one byte, 1 to 3 for those behind `0f`, `0f 38` and `0f 3a`.
    map: u8,
    opcode: u8,
    modrm: u8,
    sib: u8,
    displacement: i64,
    immediate: i64,
}

/// How long an immediate is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Immediate {
    None,
    Bytes(usize),
    /// Four bytes, two with the prefix for short operands.
    Operand,
}

impl Instruction {
    fn read(code: &[u8]) -> Option<Self> {
        let mut at = 0;
        let mut next = |size: usize| {
            let bytes = code.get(at..at + size)?;
            at += size;
            Some(bytes)
        };
        let mut found = Self::default();
        let mut is_short = false;
        let mut byte = next(1)?[0];
        while let 0x66 | 0x67 | 0xf2 | 0xf3 | 0x2e | 0x36 | 0x3e | 0x26 | 0x64 | 0x65 | 0xf0 = byte
        {
            is_short |= byte == 0x66;
            byte = next(1)?[0];
        }
        if let 0x40..=0x4f = byte {
            found.rex = byte;
            byte = next(1)?[0];
        }
        match byte {
            // AVX
            0xc5 => {
                next(1)?;
                found.map = 1;
                byte = next(1)?[0];
            }
            0xc4 => {
                found.map = next(2)?[0] & 3;
                byte = next(1)?[0];
            }
            0x0f => {
                found.map = 1;
                byte = next(1)?[0];
                if let 0x38 | 0x3a = byte {
                    found.map = if byte == 0x38 { 2 } else { 3 };
                    byte = next(1)?[0];
                }
            }
            _ => {}
        }
        found.opcode = byte;
        let (has_modrm, mut immediate) = operands(found.map, byte)?;
        if has_modrm {
            found.modrm = next(1)?[0];
            let (mode, low) = (found.modrm >> 6, found.modrm & 7);
            if mode != 3 && low == 4 {
                found.sib = next(1)?[0];
            }
            let is_wide = mode == 2 || mode == 0 && (low == 5 || low == 4 && found.sib & 7 == 5);
            found.displacement = match mode {
                _ if is_wide => signed(next(4)?),
                1 => signed(next(1)?),
                _ => 0,
            };
            // `test` has an immediate, the others of its group have none.
            if found.map == 0 && byte | 1 == 0xf7 && found.modrm >> 3 & 7 > 1 {
                immediate = Immediate::None;
            }
        }
        let is_long = found.map == 0 && (0xb8..=0xbf).contains(&byte) && found.rex & 8 != 0;
        let bytes = match immediate {
            Immediate::None => 0,
            Immediate::Bytes(bytes) => bytes,
            Immediate::Operand if is_long => 8,
            Immediate::Operand if is_short => 2,
            Immediate::Operand => 4,
        };
        found.immediate = signed(next(bytes)?);
        found.size = at;
        Some(found)
    }

    /// Whether its operand is the stack pointer plus the displacement.
    fn is_stack_relative(&self) -> bool {
        self.modrm & 7 == 4 && self.sib == 0x24 && self.rex & 3 == 0
    }
}

/// Whether an opcode has operands in a byte of their own, and what immediate; none when it is not known.
fn operands(map: u8, opcode: u8) -> Option<(bool, Immediate)> {
    use Immediate::{Bytes, None as No, Operand};
    Some(match (map, opcode) {
        (0, 0x00..=0x3f) => match opcode & 7 {
            0..=3 => (true, No),
            4 => (false, Bytes(1)),
            5 => (false, Operand),
            _ => return None,
        },
        (0, 0x63 | 0x84..=0x8f | 0xd0..=0xd3 | 0xd8..=0xdf | 0xfe | 0xff) => (true, No),
        (0, 0x69 | 0x81 | 0xc7 | 0xf7) => (true, Operand),
        (0, 0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 | 0xf6) => (true, Bytes(1)),
        (0, 0x68 | 0xa9 | 0xb8..=0xbf) => (false, Operand),
        (0, 0xe8 | 0xe9) => (false, Bytes(4)),
        (0, 0x6a | 0x70..=0x7f | 0xa8 | 0xb0..=0xb7 | 0xcd | 0xe0..=0xe7 | 0xeb) => {
            (false, Bytes(1))
        }
        (0, 0xa0..=0xa3) => (false, Bytes(8)),
        (0, 0xc2 | 0xca) => (false, Bytes(2)),
        (0, 0xc8) => (false, Bytes(3)),
        (0, 0x50..=0x5f | 0x6c..=0x6f | 0x90..=0x99 | 0x9b..=0x9f | 0xa4..=0xa7 | 0xaa..=0xaf)
        | (0, 0xc3 | 0xc9 | 0xcb | 0xcc | 0xcf | 0xd7 | 0xec..=0xef | 0xf1 | 0xf4 | 0xf5)
        | (0, 0xf8..=0xfd) => (false, No),
        (0, _) => return None,
        (1, 0x05..=0x09 | 0x0b | 0x30..=0x37 | 0x77 | 0xa0..=0xa2 | 0xa8..=0xaa | 0xc8..=0xcf) => {
            (false, No)
        }
        (1, 0x80..=0x8f) => (false, Bytes(4)),
        (1, 0x70..=0x73 | 0xa4 | 0xac | 0xba | 0xc2 | 0xc4..=0xc6) | (3, _) => (true, Bytes(1)),
        _ => (true, No),
    })
}

/// A number of up to eight bytes with its sign.
fn signed(bytes: &[u8]) -> i64 {
    let mut wide = [match bytes.last() {
        Some(0x80..) => 0xff,
        _ => 0,
    }; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(wide)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The epilogue of code at 0x1000, from an offset on.
    fn of(code: &[u8], from: u64) -> Option<Epilogue> {
        epilogue(0x1000 + from, &mut |address| {
            let at = usize::try_from(address.checked_sub(0x1000)?).ok()?;
            let mut bytes = [0xcc; INSTRUCTION_BYTES];
            let rest = code.get(at..)?;
            let size = rest.len().min(INSTRUCTION_BYTES);
            bytes[..size].copy_from_slice(&rest[..size]);
            Some(bytes)
        })
    }

    #[test]
    fn what_is_popped_before_the_return_says_where_its_address_is() {
        // push rbp; push rbx; sub rsp, 0x18; mov rax, fs:0; call …; add rsp, 0x18; pop rbx; pop rbp; ret
        let code = [
            0x55, 0x53, 0x48, 0x83, 0xec, 0x18, 0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0, 0xe8, 1,
            2, 3, 4, 0x48, 0x83, 0xc4, 0x18, 0x5b, 0x5d, 0xc3,
        ];
        let whole = of(&code, 0).unwrap();
        assert_eq!(whole.return_address, 0);
        let middle = of(&code, 6).unwrap();
        assert_eq!(middle.return_address, 0x28);
        // rbx, rbp
        assert_eq!(middle.saved[..3], [Some(0x18), Some(0x20), None]);
        assert_eq!(of(&code, 25).unwrap().return_address, 8);
        assert_eq!(of(&code, 26).unwrap().return_address, 0);
    }

    #[test]
    fn a_path_without_a_return_gives_way_to_a_branch() {
        // je +3; ud2; nop; pop rbx; ret
        let trap = [0x74, 0x03, 0x0f, 0x0b, 0x90, 0x5b, 0xc3];
        assert_eq!(of(&trap, 0).unwrap().return_address, 8);
        // An endless loop, and a jump through a table.
        assert_eq!(of(&[0xeb, 0xfe], 0), None);
        assert_eq!(of(&[0xff, 0xe0], 0), None);
        // jne behind the loop; jmp back; add rsp, 0x100; ret
        let loops = [0x75, 0x02, 0xeb, 0xfc, 0x48, 0x81, 0xc4, 0, 1, 0, 0, 0xc3];
        assert_eq!(of(&loops, 0).unwrap().return_address, 0x100);
    }

    #[test]
    fn instructions_have_the_length_that_they_have() {
        let length = |code: &[u8]| Instruction::read(code).map(|found| found.size);
        let whole: [&[u8]; 14] = [
            &[0xc3],
            &[0x0f, 0x05],
            &[0x41, 0x5f],
            &[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8],
            &[0x66, 0xb8, 1, 2],
            &[0x48, 0x8d, 0x64, 0x24, 0x10],
            &[0x48, 0x8b, 0x05, 1, 2, 3, 4],
            &[0xf6, 0x40, 0x10, 0x01],
            &[0xf7, 0xd8],
            &[0xf3, 0x0f, 0x6f, 0x06],
            &[0x66, 0x0f, 0x3a, 0x0f, 0xc1, 0x08],
            &[0xc5, 0xf8, 0x77],
            &[0xdb, 0x2c, 0x24],
            &[0xf0, 0x0f, 0xb1, 0x14, 0x8d, 1, 2, 3, 4],
        ];
        for code in whole {
            assert_eq!(length(code), Some(code.len()), "{code:x?}");
            assert_eq!(length(&code[..code.len() - 1]), None, "{code:x?}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic_or_run_for_long() {
        let mut state = 7u64;
        let mut code = vec![0u8; 4096];
        for byte in &mut code {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            *byte = (state >> 56) as u8;
        }
        for from in 0..4096 {
            of(&code, from);
        }
    }
}
