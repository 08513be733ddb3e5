// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Copies memory of the process into the record, each object once, and notes what is to be followed later.

// A tagged pointer to an object.
static __always_inline int is_object(u64 word)
{
    return (word & 3) == 1 && word > 0x10000 && word < USER_END;
}

static __always_inline int is_address(u64 word)
{
    return word > 0x10000 && word < USER_END;
}

// Appends words of the process; where they are in `out`, behind what says so, or 0.
static __always_inline int copy_words(struct scratch *s, u64 address, u32 words)
{
    if (words > MAX_CHUNK || address >= USER_END)
        return 0;
    u32 at = s->used;
    if (at + 1 + words > MAX_WORDS) {
        s->dropped++;
        return 0;
    }
    at &= OUT_WORDS - 1;
    if (bpf_probe_read_user(&s->out[at + 1], words * 8 & (8 * MAX_CHUNK + 7), (void *)address)) {
        // More is asked for than most objects have: the last one before memory that is not mapped has its words all the same,
        // and zeroes follow.
        u32 mapped = (PAGE_BYTES - (address & (PAGE_BYTES - 1))) / 8;
        if (mapped >= words || !mapped ||
            bpf_probe_read_user(&s->out[at + 1], mapped * 8 & (8 * MAX_CHUNK + 7), (void *)address)) {
            s->faults++;
            return 0;
        }
        words = mapped;
    }
    s->out[at] = address | (u64)words << CHUNK_SHIFT;
    s->used = at + 1 + words;
    return at + 1;
}

// Functions that are not static are verified once. A call is at most eight deep: the deepest have the code itself.
__noinline int copy(u64 address, u32 words)
{
    struct scratch *s = scratch();

    return s ? copy_words(s, address, words) : 0;
}

// Appends words that were read already.
static __always_inline void append(struct scratch *s, u64 address, const u64 *words, u32 count)
{
    u32 at = s->used;

    if (at + 1 + count > MAX_WORDS) {
        s->dropped++;
        return;
    }
    at &= OUT_WORDS - 1;
    s->out[at] = address | (u64)count << CHUNK_SHIFT;
    __builtin_memcpy(&s->out[at + 1], words, 8 * count);
    s->used = at + 1 + count;
}

// Appends how much could not be copied; returns how many words there are, none where there is nothing to say.
static __always_inline u32 append_counts(struct scratch *s)
{
    u32 at = s->used;

    if (at > MAX_WORDS || !(at | s->faults | s->dropped))
        return 0;
    u64 faults = s->faults < MAX_COUNT ? s->faults : MAX_COUNT;
    u64 dropped = s->dropped < MAX_COUNT ? s->dropped : MAX_COUNT;
    s->out[at & (OUT_WORDS - 1)] = faults | dropped << DROPPED_SHIFT;
    return at + 1;
}

// Whether these words of the stack are in the window.
static __always_inline int in_window(struct scratch *s, u64 address, u32 words)
{
    return address >= s->window_start && address + 8 * words <= s->window_end && !((address - s->window_start) & 7);
}

// Where words of the stack are in the window, which is moved there if they are not in it; below 0 where they can't be read.
__noinline int window_at(u64 address, u32 words)
{
    struct scratch *s = scratch();

    if (!s || address >= USER_END)
        return -1;
    if (in_window(s, address, words))
        return (address - s->window_start) / 8;
    u64 bytes = 8 * WINDOW_WORDS;
    s->window_end = 0;
    if (bpf_probe_read_user(s->window, bytes, (void *)address)) {
        // The stack ends before: up to its last page.
        bytes = PAGE_BYTES - (address & (PAGE_BYTES - 1));
        if (bytes >= 8 * WINDOW_WORDS || bpf_probe_read_user(s->window, bytes & (8 * WINDOW_WORDS - 1), (void *)address)) {
            s->faults++;
            return -1;
        }
    }
    s->window_start = address;
    s->window_end = address + bytes;
    return in_window(s, address, words) ? 0 : -1;
}

// Whether an object or a frame was not met before in this sample.
static __always_inline int is_new(struct scratch *s, u64 address)
{
    return s->seen[address >> 3 & (SEEN - 1)] != (address | s->sample << 48);
}

static __always_inline void meet(struct scratch *s, u64 address)
{
    s->seen[address >> 3 & (SEEN - 1)] = address | s->sample << 48;
}

// Copies an object once; where its words are in `out`, or 0. Where the collector has moved it the word of its map says where
// to.
__noinline int copy_object(u64 object, u32 words)
{
    struct scratch *s = scratch();

    if (!s || !is_object(object) || !is_new(s, object))
        return 0;
    meet(s, object);
    int at = copy(object - 1, words);
    if (at <= 0)
        return 0;
    u64 map = s->out[at & (OUT_WORDS - 1)];
    if (map & 1)
        return at;
    return is_object(map | 1) ? copy(map, words) : 0;
}

// A small integer.
static __always_inline int is_small(u64 word)
{
    return !(word & 0xffffffff);
}

// Remembers an object to be followed.
static __always_inline void enqueue(struct scratch *s, u64 object, u32 kind)
{
    if (!is_object(object) || s->queued >= QUEUE)
        return;
    s->queue[s->queued & (QUEUE - 1)] = object | (u64)kind << KIND_SHIFT;
    s->queued++;
}

__noinline int follow_later(u64 object, u32 kind)
{
    struct scratch *s = scratch();

    if (s)
        enqueue(s, object, kind);
    return 0;
}
