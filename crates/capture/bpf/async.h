// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What leads to the async callers of what runs: promises, reactions, suspended functions, the queue of microtasks.

// The frames of V8's stubs have a small number where others have a context.
static __always_inline int is_marker(u64 word)
{
    return word < 256 && !(word & 1);
}

// What a microtask continues. Outermost is the frame by which C++ enters V8, then the loop that runs microtasks, then the
// job, which has a promise, then the closure of an await, which has its context. They are met in the other order. Where
// other functions are entered there is one in place of the loop's queue, which is no object.
static __always_inline void note_microtask(struct scratch *s)
{
    u64 marker = s->words[5];

    if (marker == ENTRY_MARKER && is_marker(s->markers[0]) && !(s->functions[0] & 1) && s->starts < MAX_STARTS) {
        s->starts++;
        if (s->starts == 1)
            s->microtasks = s->functions[0];
        // A microtask that is no job of a promise is a callback.
        s->jobs |= is_marker(s->markers[1]);
        // Before Node 24 the promise of the job has the stores.
        if (s->wants_stores && s->starts == 1)
            follow_later(s->functions[1], STORE);
        for (int before = 1; before < 3; before++) {
            follow_later(s->markers[before], CONTEXT);
            follow_later(s->functions[before], ANY);
        }
    }
    s->markers[2] = s->markers[1];
    s->functions[2] = s->functions[1];
    s->markers[1] = s->markers[0];
    s->functions[1] = s->functions[0];
    s->markers[0] = marker;
    s->functions[0] = s->words[4];
}

// A closure of a builtin, such as the functions that resolve a promise: its SharedFunctionInfo has a number for its code.
__noinline int is_builtin(u64 object)
{
    struct scratch *s = scratch();
    u64 code = 1;

    if (!s || !is_object(object) || bpf_probe_read_user(s->closure, sizeof(s->closure), (void *)(object - 1)))
        return 0;
    // Versions differ in where it is.
    for (int at = 3; at < 5; at++)
        if (is_object(s->closure[at]) &&
            !bpf_probe_read_user(&code, sizeof(code), (void *)(s->closure[at] + 7)) && is_small(code))
            return 1;
    return 0;
}

// Functions that resolve a promise, in the variables of a callback. Returns the context around this one.
__noinline u64 follow_held(u64 object)
{
    struct scratch *s = scratch();
    int at = copy_new_context(object);

    if (!s || at <= 0)
        return 0;
    for (u32 slot = FIRST_SLOT; slot < LAST_SLOT; slot++) {
        u64 closure = s->out[(at + slot) & (OUT_WORDS - 1)];
        if (slot < s->context_words && is_builtin(closure))
            follow_later(closure, ANY);
    }
    return s->out[(at + 3) & (OUT_WORDS - 1)];
}

CALLBACK(follow_spill)
{
    struct scratch *s = scratch();

    if (!s)
        return 1;
    follow_held(s->spills[index & (SPILL_SLOTS - 1)]);
    return 0;
}

__noinline int follow_spills(u64 frame)
{
    struct scratch *s = scratch();

    if (!s || bpf_probe_read_user(s->spills, sizeof(s->spills), (void *)(frame - ABOVE_SPILLS - sizeof(s->spills))))
        return 0;
    LOOP(SPILL_SLOTS, follow_spill);
    return 0;
}

// Where no promise's job runs, a callback may be about to resolve a promise that somebody awaits.
__noinline int follow_callback(void)
{
    struct scratch *s = scratch();

    if (!s || s->jobs)
        return 0;
    for (u32 i = 0; i < MAX_HELD; i++) {
        u64 context = i < s->held ? s->contexts[i] : 0;
        for (int level = 0; level < MAX_CONTEXTS; level++)
            if (context)
                context = follow_held(context);
        if (i < SPILLING_FRAMES && i < s->held)
            follow_spills(s->frames[i]);
    }
    return 0;
}

// The microtasks that run next: up to the end of the ring, and on from its start.
__noinline int copy_tasks(void)
{
    struct scratch *s = scratch();
    int at = s && is_address(s->microtasks) ? copy(s->microtasks, QUEUE_WORDS) : 0;

    if (!s || at <= 0)
        return 0;
    u64 *queue = &s->out[at & (OUT_WORDS - 1)];
    u64 start = queue[QUEUE_START], capacity = queue[QUEUE_CAPACITY], count = queue[QUEUE_SIZE];
    u64 ring = queue[QUEUE_RING];
    if (start >= capacity || count > capacity || capacity > USER_END)
        return 0;
    count = count < MAX_TASKS ? count : MAX_TASKS;
    u64 first = count < capacity - start ? count : capacity - start;
    int tasks = count ? copy(ring + 8 * start, first) : 0;
    if (tasks <= 0)
        return 0;
    s->tasks = tasks;
    s->task_count = first;
    // The word before says how many follow.
    if (count > first && copy(ring, count - first) > 0)
        s->task_count = count + 1;
    return 0;
}

// An async function that returns a promise waits for it from a microtask on: until then the promise does not know. Versions
// differ in where the task has the two.
__noinline int follow_task(u64 promise)
{
    struct scratch *s = scratch();

    if (!s || s->task_searches >= MAX_TASK_SEARCHES)
        return 0;
    s->task_searches++;
    // Where they are in two parts, the word between them is one more.
    for (u32 i = 0; i < MAX_TASKS + 1; i++) {
        if (i >= s->task_count)
            break;
        u64 task = s->out[(s->tasks + i) & (OUT_WORDS - 1)];
        if (!is_object(task) || bpf_probe_read_user(s->task, sizeof(s->task), (void *)(task - 1)))
            continue;
        if (s->task[3] != promise && s->task[4] != promise)
            continue;
        copy(task - 1, TASK_WORDS);
        follow_later(s->task[3] == promise ? s->task[2] : s->task[3], ANY);
        break;
    }
    return 0;
}

// A promise, a suspended function, what holds one of them, or anything else, which may be a request where a context holds it.
__noinline int follow_any(u64 object, u32 is_held)
{
    struct scratch *s = scratch();
    int at = copy_object(object, GENERATOR_WORDS);

    if (!s || at <= 0)
        return 0;
    u64 *word = &s->out[at & (OUT_WORDS - 1)];
    if (is_small(word[4]) && is_object(word[1]) && is_object(word[2])) {
        // A promise, pending and awaited, now or soon.
        if (!(word[4] >> 32 & 3)) {
            follow_later(word[3], REACTION);
            if (!word[3] && s->task_count)
                follow_task(object);
        }
    } else if (is_small(word[7]) && is_small(word[8]) && is_object(word[3]) && is_object(word[10])) {
        // A suspended function: its promise, or who calls it.
        follow_later(word[10], ANY);
        copy_object(word[3], FUNCTION_WORDS);
        look_at_kept(word[5], word[9]);
        look_at_contexts(word[4]);
        is_held = 0;
    } else if (is_small(word[2])) {
        // A call of an async generator.
        follow_later(word[4], ANY);
    } else if (is_object(word[1])) {
        // The promise of a capability; the context of a closure.
        follow_later(word[1], ANY);
        follow_later(word[4], CONTEXT);
        follow_later(word[5], CONTEXT);
    }
    // Small numbers make others look like a promise.
    if (is_held && s->wants_requests && (word[-1] & ((1ull << CHUNK_SHIFT) - 1)) == object - 1)
        look_at(object, at, 0);
    return 0;
}

// The handlers of a reaction, and the promise of their call.
__noinline int follow_reaction(u64 object)
{
    struct scratch *s = scratch();
    int at = copy_object(object, REACTION_WORDS);

    if (!s || at <= 0)
        return 0;
    u64 *word = &s->out[at & (OUT_WORDS - 1)];
    for (int slot = 2; slot < REACTION_WORDS; slot++)
        follow_later(word[slot], ANY);
    return 0;
}

// What a small context holds.
__noinline int follow_context(u64 object)
{
    struct scratch *s = scratch();
    int at = copy_new_context(object);

    if (!s || at <= 0)
        return 0;
    u64 *word = &s->out[at & (OUT_WORDS - 1)];
    for (u32 slot = FIRST_SLOT; slot < LAST_SLOT; slot++)
        if (slot < s->context_words)
            follow_later(word[slot], HELD);
    return 0;
}

CALLBACK(follow)
{
    struct scratch *s = scratch();

    asm volatile("" ::"r"(index));
    if (!s || s->followed >= s->queued || s->used > s->async_end)
        return 1;
    u64 next = s->queue[s->followed & (QUEUE - 1)];
    u64 object = next & ((1ull << KIND_SHIFT) - 1);
    s->followed++;
    if (next >> KIND_SHIFT == REACTION)
        follow_reaction(object);
    else if (next >> KIND_SHIFT == CONTEXT)
        follow_context(object);
    else if (next >> KIND_SHIFT == TEXT)
        copy_text(object);
    else if (next >> KIND_SHIFT == REQUEST)
        look_at(object, 0, 1);
    else if (next >> KIND_SHIFT == STORE)
        look_at_store(object);
    else if (next >> KIND_SHIFT == SCOPE)
        look_at_scope(object);
    else if (next >> KIND_SHIFT == DICTIONARY)
        copy_dictionary(object);
    else if (next >> KIND_SHIFT == SLOTS)
        copy_slots(object);
    else
        follow_any(object, next >> KIND_SHIFT == HELD);
    return 0;
}

__noinline int follow_all(void)
{
    LOOP(QUEUE, follow);
    return 0;
}
