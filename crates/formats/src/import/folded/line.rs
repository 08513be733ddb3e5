//! One line of folded stacks: a path of names and one weight, or two of a difference.

/// What a line of the file is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// A path of names and its weights.
    Stack {
        path: &'a [u8],
        /// The weight of the earlier of two profiles, where the line has two.
        before: Option<Weight>,
        weight: Weight,
    },
    /// Empty, a comment, or a weight of zero.
    Nothing,
    /// Something else.
    Bad,
}

/// A weight as it is written, to the nearest thousandth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Weight {
    whole: u64,
    thousandths: u16,
}

impl Weight {
    /// Digits, of which a dot may part the fraction. More than fit are as much as fits.
    fn parse(digits: &[u8]) -> Option<Self> {
        let dot = digits.iter().position(|byte| *byte == b'.');
        let (whole, fraction) = match dot {
            Some(dot) => (&digits[..dot], &digits[dot + 1..]),
            None => (digits, &[][..]),
        };
        let is_number = digits.len() > usize::from(dot.is_some())
            && whole.iter().chain(fraction).all(u8::is_ascii_digit);
        if !is_number {
            return None;
        }
        let digit = |byte: &u8| u64::from(byte - b'0');
        let whole = whole.iter().fold(0u64, |number, byte| {
            number.saturating_mul(10).saturating_add(digit(byte))
        });
        let place = |at: usize| fraction.get(at).map_or(0, digit) as u16;
        let thousandths = place(0) * 100 + place(1) * 10 + place(2) + u16::from(place(3) >= 5);
        Some(Self {
            whole: whole.saturating_add(u64::from(thousandths / 1000)),
            thousandths: thousandths % 1000,
        })
    }

    fn is_zero(self) -> bool {
        self == Self::default()
    }

    /// Whether it is a whole number.
    pub(super) fn is_whole(self) -> bool {
        self.thousandths == 0
    }

    /// The nearest whole number.
    pub(super) fn rounded(self) -> u64 {
        self.whole
            .saturating_add(u64::from(self.thousandths >= 500))
    }

    /// The weight in thousandths.
    pub(super) fn in_thousandths(self) -> u64 {
        self.whole
            .saturating_mul(1000)
            .saturating_add(u64::from(self.thousandths))
    }
}

impl<'a> Line<'a> {
    /// Takes a line apart from its end: names may hold spaces and numbers.
    pub(super) fn parse(line: &'a [u8]) -> Self {
        let line = line.trim_ascii();
        let is_comment = line.starts_with(b"# ") || line.starts_with(b"//") || line == b"#";
        if line.is_empty() || is_comment {
            return Self::Nothing;
        }
        let Some((path, weight)) = split_weight(line) else {
            return Self::Bad;
        };
        let (path, before) = match split_weight(path) {
            Some((path, before)) => (path, Some(before)),
            None => (path, None),
        };
        match weight.is_zero() && before.is_none_or(Weight::is_zero) {
            true => Self::Nothing,
            false => Self::Stack {
                path,
                before,
                weight,
            },
        }
    }
}

/// The last word of a line as a weight, with what comes before it. Looks at no more than that word.
fn split_weight(line: &[u8]) -> Option<(&[u8], Weight)> {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let before = line.iter().rposition(|byte| !is_digit(byte))?;
    let (path, digits) = line.split_at(before + 1);
    let is_apart = matches!(path.last(), Some(b' ' | b'\t'));
    let weight = Weight::parse(digits).filter(|_| is_apart)?;
    let path = path.trim_ascii_end();
    (!path.is_empty()).then_some((path, weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(line: &str) -> Option<(&str, Option<u64>, u64)> {
        match Line::parse(line.as_bytes()) {
            Line::Stack {
                path,
                before,
                weight,
            } => Some((
                std::str::from_utf8(path).unwrap(),
                before.map(Weight::in_thousandths),
                weight.in_thousandths(),
            )),
            _ => None,
        }
    }

    #[test]
    fn weights_are_taken_off_the_end() {
        assert_eq!(stack("a b;c 12"), Some(("a b;c", None, 12_000)));
        assert_eq!(stack("a;b 3 0\r"), Some(("a;b", Some(3000), 0)));
        assert_eq!(stack("a;b\t1.5 20."), Some(("a;b", Some(1500), 20_000)));
        assert_eq!(stack("a 14.2343983248722834234"), Some(("a", None, 14_234)));
        assert_eq!(stack("a 0.9999"), Some(("a", None, 1000)));
        assert_eq!(stack("a 99999999999999999999"), Some(("a", None, u64::MAX)));
    }

    #[test]
    fn what_is_no_stack_is_told_apart_from_nothing() {
        for bad in ["a;b", "a;b 1e5", "a;b .", "12", "a -3", "a 1.2.3"] {
            assert_eq!(Line::parse(bad.as_bytes()), Line::Bad, "{bad}");
        }
        for nothing in ["", "  ", "# x", "#", "// y", "a 0", "a 0 0.0"] {
            assert_eq!(Line::parse(nothing.as_bytes()), Line::Nothing, "{nothing}");
        }
    }
}
