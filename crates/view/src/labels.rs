//! The text on boxes of a flame graph, made once for each function.

use std::borrow::Cow;

use nodespy_model::{FastMap, FunctionIndex, Profile, folded_label};

/// How functions are called on boxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Names {
    /// Name, place and FlameGraph's mark of the kind of code.
    #[default]
    Marked,
    /// The name alone, which already is what it should be.
    AsWritten,
}

/// The labels of a profile's functions.
#[derive(Debug)]
pub struct Labels<'a> {
    texts: Vec<Cow<'a, str>>,
    /// For each function, the first one of the same label: to a reader they are one.
    pub(crate) alias_of: Vec<FunctionIndex>,
}

impl<'a> Labels<'a> {
    /// The labels of every function.
    pub fn of(profile: &'a Profile, names: Names) -> Self {
        let functions = (0..profile.functions.len() as u32).map(FunctionIndex);
        let texts: Vec<Cow<'a, str>> = functions
            .map(|function| match names {
                Names::Marked => Cow::Owned(folded_label(profile, function)),
                Names::AsWritten => Cow::Borrowed(profile.name_of(function)),
            })
            .collect();
        let mut known: FastMap<&str, FunctionIndex> = FastMap::default();
        let alias_of = texts
            .iter()
            .enumerate()
            .map(|(position, text)| {
                let function = FunctionIndex(position as u32);
                *known.entry(text).or_insert(function)
            })
            .collect();
        drop(known);
        Self { texts, alias_of }
    }

    /// The label of a function.
    pub fn text(&self, function: FunctionIndex) -> &str {
        &self.texts[function.at()]
    }

    /// For each of the functions in `shown`, its place among them by label.
    pub(crate) fn ranks(&self, shown: impl Iterator<Item = FunctionIndex>) -> Vec<u32> {
        const UNSEEN: u32 = u32::MAX;
        let mut ranks = vec![UNSEEN; self.texts.len()];
        let mut order: Vec<FunctionIndex> = Vec::new();
        for function in shown {
            if std::mem::replace(&mut ranks[function.at()], 0) == UNSEEN {
                order.push(function);
            }
        }
        order.sort_unstable_by_key(|function| self.text(*function));
        for (rank, function) in order.into_iter().enumerate() {
            ranks[function.at()] = rank as u32;
        }
        ranks
    }
}
