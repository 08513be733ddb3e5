// SPDX-License-Identifier: MIT OR GPL-2.0-only
//
// Keeps one in `n` hits of a breakpoint, chosen at random: what comes in rounds is met in its true shares, which a fixed
// period is not sure to do. For Linux 5.8 and later.
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

const volatile __u32 n = 1;

SEC("uprobe")
int one_in(void *registers)
{
	return bpf_get_prandom_u32() % n == 0;
}
