//! Names and urls of functions.

use std::sync::Arc;

use nodespy_model::FastSet;

use super::shares::Share;

/// Names and urls, each held once: thousands of functions share a url.
#[derive(Debug)]
pub(super) struct Texts {
    all: FastSet<Arc<str>>,
    pub(super) bytes: Share,
}

impl Texts {
    pub(super) fn new(bytes: Share) -> Self {
        Self {
            all: FastSet::default(),
            bytes,
        }
    }

    pub(super) fn intern(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.all.get(text) {
            return known.clone();
        }
        let new: Arc<str> = text.into();
        self.bytes.take(new.len());
        self.all.insert(new.clone());
        new
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes.room() == 0
    }
}
