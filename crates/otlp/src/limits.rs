//! What a request may be: bytes unpacked, and how many of each thing.
//!
//! A message of two bytes takes a hundred in memory. So they are counted where they lie before any is decoded.

use prost::DecodeError;
use prost::bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// How large a request may be once it is unpacked.
pub(crate) const MAX_UNPACKED_BYTES: u64 = 16 << 20;
/// How many messages and texts a request may have.
const MAX_MESSAGES: usize = 1 << 19;
/// How many frames all stacks may have together, once each stands for itself.
pub(crate) const MAX_STACK_FRAMES: usize = 1 << 22;
/// How many bytes of texts are copied out of a request: a short row can name a long text, and many rows the same one.
pub(crate) const MAX_TEXTS_BYTES: usize = 64 << 20;
/// How many series a request may have, as many as windows of an agent.
pub(crate) const MAX_SERIES: usize = 10_000;
/// How many windows a request may be spread over: a time of eight bytes can make one.
pub(crate) const MAX_WINDOWS: usize = 1 << 16;

/// What is left of the bytes of texts that may be copied.
#[derive(Debug)]
pub(crate) struct TextBudget(usize);

impl Default for TextBudget {
    fn default() -> Self {
        Self(MAX_TEXTS_BYTES)
    }
}

impl TextBudget {
    /// Pays for a copy of so many bytes.
    pub(crate) fn draw(&mut self, bytes: usize) -> Result<(), OtlpError> {
        let left = self.0.checked_sub(bytes).ok_or(OtlpError::TooMany {
            what: "bytes of names, files and labels",
            most: MAX_TEXTS_BYTES,
        })?;
        self.0 = left;
        Ok(())
    }
}

/// Why a request is not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OtlpError {
    /// It is packed in a way that is not known.
    #[error("content encoding {0:?}: gzip or none is taken")]
    Encoding(String),
    /// It can't be unpacked.
    #[error("not gzip: {0}")]
    Gzip(std::io::Error),
    /// It is too large.
    #[error("more than {MAX_UNPACKED_BYTES} bytes unpacked")]
    TooLarge,
    /// There are too many of something.
    #[error("more than {most} {what}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there may be.
        most: usize,
    },
    /// It is no protobuf message of this kind.
    #[error("not OTLP profiles: {0}")]
    Message(#[from] DecodeError),
    /// It says something that can't be.
    #[error("{0}")]
    Bad(&'static str),
}

/// The fields of a message that are messages or texts themselves, by number, with theirs.
struct Nested(&'static [(u32, Nested)]);

const NONE: Nested = Nested(&[]);
const ATTRIBUTE: Nested = Nested(&[(2, NONE)]);
const PROFILE: Nested = Nested(&[(1, NONE), (2, NONE), (5, NONE), (7, NONE)]);
const SCOPE: Nested = Nested(&[(1, NONE), (2, PROFILE)]);
const RESOURCE: Nested = Nested(&[(1, Nested(&[(1, ATTRIBUTE)])), (2, SCOPE)]);
const DICTIONARY: Nested = Nested(&[
    (1, NONE),
    (2, Nested(&[(3, NONE)])),
    (3, NONE),
    (4, NONE),
    (5, NONE),
    (6, ATTRIBUTE),
    (7, NONE),
]);
const REQUEST: Nested = Nested(&[(1, RESOURCE), (2, DICTIONARY)]);

/// Refuses a request of too many messages.
pub(crate) fn check_messages(request: &[u8]) -> Result<(), OtlpError> {
    count(request, &REQUEST, 0).map(drop)
}

/// How many messages there are with those in `message`, which is one of this kind.
fn count(mut message: &[u8], nested: &Nested, mut known: usize) -> Result<usize, OtlpError> {
    while message.has_remaining() {
        let (number, wire_type) = decode_key(&mut message)?;
        let of_field = nested.0.iter().find(|(known, _)| *known == number);
        let (Some((_, of_field)), WireType::LengthDelimited) = (of_field, wire_type) else {
            skip_field(wire_type, number, &mut message, DecodeContext::default())?;
            continue;
        };
        known += 1;
        if known > MAX_MESSAGES {
            return Err(OtlpError::TooMany {
                what: "messages in a request",
                most: MAX_MESSAGES,
            });
        }
        let length = usize::try_from(decode_varint(&mut message)?).ok();
        let (inner, rest) = length
            .and_then(|length| message.split_at_checked(length))
            .ok_or(OtlpError::Bad("a message is longer than what is left"))?;
        if !of_field.0.is_empty() {
            known = count(inner, of_field, known)?;
        }
        message = rest;
    }
    Ok(known)
}
