// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// What the parts of the program have in common: limits, what a sample needs while it is copied, and loops.

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

// A record is chunks of memory: a word with the address and the number of words, then these. The last word
// counts what could not be read, and above that what there was no room for.
#define CHUNK_SHIFT 48
#define DROPPED_SHIFT 24
#define MAX_COUNT 0xffffff
// In a sample, on all ways: more than a record has room for.
#define MAX_FRAMES 1024
// A power of two; and what fits into a record, whose length is 16 bits.
#define OUT_WORDS 8192
#define MAX_WORDS 7168
// The largest chunk, one less than a power of two: the verifier understands masks. And the largest of an object.
#define MAX_CHUNK 63
#define OBJECT_WORDS 15
// What is mapped or not, as one.
#define PAGE_BYTES 4096
// Objects that are copied once a sample.
#define SEEN 256
// What is read of the stack at once: a read of user memory costs some 80 ns, and hardly more for a kilobyte than for a word.
// A power of two.
#define WINDOW_WORDS 256
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
#define MIN_FRAMES 6
// How often the stack is read outside of its window to tell frames from other words: on a stack that is made to look like frames
// everywhere interrupts are off no longer than for this.
#define MAX_PROBES 4096
// How much is copied of a stack that has no frame pointers, in the largest chunks.
#define BARE_CHUNKS 80
// How far above the frame pointer that a function has saved its return address is, at most: it saves others before it.
#define ABOVE_SAVED 64
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
#define MAX_TASKS 15
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
#define MIN_OWN_WORDS 5
#define MAX_OWN_WORDS 6
#define DICTIONARY_WORDS (2 + MAX_OWN_WORDS + ENTRY_WORDS * MAX_CAPACITY)
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
    u32 used, walked, probes;
    // What is left to copy of a part of the stack that has no frame pointers, and whether all of a stack may be.
    u64 bare_start, bare_end;
    u32 wants_bare;
    // Memory that could not be read, and chunks without room in the record.
    u32 faults, dropped;
    // Objects to be followed, those that were, and how many of them frames had.
    u32 queued, followed, starts, async_end;
    // The three frames before.
    u64 markers[3], functions[3];
    u64 words[FRAME_WORDS], pair[2];
    // A part of the stack, up to an address.
    u64 window_start, window_end, window[WINDOW_WORDS + MAX_CHUNK];
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
    // How many words the context has that was copied last.
    u32 context_words;
    // The chunk of memory that the last field is in, and where that is in `out`.
    u32 chunk_at;
    u64 chunk;
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
    u64 out[OUT_WORDS + 1 + MAX_CHUNK];
};

// How much of the stack each sample copies anyway, and whether requests, stores and async callers are wanted; and the pid
// namespace that threads have their numbers in, an inode of 0 for the initial one.
struct options {
    u32 stack_bytes, wants_requests, wants_stores, wants_async;
    // Whether rings have room for stacks that have no frame pointers.
    u32 wants_bare, unused;
    u64 device, inode;
};

// What is copied of objects with a map, or a constructor: user space knows their classes. Where nothing is, they are no
// requests. What was not met for long makes room.
struct fields {
    u8 flags;
    u8 fields[MAX_FIELDS];
    u64 fingerprint;
};

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
