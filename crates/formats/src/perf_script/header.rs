//! The line that starts an event: `node 4242/4250 [003] 12.345678:   10101 cycles:u:`.
//!
//! There are two ways to read it. [`Header::as_original`] finds what `stackcollapse-perf.pl` finds,
//! oddities included, because users who replace that script expect the same bytes. [`Header::parse`]
//! goes by what perf writes, so that names which hold numbers or have one letter come out right.

use nodespy_model::Nanoseconds;

/// Whose event it is, and everything that follows on the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header<'a> {
    /// The name of the thread.
    pub(crate) comm: &'a [u8],
    /// The process, where it is known.
    pub(crate) pid: Option<&'a [u8]>,
    /// The thread.
    pub(crate) tid: &'a [u8],
    /// What comes after the numbers.
    pub(crate) rest: &'a [u8],
}

impl<'a> Header<'a> {
    /// The header that the original's pattern matches: a name of at least two bytes, which ends at
    /// the first number.
    pub(crate) fn as_original(line: &'a [u8]) -> Option<Self> {
        if line.first().is_none_or(|byte| is_space(*byte)) {
            return None;
        }
        let header = candidates(line, 2).next()?;
        let has_tid = !matches!(header.tid, b"" | b"0");
        Some(match header.pid {
            Some(_) if has_tid => header,
            Some(pid) => Header {
                pid: None,
                tid: pid,
                ..header
            },
            None => header,
        })
    }

    /// The header as perf writes it: the name may hold numbers, so it ends at the number that is
    /// followed by a processor, a time or an event.
    pub(crate) fn parse(line: &'a [u8]) -> Option<Self> {
        let line = line.trim_ascii_start();
        let is_close = |header: &Self| {
            let rest = header.rest.trim_ascii_start();
            let word = &rest[..skip(rest, 0, |byte| !is_space(byte))];
            parse_cpu(word).is_some() || (word.ends_with(b":") && word.len() > 1)
        };
        let is_followed = |header: &Self| {
            let details = Details::of(header.rest);
            details.time.is_some() || details.event.is_some()
        };
        let mut some = candidates(line, 1).take(16);
        some.find(is_close)
            .or_else(|| candidates(line, 1).take(16).find(is_followed))
    }
}

/// Every way to split a line into name, numbers and rest, the shortest name first.
fn candidates(line: &[u8], shortest_name: usize) -> impl Iterator<Item = Header<'_>> {
    let mut at = shortest_name;
    std::iter::from_fn(move || {
        while at < line.len() {
            let name_end = at;
            at += 1;
            if !is_space(line[name_end]) {
                continue;
            }
            let first = skip(line, name_end, is_space);
            // Every space before the same number would give the same rest.
            at = first.max(at);
            let slash = skip(line, first, |byte| byte.is_ascii_digit());
            let second = skip(line, slash, |byte| byte == b'/');
            let end = skip(line, second, |byte| byte.is_ascii_digit());
            if slash == first || line.get(end).is_none_or(|byte| !is_space(*byte)) {
                continue;
            }
            let has_both = second < end;
            return Some(Header {
                comm: &line[..name_end],
                pid: has_both.then_some(&line[first..slash]),
                tid: if has_both {
                    &line[second..end]
                } else {
                    &line[first..slash]
                },
                rest: &line[end..],
            });
        }
        None
    })
}

/// The event and its period, where the line ends as the original wants it: a colon, perhaps a
/// number, the event and a colon.
pub(crate) fn original_event(line: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let line = line.trim_ascii_end();
    let before_colon = line.strip_suffix(b":")?;
    let start = before_colon
        .iter()
        .rposition(|byte| is_space(*byte))
        .map(|at| at + 1)?;
    let event = &before_colon[start..];
    if event.is_empty() {
        return None;
    }
    let before = before_colon[..start].trim_ascii_end();
    let digits = before
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let (before, period) = before.split_at(before.len() - digits);
    before
        .trim_ascii_end()
        .ends_with(b":")
        .then_some(((digits > 0).then_some(period), event))
}

/// What stands after the thread's number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Details<'a> {
    /// The processor, as `[003]`.
    pub(crate) cpu: Option<u16>,
    /// When, as seconds with a fraction.
    pub(crate) time: Option<Nanoseconds>,
    /// How much the event counts for.
    pub(crate) period: Option<u64>,
    /// The event.
    pub(crate) event: Option<&'a [u8]>,
    /// A frame on the same line, as perf writes it for events without a call chain.
    pub(crate) frame: Option<&'a [u8]>,
}

impl<'a> Details<'a> {
    /// Reads as much of it as there is; every part may be missing.
    pub(crate) fn of(rest: &'a [u8]) -> Self {
        let mut details = Self::default();
        let mut rest = rest;
        // Besides the parts known here, perf writes flags and latencies when asked to.
        for _ in 0..8 {
            rest = rest.trim_ascii_start();
            let end = skip(rest, 0, |byte| !is_space(byte));
            let (word, after) = rest.split_at(end);
            if word.is_empty() {
                break;
            }
            let is_ended = word.ends_with(b":");
            if details.time.is_none() && details.cpu.is_none() && word.starts_with(b"[") {
                details.cpu = parse_cpu(word);
            } else if let Some(time) = parse_time(word).filter(|_| details.time.is_none()) {
                details.time = Some(time);
            } else if is_ended && word.len() > 1 {
                details.event = Some(&word[..word.len() - 1]);
                rest = after.trim_ascii();
                details.frame = super::frame::looks_like_frame(rest).then_some(rest);
                break;
            } else if let Some(number) = parse_number(word) {
                details.period = Some(number);
            }
            rest = after;
        }
        details
    }
}

fn parse_cpu(word: &[u8]) -> Option<u16> {
    let digits = word.strip_prefix(b"[")?.strip_suffix(b"]")?;
    u16::try_from(parse_number(digits)?).ok()
}

/// `12.345678:` in nanoseconds.
fn parse_time(word: &[u8]) -> Option<Nanoseconds> {
    let word = word.strip_suffix(b":")?;
    let dot = word.iter().position(|byte| *byte == b'.')?;
    let seconds = parse_number(&word[..dot])?;
    let fraction = &word[dot + 1..];
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(9 - fraction.len() as u32);
    let fraction = parse_number(fraction)? * scale;
    Some(
        seconds
            .saturating_mul(1_000_000_000)
            .saturating_add(fraction),
    )
}

/// A number of digits only.
pub(crate) fn parse_number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(digit))
    })
}

/// What Perl and C call a space.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The first position from `at` on where `wanted` does not hold.
fn skip(line: &[u8], at: usize, wanted: impl Fn(u8) -> bool) -> usize {
    line[at..]
        .iter()
        .position(|byte| !wanted(*byte))
        .map_or(line.len(), |found| at + found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> (String, Option<u64>, u64, Details<'_>) {
        let header = Header::parse(line.as_bytes()).unwrap();
        (
            String::from_utf8_lossy(header.comm).into_owned(),
            header.pid.and_then(parse_number),
            parse_number(header.tid).unwrap(),
            Details::of(header.rest),
        )
    }

    #[test]
    fn every_part_may_be_missing() {
        let (comm, pid, tid, details) =
            read("V8 Worker 24636/25607 [012] 94564.109216:     104345 cycles:u: ");
        assert_eq!((comm.as_str(), pid, tid), ("V8 Worker", Some(24636), 25607));
        assert_eq!(
            details,
            Details {
                cpu: Some(12),
                time: Some(94_564_109_216_000),
                period: Some(104_345),
                event: Some(b"cycles:u"),
                frame: None,
            }
        );
        let (comm, pid, tid, details) = read("func_ab 15294 cpu-clock: ");
        assert_eq!((comm.as_str(), pid, tid), ("func_ab", None, 15294));
        assert_eq!(details.event, Some(&b"cpu-clock"[..]));
        let (comm, _, tid, details) =
            read("   a 39654 19115.489713:    1 cycles:u:  ffffffff9b201293 [unknown] ([unknown])");
        assert_eq!((comm.as_str(), tid), ("a", 39654));
        assert!(details.frame.unwrap().starts_with(b"ffffffff9b201293 "));
    }

    #[test]
    fn a_name_may_hold_numbers() {
        let (comm, _, tid, _) = read("worker 2 of 4 1234 [000] 1.5: cycles:");
        assert_eq!((comm.as_str(), tid), ("worker 2 of 4", 1234));
        let original = Header::as_original(b"worker 2 of 4 1234 [000] 1.5: cycles:").unwrap();
        assert_eq!((original.comm, original.tid), (&b"worker"[..], &b"2"[..]));
    }

    #[test]
    fn the_original_takes_a_second_number_of_zero_for_none() {
        let header = Header::as_original(b"swapper     0/0     [001] 5.5: cycles: ").unwrap();
        assert_eq!((header.pid, header.tid), (None, &b"0"[..]));
        assert_eq!(Header::as_original(b"\t ffff read (libc)"), None);
        assert_eq!(Header::as_original(b"a 1"), None);
    }

    #[test]
    fn the_original_knows_an_event_by_the_colon_before_it() {
        assert_eq!(
            original_event(b"java 1 [000] 5.5:  235 cpu-clock:uhH: "),
            Some((Some(&b"235"[..]), &b"cpu-clock:uhH"[..]))
        );
        assert_eq!(
            original_event(b"a 1 5.5: cycles:"),
            Some((None, &b"cycles"[..]))
        );
        assert_eq!(original_event(b"func_ab 15294 cpu-clock: "), None);
        assert_eq!(original_event(b"a 1 5.5: x:y: z=3"), None);
    }
}
