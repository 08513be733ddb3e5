// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Copies, at the sampled instruction, the memory that unwinding and naming a stack of V8 needs: the words of each frame that
// lie beyond the copied stack, the function of each JavaScript frame, the promises and suspended functions that lead to the
// async callers of what runs, the fields of the request it runs for, and where asked for, those of the stores of
// AsyncLocalStorage. A moment later the garbage collector may have moved closures and requests, and the promises are settled.
//
// The program decides what is worth copying and nothing else. What is copied goes into the ring right before its sample,
// as pieces of memory with their addresses; user space reads them as it reads the memory of the process. So frames that are
// none, or memory that lies, cost copies of little use and never a wrong word.
//
// Built by tools/bpf.sh into walk.bpf.o, which is committed; and by build.rs for user space (reader.c), where threads of nodespy
// read the memory of processes that no eBPF program may look at.

#ifdef USER_SPACE
#include "user_space.h"
#else
#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <linux/bpf_perf_event.h>
#include <bpf/bpf_helpers.h>
#endif

typedef __u64 u64;
typedef __u32 u32;
typedef __u8 u8;

// A record is pieces of memory: a word with the address and the number of words, then these.
#define PIECE_SHIFT 48
#define MAX_FRAMES 1024
// A power of two; and what fits into a record, whose length is 16 bits.
#define OUT_WORDS 8192
#define MAX_WORDS 7168
// The largest piece, one less than a power of two: the verifier understands masks.
#define MAX_PIECE 15
// What is mapped or not, as one.
#define PAGE_BYTES 4096
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
// Objects that lead to the async callers of what runs. No type is known here: shapes tell what is worth following.
#define QUEUE 1024
#define MAX_ASYNC_WORDS 5120
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
#define TEXT 3
#define REQUEST 4
#define STORE 5
#define DICTIONARY 6
#define SCOPE 7
#define SLOTS 8
#define HELD 9
// The queue of microtasks: its number of tasks, the size of its ring, the position of the next one, and the ring. How many of the
// next ones are looked at, how many words one has, and how often in a sample.
#define QUEUE_WORDS 5
#define QUEUE_SIZE 1
#define QUEUE_CAPACITY 2
#define QUEUE_START 3
#define QUEUE_RING 4
#define MAX_TASKS MAX_PIECE
#define TASK_WORDS 6
#define MAX_TASK_SEARCHES 4
// How many frames of a callback are looked at for the promise it resolves, how many contexts of each, and of which slots.
#define MAX_HELD 4
#define MAX_CONTEXTS 3
// Where a callback was inlined its context is in a spill slot of the function it is in: below the words of a frame.
#define SPILLING_FRAMES 2
#define SPILL_SLOTS 16
#define ABOVE_SPILLS 24
#define FIRST_SLOT 4
#define LAST_SLOT 10
// What may be a request: the receiver and the first arguments of a function, of which a suspended one keeps fewer here.
#define ARGUMENTS 6
#define KEPT_ARGUMENTS 3
// How many of them are looked at, and how many maps away its constructor is at most.
#define MAX_LOOKS 64
#define MAX_HOPS 8
// The instance types of objects without a type of their own (JS_OBJECT_TYPE and its like), on every V8 from 9.4 to 14.6.
#define FIRST_OBJECT_TYPE 1057
#define LAST_OBJECT_TYPE 1060
// The first type of what may have stores: before Node 18 that of objects that C++ made.
#define FIRST_RESOURCE_TYPE 1056
// The words of a map up to its descriptors; those that matter here, how many descriptors are its own, and whether its objects have
// a dictionary.
#define MAP_WORDS 6
#define MAP_FLAGS 2
#define MAP_CONSTRUCTOR 4
#define MAP_DESCRIPTORS 5
#define OWN_DESCRIPTORS 0xffc00
#define DICTIONARY_MAP (1 << 21)
// A field that is copied: a word of the object, or of the array that has the rest of its properties; an object or a text.
#define FIELD_WORD 63
#define FIELD_OF_PROPERTIES 64
#define FIELD_IS_TEXT 128
#define MAX_FIELDS 7
// Bits in the keys of rules: a class may be that of a request and of a store, and names are no classes.
#define OF_STORE 2
#define OF_NAME 4
// What else a rule says: no other request is looked for; objects are each a Map; their properties are in a dictionary; they are
// each the context of a function.
#define LEADS_TO_REQUEST 1
#define IS_MAP 2
#define IS_DICTIONARY 4
#define IS_CONTEXT 8
// How many dictionaries are looked at, and how many entries one has room for. Before these are as many words of its own: the
// number of elements, of deleted ones, of entries, and two or three more, as the version of V8 has it.
#define MAX_DICTIONARIES 4
#define MAX_CAPACITY 64
#define FEWEST_OWN_WORDS 5
#define MOST_OWN_WORDS 6
#define DICTIONARY_WORDS (2 + MOST_OWN_WORDS + ENTRY_WORDS * MAX_CAPACITY)
// Of how many frames what may have stores is looked at: the receiver and the first two arguments.
#define MAX_SCOPES 48
#define SCOPE_WORDS 3
// How many objects of stores are looked at, and how many entries of a Map, after its number of elements, of deleted ones and of
// buckets, and the buckets.
#define MAX_STORE_LOOKS 32
#define MAX_ENTRIES 12
#define MAX_BUCKETS 16
#define TABLE_START 5
#define ENTRY_WORDS 3
#define TABLE_WORDS (TABLE_START + MAX_BUCKETS + ENTRY_WORDS * MAX_ENTRIES)
// Where a Map has its table.
#define MAP_TABLE 3
// Instance types below this are those of strings, on every V8 from 9.4 to 14.6.
#define FIRST_NONSTRING_TYPE 128
// What refers to another string has as many words as this.
#define SHORTEST_TEXT 4
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
    // What may be a request, the map of one, and how many were looked at.
    u64 arguments[ARGUMENTS], map[MAP_WORDS];
    u32 looks, has_request, wants_requests;
    // Whether stores are wanted, how many objects of them were looked at, and the head of the table of a Map.
    u32 wants_stores, store_looks;
    // Whether frames may have them, of how many that was looked at, and what one has.
    u32 wants_scopes, scopes;
    u64 scope[SCOPE_WORDS];
    u64 table[TABLE_START];
    // How many dictionaries were looked at, and the entries of one.
    u64 entries;
    u32 dictionaries, capacity;
    // The contexts of the functions nearest to the leaf, and a closure of one.
    u64 contexts[MAX_HELD], frames[MAX_HELD], closure[FUNCTION_WORDS], spills[SPILL_SLOTS];
    u32 held, jobs;
    // The queue of microtasks, the tasks in it that were copied, and one.
    u64 microtasks, task[TASK_WORDS];
    u32 tasks, task_count, task_searches;
    u64 search[SEARCH_WORDS];
    u64 queue[QUEUE];
    // Objects that were copied, with the number of the sample above their addresses.
    u64 seen[SEEN];
    u64 sample;
    u64 out[OUT_WORDS + 1 + MAX_PIECE];
};

// How much of the stack each sample copies anyway, and whether requests and stores are wanted; and the pid namespace that threads
// have their numbers in, an inode of 0 for the initial one.
struct options {
    u32 stack_bytes, wants_requests, wants_stores, unused;
    u64 device, inode;
};

// What is copied of objects with a map, or a constructor: user space knows their classes. Where nothing is, they are no
// requests. What was not met for long makes room.
struct fields {
    u8 flags;
    u8 fields[MAX_FIELDS];
    u64 fingerprint;
};

#ifndef USER_SPACE
// One for each CPU, as many as user space says there are: maps that are the kernel's own per CPU end at 32 KiB.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct scratch);
} scratches SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct options);
} options SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, u64);
    __type(value, struct fields);
} classes SEC(".maps");

// Where threads have the Map of their stores: a word of their isolate.
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, u32);
    __type(value, u64);
} store_slots SEC(".maps");

// An event of each CPU whose records go into the ring of samples.
struct {
    __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
    __uint(key_size, sizeof(u32));
    __uint(value_size, sizeof(u32));
} outputs SEC(".maps");

// Processes whose samples are dropped, where events are of whole CPUs: a bit for each pid. Too short for any where events are
// of threads. A process that is not judged yet is let through: user space judges it, in the order of forks.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(map_flags, BPF_F_MMAPABLE);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, u64);
} others SEC(".maps");

// The pid namespace that pids are of; an inode of 0 for the initial one, and where no process is dropped.
struct pid_namespace {
    u64 device, inode;
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, u32);
    __type(value, struct pid_namespace);
} pid_namespaces SEC(".maps");

// Whether the sample is of a process that is recorded, or may be. What idles, and what has no number in the namespace, is not.
static __always_inline int is_wanted(void)
{
    u32 first = 0;
    u32 pid = bpf_get_current_pid_tgid() >> 32;
    struct pid_namespace *namespace = bpf_map_lookup_elem(&pid_namespaces, &first);

    if (namespace && namespace->inode) {
        struct bpf_pidns_info inner = {};

        if (bpf_get_ns_current_pid_tgid(namespace->device, namespace->inode, &inner, sizeof(inner)))
            return 0;
        pid = inner.tgid;
    }
    if (!pid)
        return 0;
    u32 at = pid / 64;
    u64 *word = bpf_map_lookup_elem(&others, &at);
    return !word || !(*word >> pid % 64 & 1);
}

// Where the thread has its stores; 0 where that is not known, or not wanted.
static __always_inline u64 store_slot(struct options *wanted)
{
    u32 tid = bpf_get_current_pid_tgid();

    if (!wanted->wants_stores)
        return 0;
    if (wanted->inode) {
        struct bpf_pidns_info inner = {};

        if (bpf_get_ns_current_pid_tgid(wanted->device, wanted->inode, &inner, sizeof(inner)))
            return 0;
        tid = inner.pid;
    }
    u64 *slot = bpf_map_lookup_elem(&store_slots, &tid);
    return slot ? *slot : 0;
}

static __always_inline struct scratch *scratch(void)
{
    u32 cpu = bpf_get_smp_processor_id();

    return bpf_map_lookup_elem(&scratches, &cpu);
}

static __always_inline struct fields *known_fields(u64 key)
{
    return bpf_map_lookup_elem(&classes, &key);
}
#endif

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

// A tagged pointer to an object.
static __always_inline int is_object(u64 word)
{
    return (word & 3) == 1 && word > 0x10000 && word < USER_END;
}

static __always_inline int is_address(u64 word)
{
    return word > 0x10000 && word < USER_END;
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
    if (bpf_probe_read_user(&s->out[at + 1], words * 8 & (8 * MAX_PIECE + 7), (void *)address)) {
        // More is asked for than most objects have: the last one before memory that is not mapped has its words all the same,
        // and zeroes follow.
        u32 mapped = (PAGE_BYTES - (address & (PAGE_BYTES - 1))) / 8;
        if (mapped >= words || !mapped ||
            bpf_probe_read_user(&s->out[at + 1], mapped * 8 & (8 * MAX_PIECE + 7), (void *)address))
            return 0;
        words = mapped;
    }
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

// Tells a map from another that V8 puts in its place once it has died. User space computes the same.
static __always_inline u64 fingerprint(struct scratch *s)
{
    return 3 * s->map[MAP_CONSTRUCTOR] + s->map[MAP_DESCRIPTORS] + (s->map[MAP_FLAGS] & OWN_DESCRIPTORS);
}

// What is copied of objects with this map: its own fields, else those of the map it came from, up to its constructor. What
// comes from a map of no interest may be of some.
static __always_inline struct fields *fields_of(struct scratch *s, u64 map)
{
    // All maps have the same.
    u64 map_of_maps = s->map[0];

    for (int hop = 0; hop < MAX_HOPS; hop++) {
        struct fields *fields = known_fields(map);
        if (fields && (!hop || fields->flags & LEADS_TO_REQUEST) &&
            (!fields->fingerprint || fields->fingerprint == fingerprint(s)))
            return fields;
        if (s->map[0] != map_of_maps)
            return 0;
        map = s->map[MAP_CONSTRUCTOR];
        if (!is_object(map) || bpf_probe_read_user(s->map, sizeof(s->map), (void *)(map - 1)))
            return 0;
    }
    return 0;
}

// Copies fields of an object that has its other properties in this array, and follows what they hold.
static __always_inline void copy_fields(struct scratch *s, struct fields *fields, u64 object, u64 properties, u32 kind)
{
    for (int i = 0; i < MAX_FIELDS; i++) {
        u32 field = fields->fields[i];
        u64 of = field & FIELD_OF_PROPERTIES ? properties : object;
        if (!field)
            break;
        int at = copy(of - 1 + 8 * (field & FIELD_WORD), 1);
        if (at > 0)
            follow_later(s->out[at & (OUT_WORDS - 1)], field & FIELD_IS_TEXT ? TEXT : kind);
    }
}

// An entry of a dictionary: its text, or what it leads to, is copied where there is a rule for its name.
CALLBACK(copy_entry)
{
    struct scratch *s = scratch();

    if (!s || index >= s->capacity)
        return 1;
    u64 entry = s->entries + 8ull * ENTRY_WORDS * index;
    if (bpf_probe_read_user(s->pair, sizeof(s->pair), (void *)entry) || !is_object(s->pair[0]))
        return 0;
    struct fields *name = known_fields(s->pair[0] | OF_NAME);
    if (name)
        follow_later(s->pair[1], name->flags & LEADS_TO_REQUEST ? REQUEST : TEXT);
    return 0;
}

// The dictionary of an object, where it is small.
__noinline int copy_dictionary(u64 object)
{
    struct scratch *s = scratch();

    if (!s || !is_object(object) || s->dictionaries >= MAX_DICTIONARIES ||
        bpf_probe_read_user(s->table, sizeof(s->table), (void *)(object - 1)) || !is_small(s->table[1]) ||
        !is_small(s->table[4]))
        return 0;
    u64 words = 2 + (s->table[1] >> 32);
    u64 capacity = s->table[4] >> 32;
    u64 own_words = words - 2 - ENTRY_WORDS * capacity;
    if (capacity > MAX_CAPACITY || own_words < FEWEST_OWN_WORDS || own_words > MOST_OWN_WORDS)
        return 0;
    s->dictionaries++;
    s->capacity = capacity;
    s->entries = object - 1 + 8 * (2 + own_words);
    for (u32 word = 0; word < DICTIONARY_WORDS; word += MAX_PIECE)
        if (word < words)
            copy(object - 1 + 8 * word, words - word < MAX_PIECE ? words - word : MAX_PIECE);
    LOOP(MAX_CAPACITY, copy_entry);
    return 0;
}

// How many words of a small context are worth copying.
static __always_inline u32 context_words(u64 object)
{
    u64 length = 0;

    if (!is_object(object) || bpf_probe_read_user(&length, sizeof(length), (void *)(object + 7)) || !is_small(length))
        return 0;
    length >>= 32;
    return length < 3 || length > 16 ? 0 : 2 + length;
}

// What the context of a function leads to.
__noinline int copy_slots(u64 object)
{
    struct scratch *s = scratch();
    u32 words = context_words(object);
    int at = words ? copy(object - 1, CONTEXT_WORDS) : 0;

    if (!s || at <= 0)
        return 0;
    for (u32 slot = FIRST_SLOT; slot < CONTEXT_WORDS; slot++)
        if (slot < words)
            follow_later(s->out[(at + slot) & (OUT_WORDS - 1)], REQUEST);
    return 0;
}

// Copies what says that an object is a request, and which. Of one whose class is not known its map is copied, so that user
// space learns it. The first request is the one; what a field leads to belongs to it.
__noinline int look_at(u64 object, u32 is_field)
{
    struct scratch *s = scratch();
    u64 map = 0;
    // What is no request as an argument may lead to one as a field.
    u64 mark = is_field ? object + 3 : object | 2;

    if (!s || !is_object(object) || (s->has_request && !is_field) || s->looks >= MAX_LOOKS || !is_new(s, mark))
        return 0;
    meet(s, mark);
    s->looks++;
    if (bpf_probe_read_user(&map, sizeof(map), (void *)(object - 1)) || !is_object(map) ||
        bpf_probe_read_user(s->map, sizeof(s->map), (void *)(map - 1)))
        return 0;
    u32 type = s->map[1] >> 32 & 0xffff;
    // A field may be an array, of which user space knows that it is wanted.
    if (!is_field && (type < FIRST_OBJECT_TYPE || type > LAST_OBJECT_TYPE))
        return 0;
    u64 has_dictionary = s->map[MAP_FLAGS] & DICTIONARY_MAP;
    struct fields *fields = fields_of(s, map);
    if (fields && !fields->fields[0] && !(fields->flags & (IS_DICTIONARY | IS_CONTEXT)))
        return 0;
    copy(map - 1, MAP_WORDS);
    int at = copy(object - 1, 2);
    if (!fields || at <= 0)
        return 0;
    u64 properties = s->out[(at + 1) & (OUT_WORDS - 1)];
    // It may be any object without a prototype: another request is looked for. Or a request like others but for its dictionary, for
    // which V8 may have made the map just now.
    if (fields->flags & IS_DICTIONARY || (has_dictionary && fields->flags & LEADS_TO_REQUEST))
        return follow_later(properties, DICTIONARY);
    if (fields->flags & IS_CONTEXT)
        return follow_later(object, SLOTS);
    copy_fields(s, fields, object, properties, REQUEST);
    if (!is_field)
        s->has_request |= fields->flags & LEADS_TO_REQUEST;
    return 0;
}

// The receiver and the first arguments of a suspended function.
__noinline int look_at_kept(u64 receiver, u64 registers)
{
    struct scratch *s = scratch();

    if (!s || !s->wants_requests || s->has_request || !is_object(registers))
        return 0;
    look_at(receiver, 0);
    int at = copy(registers - 1 + 16, KEPT_ARGUMENTS);
    if (at <= 0)
        return 0;
    for (u32 i = 0; i < KEPT_ARGUMENTS; i++)
        look_at(s->out[(at + i) & (OUT_WORDS - 1)], 0);
    return 0;
}

// What the functions around one have in their variables. Returns the context around this one.
__noinline u64 look_at_context(u64 object)
{
    struct scratch *s = scratch();
    u32 words = context_words(object);

    // Not the mark of an object that was looked at: a context may have been taken for one.
    if (!s || !words || !is_new(s, object - 1))
        return 0;
    meet(s, object - 1);
    int at = copy(object - 1, CONTEXT_WORDS);
    if (at <= 0)
        return 0;
    for (u32 slot = FIRST_SLOT; slot < LAST_SLOT; slot++)
        if (slot < words)
            look_at(s->out[(at + slot) & (OUT_WORDS - 1)], 0);
    return s->out[(at + 3) & (OUT_WORDS - 1)];
}

__noinline int look_at_contexts(u64 context)
{
    struct scratch *s = scratch();

    if (!s)
        return 0;
    for (int level = 0; level < MAX_CONTEXTS; level++)
        if (context && s->wants_requests && !s->has_request)
            context = look_at_context(context);
    return 0;
}

// The receiver and the first arguments of a function in a frame.
__noinline int look_at_arguments(void)
{
    struct scratch *s = scratch();

    if (!s)
        return 0;
    u64 start = s->frame + 16;
    // Versions differ in whether the receiver is counted.
    u64 count = s->words[3] + 1;
    if (bpf_probe_read_user(s->arguments, sizeof(s->arguments), (void *)start))
        return 0;
    u32 before = s->used;
    for (u32 i = 0; i < ARGUMENTS; i++)
        if (i < count)
            look_at(s->arguments[i], 0);
    // Of most frames none is of interest: the room is for further frames.
    if (s->used != before && (start + sizeof(s->arguments) > s->stack_end || start < s->stack_start))
        copy(start, ARGUMENTS);
    if (s->held < MAX_HELD)
        look_at_contexts(s->words[5]);
    return 0;
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
    u32 words = context_words(object);

    if (!s || !words)
        return 0;
    int at = copy_object(object, CONTEXT_WORDS);
    if (at <= 0)
        return 0;
    for (u32 slot = FIRST_SLOT; slot < LAST_SLOT; slot++) {
        u64 closure = s->out[(at + slot) & (OUT_WORDS - 1)];
        if (slot < words && is_builtin(closure))
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

// The characters of a string, or the strings that have them: one, or the two of a concatenation; those of an external string are
// outside of the heap, behind its resource. No more than there are: what follows may not be mapped.
__noinline int copy_text(u64 object)
{
    struct scratch *s = scratch();
    u64 header = 0;

    if (!s || !is_object(object) || !is_new(s, object) ||
        bpf_probe_read_user(&header, sizeof(header), (void *)(object + 7)))
        return 0;
    meet(s, object);
    u64 words = 2 + ((header >> 32) + 7) / 8;
    words = words < SHORTEST_TEXT ? SHORTEST_TEXT : words > MAX_PIECE ? MAX_PIECE : words;
    int at = copy(object - 1, words);
    if (at <= 0)
        return 0;
    u64 first = s->out[(at + 2) & (OUT_WORDS - 1)], second = s->out[(at + 3) & (OUT_WORDS - 1)];
    follow_later(first, TEXT);
    follow_later(second, TEXT);
    if (is_address(first) && !(first & 7) && is_address(second))
        copy(second, words - 2);
    return 0;
}

// The table of a Map, and what its values are.
__noinline int copy_table(u64 table)
{
    struct scratch *s = scratch();

    if (!s || !is_object(table) || bpf_probe_read_user(s->table, sizeof(s->table), (void *)(table - 1)) ||
        !is_small(s->table[2]) || !is_small(s->table[3]) || !is_small(s->table[4]))
        return 0;
    u64 buckets = s->table[4] >> 32;
    u64 entries = (s->table[2] >> 32) + (s->table[3] >> 32);
    if (buckets > MAX_BUCKETS || entries > MAX_ENTRIES)
        return 0;
    u64 start = TABLE_START + buckets;
    for (u32 word = 0; word < TABLE_WORDS; word += MAX_PIECE)
        if (word < start + ENTRY_WORDS * entries)
            copy(table - 1 + 8 * word, MAX_PIECE);
    for (u32 entry = 0; entry < MAX_ENTRIES; entry++) {
        u64 value = 0;
        if (entry < entries &&
            !bpf_probe_read_user(&value, sizeof(value), (void *)(table - 1 + 8 * (start + ENTRY_WORDS * entry + 1))))
            follow_later(value, STORE);
    }
    return 0;
}

// Copies what a store, or something in one, says, as far as user space knows its class; else its map, so that it learns it.
__noinline int look_at_store(u64 object)
{
    struct scratch *s = scratch();
    u64 map = 0;

    if (!s || !is_object(object) || s->store_looks >= MAX_STORE_LOOKS || !is_new(s, object ^ 3))
        return 0;
    meet(s, object ^ 3);
    if (bpf_probe_read_user(&map, sizeof(map), (void *)(object - 1)) || !is_object(map) ||
        bpf_probe_read_user(s->map, sizeof(s->map), (void *)(map - 1)))
        return 0;
    if ((s->map[1] >> 32 & 0xffff) < FIRST_NONSTRING_TYPE)
        return copy_text(object);
    struct fields *fields = known_fields(map | OF_STORE);
    if (fields && fields->fingerprint != fingerprint(s))
        fields = 0;
    if (fields && !fields->fields[0] && !fields->flags)
        return 0;
    s->store_looks++;
    copy(map - 1, MAP_WORDS);
    int at = copy(object - 1, MAP_TABLE + 1);
    if (!fields || at <= 0)
        return 0;
    if (fields->flags & IS_MAP)
        return copy_table(s->out[(at + MAP_TABLE) & (OUT_WORDS - 1)]);
    copy_fields(s, fields, object, s->out[(at + 1) & (OUT_WORDS - 1)], STORE);
    return 0;
}

// What a frame has that may have stores, or be one. Text is neither.
__noinline int look_at_scope(u64 object)
{
    struct scratch *s = scratch();
    u64 map = 0, type = 0;

    if (!s || !is_object(object) || bpf_probe_read_user(&map, sizeof(map), (void *)(object - 1)) || !is_object(map) ||
        bpf_probe_read_user(&type, sizeof(type), (void *)(map + 7)) || (type >> 32 & 0xffff) < FIRST_RESOURCE_TYPE)
        return 0;
    return look_at_store(object);
}

// Before Node 24 what a callback was made for has the stores: an object that Node's own functions have in their frames, as
// receiver or argument. Which they are user space knows.
__noinline int note_scope(void)
{
    struct scratch *s = scratch();

    if (!s || s->scopes >= MAX_SCOPES)
        return 0;
    u64 start = s->frame + 16;
    s->scopes++;
    if (bpf_probe_read_user(s->scope, sizeof(s->scope), (void *)start))
        return 0;
    if (start + sizeof(s->scope) > s->stack_end || start < s->stack_start)
        copy(start, SCOPE_WORDS);
    for (u32 i = 0; i < SCOPE_WORDS; i++)
        follow_later(s->scope[i], SCOPE);
    return 0;
}

// The stores of the thread, where it keeps them itself: from Node 24 on.
static __always_inline void follow_stores(struct scratch *s, u64 slot)
{
    int at = slot ? copy(slot, 1) : 0;

    if (at > 0)
        follow_later(s->out[at & (OUT_WORDS - 1)], STORE);
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
    for (u32 i = 0; i < MAX_TASKS; i++) {
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
    if (is_held && s->wants_requests)
        look_at(object, 0);
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
    u32 words = context_words(object);

    if (!s || !words)
        return 0;
    int at = copy_object(object, CONTEXT_WORDS);
    if (at <= 0)
        return 0;
    u64 *word = &s->out[at & (OUT_WORDS - 1)];
    for (u32 slot = FIRST_SLOT; slot < LAST_SLOT; slot++)
        if (slot < words)
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
        look_at(object, 1);
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

// Copies what a sample needs, which starts with these registers; returns how many words that is.
static __always_inline u32 walk_stack(struct scratch *s, struct options *wanted, u64 slot, u64 stack_pointer,
                                      u64 frame_pointer)
{
    s->used = 0;
    s->walked = 0;
    s->next = 0;
    s->outermost = 0;
    s->queued = 0;
    s->followed = 0;
    s->starts = 0;
    s->looks = 0;
    s->held = 0;
    s->jobs = 0;
    s->microtasks = 0;
    s->task_count = 0;
    s->task_searches = 0;
    s->has_request = 0;
    s->wants_requests = wanted->wants_requests;
    s->wants_stores = wanted->wants_stores;
    s->store_looks = 0;
    s->wants_scopes = wanted->wants_stores && !slot;
    s->scopes = 0;
    s->dictionaries = 0;
    __builtin_memset(s->markers, 0xff, sizeof(s->markers));
    s->stack_start = stack_pointer;
    s->stack_end = stack_pointer + wanted->stack_bytes;
    s->frame = frame_pointer;
    s->sample++;
    follow_stores(s, slot);
    // Where the leaf keeps something else in the register there is no frame.
    if (is_frame(s->stack_start - 8, s->frame))
        walk_frames();
    // The outermost frame has 0, or a small number, for its caller's.
    if (s->walked < FEWEST_FRAMES || s->next >= 4096)
        search_frames(s);
    if (s->walked)
        copy_root(s);
    s->async_end = s->used + MAX_ASYNC_WORDS;
    // A request in a frame may be that of another microtask: the one that awaits what runs is looked for too, and deep stacks must
    // not hide it.
    s->has_request = 0;
    s->looks = 0;
    follow_callback();
    copy_tasks();
    follow_all();
    return s->used;
}

#ifndef USER_SPACE
SEC("perf_event")
int walk(struct bpf_perf_event_data *context)
{
    u32 first = 0;
    struct options *wanted = bpf_map_lookup_elem(&options, &first);
    struct scratch *s = scratch();

    if (!is_wanted())
        return 0;
    if (!s || !wanted)
        return 1;
#ifdef NO_BPF_LOOP
    // Before Linux 5.15 the registers of user space are not to be had while the kernel runs.
    const struct pt_regs *registers = (void *)&context->regs;
    if (!(registers->cs & 3))
        return 1;
#else
    const struct pt_regs *registers = (void *)bpf_task_pt_regs((void *)bpf_get_current_task_btf());
#endif
    u32 used = walk_stack(s, wanted, store_slot(wanted), registers->rsp, registers->rbp);
    if (!used || used > MAX_WORDS)
        return 1;
    bpf_perf_event_output(context, &outputs, BPF_F_CURRENT_CPU, s->out, used * 8);
    return 1;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
#endif
