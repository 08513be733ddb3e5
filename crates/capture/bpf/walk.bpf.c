// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Copies, at the sampled instruction, the memory that unwinding and naming a stack of V8 needs: the words of each frame that
// lie beyond the copied stack, the function of each JavaScript frame, the promises and suspended functions that lead to the
// async callers of what runs, the fields of the request it runs for, and where asked for, those of the stores of
// AsyncLocalStorage. A moment later the garbage collector may have moved closures and requests, and the promises are settled.
//
// The program decides what is worth copying and nothing else. What is copied goes into the ring right before its sample,
// as chunks of memory with their addresses; user space reads them as it reads the memory of the process. So frames that are
// none, or memory that lies, cost copies of little use and never a wrong word.
//
// Built by tools/bpf.sh into walk.bpf.o, which is committed; and by build.rs for user space (reader.c), where threads of nodespy
// read the memory of processes that no eBPF program may look at.

#include "walk.h"
#ifndef USER_SPACE
#include "maps.h"
#endif
#include "copy.h"
#include "fields.h"
#include "requests.h"
#include "stores.h"
#include "async.h"
#include "frames.h"

// Copies what a sample needs, which starts with these registers; returns how many words that is.
static __always_inline u32 walk_stack(struct scratch *s, struct options *wanted, u64 slot, u64 stack_pointer,
                                      u64 frame_pointer)
{
    s->used = 0;
    s->faults = 0;
    s->dropped = 0;
    s->walked = 0;
    s->probes = 0;
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
    s->wants_bare = wanted->wants_bare;
    s->store_looks = 0;
    s->wants_scopes = wanted->wants_stores && !slot;
    s->scopes = 0;
    s->dictionaries = 0;
    __builtin_memset(s->markers, 0xff, sizeof(s->markers));
    s->stack_start = stack_pointer;
    s->stack_end = stack_pointer + wanted->stack_bytes;
    s->window_end = 0;
    s->frame = frame_pointer;
    s->sample++;
    follow_stores(s, slot);
    // The words of the first frame may lie below the stack pointer.
    window_at(stack_pointer - BELOW_FRAME, 1);
    // Where the leaf keeps something else in the register there is no frame.
    if (is_frame(s->stack_start - 8, s->frame))
        walk_frames();
    // The outermost frame has 0, or a small number, for its caller's.
    if (s->walked < MIN_FRAMES || (s->next >= 4096 && s->walked < MAX_FRAMES))
        search_frames(s);
    if (s->walked)
        copy_root(s);
    // Requests and stores are found by way of those that await.
    if (!wanted->wants_async && !wanted->wants_requests && !wanted->wants_stores)
        return append_counts(s);
    s->async_end = s->used + MAX_ASYNC_WORDS;
    // A request in a frame may be that of another microtask: the one that awaits what runs is looked for too, and deep stacks must
    // not hide it.
    s->has_request = 0;
    s->looks = 0;
    follow_callback();
    copy_tasks();
    follow_all();
    return append_counts(s);
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
#ifdef NO_TASK_REGISTERS
    // Before Linux 5.15 the registers of user space are not to be had while the kernel runs.
    const struct pt_regs *registers = (void *)&context->regs;
    if (!(registers->cs & 3))
        return 1;
#else
    const struct pt_regs *registers = (void *)bpf_task_pt_regs((void *)bpf_get_current_task_btf());
#endif
    u32 used = walk_stack(s, wanted, store_slot(wanted), registers->rsp, registers->rbp);
    if (!used || used > MAX_WORDS + 1)
        return 1;
    bpf_perf_event_output(context, &outputs, BPF_F_CURRENT_CPU, s->out, used * 8);
    return 1;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
#endif
