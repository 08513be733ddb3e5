//! `push.v1.PushRequest` of Pyroscope, read where it lies: nothing is copied, and what is listed is counted first. Depends on nothing
//! else here, so that it can be fuzzed.
//!
//! ```text
//! PushRequest      { repeated RawProfileSeries series = 1 }
//! RawProfileSeries { repeated LabelPair labels = 1; repeated RawSample samples = 2 }
//! LabelPair        { string name = 1; string value = 2 }
//! RawSample        { bytes raw_profile = 1; string id = 2 }
//! ```

use prost::DecodeError;
use prost::bytes::Buf;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};

/// How many series, and how many profiles, a request may have.
pub(crate) const MAX_PROFILES: usize = 1024;
/// How many labels a series may have.
pub(crate) const MAX_LABELS: usize = 64;

/// Why a request is not read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PushError {
    #[error("not a push.v1.PushRequest: {0}")]
    Message(#[from] DecodeError),
    #[error("not a push.v1.PushRequest: a field is longer than what is left")]
    CutOff,
    #[error("not a push.v1.PushRequest: a label or an id is no text")]
    NoText,
    #[error("more than {most} {what}")]
    TooMany { what: &'static str, most: usize },
}

/// Profiles with the same labels.
#[derive(Debug, Default)]
pub(crate) struct PushedSeries<'a> {
    pub(crate) labels: Vec<(&'a str, &'a str)>,
    pub(crate) profiles: Vec<PushedProfile<'a>>,
}

/// A profile, gzipped or not.
#[derive(Debug, Default)]
pub(crate) struct PushedProfile<'a> {
    pub(crate) pprof: &'a [u8],
    /// What it is known by; a UUID, or empty.
    pub(crate) id: &'a str,
}

/// The series of a request.
pub(crate) fn series_of(request: &[u8]) -> Result<Vec<PushedSeries<'_>>, PushError> {
    let mut all = Vec::new();
    let mut profiles = 0;
    each_field(request, |number, bytes| {
        if number == 1 {
            let series = one_series(bytes)?;
            profiles += series.profiles.len();
            push(&mut all, series, MAX_PROFILES, "series in a request")?;
        }
        match profiles > MAX_PROFILES {
            true => Err(too_many(MAX_PROFILES, "profiles in a request")),
            false => Ok(()),
        }
    })?;
    Ok(all)
}

fn one_series(bytes: &[u8]) -> Result<PushedSeries<'_>, PushError> {
    let mut series = PushedSeries::default();
    each_field(bytes, |number, bytes| match number {
        1 => push(
            &mut series.labels,
            label(bytes)?,
            MAX_LABELS,
            "labels of a series",
        ),
        2 => {
            let profile = profile(bytes)?;
            push(
                &mut series.profiles,
                profile,
                MAX_PROFILES,
                "profiles in a request",
            )
        }
        _ => Ok(()),
    })?;
    Ok(series)
}

fn label(bytes: &[u8]) -> Result<(&str, &str), PushError> {
    let mut label = ("", "");
    each_field(bytes, |number, bytes| {
        match number {
            1 => label.0 = text(bytes)?,
            2 => label.1 = text(bytes)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(label)
}

fn profile(bytes: &[u8]) -> Result<PushedProfile<'_>, PushError> {
    let mut profile = PushedProfile::default();
    each_field(bytes, |number, bytes| {
        match number {
            1 => profile.pprof = bytes,
            2 => profile.id = text(bytes)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(profile)
}

/// Hands over the fields of a message that have a length; others are skipped, as none of them is known.
fn each_field<'a>(
    mut message: &'a [u8],
    mut take: impl FnMut(u32, &'a [u8]) -> Result<(), PushError>,
) -> Result<(), PushError> {
    while message.has_remaining() {
        let (number, wire_type) = decode_key(&mut message)?;
        if wire_type != WireType::LengthDelimited {
            skip_field(wire_type, number, &mut message, DecodeContext::default())?;
            continue;
        }
        let length = usize::try_from(decode_varint(&mut message)?).ok();
        let (content, rest) = length
            .and_then(|length| message.split_at_checked(length))
            .ok_or(PushError::CutOff)?;
        take(number, content)?;
        message = rest;
    }
    Ok(())
}

fn text(bytes: &[u8]) -> Result<&str, PushError> {
    std::str::from_utf8(bytes).map_err(|_| PushError::NoText)
}

fn push<T>(list: &mut Vec<T>, item: T, most: usize, what: &'static str) -> Result<(), PushError> {
    if list.len() >= most {
        return Err(too_many(most, what));
    }
    list.push(item);
    Ok(())
}

fn too_many(most: usize, what: &'static str) -> PushError {
    PushError::TooMany { what, most }
}
