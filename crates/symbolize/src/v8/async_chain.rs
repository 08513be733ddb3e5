//! Who awaits what runs: the suspended async functions behind the microtask that a thread is in.
//!
//! A microtask leaves what it continues in its frame: the context of an `await`, or the promise that a `then` has made.
//! From there on the heap says who waits: a promise has reactions, a reaction has a handler, and the handler of an `await` has
//! the suspended function, which has a promise of its own. The chain exists only until the inner function ends. So it is read
//! of memory that was copied at the sampled instruction, and of nothing else where there is any; or of a thread that
//! stands still.

use nodespy_model::AsyncCallers;

use super::async_layout::AsyncLayout;
use super::code_tables;
use super::heap::{Heap, is_pointer, small_integer};
use super::sampled::Sampled;
use crate::frame::Unwound;

/// How many links are followed.
const MAX_LINKS: usize = 64;
/// How many contexts around a function are looked at.
const MAX_CONTEXTS: usize = 3;
/// How many functions of a callback are looked at for a promise that it resolves.
const CALLBACK_FRAMES: usize = 4;
/// Of how many of them the spill slots too, how many, and how far from the frame pointer the first is.
const SPILLING_FRAMES: usize = 2;
const SPILL_SLOTS: u64 = 16;
const ABOVE_SPILLS: u64 = 24;
/// The marker of the frame by which C++ enters JavaScript, on every version.
pub(super) const ENTRY_MARKER: u64 = 2;
/// How many frames above the loop that runs microtasks the closure of an `await` is.
const CLOSURE_DISTANCE: usize = 2;

/// Reads a word of the stack.
type StackWord<'a> = &'a dyn Fn(u64) -> Option<u64>;

/// Why a chain goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChainEnd {
    /// The promise of the outermost function has no reactions.
    Whole,
    /// The promise is settled already: the microtask is about to end.
    Settled,
    /// A microtask, of which nothing says what it continues.
    Lost,
    /// A callback that was queued as it is (`queueMicrotask`): it continues nothing.
    Queued,
    /// Memory that is no chain, or was not copied.
    Broken,
}

/// A suspended function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct AsyncCaller {
    /// Its `SharedFunctionInfo`.
    pub(crate) shared: u64,
    /// The offset of the bytecode it is suspended at; none for a callback of `then`, which has not started.
    pub(crate) bytecode_offset: Option<u64>,
}

/// The suspended functions behind a microtask.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The position of the frame that they wait for.
    pub(crate) after: usize,
    /// Innermost first.
    pub(crate) callers: Vec<AsyncCaller>,
    pub(crate) end: ChainEnd,
    /// Whether several functions wait for the same promise somewhere: the one that came last is followed.
    pub(crate) has_siblings: bool,
    /// Whether no microtask runs but a callback, which has a function that resolves what they await.
    pub(crate) is_of_callback: bool,
    /// What has the variables of the function that runs, where it is async, and of its async callers.
    pub(crate) holders: Vec<Holder>,
}

/// What has the variables of a function that does not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    /// A suspended function, which keeps its arguments too.
    Generator(u64),
    /// The context of a callback of `then`.
    Context(u64),
}

impl Chain {
    /// One that nothing is known of yet.
    pub(super) fn new(after: usize) -> Self {
        Self {
            after,
            callers: Vec::new(),
            end: ChainEnd::Lost,
            has_siblings: false,
            is_of_callback: false,
            holders: Vec::new(),
        }
    }

    pub(super) fn generators(&self) -> impl Iterator<Item = u64> + '_ {
        self.holders.iter().filter_map(|holder| match holder {
            Holder::Generator(generator) => Some(*generator),
            Holder::Context(_) => None,
        })
    }

    /// How far it was followed, as one sample.
    pub(super) fn counted(&self) -> AsyncCallers {
        if self.is_of_callback {
            return AsyncCallers {
                callbacks: 1,
                ..AsyncCallers::default()
            };
        }
        let mut counts = AsyncCallers {
            siblings: self.has_siblings.into(),
            ..AsyncCallers::default()
        };
        *match self.end {
            ChainEnd::Whole => &mut counts.whole,
            ChainEnd::Settled => &mut counts.settled,
            ChainEnd::Lost => &mut counts.lost,
            ChainEnd::Queued => return AsyncCallers::default(),
            ChainEnd::Broken => &mut counts.broken,
        } = 1;
        counts
    }
}

/// Whom a promise is for.
enum Waiter {
    /// A suspended async function or generator.
    Generator(u64),
    /// Another promise, as with `Promise.all`.
    Promise(u64),
}

/// What a microtask continues.
enum Start {
    Generator(u64),
    Promise(u64),
    /// A promise that a callback resolves.
    Resolves(u64),
    /// A callback of its own.
    Queued,
    Lost,
}

/// The chain behind the frames of a stack; none where no microtask runs.
pub(super) fn find(heap: &mut Heap<'_>, frames: &[Unwound], stack: StackWord<'_>) -> Option<Chain> {
    let layout = heap.layout.async_objects.clone()?;
    let mut search = Search {
        objects: Sampled { heap },
        layout: &layout,
        microtasks: microtasks_of(&layout, frames),
    };
    let (after, start) = match search.start(frames) {
        // A microtask that is no continuation: what was queued may resolve a promise all the same.
        Some((after, start @ (Start::Queued | Start::Lost))) => search
            .callback_start(&frames[..after], stack)
            .unwrap_or((after, start)),
        Some(start) => start,
        None => search.callback_start(frames, stack)?,
    };
    let mut chain = Chain::new(after);
    let promise = match start {
        Start::Lost => return Some(chain),
        Start::Queued => {
            chain.end = ChainEnd::Queued;
            return Some(chain);
        }
        Start::Generator(generator) => {
            chain.holders.push(Holder::Generator(generator));
            search.promise_of_generator(generator)
        }
        Start::Promise(promise) => Some(promise),
        Start::Resolves(promise) => {
            chain.is_of_callback = true;
            Some(promise)
        }
    };
    chain.end = search.follow(promise, &mut chain);
    Some(chain)
}

/// What the innermost job of a stack has in its frame: its promise.
pub(super) fn word_of_job(heap: &mut Heap<'_>, frames: &[Unwound]) -> Option<u64> {
    let layout = heap.layout.async_objects.as_ref()?;
    let (_, job) = innermost_loop(layout, frames)?;
    Some(frames[job?].v8.as_ref()?.function)
}

/// The positions of the innermost loop that runs microtasks, and of the job that it runs. Outermost is what C++ enters V8 by,
/// then the loop, then the job.
fn innermost_loop(layout: &AsyncLayout, frames: &[Unwound]) -> Option<(usize, Option<usize>)> {
    let markers = |position: usize| frames[position].v8.as_ref().map(|slots| slots.marker);
    let is_stub = |position: usize| markers(position) == Some(layout.stub_marker);
    let is_loop =
        |&position: &usize| is_stub(position) && markers(position + 1) == Some(ENTRY_MARKER);
    let innermost = (0..frames.len().saturating_sub(1)).find(is_loop)?;
    let job = innermost.checked_sub(1).filter(|&job| is_stub(job));
    Some((innermost, job))
}

/// The queue of microtasks, which the innermost loop that runs them has in its frame.
fn microtasks_of(layout: &AsyncLayout, frames: &[Unwound]) -> Option<u64> {
    let (innermost, _) = innermost_loop(layout, frames)?;
    let queue = frames[innermost].v8.as_ref()?.function;
    (queue != 0 && queue % 8 == 0).then_some(queue)
}

/// Follows promises to those who wait for them.
pub(super) struct Search<'a, 'heap> {
    pub(super) objects: Sampled<'a, 'heap>,
    pub(super) layout: &'a AsyncLayout,
    /// The queue of microtasks, where one runs.
    pub(super) microtasks: Option<u64>,
}

impl Search<'_, '_> {
    /// What the innermost microtask of a stack continues, and the position of its frame. The closure of an `await` is above its
    /// job.
    fn start(&mut self, frames: &[Unwound]) -> Option<(usize, Start)> {
        let (innermost, job) = innermost_loop(self.layout, frames)?;
        let closure = innermost.saturating_sub(CLOSURE_DISTANCE)..innermost;
        for position in closure.rev() {
            let Some(slots) = &frames[position].v8 else {
                continue;
            };
            if !is_pointer(slots.marker) {
                continue;
            }
            if let Some(generator) = self.awaiting(slots.marker) {
                return Some((position, Start::Generator(generator)));
            }
            // `Promise.all` and its like: the closure of an element has the promise of the whole.
            if let Some(Waiter::Promise(promise)) = self.waiter(slots.function) {
                return Some((position, Start::Promise(promise)));
            }
        }
        let promise = job.and_then(|job| {
            let slots = frames[job].v8.as_ref()?;
            Some((job, self.promise_of_job(slots.function)?))
        });
        let is_function = |position: usize| {
            let slots = frames[position].v8.as_ref();
            slots.is_some_and(|it| is_pointer(it.marker) && is_pointer(it.function))
        };
        Some(match promise {
            Some((job, promise)) => (job, Start::Promise(promise)),
            // The loop calls it without a job in between.
            None if innermost.checked_sub(1).is_some_and(is_function) => (innermost, Start::Queued),
            None => (innermost, Start::Lost),
        })
    }

    /// The promise that a callback is to resolve, and the position of the frame whose variables have what resolves it:
    /// of a timer, a socket, `nextTick`.
    fn callback_start(
        &mut self,
        frames: &[Unwound],
        stack: StackWord<'_>,
    ) -> Option<(usize, Start)> {
        let functions = frames.iter().enumerate().filter_map(|(position, frame)| {
            let slots = frame.v8.as_ref()?;
            let is_js = is_pointer(slots.marker) && is_pointer(slots.function);
            is_js.then_some((position, slots))
        });
        let mut functions = functions.take(CALLBACK_FRAMES).enumerate();
        functions.find_map(|(number, (position, slots))| {
            let own = self.held_promise(slots.marker);
            let promise = own.or_else(|| match number < SPILLING_FRAMES {
                true => self.spilled_promise(slots.frame_pointer, stack),
                false => None,
            })?;
            Some((position, Start::Resolves(promise)))
        })
    }

    /// The same where the callback was inlined, and its context is in a spill slot.
    fn spilled_promise(&mut self, frame_pointer: u64, stack: StackWord<'_>) -> Option<u64> {
        (1..=SPILL_SLOTS).find_map(|slot| {
            let at = frame_pointer.checked_sub(ABOVE_SPILLS + 8 * slot)?;
            let word = stack(at).filter(|&word| is_pointer(word))?;
            self.held_promise(word)
        })
    }

    /// The function that the context of an `await` resumes.
    fn awaiting(&mut self, context: u64) -> Option<u64> {
        let context = self.objects.current(context)?;
        if !self.objects.is(context, *self.layout.contexts.start()) {
            return None;
        }
        let generator = self.objects.field(context, AsyncLayout::slot(2))?;
        let generator = self.objects.current(generator)?;
        self.is_async(generator).then_some(generator)
    }

    /// The promise that a job of the microtask queue has in its frame.
    fn promise_of_job(&mut self, word: u64) -> Option<u64> {
        if let Some(promise) = self.promise(word) {
            return Some(promise);
        }
        // A thenable's job has a function there that resolves it.
        match self.waiter(word)? {
            Waiter::Promise(promise) => Some(promise),
            Waiter::Generator(_) => None,
        }
    }

    pub(super) fn is_async(&mut self, object: u64) -> bool {
        let kind = self.objects.type_of(object);
        kind == Some(self.layout.async_function) || kind == Some(self.layout.async_generator)
    }

    /// A promise, or that of a capability.
    fn promise(&mut self, object: u64) -> Option<u64> {
        let object = self.objects.current(object)?;
        let kind = self.objects.type_of(object)?;
        if kind == self.layout.promise {
            return Some(object);
        }
        if kind != self.layout.capability {
            return None;
        }
        let promise = self
            .objects
            .field(object, AsyncLayout::CAPABILITY_PROMISE)?;
        self.objects
            .is(promise, self.layout.promise)
            .then_some(promise)
    }

    pub(super) fn promise_of_generator(&mut self, generator: u64) -> Option<u64> {
        let next = self
            .objects
            .field(generator, AsyncLayout::GENERATOR_PROMISE)?;
        if self.objects.is(generator, self.layout.async_function) {
            return self.promise(next);
        }
        // An async generator has a queue of calls of `next`.
        if !self.objects.is(next, self.layout.request) {
            return None;
        }
        let promise = self.objects.field(next, AsyncLayout::REQUEST_PROMISE)?;
        self.promise(promise)
    }

    /// The `SharedFunctionInfo` of a closure.
    fn shared(&mut self, closure: u64) -> Option<u64> {
        let closure = self.objects.current(closure)?;
        let kind = self.objects.type_of(closure)?;
        if !self.objects.heap.layout.function_types.contains(&kind) {
            return None;
        }
        let shared = self
            .objects
            .field(closure, self.objects.heap.layout.function_shared)?;
        // It is old, and stays where it is.
        self.objects
            .heap
            .is(shared, self.objects.heap.layout.type_shared)
            .then_some(shared)
    }

    fn is_builtin(&mut self, shared: u64) -> bool {
        let data = self
            .objects
            .heap
            .field(shared, self.objects.heap.layout.shared_data);
        data.is_some_and(|data| small_integer(data).is_some())
    }

    /// Whom a handler of a reaction continues, where it is one of V8's own.
    fn waiter(&mut self, handler: u64) -> Option<Waiter> {
        if !is_pointer(handler) {
            return None;
        }
        if self.is_async(handler) {
            return Some(Waiter::Generator(handler));
        }
        let shared = self.shared(handler)?;
        if !self.is_builtin(shared) {
            return None;
        }
        let context = self.objects.field(handler, self.layout.function_context)?;
        // One with more is the context of a realm: the closure was called already.
        let slots = self.objects.slots(self.layout, context)?;
        for slot in 2..slots {
            let Some(word) = self.objects.field(context, AsyncLayout::slot(slot)) else {
                break;
            };
            if !is_pointer(word) {
                continue;
            }
            if self.is_async(word) {
                return Some(Waiter::Generator(word));
            }
            if let Some(promise) = self.promise(word) {
                return Some(Waiter::Promise(promise));
            }
        }
        None
    }

    /// Follows the reactions of a promise to the outermost async caller.
    pub(super) fn follow(&mut self, promise: Option<u64>, chain: &mut Chain) -> ChainEnd {
        let mut next = promise;
        let mut seen = Vec::new();
        for _ in 0..MAX_LINKS {
            let Some(promise) = next else {
                return ChainEnd::Broken;
            };
            if seen.contains(&promise) {
                return ChainEnd::Broken;
            }
            seen.push(promise);
            match self.link(promise, chain) {
                Ok(promise) => next = promise,
                Err(end) => return end,
            }
        }
        ChainEnd::Broken
    }

    /// Adds the async caller that awaits a promise to the chain, and returns its own promise.
    fn link(&mut self, promise: u64, chain: &mut Chain) -> Result<Option<u64>, ChainEnd> {
        let flags = self.objects.field(promise, AsyncLayout::PROMISE_FLAGS);
        let flags = flags.and_then(small_integer).ok_or(ChainEnd::Broken)?;
        if flags & AsyncLayout::PROMISE_STATUS != 0 {
            return Err(ChainEnd::Settled);
        }
        let reaction = self.objects.field(promise, AsyncLayout::PROMISE_REACTIONS);
        let reaction = reaction.ok_or(ChainEnd::Broken)?;
        match small_integer(reaction) {
            Some(0) => return self.queued_waiter(promise).map(Some).ok_or(ChainEnd::Whole),
            // Its result, a moment before the flags say so.
            Some(_) => return Err(ChainEnd::Settled),
            None => {}
        }
        if !self.objects.is(reaction, self.layout.reaction) {
            return Err(ChainEnd::Broken);
        }
        let [sibling, rejected, fulfilled, derived] = self.reaction(reaction)?;
        chain.has_siblings |= is_pointer(sibling);
        let waiter = self.waiter(fulfilled).or_else(|| self.waiter(rejected));
        match waiter {
            Some(Waiter::Generator(generator)) => {
                let caller = self.caller(generator).ok_or(ChainEnd::Broken)?;
                chain.callers.push(caller);
                chain.holders.push(Holder::Generator(generator));
                Ok(self.promise_of_generator(generator))
            }
            Some(Waiter::Promise(promise)) => Ok(Some(promise)),
            None => Ok(self.callback(fulfilled, derived, chain)),
        }
    }

    /// The words of a reaction: the next one, what to call when it is rejected and fulfilled, and the promise of that call.
    fn reaction(&mut self, reaction: u64) -> Result<[u64; 4], ChainEnd> {
        let mut words = [0; 4];
        for (position, word) in words.iter_mut().enumerate() {
            let offset = self.layout.reaction_next + 8 * position as u64;
            *word = self
                .objects
                .field(reaction, offset)
                .ok_or(ChainEnd::Broken)?;
        }
        let [next, ..] = words;
        // Another V8 has them elsewhere: nothing is better than a wrong caller.
        let is_next = small_integer(next) == Some(0) || self.objects.is(next, self.layout.reaction);
        is_next.then_some(words).ok_or(ChainEnd::Broken)
    }

    /// Adds the callback of a `then`, and goes on with the promise that the `then` has made.
    fn callback(&mut self, callback: u64, derived: u64, chain: &mut Chain) -> Option<u64> {
        let derived = self.promise(derived);
        let shared = match self.shared(callback) {
            Some(shared) if !self.is_builtin(shared) => shared,
            _ => return derived,
        };
        let context = self.objects.field(callback, self.layout.function_context);
        let generator = context.and_then(|context| self.driven_generator(context));
        let caller = generator.and_then(|generator| self.caller(generator));
        chain.holders.extend(generator.map(Holder::Generator));
        chain.holders.extend(context.map(Holder::Context));
        chain.callers.push(caller.unwrap_or(AsyncCaller {
            shared,
            bytecode_offset: None,
        }));
        let is_awaited = derived.is_some_and(|promise| self.is_awaited(promise));
        let held = match is_awaited {
            true => None,
            false => context.and_then(|context| self.held_promise(context)),
        };
        held.or(derived)
    }

    /// A function that is suspended in an `await` or a `yield`.
    pub(super) fn caller(&mut self, generator: u64) -> Option<AsyncCaller> {
        let function = self
            .objects
            .field(generator, AsyncLayout::GENERATOR_FUNCTION)?;
        let shared = self.shared(function)?;
        let position = self
            .objects
            .field(generator, AsyncLayout::GENERATOR_POSITION);
        let data = self.objects.heap.layout.bytecode_data;
        let offset = position
            .and_then(small_integer)
            .and_then(|position| u64::try_from(position).ok()?.checked_sub(data - 1));
        Some(AsyncCaller {
            shared,
            bytecode_offset: offset,
        })
    }

    /// Whether a promise is pending and awaited.
    fn is_awaited(&mut self, promise: u64) -> bool {
        let flags = self.objects.field(promise, AsyncLayout::PROMISE_FLAGS);
        let is_pending = flags
            .and_then(small_integer)
            .is_some_and(|flags| flags & AsyncLayout::PROMISE_STATUS == 0);
        let reactions = self.objects.field(promise, AsyncLayout::PROMISE_REACTIONS);
        is_pending && reactions.is_some_and(is_pointer)
    }

    /// A generator in the contexts of a function: async functions compiled for older engines are generators that a helper
    /// drives.
    fn driven_generator(&mut self, context: u64) -> Option<u64> {
        self.find_in_contexts(context, |search, word| {
            search
                .objects
                .is(word, search.layout.generator)
                .then_some(word)
        })
    }

    /// The promise that a function settles: an awaited one, whose `resolve` or `reject` is in its contexts.
    fn held_promise(&mut self, context: u64) -> Option<u64> {
        self.find_in_contexts(context, |search, word| match search.waiter(word)? {
            Waiter::Promise(promise) if search.is_awaited(promise) => Some(promise),
            _ => None,
        })
    }

    fn find_in_contexts(
        &mut self,
        context: u64,
        find: impl Fn(&mut Self, u64) -> Option<u64>,
    ) -> Option<u64> {
        let mut context = context;
        for _ in 0..MAX_CONTEXTS {
            context = self.objects.current(context)?;
            for slot in 2..self.objects.slots(self.layout, context)? {
                let word = self.objects.field(context, AsyncLayout::slot(slot))?;
                if is_pointer(word)
                    && let Some(found) = find(self, word)
                {
                    return Some(found);
                }
            }
            context = self.objects.field(context, AsyncLayout::slot(1))?;
        }
        None
    }
}

/// The offset in its script of the `await` that a function is suspended at.
pub(super) fn place(heap: &mut Heap<'_>, caller: &AsyncCaller) -> Option<u32> {
    let data = heap.field(caller.shared, heap.layout.shared_data)?;
    let bytecode = code_tables::bytecode_of(heap, data)?;
    code_tables::bytecode_place(heap, bytecode, caller.bytecode_offset?)
}
