//! A nodespy HTML page: the recording it shows is inside, as base64 of our own format.

use nodespy_model::Recording;

use super::{ImportError, ImportOptions, Importer};
use crate::base64;
use crate::detect::{Confidence, head};
use crate::input::Input;
use crate::native::Native;

/// How the element that holds the recording starts.
const OPENING: &[u8] = b"<script type=\"application/nspy\"";

/// The importer of nodespy's HTML pages.
pub(crate) struct Html;

impl Importer for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        let head = head(bytes);
        let text = head.trim_ascii_start();
        let starts_with = |start: &str| {
            text.get(..start.len())
                .is_some_and(|bytes| bytes.eq_ignore_ascii_case(start.as_bytes()))
        };
        if !starts_with("<!doctype html") && !starts_with("<html") {
            Confidence::No
        } else if find(head, b"nodespy").is_some() {
            Confidence::Sure
        } else {
            Confidence::Maybe
        }
    }

    fn import(&self, page: Input, options: &ImportOptions) -> Result<Recording, ImportError> {
        let start = find(&page, OPENING).ok_or(ImportError::NoPayload)? + OPENING.len();
        let start = start + find(&page[start..], b">").ok_or(ImportError::NoPayload)? + 1;
        let text = &page[start..];
        let text = match find(text, b"<") {
            Some(end) => &text[..end],
            None => text,
        };
        let payload = base64::decode(text).map_err(|position| ImportError::Damaged {
            at: (start + position) as u64,
            what: "this is no base64".to_owned(),
        })?;
        Native.import(payload.into(), options)
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}
