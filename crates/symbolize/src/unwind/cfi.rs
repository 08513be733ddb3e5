//! Unwind tables (`.eh_frame`) turned into rules: how to find the caller of an instruction.
//!
//! Most rules are a register plus an offset and are remembered by address. Rules that need an
//! expression (OpenSSL's AVX2 code, signal frames) are evaluated each time, with the stack and
//! the live process to read from.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, EvaluationResult, LittleEndian,
    Location, Register, RegisterRule, UnwindContext, UnwindExpression, UnwindSection,
    UnwindTableRow, Value,
};
use nodespy_model::Registers;

use crate::elf::{Section, UnwindSections};
use crate::image_budget::Paid;
use crate::x86_64::{RETURN_ADDRESS, SAVED_REGISTERS};

type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Says that a register was not saved.
pub(crate) const NOT_SAVED: i32 = i32::MIN;

/// How to find the caller of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// No table covers it: V8's builtins, assembly, stripped code.
    NoTable,
    /// Nobody called it: the thread starts here.
    Root,
    /// The caller's stack pointer is a register plus an offset; the return address is below it.
    Offset {
        register: u8,
        offset: i32,
        /// Offsets from the caller's stack pointer at which [`SAVED_REGISTERS`] registers are.
        saved: [i32; SAVED_REGISTERS.len()],
    },
    /// Has to be evaluated with [`Cfi::evaluate`].
    Expression,
}

/// The unwind tables of an image.
#[derive(Debug)]
pub(crate) struct Cfi {
    eh_frame: Section,
    eh_frame_hdr: Option<Section>,
    bases: BaseAddresses,
    /// Start, end and offset of each entry, for files without an index of their own.
    own_index: Vec<(u64, u64, usize)>,
    context: UnwindContext<usize>,
    /// For the sections.
    _paid: Vec<Paid>,
}

impl Cfi {
    pub(crate) fn new(sections: UnwindSections) -> Self {
        let mut bases = BaseAddresses::default()
            .set_eh_frame(sections.eh_frame.address)
            .set_text(sections.text_address)
            .set_got(sections.got_address);
        if let Some(header) = &sections.eh_frame_hdr {
            bases = bases.set_eh_frame_hdr(header.address);
        }
        let mut cfi = Self {
            eh_frame: sections.eh_frame,
            eh_frame_hdr: sections.eh_frame_hdr,
            bases,
            own_index: Vec::new(),
            context: UnwindContext::new(),
            _paid: sections.paid,
        };
        if !cfi.has_usable_header() {
            cfi.eh_frame_hdr = None;
            cfi.build_own_index();
        }
        cfi
    }

    /// Whether there is an index with no more entries than there is room for: a search in one that
    /// claims 2^60 of them overflows in gimli 0.34.
    fn has_usable_header(&self) -> bool {
        self.eh_frame_hdr.as_ref().is_some_and(|header| {
            let parsed = EhFrameHdr::new(&header.bytes, LittleEndian).parse(&self.bases, 8);
            parsed.is_ok_and(|parsed| {
                let table = parsed.table();
                let count = table.and_then(|table| table.iter(&self.bases).size_hint().1);
                count.is_some_and(|count| count <= header.bytes.len())
            })
        })
    }

    fn build_own_index(&mut self) {
        let section = EhFrame::new(&self.eh_frame.bytes, LittleEndian);
        let mut entries = section.entries(&self.bases);
        while let Ok(Some(entry)) = entries.next() {
            let gimli::CieOrFde::Fde(partial) = entry else {
                continue;
            };
            let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else {
                continue;
            };
            self.own_index.push((
                fde.initial_address(),
                fde.initial_address().saturating_add(fde.len()),
                fde.offset(),
            ));
        }
        self.own_index.sort_unstable();
    }

    /// The offset of the entry that may cover `address`.
    fn entry_offset(&self, address: u64) -> Option<usize> {
        let Some(header) = &self.eh_frame_hdr else {
            let after = self.own_index.partition_point(|entry| entry.0 <= address);
            let (_, end, offset) = self.own_index[after.checked_sub(1)?];
            return (address < end).then_some(offset);
        };
        let parsed = EhFrameHdr::new(&header.bytes, LittleEndian)
            .parse(&self.bases, 8)
            .ok()?;
        let entry = parsed
            .table()?
            .lookup(address, &self.bases)
            .ok()?
            .direct()
            .ok()?;
        usize::try_from(entry.checked_sub(self.eh_frame.address)?).ok()
    }

    /// Runs `read` on the row that covers `address`.
    fn with_row<T>(
        &mut self,
        address: u64,
        read: impl FnOnce(&EhFrame<Bytes<'_>>, &UnwindTableRow<usize>, gimli::Encoding, bool) -> T,
    ) -> Option<T> {
        let offset = self.entry_offset(address)?;
        let section = EhFrame::new(&self.eh_frame.bytes, LittleEndian);
        let fde = section
            .fde_from_offset(&self.bases, offset.into(), EhFrame::cie_from_offset)
            .ok()?;
        if !fde.contains(address) {
            return None;
        }
        let row = fde
            .unwind_info_for_address(&section, &self.bases, &mut self.context, address)
            .ok()?;
        let encoding = fde.cie().encoding();
        Some(read(&section, row, encoding, fde.is_signal_trampoline()))
    }

    /// The rule for the instruction at `address`.
    pub(crate) fn rule_at(&mut self, address: u64) -> Rule {
        self.with_row(address, |_, row, _, is_signal| {
            if is_signal {
                return Rule::Expression;
            }
            simple_rule(row).unwrap_or(Rule::Expression)
        })
        .unwrap_or(Rule::NoTable)
    }

    /// Where the function that holds `address` starts.
    pub(crate) fn function_start(&self, address: u64) -> Option<u64> {
        let offset = self.entry_offset(address)?;
        let section = EhFrame::new(&self.eh_frame.bytes, LittleEndian);
        let fde = section
            .fde_from_offset(&self.bases, offset.into(), EhFrame::cie_from_offset)
            .ok()?;
        fde.contains(address).then(|| fde.initial_address())
    }

    /// Evaluates the rule at `address` in full; `cfa` replaces the caller's stack pointer where it
    /// is known from elsewhere. Returns the caller's registers and whether the frame was made by a
    /// signal, so that the caller was interrupted rather than calling.
    pub(crate) fn evaluate(
        &mut self,
        address: u64,
        registers: &Registers,
        cfa: Option<u64>,
        read: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Option<(Registers, bool)> {
        self.with_row(address, |section, row, encoding, is_signal| {
            let mut evaluator = Evaluator {
                section,
                encoding,
                registers,
                read,
            };
            let caller = evaluator.caller(row, cfa)?;
            Some((caller, is_signal))
        })
        .flatten()
    }
}

/// The rule of a row that needs no expression.
fn simple_rule(row: &UnwindTableRow<usize>) -> Option<Rule> {
    match row.register(Register(Registers::INSTRUCTION_POINTER as u16)) {
        None | Some(RegisterRule::Undefined) => return Some(Rule::Root),
        Some(RegisterRule::Offset(RETURN_ADDRESS)) => {}
        Some(_) => return None,
    }
    let CfaRule::RegisterAndOffset { register, offset } = *row.cfa() else {
        return None;
    };
    if usize::from(register.0) >= Registers::INSTRUCTION_POINTER {
        return None;
    }
    let mut saved = [NOT_SAVED; SAVED_REGISTERS.len()];
    for (slot, &number) in saved.iter_mut().zip(&SAVED_REGISTERS) {
        match row.register(Register(number as u16)) {
            None | Some(RegisterRule::Undefined | RegisterRule::SameValue) => {}
            Some(RegisterRule::Offset(offset)) => *slot = i32::try_from(offset).ok()?,
            Some(_) => return None,
        }
    }
    Some(Rule::Offset {
        register: register.0 as u8,
        offset: i32::try_from(offset).ok()?,
        saved,
    })
}

/// Evaluates rules that hold expressions.
struct Evaluator<'a, 'section> {
    section: &'a EhFrame<Bytes<'section>>,
    encoding: gimli::Encoding,
    registers: &'a Registers,
    read: &'a mut dyn FnMut(u64) -> Option<u64>,
}

impl Evaluator<'_, '_> {
    fn caller(&mut self, row: &UnwindTableRow<usize>, cfa: Option<u64>) -> Option<Registers> {
        let cfa = match (cfa, row.cfa()) {
            (Some(known), _) => known,
            (None, CfaRule::RegisterAndOffset { register, offset }) => {
                self.register(*register)?.wrapping_add_signed(*offset)
            }
            (None, CfaRule::Expression(expression)) => self.expression(*expression, None)?,
        };
        let mut caller = *self.registers;
        caller.0[Registers::STACK_POINTER] = cfa;
        for &(register, ref rule) in row.registers() {
            let number = usize::from(register.0);
            if number >= caller.0.len() {
                continue;
            }
            let value = match *rule {
                RegisterRule::Offset(offset) => (self.read)(cfa.wrapping_add_signed(offset)),
                RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(offset)),
                RegisterRule::Register(other) => self.register(other),
                RegisterRule::Expression(expression) => self
                    .expression(expression, Some(cfa))
                    .and_then(|address| (self.read)(address)),
                RegisterRule::ValExpression(expression) => self.expression(expression, Some(cfa)),
                RegisterRule::Constant(value) => Some(value),
                _ => continue,
            };
            match value {
                Some(value) => caller.0[number] = value,
                // Without the return address there is no caller; any other register may stay.
                None if number == Registers::INSTRUCTION_POINTER => return None,
                None => {}
            }
        }
        Some(caller)
    }

    fn register(&self, register: Register) -> Option<u64> {
        self.registers.0.get(usize::from(register.0)).copied()
    }

    fn expression(
        &mut self,
        expression: UnwindExpression<usize>,
        start: Option<u64>,
    ) -> Option<u64> {
        let expression = expression.get(self.section).ok()?;
        let mut evaluation = expression.evaluation(self.encoding);
        // The longest real expression (a signal frame's) has 2 steps.
        evaluation.set_max_iterations(64);
        if let Some(start) = start {
            evaluation.set_initial_value(start);
        }
        let mut result = evaluation.evaluate().ok()?;
        for _ in 0..64 {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => evaluation
                    .resume_with_register(Value::Generic(self.register(register)?))
                    .ok()?,
                EvaluationResult::RequiresMemory { address, size, .. } => {
                    let value = (self.read)(address)?;
                    let value = match size {
                        0 | 8.. => value,
                        size => value & ((1 << (8 * u32::from(size))) - 1),
                    };
                    evaluation.resume_with_memory(Value::Generic(value)).ok()?
                }
                _ => return None,
            };
        }
        if !matches!(result, EvaluationResult::Complete) {
            return None;
        }
        match evaluation.as_result().last()?.location {
            Location::Address { address } => Some(address),
            _ => None,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    fn entry(bytes: &mut Vec<u8>, mut body: Vec<u8>) {
        // Entries are padded with instructions that do nothing.
        body.resize(body.len().next_multiple_of(8) + 4, 0);
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(body);
    }

    /// The tables of one function from 0x1000 to 0x1100, which starts with `push rbp` and
    /// `mov rbp, rsp`, and of one from 0x2000 to 0x2010 that is not called by any other.
    pub(crate) fn tables() -> Cfi {
        let mut bytes = Vec::new();
        let mut common = vec![0; 4];
        common.extend(b"\x01zR\0\x01\x78\x10\x01\x00");
        // The caller's stack pointer is rsp + 8, the return address below it.
        common.extend([0x0c, 7, 8, 0x80 | 16, 1]);
        entry(&mut bytes, common);
        let mut function = |start: u64, size: u64, instructions: &[u8]| {
            let mut body = (bytes.len() as u32 + 4).to_le_bytes().to_vec();
            body.extend(start.to_le_bytes());
            body.extend(size.to_le_bytes());
            body.push(0);
            body.extend(instructions);
            entry(&mut bytes, body);
        };
        function(0x1000, 0x100, &[0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6]);
        // The return address is undefined.
        function(0x2000, 0x10, &[0x07, 16]);
        bytes.extend([0; 4]);
        Cfi::new(UnwindSections {
            eh_frame: Section { bytes, address: 0 },
            ..Default::default()
        })
    }

    #[test]
    fn a_rule_changes_with_the_instruction() {
        let mut cfi = tables();
        let rule = |register, offset, rbp| {
            let mut saved = [NOT_SAVED; SAVED_REGISTERS.len()];
            saved[1] = rbp;
            Rule::Offset {
                register,
                offset,
                saved,
            }
        };
        assert_eq!(cfi.rule_at(0x1000), rule(7, 8, NOT_SAVED));
        assert_eq!(cfi.rule_at(0x1001), rule(7, 16, -16));
        assert_eq!(cfi.rule_at(0x10ff), rule(6, 16, -16));
        assert_eq!(cfi.rule_at(0x2008), Rule::Root);
        assert_eq!(cfi.rule_at(0x1100), Rule::NoTable);
        assert_eq!(cfi.function_start(0x10ff), Some(0x1000));
    }

    #[test]
    fn a_rule_that_is_evaluated_gives_the_registers_of_the_caller() {
        let mut cfi = tables();
        let mut registers = Registers::default();
        registers.0[Registers::FRAME_POINTER] = 0x7000;
        let mut read = |address| Some(address + 1);
        let (caller, is_signal) = cfi.evaluate(0x1080, &registers, None, &mut read).unwrap();
        assert_eq!(caller.stack_pointer(), 0x7010);
        assert_eq!(caller.frame_pointer(), 0x7001);
        assert_eq!(caller.instruction_pointer(), 0x7009);
        assert!(!is_signal);
        assert!(
            cfi.evaluate(0x1080, &registers, None, &mut |_| None)
                .is_none()
        );
        assert!(cfi.evaluate(0x3000, &registers, None, &mut read).is_none());
    }

    #[test]
    fn an_index_that_claims_more_entries_than_it_has_is_not_used() {
        let with_index = |entries: u64| {
            // Version, how pointer, count and table are encoded: absolute, of eight bytes.
            let mut bytes = vec![1, 4, 4, 4];
            bytes.extend(0u64.to_le_bytes());
            bytes.extend(entries.to_le_bytes());
            bytes.extend([0; 64]);
            let header = Section { bytes, address: 0 };
            let mut cfi = Cfi::new(UnwindSections {
                eh_frame: tables().eh_frame,
                eh_frame_hdr: Some(header),
                ..Default::default()
            });
            (cfi.eh_frame_hdr.is_some(), cfi.rule_at(0x2008))
        };
        assert!(with_index(4).0);
        for entries in [1 << 20, 1 << 61, u64::MAX] {
            assert_eq!(with_index(entries), (false, Rule::Root), "{entries}");
        }
    }

    #[test]
    fn no_damaged_table_makes_it_panic() {
        let whole = tables().eh_frame.bytes;
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let mut cfi = Cfi::new(UnwindSections {
                    eh_frame: Section { bytes, address: 0 },
                    ..Default::default()
                });
                for address in [0x1000, 0x1080, 0x2000] {
                    cfi.rule_at(address);
                    cfi.evaluate(address, &Registers::default(), None, &mut |_| Some(1));
                }
            }
        }
    }
}
