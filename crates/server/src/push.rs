//! What Pyroscope's current SDKs send, `POST /push.v1.PusherService/Push`: many profiles in one message, each with an id, by the
//! Connect protocol, which over HTTP/1.1 is a plain request and for errors a reply in JSON.

use std::borrow::Cow;
use std::io::Read;
use std::net::IpAddr;

use flate2::read::GzDecoder;
use nodespy_formats::Limits;
use nodespy_http::{Answer, Head};
use nodespy_model::Labels;
use nodespy_store::{Batch, UnixSeconds};

use crate::ingest::{Ingest, Refusal};
use crate::push_request::{PushedProfile, series_of};
use crate::pyroscope::{Source, id_of, read};

/// Where it is sent to.
pub(crate) const PATH: &str = "/push.v1.PusherService/Push";

const CONTENT_TYPE: &str = "application/proto";
/// How large a request may be once it is unpacked, and how large its profiles are together once these are.
const MAX_UNPACKED_BYTES: usize = 16 << 20;
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The label of the service, and what stands for one that has none.
const SERVICE: &str = "service_name";
const UNKNOWN_SERVICE: &str = "unknown_service";

/// Takes a request, and answers as Pyroscope does.
pub(crate) fn take(
    ingest: &Ingest,
    head: &Head,
    body: &[u8],
    sender: Option<IpAddr>,
    now: UnixSeconds,
) -> Answer {
    let kind = head.content_type.as_deref().unwrap_or_default();
    let is_proto = kind.split(';').next().unwrap_or_default().trim() == CONTENT_TYPE;
    if !is_proto {
        let why = format!("{PATH} takes {CONTENT_TYPE}");
        return failure("415 Unsupported Media Type", "unimplemented", &why);
    }
    let encoding = head.content_encoding.as_deref();
    let taken = ingest.take_profiles(now, || batches_of(body, encoding, sender, now));
    let why = String::from_utf8_lossy(&taken.body);
    match taken.status.as_bytes()[0] {
        b'2' => Answer::ok(CONTENT_TYPE, Vec::new()),
        b'5' => failure("503 Service Unavailable", "unavailable", &why),
        _ => failure("400 Bad Request", "invalid_argument", &why),
    }
}

/// An error of the Connect protocol.
fn failure(status: &'static str, code: &str, why: &str) -> Answer {
    Answer {
        status,
        ..Answer::json(&serde_json::json!({ "code": code, "message": why.trim_end() }))
    }
}

/// The profiles of a request as windows, each with what it is known by. One that can't be read refuses all: nothing was stored yet.
fn batches_of(
    body: &[u8],
    encoding: Option<&str>,
    sender: Option<IpAddr>,
    now: UnixSeconds,
) -> Result<Vec<(u64, Batch)>, Refusal> {
    let request = unpacked(body, encoding)?;
    let series = series_of(&request).map_err(|error| Refusal::Unreadable(error.to_string()))?;
    let mut left = MAX_UNPACKED_BYTES;
    let mut batches = Vec::new();
    for series in series {
        let source = source_of(&series.labels);
        for profile in &series.profiles {
            let pprof = gunzipped(profile.pprof, &mut left)?;
            let limits = Limits {
                input_bytes: MAX_UNPACKED_BYTES as u64,
                // It is unpacked: what is packed once more gets no larger.
                unpacked_bytes: pprof.len() as u64,
                line_bytes: 1 << 20,
                ..Limits::default()
            };
            let mut read = read("pprof", pprof, limits)?;
            if read.about.started_unix == 0 {
                read.about.started_unix = now.saturating_mul(1_000_000_000);
            }
            batches.push((
                id_of_profile(&series.labels, profile),
                source.clone().batch_of(read, sender)?,
            ));
        }
    }
    Ok(batches)
}

/// Whose profiles they are. Labels that begin with two underscores are Pyroscope's own.
fn source_of(pairs: &[(&str, &str)]) -> Source {
    let mut source = Source {
        service: UNKNOWN_SERVICE.to_owned(),
        labels: Labels::default(),
    };
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        match *name {
            SERVICE => source.service = (*value).to_owned(),
            name if name.starts_with("__") && name != Source::SESSION => {}
            name => source.labels.set(name, value),
        }
    }
    source
}

/// A profile that is sent again has its id, or else its bytes.
fn id_of_profile(labels: &[(&str, &str)], profile: &PushedProfile<'_>) -> u64 {
    let target = format!("{PATH} {labels:?} {}", profile.id);
    match profile.id {
        "" => id_of(&target, profile.pprof),
        _ => id_of(&target, &[]),
    }
}

/// The request as its `Content-Encoding` says.
fn unpacked<'a>(body: &'a [u8], encoding: Option<&str>) -> Result<Cow<'a, [u8]>, Refusal> {
    match encoding.unwrap_or("identity") {
        "identity" => Ok(Cow::Borrowed(body)),
        "gzip" => gunzip(body, MAX_UNPACKED_BYTES).map(Cow::Owned),
        other => {
            let other: String = other.chars().take(40).collect();
            let why = format!("content encoding {other:?}: gzip or none is taken");
            Err(Refusal::Unreadable(why))
        }
    }
}

/// A profile without its gzip, out of the bytes that are left for all of them.
fn gunzipped(pprof: &[u8], left: &mut usize) -> Result<Vec<u8>, Refusal> {
    let unpacked = match pprof.starts_with(&GZIP) {
        true => gunzip(pprof, *left)?,
        false => pprof.to_vec(),
    };
    let rest = left.checked_sub(unpacked.len());
    *left = rest.ok_or_else(|| too_large(MAX_UNPACKED_BYTES))?;
    Ok(unpacked)
}

fn gunzip(bytes: &[u8], most: usize) -> Result<Vec<u8>, Refusal> {
    let mut unpacked = Vec::new();
    let read = GzDecoder::new(bytes)
        .take(most as u64 + 1)
        .read_to_end(&mut unpacked);
    read.map_err(|error| Refusal::Unreadable(format!("not gzip: {error}")))?;
    match unpacked.len() > most {
        true => Err(too_large(most)),
        false => Ok(unpacked),
    }
}

fn too_large(most: usize) -> Refusal {
    Refusal::Unreadable(format!("more than {most} bytes unpacked"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use nodespy_store::Series;

    use super::*;

    const NOW: UnixSeconds = 1_700_000_005;

    /// A field of a message that has a length.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2];
        prost::encoding::encode_varint(bytes.len() as u64, &mut field);
        field.extend(bytes);
        field
    }

    fn label(name: &str, value: &str) -> Vec<u8> {
        field(
            1,
            &[field(1, name.as_bytes()), field(2, value.as_bytes())].concat(),
        )
    }

    fn sample(pprof: &[u8], id: &str) -> Vec<u8> {
        field(2, &[field(1, pprof), field(2, id.as_bytes())].concat())
    }

    /// One sample of 30 ms in `send`, at 1,700,000,000 s.
    fn pprof() -> Vec<u8> {
        let strings = ["", "cpu", "nanoseconds", "send", "/app/mail.py"];
        let strings: Vec<u8> = strings
            .iter()
            .flat_map(|it| field(6, it.as_bytes()))
            .collect();
        let mut time = vec![9 << 3];
        prost::encoding::encode_varint(1_700_000_000_000_000_000, &mut time);
        let mut value = Vec::new();
        prost::encoding::encode_varint(30_000_000, &mut value);
        let mut period = vec![12 << 3];
        prost::encoding::encode_varint(10_000_000, &mut period);
        [
            field(1, &[8, 1, 16, 2]),
            field(2, &[field(1, &[1]), field(2, &value)].concat()),
            field(4, &[vec![8, 1], field(4, &[8, 1, 16, 7])].concat()),
            field(5, &[8, 1, 16, 3, 32, 4]),
            strings,
            time,
            field(11, &[8, 1, 16, 2]),
            period,
        ]
        .concat()
    }

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut packing = GzEncoder::new(Vec::new(), Compression::default());
        packing.write_all(bytes).unwrap();
        packing.finish().unwrap()
    }

    fn request() -> Vec<u8> {
        let labels = [
            label("__name__", "process_cpu"),
            label("service_name", "mail"),
            label("env", "prod"),
        ]
        .concat();
        let samples = [sample(&pprof(), "id-1"), sample(&packed(&pprof()), "id-2")].concat();
        field(1, &[labels, samples].concat())
    }

    fn taken(body: &[u8], encoding: Option<&str>) -> Result<Vec<(u64, Batch)>, Refusal> {
        batches_of(body, encoding, Some("10.0.0.7".parse().unwrap()), NOW)
    }

    #[test]
    fn profiles_become_windows_of_their_service() {
        let packed = packed(&request());
        let of_plain = taken(&request(), None).unwrap();
        let of_packed = taken(&packed, Some("gzip")).unwrap();
        assert_eq!(of_plain.len(), 2);
        assert_ne!(of_plain[0].0, of_plain[1].0);
        for (id, batch) in of_plain.iter().chain(&of_packed) {
            assert!(of_plain.iter().any(|(known, _)| known == id));
            let [
                Series {
                    service,
                    event,
                    labels,
                    ..
                },
            ] = &batch.series[..]
            else {
                panic!("{:?}", batch.series)
            };
            assert_eq!((&**service, &**event), ("mail", "cpu"));
            assert_eq!(labels.get("env"), Some("prod"));
            assert_eq!(labels.get("instance"), Some("10.0.0.7"));
            assert_eq!(labels.get("__name__"), None);
            let [window] = &batch.windows[..] else {
                panic!("{:?}", batch.windows)
            };
            assert_eq!(window.start, 1_700_000_000);
            let nanoseconds = window.counts[0].count * batch.series[0].period;
            assert_eq!(nanoseconds, 30_000_000);
            assert_eq!(batch.symbols.functions[0].name, "send");
        }
    }

    #[test]
    fn what_is_too_much_or_makes_no_sense_is_refused() {
        let why = |body: &[u8], encoding| match taken(body, encoding) {
            Err(Refusal::Unreadable(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(why(b"tea", None).contains("push.v1.PushRequest"));
        assert!(why(&[10, 200, 1, 0], None).contains("longer than what is left"));
        assert!(why(&field(1, &label("a", "b")[..3]), None).contains("longer"));
        assert!(why(&request(), Some("gzip")).contains("not gzip"));
        assert!(why(&request(), Some("br")).contains("gzip or none"));
        let no_profile = field(1, &sample(b"tea", ""));
        assert!(taken(&no_profile, None).is_err());
        let not_text = field(1, &field(1, &field(1, &[0xff])));
        assert!(why(&not_text, None).contains("no text"));
        let series = field(1, &[]).repeat(1025);
        assert!(why(&series, None).contains("1024 series"));
        let profiles = field(1, &sample(&[], "").repeat(1025));
        assert!(why(&profiles, None).contains("1024 profiles"));
        let spread = field(1, &sample(&[], "").repeat(600)).repeat(2);
        assert!(why(&spread, None).contains("1024 profiles"));
        let labels = field(1, &label("a", "b").repeat(65));
        assert!(why(&labels, None).contains("64 labels"));
        // Small on the wire, large in memory: as a whole, and by many profiles together.
        let bomb = packed(&vec![0; MAX_UNPACKED_BYTES + 1]);
        assert!(why(&bomb, Some("gzip")).contains("bytes unpacked"));
        let half = packed(&vec![0; MAX_UNPACKED_BYTES / 2]);
        let mut left = MAX_UNPACKED_BYTES;
        assert!(gunzipped(&half, &mut left).is_ok() && gunzipped(&half, &mut left).is_ok());
        assert_eq!(left, 0);
        assert!(gunzipped(&packed(b"x"), &mut left).is_err());
        assert!(gunzipped(b"x", &mut left).is_err());
        assert_eq!(taken(b"", None).unwrap().len(), 0);
    }

    /// The short version of the fuzz target `push`.
    #[test]
    fn no_bytes_do_harm() {
        let request = request();
        for place in 0..request.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xff, request[place] ^ 8] {
                let mut changed = request.clone();
                changed[place] = byte;
                let _ = taken(&changed, None);
            }
            let _ = taken(&request[..place], None);
        }
    }
}
