//! What a sample holds of an x86-64 thread. Another architecture has a module of its own.

/// The general registers of an x86-64 thread, in DWARF's numbering:
/// rax rdx rcx rbx rsi rdi rbp rsp r8 to r15, then the instruction pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Registers(pub [u64; 17]);

impl Registers {
    /// DWARF number of the frame pointer.
    pub const FRAME_POINTER: usize = 6;
    /// DWARF number of the stack pointer.
    pub const STACK_POINTER: usize = 7;
    /// DWARF number of the return address column, used for the instruction pointer.
    pub const INSTRUCTION_POINTER: usize = 16;

    /// The frame pointer.
    pub fn frame_pointer(&self) -> u64 {
        self.0[Self::FRAME_POINTER]
    }

    /// The stack pointer.
    pub fn stack_pointer(&self) -> u64 {
        self.0[Self::STACK_POINTER]
    }

    /// The instruction pointer.
    pub fn instruction_pointer(&self) -> u64 {
        self.0[Self::INSTRUCTION_POINTER]
    }
}
