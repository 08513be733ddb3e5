//! The arguments of tracepoints, as labels of their samples.
//!
//! Numbers and text of the record are taken as they are. Text elsewhere in the program, such as the name of a file to open, is
//! taken from the copy of the stack alone, which is of the same moment: synchronous calls of Node have it there. What is in the
//! heap may be something else by the time it could be read, so it is left out.

use std::sync::Arc;

use nodespy_model::{FastSet, Labels, Registers, label_key};
use nodespy_perf_abi::{FieldValue, Sample, TracepointFormat, until_nul};

/// How many values of one argument are told apart.
const MAX_VALUES: usize = 500;
/// What stands for all others.
const OTHER: &str = "(other)";
/// Text of a program is not longer, or it is none.
const MAX_TEXT_BYTES: usize = 4096;
/// Labels that samples and processes have already.
const TAKEN: [&str; 7] = [
    label_key::STATE,
    label_key::WAIT,
    label_key::ROUTE,
    label_key::APP,
    label_key::VERSION,
    label_key::FOLDER,
    label_key::IMAGE,
];

/// The arguments of one tracepoint.
#[derive(Debug)]
pub(super) struct Arguments {
    format: Arc<TracepointFormat>,
    /// What each is called as a label, and its values so far.
    seen: Vec<(String, FastSet<String>)>,
}

impl Arguments {
    pub(super) fn new(format: Arc<TracepointFormat>) -> Self {
        let key = |name: &str| match TAKEN.contains(&name) {
            true => format!("arg.{name}"),
            false => name.to_owned(),
        };
        let fields = format.fields().iter();
        Self {
            seen: fields
                .map(|field| (key(&field.name), FastSet::default()))
                .collect(),
            format,
        }
    }

    /// The labels of a sample.
    pub(super) fn labels(&mut self, sample: &Sample<'_>) -> Labels {
        let mut labels = Labels::default();
        for (field, (key, seen)) in self.format.fields().iter().zip(&mut self.seen) {
            let value = field.value(sample.raw);
            let Some(value) = value.and_then(|value| in_words(&field.name, value, sample)) else {
                continue;
            };
            let is_known = seen.contains(&value);
            match is_known || seen.len() < MAX_VALUES {
                true => labels.set(key, &value),
                false => labels.set(key, OTHER),
            }
            if !is_known && seen.len() < MAX_VALUES {
                seen.insert(value);
            }
        }
        labels
    }
}

fn in_words(name: &str, value: FieldValue<'_>, sample: &Sample<'_>) -> Option<String> {
    match value {
        FieldValue::Unsigned(number) if name.ends_with("flags") => Some(format!("{number:#x}")),
        FieldValue::Signed(number) if name.ends_with("flags") => Some(format!("{number:#x}")),
        FieldValue::Unsigned(number) => Some(number.to_string()),
        FieldValue::Signed(number) => Some(number.to_string()),
        FieldValue::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        FieldValue::TextAddress(address) => {
            let registers = Registers(sample.regs_user?.x86_64()?);
            text_on_stack(registers.stack_pointer(), sample.stack_user, address)
        }
    }
}

/// Text at an address of the stack, of which there is a copy from its pointer on; none that has no end in there.
fn text_on_stack(pointer: u64, stack: &[u8], address: u64) -> Option<String> {
    let offset = usize::try_from(address.checked_sub(pointer)?).ok()?;
    let rest = stack.get(offset..)?;
    let text = until_nul(&rest[..rest.len().min(MAX_TEXT_BYTES)]);
    let has_end = rest.get(text.len()) == Some(&0);
    let text = std::str::from_utf8(text).ok()?;
    (has_end && !text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_on_the_stack_alone() {
        let stack = b"....\0/etc/hosts\0and no end";
        assert_eq!(text_on_stack(1000, stack, 1005), Some("/etc/hosts".into()));
        assert_eq!(text_on_stack(1000, stack, 1016), None, "no end");
        assert_eq!(text_on_stack(1000, stack, 1004), None, "empty");
        assert_eq!(text_on_stack(1000, stack, 999), None);
        assert_eq!(text_on_stack(1000, stack, 5000), None);
        assert_eq!(text_on_stack(0, &[0xff, 0], 0), None, "not text");
        assert_eq!(text_on_stack(1, stack, u64::MAX), None);
    }
}
