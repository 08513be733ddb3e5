// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Walks the stack by its frame pointers, and searches for one where there is none.

// One frame: its words, and the function in it.
CALLBACK(frame)
{
    struct scratch *s = scratch();

    // Else the compiler passes nothing, which the verifier minds.
    asm volatile("" ::"r"(index));
    if (!s || s->walked >= MAX_FRAMES)
        return 1;
    // Met before, on another way.
    if (!is_new(s, s->frame))
        return 1;
    meet(s, s->frame);
    u64 start = s->frame - BELOW_FRAME;
    int at = window_at(start, FRAME_WORDS);
    if (at < 0)
        return 1;
    __builtin_memcpy(s->words, &s->window[at & (WINDOW_WORDS - 1)], sizeof(s->words));
    if (start < s->stack_start || start + sizeof(s->words) > s->stack_end)
        append(s, start, s->words, FRAME_WORDS);
    // A context where other frames have a small number, and a function.
    if (is_object(s->words[5]) && is_object(s->words[4])) {
        copy_object(s->words[4], FUNCTION_WORDS);
        if (s->wants_requests && !s->has_request)
            look_at_arguments();
        if (s->wants_scopes)
            note_scope();
        if (s->held < MAX_HELD) {
            s->contexts[s->held & (MAX_HELD - 1)] = s->words[5];
            s->frames[s->held & (MAX_HELD - 1)] = s->frame;
            s->held++;
        }
    }
    note_microtask(s);
    s->walked++;
    if (s->frame > s->outermost)
        s->outermost = s->frame;
    s->next = s->words[6];
    if (s->next <= s->frame || s->next & 7 || s->next - s->frame > MAX_FRAME_BYTES)
        return 1;
    s->frame = s->next;
    return 0;
}

// Is this a frame pointer, met at this place of the stack? Three frames in a row say so; if they are none, their memory is
// copied for nothing. Code is not in the stack.
__noinline int is_frame(u64 at, u64 word)
{
    struct scratch *s = scratch();

    if (!s)
        return 0;
    for (int step = 0; step < 3; step++) {
        if (word <= at || word & 7 || word - at > MAX_FRAME_BYTES)
            return 0;
        at = word;
        // What is far away is most often no frame: the window stays.
        if (in_window(s, word, 2))
            __builtin_memcpy(s->pair, &s->window[(word - s->window_start) / 8 & (WINDOW_WORDS - 1)], sizeof(s->pair));
        else if (s->probes++ >= MAX_PROBES || bpf_probe_read_user(s->pair, sizeof(s->pair), (void *)word))
            return 0;
        if (s->pair[1] < 0x10000 || s->pair[1] >= USER_END || s->pair[1] - s->stack_start < MAX_STACK_BYTES)
            return 0;
        word = s->pair[0];
    }
    return 1;
}

// Is this word of the stack a frame pointer that was saved?
CALLBACK(search)
{
    struct scratch *s = scratch();

    if (!s)
        return 1;
    u64 word = s->search[index & (SEARCH_WORDS - 1)];
    u64 at = s->search_start + 8ull * index;
    if (!is_new(s, word) || !is_frame(at, word))
        return 0;
    s->frame = word;
    s->found = at;
    return 1;
}

// Functions of their own, so that the verifier looks at each loop once.
__noinline int search_window(void)
{
    LOOP(SEARCH_WORDS, search);
    return 0;
}

__noinline int walk_frames(void)
{
    LOOP(MAX_FRAMES, frame);
    return 0;
}

// Finds a frame to go on with, and after it the next. What functions have left in a buffer that is not filled looks like a
// frame too, and may lead around those that are: so the search goes on where it has found one.
__noinline int resume(void)
{
    struct scratch *s = scratch();

    if (!s)
        return 0;
    for (u32 window = 0; window < SEARCH_WINDOWS; window++) {
        s->found = 0;
        if (s->search_start >= s->search_end || s->search_start >= USER_END ||
            bpf_probe_read_user(s->search, sizeof(s->search), (void *)s->search_start))
            return 0;
        search_window();
        if (s->found) {
            s->search_start = s->found + 8;
            return 1;
        }
        s->search_start += sizeof(s->search);
    }
    return 0;
}

CALLBACK(bare_chunk)
{
    struct scratch *s = scratch();

    asm volatile("" ::"r"(index));
    if (!s || s->bare_start >= s->bare_end)
        return 1;
    u32 faults = s->faults;
    int at = copy(s->bare_start, MAX_CHUNK);
    // What can't be read is above the stack's end.
    s->faults = faults;
    s->bare_start += 8 * MAX_CHUNK;
    return at <= 0;
}

// Copies what lies beyond the copied stack of a part without frame pointers: it is unwound by tables, which may ask for any word.
__noinline int copy_bare(u64 start, u64 end)
{
    struct scratch *s = scratch();

    if (!s)
        return 0;
    s->bare_start = start < s->stack_end ? s->stack_end : start;
    s->bare_end = end;
    LOOP(BARE_CHUNKS, bare_chunk);
    return 0;
}

// Goes on where a frame pointer leads nowhere: in a leaf without a frame of its own (libc, OpenSSL's assembly), or beyond a
// frame that V8 is deoptimizing, which is no more. Where next to no frame is found the code has no frame pointers at all.
static __always_inline void search_frames(struct scratch *s)
{
    u64 start = s->walked ? s->frame + 16 : s->stack_start;
    u64 found = 0;

    s->search_start = start;
    s->search_end = start + sizeof(s->search) * SEARCH_WINDOWS;
    for (int way = 0; way < MAX_WAYS; way++) {
        if (!resume())
            break;
        found = s->found + ABOVE_SAVED;
        s->search_end = start + SURE_BYTES;
        walk_frames();
    }
    // A few frames may be those of a library, or words that look like them; a few up to the outermost are all there are.
    if (!s->walked || (s->walked < MIN_FRAMES && s->next >= 4096)) {
        if (s->wants_bare)
            copy_bare(s->stack_end, USER_END);
    } else if (found > s->stack_end)
        copy_bare(start, found);
}

// Copies what lies above the outermost frame; near the end of the stack there may be less.
static __always_inline void copy_root(struct scratch *s)
{
    u64 start = s->outermost + 16;

    if (start + 8 * ROOT_WORDS > s->stack_end)
        copy(start, ROOT_WORDS);
}
