//! pprof: the profiles of Go, and of the many tools that write the same protocol buffer.
//!
//! <https://github.com/google/pprof/blob/main/proto/profile.proto> describes it. The tables may
//! come before or after the samples, so the file is gone over twice: [`tables`] gathers what has
//! an id, [`samples`] then takes sample after sample. Each kind of value is an event, the one that
//! pprof itself would show is the first; labels that say more than the thread are the context.

mod samples;
mod tables;
mod values;

use nodespy_model::{About, Contents, Notes, Recording, printable};

use super::{ImportError, ImportOptions, Importer};
use crate::detect::{Confidence, HEAD_BYTES};
use crate::input::Input;
use crate::protobuf::{Message, Problem, Value};
use crate::recorded::Recorded;
use samples::Samples;
use tables::Tables;
use values::Values;

/// The numbers of the fields of the outermost message.
mod field {
    pub(super) const SAMPLE_TYPE: u64 = 1;
    pub(super) const SAMPLE: u64 = 2;
    pub(super) const MAPPING: u64 = 3;
    pub(super) const LOCATION: u64 = 4;
    pub(super) const FUNCTION: u64 = 5;
    pub(super) const STRING: u64 = 6;
    pub(super) const TIME: u64 = 9;
    pub(super) const DURATION: u64 = 10;
    pub(super) const PERIOD_TYPE: u64 = 11;
    pub(super) const PERIOD: u64 = 12;
    pub(super) const COMMENT: u64 = 13;
    pub(super) const DEFAULT_TYPE: u64 = 14;
}

/// How many comments of another tool are passed on.
const COMMENTS: usize = 8;

/// The importer of pprof.
pub(crate) struct Pprof;

impl Importer for Pprof {
    fn name(&self) -> &'static str {
        "pprof"
    }

    fn recognize(&self, bytes: &[u8]) -> Confidence {
        match looks_like_pprof(bytes) {
            true => Confidence::Likely,
            false => Confidence::No,
        }
    }

    fn import(&self, input: Input, options: &ImportOptions) -> Result<Recording, ImportError> {
        let mut notes = Notes::default();
        let tables = Tables::read(&input, &mut notes)?;
        let recorded = Recorded::from_lines(tables.comments().iter().map(|line| &**line));
        let values = Values::of(&tables, recorded.as_ref());
        let context_keys = recorded.as_ref().map(|it| it.context_keys.clone());
        let meter = input.budget(&options.limits).meter();
        let mut samples = Samples::new(&tables, values, meter, input.len(), context_keys);
        samples.read_all(&input);
        let about = about(&tables, recorded, &mut notes);
        let profile = samples.finish(about.clone(), &mut notes)?;
        Ok(Recording {
            about,
            notes,
            contents: Contents::Named(Box::new(profile)),
            ..Recording::default()
        })
    }
}

/// There is no magic, so everything in the first part must be a field of a profile, of the right
/// kind, and a sample or what samples count must be among them.
fn looks_like_pprof(bytes: &[u8]) -> bool {
    let mut has_samples = false;
    let mut fields = Message::whole(bytes).fields();
    let mut known = 0;
    while fields.place() < HEAD_BYTES {
        let Some(field) = fields.next() else { break };
        // A file that was cut off ends in the middle of a field.
        let Ok(field) = field else {
            return has_samples && known > 2 && fields.place() + (1 << 10) > bytes.len();
        };
        let is_known = match (field.number, field.value) {
            (field::SAMPLE_TYPE..=field::FUNCTION | field::PERIOD_TYPE, Value::Bytes(message)) => {
                is_message(message, field.number)
            }
            (field::STRING, Value::Bytes(_)) => true,
            (7..=field::DURATION | field::PERIOD..=15, Value::Number(_)) => true,
            (field::COMMENT, Value::Bytes(_)) => true,
            _ => false,
        };
        if !is_known {
            return false;
        }
        known += 1;
        has_samples |= matches!(field.number, field::SAMPLE_TYPE | field::SAMPLE);
    }
    has_samples && known > 2
}

/// Whether the fields of a message are those that the table called `number` has.
fn is_message(message: Message<'_>, number: u64) -> bool {
    let last = match number {
        field::SAMPLE_TYPE | field::PERIOD_TYPE => 2,
        field::SAMPLE => 3,
        field::MAPPING => 10,
        _ => 5,
    };
    message
        .fields()
        .all(|field| field.is_ok_and(|field| field.number <= last))
}

fn about(tables: &Tables<'_>, recorded: Option<Recorded>, notes: &mut Notes) -> About {
    let mut about = match recorded {
        Some(recorded) => {
            let said = std::mem::replace(notes, recorded.notes);
            notes.add_sentences(&said);
            recorded.about
        }
        None => {
            for comment in tables.comments().iter().take(COMMENTS) {
                notes.remark(format!("the file says: {}", printable(comment)));
            }
            About {
                engine: "pprof".to_owned(),
                ..About::default()
            }
        }
    };
    about.started_unix = u64::try_from(tables.time).unwrap_or(0);
    about.duration = u64::try_from(tables.duration).unwrap_or(0);
    about
}

/// The first problem of many of one kind, and how many there were.
#[derive(Debug, Default)]
struct Problems {
    count: u64,
    first: Option<Problem>,
}

impl Problems {
    fn add(&mut self, problem: Problem) {
        self.count += 1;
        self.first.get_or_insert(problem);
    }

    /// Says that `what` were left out, if any were.
    fn report(&self, what: &str, notes: &mut Notes) {
        if let Some(first) = &self.first {
            let count = self.count;
            notes.remark(format!(
                "{count} {what} could not be read and were left out, the first is at byte {}: {}",
                first.at, first.what
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protobuf::{put_bytes, put_field};

    #[test]
    fn only_a_profile_looks_like_one() {
        let mut bytes = Vec::new();
        put_bytes(&mut bytes, field::SAMPLE_TYPE, &[8, 1, 16, 2]);
        put_field(&mut bytes, field::PERIOD, 1000);
        assert_eq!(Pprof.recognize(&bytes), Confidence::No);
        put_bytes(&mut bytes, field::STRING, b"");
        assert_eq!(Pprof.recognize(&bytes), Confidence::Likely);
        put_bytes(&mut bytes, 99, b"");
        assert_eq!(Pprof.recognize(&bytes), Confidence::No);
        for other in [
            &b"\n\n\n\n"[..],
            b"{}",
            b"a;b 1\n",
            b"\n\x02hi\n\x02ho\n\x02hu",
            b"PERFILE2",
        ] {
            assert_eq!(Pprof.recognize(other), Confidence::No, "{other:?}");
        }
    }
}
