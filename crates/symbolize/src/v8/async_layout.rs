//! Where things are in promises and suspended functions.
//!
//! V8 exports the types of these objects and none of their fields. The offsets are the same from V8 9.4 to 14.6 but for those
//! of a reaction, of which there are two kinds.

use std::ops::RangeInclusive;

/// The first version of V8 whose reactions have what the embedder keeps before the other fields.
const EMBEDDER_DATA_FIRST: (u32, u32) = (12, 0);

/// The objects that await and are awaited.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AsyncLayout {
    pub(crate) promise: u16,
    pub(crate) capability: u16,
    pub(crate) reaction: u16,
    pub(crate) async_function: u16,
    pub(crate) async_generator: u16,
    /// A call of `next` of an async generator.
    pub(crate) request: u16,
    /// A microtask that resolves a promise with another.
    pub(crate) thenable_task: Option<u16>,
    /// A generator that is not async.
    pub(crate) generator: u16,
    /// Those of contexts; the first is that of an `await`.
    pub(crate) contexts: RangeInclusive<u16>,
    /// Where in a reaction the next one is. What to call when it is rejected and fulfilled follows, then the promise of that.
    pub(crate) reaction_next: u64,
    pub(crate) function_context: u64,
    /// What the frames of V8's stubs have for a marker.
    pub(crate) stub_marker: u64,
}

impl AsyncLayout {
    pub(crate) const PROMISE_REACTIONS: u64 = 24;
    pub(crate) const PROMISE_FLAGS: u64 = 32;
    /// The bits of the flags that are zero while it is pending.
    pub(crate) const PROMISE_STATUS: i64 = 3;
    pub(crate) const CAPABILITY_PROMISE: u64 = 8;
    pub(crate) const GENERATOR_FUNCTION: u64 = 24;
    pub(crate) const GENERATOR_CONTEXT: u64 = 32;
    pub(crate) const GENERATOR_RECEIVER: u64 = 40;
    /// Its arguments and local variables, while it is suspended.
    pub(crate) const GENERATOR_REGISTERS: u64 = 72;
    /// Negative while it runs, and once it has ended.
    pub(crate) const GENERATOR_CONTINUATION: u64 = 64;
    /// The bytecode offset while it is suspended.
    pub(crate) const GENERATOR_POSITION: u64 = 48;
    /// The promise of an async function, or the queue of an async generator.
    pub(crate) const GENERATOR_PROMISE: u64 = 80;
    pub(crate) const REQUEST_PROMISE: u64 = 32;
    pub(crate) const CONTEXT_LENGTH: u64 = 8;

    /// Where a slot of a context is; slot 1 is the context around it.
    pub(crate) const fn slot(slot: u64) -> u64 {
        16 + 8 * slot
    }

    /// The layout of the V8 whose constants `get` returns; none where it lacks one.
    pub(crate) fn new(version: (u32, u32), get: &dyn Fn(&str) -> Option<i32>) -> Option<Self> {
        let kind = |name: &str| get(name).and_then(|value| u16::try_from(value).ok());
        let async_function = kind("type_JSAsyncFunctionObject__JS_ASYNC_FUNCTION_OBJECT_TYPE")?;
        let stub = u64::try_from(get("frametype_StubFrame")?).ok()?;
        Some(Self {
            promise: kind("type_JSPromise__JS_PROMISE_TYPE")?,
            capability: kind("type_PromiseCapability__PROMISE_CAPABILITY_TYPE")?,
            reaction: kind("type_PromiseReaction__PROMISE_REACTION_TYPE")?,
            async_function,
            async_generator: kind("type_JSAsyncGeneratorObject__JS_ASYNC_GENERATOR_OBJECT_TYPE")?,
            request: kind("type_AsyncGeneratorRequest__ASYNC_GENERATOR_REQUEST_TYPE")?,
            thenable_task: kind(
                "type_PromiseResolveThenableJobTask__PROMISE_RESOLVE_THENABLE_JOB_TASK_TYPE",
            ),
            // Not exported: V8 numbers its types in the order of the classes.
            generator: async_function.checked_sub(1)?,
            contexts: kind("FirstContextType")?..=kind("LastContextType")?,
            reaction_next: match version >= EMBEDDER_DATA_FIRST {
                true => 16,
                false => 8,
            },
            function_context: u64::try_from(get("class_JSFunction__context__Context")?).ok()?,
            stub_marker: stub << 1,
        })
    }
}
