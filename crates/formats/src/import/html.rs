//! A nodespy HTML page: the recording it shows is inside, as base64 of our own format.

use nodespy_model::Recording;

use super::{ImportError, ImportOptions, Importer};
use crate::base64;
use crate::detect::{Confidence, head};
use crate::input::Input;
use crate::native::Native;

/// How the elements that hold the recording start: the first pages have one, later ones as many as
/// it takes. The base of a difference is in others.
const OPENINGS: [&[u8]; 3] = [
    b"<template class=\"recording\">",
    b"<script type=\"application/nspy\" class=\"recording\">",
    b"<script type=\"application/nspy\" id=\"recording\">",
];

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
        let openings = OPENINGS.into_iter();
        let mut payloads = openings.filter_map(|opening| payload(&page, opening).transpose());
        let payload = payloads.next().ok_or(ImportError::NoPayload)??;
        Native.import(page.part(payload), options)
    }
}

/// What the elements with this opening hold, all together; none when there are none.
fn payload(page: &[u8], opening: &[u8]) -> Result<Option<Vec<u8>>, ImportError> {
    let mut payload = None;
    let mut position = 0;
    while let Some(found) = find(&page[position..], opening) {
        let start = position + found + opening.len();
        let text = &page[start..];
        let text = &text[..find(text, b"<").unwrap_or(text.len())];
        let chunk = base64::decode(text).map_err(|position| ImportError::Damaged {
            at: (start + position) as u64,
            what: "this is no base64".to_owned(),
        })?;
        payload.get_or_insert_with(Vec::new).extend(chunk);
        position = start + text.len();
    }
    Ok(payload)
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, wanted)
}
