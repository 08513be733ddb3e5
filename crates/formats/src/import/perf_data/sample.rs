//! The addresses of a sample: its call chain, the processor's own, or where it was taken.

use nodespy_perf_abi::{Addresses, CpuMode, EventAttributes, Sample};

/// Sorts the addresses of a sample into the kernel's and the process's, leaf first.
pub(super) fn addresses(sample: &Sample<'_>, attributes: &EventAttributes, into: &mut Addresses) {
    into.split(sample.callchain, sample.mode);
    if attributes.has_branch_call_stack() {
        add_branches(sample, into);
    }
    let ip = sample.ip.unwrap_or(0);
    if into.kernel.is_empty() && into.user.is_empty() && ip != 0 {
        match sample.mode {
            CpuMode::Kernel => into.kernel.push(ip),
            CpuMode::User => into.user.push(ip),
            CpuMode::Other => {}
        }
    }
}

/// Replaces the callers by those the processor kept. The leaf stays: branches have only the address
/// where its function begins.
fn add_branches(sample: &Sample<'_>, into: &mut Addresses) {
    let mut branches = sample.branches().peekable();
    let Some(innermost) = branches.peek() else {
        return;
    };
    let ip = sample.ip.unwrap_or(0);
    let leaf = match (into.user.first(), sample.mode) {
        (Some(&address), _) => address,
        (None, CpuMode::User) if ip != 0 => ip,
        _ => innermost.to,
    };
    into.user.clear();
    into.user.push(leaf);
    // A branch has the address of the call, a chain that of the instruction after it.
    into.user
        .extend(branches.map(|branch| branch.from.saturating_add(1)));
}

#[cfg(test)]
mod tests {
    use nodespy_perf_abi::{RawRecord, RecordLayout, branch_sample_type, misc, record_type};
    use nodespy_perf_abi::{context, sample_type};

    use super::*;

    fn read(attributes: EventAttributes, flags: u16, words: &[u64]) -> Addresses {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let record = RawRecord {
            kind: record_type::SAMPLE,
            misc: flags,
            body: &body,
        };
        let sample = RecordLayout::new(&attributes).sample(&record).unwrap();
        let mut into = Addresses::default();
        addresses(&sample, &attributes, &mut into);
        into
    }

    fn attributes(sample_type: u64) -> EventAttributes {
        EventAttributes {
            sample_type,
            ..EventAttributes::default()
        }
    }

    #[test]
    fn a_chain_is_split_where_it_says_so() {
        let attributes = attributes(sample_type::IP | sample_type::CALLCHAIN);
        let kernel = 0xffff_ffff_8100_0000;
        let words = [
            kernel,
            5,
            context::KERNEL,
            kernel,
            context::USER,
            0x1000,
            0x2000,
        ];
        let addresses = read(attributes, misc::KERNEL, &words);
        assert_eq!(addresses.kernel, [kernel]);
        assert_eq!(addresses.user, [0x1000, 0x2000]);
    }

    #[test]
    fn a_sample_without_a_chain_is_where_it_was_taken() {
        let attributes = attributes(sample_type::IP);
        assert_eq!(read(attributes, misc::USER, &[0x5000]).user, [0x5000]);
        assert_eq!(read(attributes, misc::KERNEL, &[0x5000]).kernel, [0x5000]);
        let nothing = read(attributes, misc::USER, &[0]);
        assert_eq!(nothing, Addresses::default());
    }

    #[test]
    fn branches_are_callers_only_when_they_are_a_call_stack() {
        let fields = sample_type::IP | sample_type::BRANCH_STACK;
        let words = [0x5000, 2, 0x4100, 0x5000, 0, 0x4000, 0x4050, 0];
        let calls = EventAttributes {
            branch_sample_type: branch_sample_type::CALL_STACK,
            ..attributes(fields)
        };
        let addresses = read(calls, misc::USER, &words);
        assert_eq!(addresses.user, [0x5000, 0x4101, 0x4001]);
        let addresses = read(attributes(fields), misc::USER, &words);
        assert_eq!(addresses.user, [0x5000]);
    }
}
