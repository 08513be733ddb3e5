//! Samples, field by field in the kernel's order.

use crate::attributes::{EventAttributes, branch_sample_type, read_format, sample_type};
use crate::error::RecordError;
use crate::field_reader::FieldReader;
use crate::record::{CpuMode, RawRecord};
use crate::x86_64;

/// `PERF_SAMPLE_REGS_ABI_64`: registers of a 64-bit process.
const REGS_ABI_64: u64 = 2;

/// Fields after the user stack; few events ask for any.
const AFTER_STACK: u64 = sample_type::WEIGHT
    | sample_type::WEIGHT_STRUCT
    | sample_type::DATA_SRC
    | sample_type::TRANSACTION
    | sample_type::REGS_INTR
    | sample_type::PHYS_ADDR
    | sample_type::CGROUP
    | sample_type::DATA_PAGE_SIZE
    | sample_type::CODE_PAGE_SIZE
    | sample_type::AUX;

/// 64-bit numbers as they lie in a record, which need not be aligned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Words<'a>(pub(crate) &'a [[u8; 8]]);

impl<'a> Words<'a> {
    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One of them.
    #[inline]
    pub fn get(&self, position: usize) -> Option<u64> {
        self.0.get(position).map(|word| u64::from_le_bytes(*word))
    }

    /// All of them.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + 'a {
        self.0.iter().map(|word| u64::from_le_bytes(*word))
    }
}

/// Registers of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampledRegisters<'a> {
    /// `PERF_SAMPLE_REGS_ABI_*`; not 0.
    pub abi: u64,
    /// Which registers, by the kernel's numbers.
    pub mask: u64,
    /// Their values, in the order of those numbers.
    pub values: Words<'a>,
}

impl SampledRegisters<'_> {
    /// The registers of a 64-bit x86 process, in DWARF's order; none for a 32-bit one.
    #[inline]
    pub fn x86_64(&self) -> Option<[u64; x86_64::REGISTER_COUNT]> {
        (self.abi == REGS_ABI_64).then(|| x86_64::dwarf_registers(self.mask, self.values))
    }
}

/// One entry of a branch stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Branch {
    /// The address of the jump or call.
    pub from: u64,
    /// Where it went.
    pub to: u64,
    /// Prediction, cycles and type, as in `perf_branch_entry`.
    pub flags: u64,
}

/// A decoded `PERF_RECORD_SAMPLE`. What the event's `sample_type` does not have is none or empty.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample<'a> {
    /// What the CPU ran.
    pub mode: CpuMode,
    /// The event.
    pub id: Option<u64>,
    /// The instruction pointer.
    pub ip: Option<u64>,
    /// Process.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// When.
    pub time: Option<u64>,
    /// The address the event is about, such as that of a page fault.
    pub addr: Option<u64>,
    /// The event and the CPU it was opened on.
    pub stream_id: Option<u64>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// How many events the sample stands for.
    pub period: Option<u64>,
    /// Counter values, laid out as `read_format` says.
    pub read: Words<'a>,
    /// Addresses and [`context`](crate::context) markers, leaf first.
    pub callchain: Words<'a>,
    /// What a tracepoint holds.
    pub raw: &'a [u8],
    branches: &'a [[u8; 24]],
    /// Registers in user mode; none for a kernel thread.
    pub regs_user: Option<SampledRegisters<'a>>,
    /// Stack bytes from the stack pointer upwards, as far as they could be copied.
    pub stack_user: &'a [u8],
    /// What the event weighs, such as a latency.
    pub weight: Option<u64>,
    /// Where the data came from.
    pub data_src: Option<u64>,
    /// Flags of a transaction.
    pub transaction: Option<u64>,
    /// Registers at the interrupt.
    pub regs_intr: Option<SampledRegisters<'a>>,
    /// The physical address of [`Self::addr`].
    pub phys_addr: Option<u64>,
    /// The control group's id.
    pub cgroup: Option<u64>,
    /// The page size at [`Self::addr`].
    pub data_page_size: Option<u64>,
    /// The page size at [`Self::ip`].
    pub code_page_size: Option<u64>,
    /// A snapshot of the AUX area.
    pub aux: &'a [u8],
}

impl<'a> Sample<'a> {
    /// Branches, latest first.
    #[inline]
    pub fn branches(&self) -> impl ExactSizeIterator<Item = Branch> + 'a {
        self.branches.iter().map(|entry| {
            let (words, _) = entry.as_chunks();
            let [from, to, flags] = [0, 1, 2].map(|at| u64::from_le_bytes(words[at]));
            Branch { from, to, flags }
        })
    }

    pub(crate) fn read(
        attributes: &EventAttributes,
        record: &RawRecord<'a>,
    ) -> Result<Self, RecordError> {
        let mut fields = record.fields();
        let mut sample = Self {
            mode: CpuMode::of(record.misc),
            ..Self::default()
        };
        sample.read_numbers(attributes, &mut fields)?;
        sample.read_stacks(attributes, &mut fields)?;
        if attributes.has(AFTER_STACK) {
            sample.read_after_stack(attributes, &mut fields)?;
        }
        Ok(sample)
    }

    #[inline]
    fn read_numbers(
        &mut self,
        attributes: &EventAttributes,
        fields: &mut FieldReader<'a>,
    ) -> Result<(), RecordError> {
        let mut word = |field, name| fields.u64_if(attributes.has(field), name);
        let identifier = word(sample_type::IDENTIFIER, "the identifier")?;
        self.ip = word(sample_type::IP, "the instruction pointer")?;
        let thread = word(sample_type::TID, "the thread")?.unwrap_or(0);
        (self.pid, self.tid) = (thread as u32, (thread >> 32) as u32);
        self.time = word(sample_type::TIME, "the time")?;
        self.addr = word(sample_type::ADDR, "the data address")?;
        let id = word(sample_type::ID, "the id")?;
        self.id = identifier.or(id);
        self.stream_id = word(sample_type::STREAM_ID, "the stream id")?;
        self.cpu = word(sample_type::CPU, "the CPU")?.map(|cpu| cpu as u32);
        self.period = word(sample_type::PERIOD, "the period")?;
        Ok(())
    }

    #[inline]
    fn read_stacks(
        &mut self,
        attributes: &EventAttributes,
        fields: &mut FieldReader<'a>,
    ) -> Result<(), RecordError> {
        let has = |field| attributes.has(field);
        if has(sample_type::READ) {
            self.read = read_values(attributes.read_format, fields)?;
        }
        if has(sample_type::CALLCHAIN) {
            let count = fields.u64("the call chain's length")?;
            self.callchain = fields.words(count, "the call chain")?;
        }
        if has(sample_type::RAW) {
            let size = fields.u32("the raw data's size")? as usize;
            self.raw = fields.bytes(size, "the raw data")?;
        }
        if has(sample_type::BRANCH_STACK) {
            self.branches = branches(attributes.branch_sample_type, fields)?;
        }
        if has(sample_type::REGS_USER) {
            self.regs_user = registers(attributes.sample_regs_user, fields)?;
        }
        if has(sample_type::STACK_USER) {
            self.stack_user = user_stack(fields)?;
        }
        Ok(())
    }

    #[cold]
    fn read_after_stack(
        &mut self,
        attributes: &EventAttributes,
        fields: &mut FieldReader<'a>,
    ) -> Result<(), RecordError> {
        let has = |field| attributes.has(field);
        let is_weighed = has(sample_type::WEIGHT | sample_type::WEIGHT_STRUCT);
        self.weight = fields.u64_if(is_weighed, "the weight")?;
        self.data_src = fields.u64_if(has(sample_type::DATA_SRC), "the data source")?;
        self.transaction = fields.u64_if(has(sample_type::TRANSACTION), "the transaction")?;
        if has(sample_type::REGS_INTR) {
            self.regs_intr = registers(attributes.sample_regs_intr, fields)?;
        }
        let mut word = |field, name| fields.u64_if(has(field), name);
        self.phys_addr = word(sample_type::PHYS_ADDR, "the physical address")?;
        self.cgroup = word(sample_type::CGROUP, "the control group")?;
        self.data_page_size = word(sample_type::DATA_PAGE_SIZE, "the data page size")?;
        self.code_page_size = word(sample_type::CODE_PAGE_SIZE, "the code page size")?;
        if has(sample_type::AUX) {
            let size = fields.u64("the AUX data's size")?;
            self.aux = fields.chunks::<1>(size, "the AUX data")?.as_flattened();
        }
        Ok(())
    }
}

fn read_values<'a>(format: u64, fields: &mut FieldReader<'a>) -> Result<Words<'a>, RecordError> {
    let has = |bit: u64| u64::from(format & bit != 0);
    let times = has(read_format::TOTAL_TIME_ENABLED) + has(read_format::TOTAL_TIME_RUNNING);
    let value = 1 + has(read_format::ID) + has(read_format::LOST);
    if format & read_format::GROUP == 0 {
        return fields.words(times + value, "the counter");
    }
    // The count is one of the values: what reads them needs it too.
    let count = FieldReader::clone(fields).u64("the number of counters")?;
    let words = count.saturating_mul(value).saturating_add(1 + times);
    fields.words(words, "the counters")
}

fn branches<'a>(
    branch_type: u64,
    fields: &mut FieldReader<'a>,
) -> Result<&'a [[u8; 24]], RecordError> {
    let count = fields.u64("the branch stack's length")?;
    let has_index = branch_type & branch_sample_type::HW_INDEX != 0;
    fields.u64_if(has_index, "the branch stack's index")?;
    let entries = fields.chunks(count, "the branch stack")?;
    if branch_type & branch_sample_type::COUNTERS != 0 {
        fields.words(count, "the branch counters")?;
    }
    Ok(entries)
}

fn registers<'a>(
    mask: u64,
    fields: &mut FieldReader<'a>,
) -> Result<Option<SampledRegisters<'a>>, RecordError> {
    let abi = fields.u64("the registers' ABI")?;
    if abi == 0 {
        return Ok(None);
    }
    let values = fields.words(mask.count_ones().into(), "the registers")?;
    Ok(Some(SampledRegisters { abi, mask, values }))
}

/// The kernel takes the whole space it was given and says afterwards how much of it is filled.
fn user_stack<'a>(fields: &mut FieldReader<'a>) -> Result<&'a [u8], RecordError> {
    let size = fields.u64("the stack's size")?;
    if size == 0 {
        return Ok(&[]);
    }
    let stack = fields.chunks::<1>(size, "the stack")?.as_flattened();
    let filled = fields.u64("the stack's filled size")?;
    let filled = usize::try_from(filled).unwrap_or(usize::MAX);
    Ok(&stack[..filled.min(stack.len())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::sample_type::*;
    use crate::record::{misc, record_type};
    use crate::testing::{pair, words};

    fn attributes(sample_type: u64) -> EventAttributes {
        EventAttributes {
            sample_type,
            ..EventAttributes::default()
        }
    }

    fn record(body: &[u8]) -> RawRecord<'_> {
        RawRecord {
            kind: record_type::SAMPLE,
            misc: misc::USER,
            body,
        }
    }

    /// Decodes a body, and checks that no shorter one is taken for it.
    fn read<'a>(attributes: &EventAttributes, body: &'a [u8]) -> Sample<'a> {
        for length in 0..body.len() {
            let error = Sample::read(attributes, &record(&body[..length])).unwrap_err();
            assert!((8..=8 + length).contains(&error.at()), "{length}: {error}");
        }
        Sample::read(attributes, &record(body)).unwrap()
    }

    #[test]
    fn each_number_alone_is_the_first_field() {
        let body = words([pair(7, 8)]);
        let whole = Some(pair(7, 8));
        let sample = |field| read(&attributes(field), &body);
        assert_eq!(sample(IDENTIFIER).id, whole);
        assert_eq!(sample(IP).ip, whole);
        assert_eq!((sample(TID).pid, sample(TID).tid), (7, 8));
        assert_eq!(sample(TIME).time, whole);
        assert_eq!(sample(ADDR).addr, whole);
        assert_eq!(sample(ID).id, whole);
        assert_eq!(sample(STREAM_ID).stream_id, whole);
        assert_eq!(sample(CPU).cpu, Some(7));
        assert_eq!(sample(PERIOD).period, whole);
        assert_eq!(sample(WEIGHT).weight, whole);
        assert_eq!(sample(WEIGHT_STRUCT).weight, whole);
        assert_eq!(sample(DATA_SRC).data_src, whole);
        assert_eq!(sample(TRANSACTION).transaction, whole);
        assert_eq!(sample(PHYS_ADDR).phys_addr, whole);
        assert_eq!(sample(CGROUP).cgroup, whole);
        assert_eq!(sample(DATA_PAGE_SIZE).data_page_size, whole);
        assert_eq!(sample(CODE_PAGE_SIZE).code_page_size, whole);
    }

    #[test]
    fn all_fields_come_in_the_kernels_order() {
        let attributes = EventAttributes {
            read_format: read_format::GROUP | read_format::ID | read_format::TOTAL_TIME_ENABLED,
            branch_sample_type: branch_sample_type::HW_INDEX | branch_sample_type::COUNTERS,
            sample_regs_user: 1 << 1 | 1 << 7 | 1 << 8,
            sample_regs_intr: 1,
            ..attributes((1 << 25) - 1 - WEIGHT_STRUCT)
        };
        let mut values = vec![99, 0x5000, pair(7, 8), 1234, 0xadd, 98, 3, pair(1, 0), 4];
        values.extend([2, 50, 1, 98, 2, 99]); // two values with ids, after the time
        values.extend([2, crate::context::USER, 0x5000]);
        values.push(pair(4, 0xdead)); // four raw bytes
        values.extend([2, 0, 0x4100, 0x5000, 5, 0x4000, 0x4050, 6, 0, 0]);
        values.extend([REGS_ABI_64, 11, 12, 13]);
        values.extend([16, 0xaa, 0xbb, 8]); // sixteen bytes, eight of them filled
        values.extend([21, 22, 23, REGS_ABI_64, 24, 25, 26, 27, 28]);
        values.extend([8, 0xa0]);
        let body = words(values);
        let sample = read(&attributes, &body);
        assert_eq!((sample.id, sample.ip), (Some(99), Some(0x5000)));
        assert_eq!((sample.pid, sample.tid), (7, 8));
        assert_eq!((sample.time, sample.addr), (Some(1234), Some(0xadd)));
        assert_eq!((sample.stream_id, sample.cpu), (Some(3), Some(1)));
        assert_eq!(sample.period, Some(4));
        assert_eq!(
            sample.read.iter().collect::<Vec<_>>(),
            [2, 50, 1, 98, 2, 99]
        );
        assert_eq!(sample.callchain.get(1), Some(0x5000));
        assert_eq!(sample.raw, 0xdeadu32.to_le_bytes());
        let calls: Vec<_> = sample.branches().map(|branch| branch.from).collect();
        assert_eq!(calls, [0x4100, 0x4000]);
        let registers = sample.regs_user.unwrap().x86_64().unwrap();
        assert_eq!((registers[3], registers[7], registers[16]), (11, 12, 13));
        assert_eq!(sample.stack_user, 0xaau64.to_le_bytes());
        assert_eq!((sample.weight, sample.data_src), (Some(21), Some(22)));
        assert_eq!(sample.transaction, Some(23));
        assert_eq!(sample.regs_intr.unwrap().values.get(0), Some(24));
        assert_eq!((sample.phys_addr, sample.cgroup), (Some(25), Some(26)));
        assert_eq!(sample.data_page_size, Some(27));
        assert_eq!(sample.code_page_size, Some(28));
        assert_eq!(sample.aux, 0xa0u64.to_le_bytes());
        assert_eq!(sample.mode, CpuMode::User);
    }

    #[test]
    fn a_single_counter_has_what_read_format_says() {
        let format = read_format::TOTAL_TIME_ENABLED
            | read_format::TOTAL_TIME_RUNNING
            | read_format::ID
            | read_format::LOST;
        for (format, words_of_read) in [(0, 1), (read_format::ID, 2), (format, 5)] {
            let attributes = EventAttributes {
                read_format: format,
                ..attributes(READ)
            };
            let body = words(0..words_of_read);
            assert_eq!(read(&attributes, &body).read.len(), words_of_read as usize);
        }
    }

    #[test]
    fn a_kernel_thread_has_neither_registers_nor_a_stack() {
        let attributes = EventAttributes {
            sample_regs_user: x86_64::REGISTER_MASK,
            ..attributes(REGS_USER | STACK_USER)
        };
        let body = words([0, 0]);
        let sample = read(&attributes, &body);
        assert_eq!((sample.regs_user, sample.stack_user), (None, [].as_slice()));
    }

    #[test]
    fn registers_of_a_32_bit_process_are_not_taken_for_64_bit_ones() {
        let attributes = EventAttributes {
            sample_regs_user: 1,
            ..attributes(REGS_USER)
        };
        let body = words([1, 5]);
        let registers = read(&attributes, &body).regs_user.unwrap();
        assert_eq!((registers.abi, registers.x86_64()), (1, None));
    }

    #[test]
    fn a_stack_is_never_longer_than_its_space() {
        let body = words([8, 0xaa, u64::MAX]);
        let sample = read(&attributes(STACK_USER), &body);
        assert_eq!(sample.stack_user, 0xaau64.to_le_bytes());
    }

    #[test]
    fn lengths_that_lie_are_errors_at_their_content() {
        for (field, name) in [
            (CALLCHAIN, "the call chain"),
            (BRANCH_STACK, "the branch stack"),
            (STACK_USER, "the stack"),
            (AUX, "the AUX data"),
        ] {
            for count in [u64::MAX, u64::MAX / 8 + 1, 2, 1 << 61] {
                let body = words([count]);
                let error = Sample::read(&attributes(field), &record(&body)).unwrap_err();
                let text = error.to_string();
                assert!(
                    text.starts_with(&format!("byte 16: {name} needs")),
                    "{text}"
                );
            }
        }
        let group = EventAttributes {
            read_format: read_format::GROUP,
            ..attributes(READ)
        };
        let body = words([u64::MAX, 1]);
        assert!(Sample::read(&group, &record(&body)).is_err());
    }
}
