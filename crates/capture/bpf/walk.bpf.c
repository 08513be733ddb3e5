// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Copies, at the sampled instruction, the memory that unwinding and naming a stack of V8 needs: the words of each frame that
// lie beyond the copied stack, the function of each JavaScript frame, and the promises and suspended functions that lead to
// those who await what runs. A moment later the garbage collector may have moved closures, and the promises are settled.
//
// The program decides what is worth copying and nothing else. What is copied goes into the ring right before its sample,
// as pieces of memory with their addresses; user space reads them as it reads the memory of the process. So frames that are
// none, or memory that lies, cost copies of little use and never a wrong word.
//
// Built by tools/bpf.sh into walk.bpf.o, which is committed.

#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>

typedef __u64 u64;
typedef __u32 u32;

// A record is pieces of memory: a word with the address and the number of words, then these.
#define PIECE_SHIFT 48
#define MAX_FRAMES 1024
// A power of two; and what fits into a record, whose length is 16 bits.
#define OUT_WORDS 8192
#define MAX_WORDS 7168
// The largest piece, one less than a power of two: the verifier understands masks.
#define MAX_PIECE 15
// Objects that are copied once a sample.
#define SEEN 256
// How much is searched for a frame: above the stack pointer where the leaf has none, and above the last frame where it
// leads nowhere. In windows, as less may be left of the stack; all of them together are larger than what vfprintf holds,
// which V8's collector calls to note each collection.
#define SEARCH_WORDS 128
#define SEARCH_WINDOWS 16
// Where something was found, all frames of a leaf without frame pointers are in this.
#define SURE_BYTES 4096
// How many of the frames that are found are followed.
#define MAX_WAYS 12
// A way to the outermost frame has at least so many; a shorter one is in the copied stack anyway.
#define FEWEST_FRAMES 6
// What is copied above the outermost frame, where libc has its own without frame pointers.
#define ROOT_WORDS 60
// A JSFunction up to its context, on every V8 from 9.4 to 14.6.
#define FUNCTION_WORDS 6
// The words of a frame: six below the frame pointer, the caller's frame pointer, the return address.
#define FRAME_WORDS 8
#define BELOW_FRAME 48
// Objects that lead to those who await what runs. No type is known here: shapes tell what is worth following.
#define QUEUE 512
#define MAX_ASYNC_WORDS 4096
#define MAX_STARTS 4
#define ENTRY_MARKER 2
// A suspended function up to its promise.
#define GENERATOR_WORDS 12
#define CONTEXT_WORDS 15
#define REACTION_WORDS 6
// What an object in the queue is taken for, above its address.
#define KIND_SHIFT 56
#define ANY 0
#define REACTION 1
#define CONTEXT 2
#define MAX_FRAME_BYTES (1 << 20)
#define MAX_STACK_BYTES (8 << 20)
#define USER_END 0x800000000000ull

struct scratch {
    u64 stack_start, stack_end;
    // The frame that was walked last, what it has for its caller's, and the outermost one.
    u64 frame, next, outermost;
    u64 search_start, search_end, found;
    u32 used, walked;
    // Objects to be followed, those that were, and how many of them frames had.
    u32 queued, followed, starts, async_end;
    // The three frames before.
    u64 markers[3], functions[3];
    u64 words[FRAME_WORDS], pair[2];
    u64 search[SEARCH_WORDS];
    u64 queue[QUEUE];
    // Objects that were copied, with the number of the sample above their addresses.
    u64 seen[SEEN];
    u64 sample;
    u64 out[OUT_WORDS + 1 + MAX_PIECE];
};

// One for each CPU, as many as user space says there are: maps that are the kernel's own per CPU end at 32 KiB.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct scratch);
} scratches SEC(".maps");

// How much of the stack each sample copies anyway.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u32);
} stack_bytes SEC(".maps");

// An event of each CPU whose records go into the ring of samples.
struct {
    __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
    __uint(key_size, sizeof(u32));
    __uint(value_size, sizeof(u32));
} outputs SEC(".maps");

#ifdef NO_BPF_LOOP
// Before Linux 5.17.
#define CALLBACK(name) __noinline int name(u32 index)
#define LOOP(count, callback) \
    for (u32 turn = 0; turn < (count); turn++) \
        if (callback(turn)) \
            break
#else
#define CALLBACK(name) static long name(u32 index, void *unused)
#define LOOP(count, callback) bpf_loop(count, callback, 0, 0)
#endif

static __always_inline struct scratch *scratch(void)
{
    u32 cpu = bpf_get_smp_processor_id();

    return bpf_map_lookup_elem(&scratches, &cpu);
}

// A tagged pointer to an object.
static __always_inline int is_object(u64 word)
{
    return (word & 3) == 1 && word > 0x10000 && word < USER_END;
}

// Appends words of the process; where they are in `out`, behind what says so, or 0. Functions that are not static are verified once.
__noinline int copy(u64 address, u32 words)
{
    struct scratch *s = scratch();

    if (!s || words > MAX_PIECE || address >= USER_END)
        return 0;
    u32 at = s->used;
    if (at + 1 + words > MAX_WORDS)
        return 0;
    at &= OUT_WORDS - 1;
    if (bpf_probe_read_user(&s->out[at + 1], words * 8 & (8 * MAX_PIECE + 7), (void *)address))
        return 0;
    s->out[at] = address | (u64)words << PIECE_SHIFT;
    s->used = at + 1 + words;
    return at + 1;
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
__noinline int follow_later(u64 object, u32 kind)
{
    struct scratch *s = scratch();

    if (!s || !is_object(object) || s->queued >= QUEUE)
        return 0;
    s->queue[s->queued & (QUEUE - 1)] = object | (u64)kind << KIND_SHIFT;
    s->queued++;
    return 0;
}

// The frames of V8's stubs have a small number where others have a context.
static __always_inline int is_marker(u64 word)
{
    return word < 256 && !(word & 1);
}

// What a microtask continues. Outermost is the frame by which C++ enters V8, then the loop that runs microtasks, then the
// job, which has a promise, then the closure of an await, which has its context. They are met in the other order.
static __always_inline void note_microtask(struct scratch *s)
{
    u64 marker = s->words[5];

    if (marker == ENTRY_MARKER && is_marker(s->markers[0]) && s->starts < MAX_STARTS) {
        s->starts++;
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

// A promise, a suspended function, what holds one of them, or anything else.
__noinline int follow_any(u64 object)
{
    struct scratch *s = scratch();
    int at = copy_object(object, GENERATOR_WORDS);

    if (!s || at <= 0)
        return 0;
    u64 *word = &s->out[at & (OUT_WORDS - 1)];
    if (is_small(word[4]) && is_object(word[1]) && is_object(word[2])) {
        // A promise, pending and awaited.
        if (!(word[4] >> 32 & 3))
            follow_later(word[3], REACTION);
    } else if (is_small(word[7]) && is_small(word[8]) && is_object(word[3]) && is_object(word[10])) {
        // A suspended function: its promise, or who calls it.
        follow_later(word[10], ANY);
        copy_object(word[3], FUNCTION_WORDS);
    } else if (is_small(word[2])) {
        // A call of an async generator.
        follow_later(word[4], ANY);
    } else if (is_object(word[1])) {
        // The promise of a capability; the context of a closure.
        follow_later(word[1], ANY);
        follow_later(word[4], CONTEXT);
        follow_later(word[5], CONTEXT);
    }
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
    u64 length = 0;

    if (!s || !is_object(object) || bpf_probe_read_user(&length, sizeof(length), (void *)(object + 7)))
        return 0;
    if (!is_small(length) || length >> 32 < 3 || length >> 32 > 16)
        return 0;
    int at = copy_object(object, CONTEXT_WORDS);
    if (at <= 0)
        return 0;
    u64 *word = &s->out[at & (OUT_WORDS - 1)];
    for (u32 slot = 4; slot < 10; slot++)
        if (slot < 2 + (u32)(length >> 32))
            follow_later(word[slot], ANY);
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
    else
        follow_any(object);
    return 0;
}

// One frame: its words, and the function in it.
CALLBACK(frame)
{
    struct scratch *s = scratch();

    // Else the compiler passes nothing, which the verifier minds.
    asm volatile("" ::"r"(index));
    if (!s)
        return 1;
    // Met before, on another way.
    if (!is_new(s, s->frame))
        return 1;
    meet(s, s->frame);
    u64 start = s->frame - BELOW_FRAME;
    if (start >= USER_END || bpf_probe_read_user(s->words, sizeof(s->words), (void *)start))
        return 1;
    if (start < s->stack_start || start + sizeof(s->words) > s->stack_end)
        copy(start, FRAME_WORDS);
    // A context where other frames have a small number, and a function.
    if (is_object(s->words[5]) && is_object(s->words[4]))
        copy_object(s->words[4], FUNCTION_WORDS);
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
        if (bpf_probe_read_user(s->pair, sizeof(s->pair), (void *)word) || s->pair[1] < 0x10000 || s->pair[1] >= USER_END ||
            s->pair[1] - s->stack_start < MAX_STACK_BYTES)
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

__noinline int follow_all(void)
{
    LOOP(QUEUE, follow);
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

// Goes on where a frame pointer leads nowhere: in a leaf without a frame of its own (libc, OpenSSL's assembly), or beyond a
// frame that V8 is deoptimizing, which is no more.
static __always_inline void search_frames(struct scratch *s)
{
    u64 start = s->walked ? s->frame + 16 : s->stack_start;

    s->search_start = start;
    s->search_end = start + sizeof(s->search) * SEARCH_WINDOWS;
    for (int way = 0; way < MAX_WAYS; way++) {
        if (!resume())
            break;
        s->search_end = start + SURE_BYTES;
        walk_frames();
    }
}

// Copies what lies above the outermost frame. Whole pieces: near the end of the stack there may be less.
static __always_inline void copy_root(struct scratch *s)
{
    u64 start = s->outermost + 16;

    if (start + 8 * ROOT_WORDS <= s->stack_end)
        return;
    for (u32 word = 0; word < ROOT_WORDS; word += MAX_PIECE)
        copy(start + 8 * word, MAX_PIECE);
}

SEC("perf_event")
int walk(struct bpf_perf_event_data *context)
{
    u32 first = 0;
    u32 *copied_anyway = bpf_map_lookup_elem(&stack_bytes, &first);
    struct scratch *s = scratch();

    if (!s || !copied_anyway)
        return 1;
#ifdef NO_BPF_LOOP
    // Before Linux 5.15 the registers of user space are not to be had while the kernel runs.
    const struct pt_regs *registers = (void *)&context->regs;
    if (!(registers->cs & 3))
        return 1;
#else
    const struct pt_regs *registers = (void *)bpf_task_pt_regs((void *)bpf_get_current_task_btf());
#endif
    s->used = 0;
    s->walked = 0;
    s->next = 0;
    s->outermost = 0;
    s->queued = 0;
    s->followed = 0;
    s->starts = 0;
    __builtin_memset(s->markers, 0xff, sizeof(s->markers));
    s->stack_start = registers->rsp;
    s->stack_end = registers->rsp + *copied_anyway;
    s->frame = registers->rbp;
    s->sample++;
    // Where the leaf keeps something else in the register there is no frame.
    if (is_frame(s->stack_start - 8, s->frame))
        walk_frames();
    // The outermost frame has 0, or a small number, for its caller's.
    if (s->walked < FEWEST_FRAMES || s->next >= 4096)
        search_frames(s);
    if (s->walked)
        copy_root(s);
    s->async_end = s->used + MAX_ASYNC_WORDS;
    follow_all();
    u32 used = s->used;
    if (!used || used > MAX_WORDS)
        return 1;
    bpf_perf_event_output(context, &outputs, BPF_F_CURRENT_CPU, s->out, used * 8);
    return 1;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
