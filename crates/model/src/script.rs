//! Scripts as V8 has loaded them: what decides whether a file on disk is the one that runs.

/// A script of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadedScript {
    /// The process.
    pub pid: u32,
    /// Its file, as functions name it.
    pub file: String,
    /// What its last `//# sourceMappingURL=` comment says; empty when it has none.
    pub map_url: String,
    /// What is known of its text.
    pub text: TextMark,
}

/// What two equal texts have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TextMark {
    /// Its length in UTF-16 units, where it is known.
    pub units: Option<u64>,
    /// A hash of its UTF-16 units, where the text could be read.
    pub hash: Option<u64>,
}

impl TextMark {
    /// The mark of a text, given as UTF-16.
    pub fn of(units: impl Iterator<Item = u16>) -> Self {
        let mut length = 0u64;
        let mut hash = 0u64;
        let mut word = 0u64;
        for unit in units {
            word = word << 16 | u64::from(unit);
            length += 1;
            if length.is_multiple_of(4) {
                hash = stirred(hash, word);
                word = 0;
            }
        }
        Self {
            units: Some(length),
            hash: Some(stirred(hash, word)),
        }
    }

    /// Whether a text with this mark may be one with the other, as far as both know.
    pub fn agrees_with(&self, other: &Self) -> bool {
        let agree =
            |one: Option<u64>, two: Option<u64>| one.is_none() || two.is_none() || one == two;
        agree(self.units, other.units) && agree(self.hash, other.hash)
    }
}

/// Folds the product of both halves, so that every bit counts everywhere.
fn stirred(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
    (product as u64) ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_counts() {
        let mark = |text: &str| TextMark::of(text.encode_utf16());
        assert_eq!(mark("let x = 1;"), mark("let x = 1;"));
        for other in ["let x = 2;", "let y = 1;", "let x = 1; ", "Let x = 1;", ""] {
            assert!(!mark("let x = 1;").agrees_with(&mark(other)), "{other}");
        }
        let length_only = TextMark {
            units: Some(10),
            hash: None,
        };
        assert!(length_only.agrees_with(&mark("let x = 2;")));
        assert!(!length_only.agrees_with(&mark("let x = 22;")));
    }
}
