//! One frame in three forms: `Unwound` from registers and stack bytes, [`Identified`] while the
//! process can still be read, `Named` when the slice it is in ends (`resolve::naming`).

use crate::address_map::ImageId;
use crate::v8::JsFrame;

/// Where a frame's code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CodeAddress {
    /// In an image, at the address it is linked to.
    Image(ImageId, u64),
    /// JIT code.
    Jit(u64),
    /// Not known any more, while the frame is.
    Unknown,
}

/// A frame as the unwinder finds it and, where it was found by its frame pointer, what V8 may have
/// put there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unwound {
    pub(crate) code: CodeAddress,
    pub(crate) v8: Option<FrameSlots>,
}

/// The words below a frame pointer that V8 gives a meaning; 0 where they can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameSlots {
    pub(crate) frame_pointer: u64,
    /// A context, or the kind of frame.
    pub(crate) marker: u64,
    pub(crate) function: u64,
    pub(crate) bytecode_array: u64,
    /// A bytecode offset, or the feedback vector in baseline code.
    pub(crate) bytecode_offset: u64,
    /// The feedback vector in versions that keep both.
    pub(crate) feedback: u64,
}

/// A frame that needs no registers, stack or heap any more: what is known of it stays true.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Identified {
    /// Code of the kernel.
    Kernel(u64),
    /// Code of an image, at the address it is linked to.
    Image(ImageId, u64),
    /// JIT code, which a perf map or jitdump may name.
    Jit(u64),
    /// A function of JavaScript or WebAssembly that was found in V8's heap.
    Js(JsFrame),
    /// JavaScript that could not be identified.
    UnknownJs,
    /// An async caller that is not known.
    LostCaller,
}

impl Identified {
    /// Whether V8's heap decided what this is.
    pub(crate) fn is_js(self) -> bool {
        matches!(self, Self::Js(_) | Self::UnknownJs)
    }
}

impl From<CodeAddress> for Identified {
    fn from(code: CodeAddress) -> Self {
        match code {
            CodeAddress::Image(image, address) => Self::Image(image, address),
            CodeAddress::Jit(address) => Self::Jit(address),
            CodeAddress::Unknown => Self::UnknownJs,
        }
    }
}
