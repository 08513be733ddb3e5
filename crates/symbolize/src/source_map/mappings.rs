//! The `mappings` of a source map: segments of base64 VLQ numbers, each a difference to the last.
//!
//! Which places are wanted is known beforehand, so one pass over the text answers all of them and
//! nothing else is kept: memory goes with the questions, not with the map.

/// What is asked of a map. Lines and columns count from 0, columns in UTF-16 units.
#[derive(Debug, Default)]
pub(super) struct Questions {
    /// Places: line and column.
    pub(super) points: Vec<(u32, u32)>,
    /// Lines of which no column is known.
    pub(super) lines: Vec<u32>,
}

/// Where something was written. Lines and columns count from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) source: u32,
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) name: Option<u32>,
    /// Whether a segment starts at the very place that was asked for.
    pub(super) is_exact: bool,
}

/// The answers, in the order of the questions.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) points: Vec<Option<Written>>,
    /// The source and line that all of a generated line comes from; none where it is several.
    pub(super) lines: Vec<Option<(u32, u32)>>,
    /// The byte from which on the text could not be read.
    pub(super) damaged_at: Option<usize>,
}

/// Answers all questions in one pass. What comes before a damaged place still counts.
pub(super) fn answer(mappings: &[u8], questions: &Questions) -> Answers {
    let mut answers = Answers {
        points: vec![None; questions.points.len()],
        lines: vec![None; questions.lines.len()],
        damaged_at: None,
    };
    let mut asked = Asked::of(questions);
    let mut state = State::default();
    let mut bytes = Bytes {
        text: mappings,
        at: 0,
    };
    while let Some(line) = asked.next_line() {
        let is_read = skip_to(line, &mut state, &mut bytes)
            .and_then(|_| read_line(&mut state, &mut bytes, |segment| asked.take(segment)));
        asked.close_line(&mut answers);
        if is_read.is_none() {
            answers.damaged_at = Some(bytes.at);
            break;
        }
    }
    answers
}

/// One segment, its numbers added up.
#[derive(Debug, Clone, Copy)]
struct Segment {
    column: u32,
    written: Option<Written>,
}

/// The numbers that segments count from. Only the column starts anew with each line.
#[derive(Debug, Default)]
struct State {
    generated_line: u32,
    source: i64,
    line: i64,
    column: i64,
    name: i64,
}

/// Reads segments until `line` starts, or the text ends. None where the text is damaged.
fn skip_to(line: u32, state: &mut State, bytes: &mut Bytes<'_>) -> Option<()> {
    while state.generated_line < line && !bytes.is_at_end() {
        read_line(state, bytes, |_| {})?;
    }
    Some(())
}

/// Reads the segments of one line, and what ends it.
fn read_line(
    state: &mut State,
    bytes: &mut Bytes<'_>,
    mut take: impl FnMut(Segment),
) -> Option<()> {
    let mut column = 0i64;
    loop {
        match bytes.peek() {
            None => return Some(()),
            Some(b';') => {
                bytes.at += 1;
                state.generated_line = state.generated_line.checked_add(1)?;
                return Some(());
            }
            Some(b',') => bytes.at += 1,
            Some(_) => {
                column = column.checked_add(bytes.number()?)?;
                let written = state.written(bytes)?;
                // A column before the line's start is no place.
                if let Ok(column) = u32::try_from(column) {
                    take(Segment { column, written });
                }
            }
        }
    }
}

impl State {
    /// The rest of a segment: nothing, or where it was written, with or without a name.
    fn written(&mut self, bytes: &mut Bytes<'_>) -> Option<Option<Written>> {
        if bytes.is_at_end_of_segment() {
            return Some(None);
        }
        self.source += bytes.number()?;
        self.line += bytes.number()?;
        self.column += bytes.number()?;
        let has_name = !bytes.is_at_end_of_segment();
        if has_name {
            self.name += bytes.number()?;
        }
        if !bytes.is_at_end_of_segment() {
            return None;
        }
        let small = |number: i64| u32::try_from(number).ok();
        // Numbers that became negative lead nowhere.
        let written = || {
            Some(Written {
                source: small(self.source)?,
                line: small(self.line)?,
                column: small(self.column)?,
                name: has_name.then(|| small(self.name)).flatten(),
                is_exact: false,
            })
        };
        Some(written())
    }
}

/// The questions, line by line, and what is known of the line that is being read.
struct Asked<'a> {
    questions: &'a Questions,
    /// Positions of questions, by what they ask for.
    points: Vec<u32>,
    lines: Vec<u32>,
    next_point: usize,
    next_line: usize,
    line: u32,
    /// The columns asked for in this line, and the last segment before each but after the one before.
    columns: Vec<u32>,
    nearest: Vec<Option<Segment>>,
    cursor: usize,
    whole: WholeLine,
}

/// What all segments of a line have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WholeLine {
    Nothing,
    One(u32, u32),
    Several,
}

impl<'a> Asked<'a> {
    fn of(questions: &'a Questions) -> Self {
        let mut points: Vec<u32> = (0..questions.points.len() as u32).collect();
        points.sort_by_key(|&at| questions.points[at as usize]);
        let mut lines: Vec<u32> = (0..questions.lines.len() as u32).collect();
        lines.sort_by_key(|&at| questions.lines[at as usize]);
        Self {
            questions,
            points,
            lines,
            next_point: 0,
            next_line: 0,
            line: 0,
            columns: Vec::new(),
            nearest: Vec::new(),
            cursor: 0,
            whole: WholeLine::Nothing,
        }
    }

    fn point(&self, position: usize) -> Option<(u32, u32)> {
        let at = *self.points.get(position)?;
        Some(self.questions.points[at as usize])
    }

    fn line_of(&self, position: usize) -> Option<u32> {
        let at = *self.lines.get(position)?;
        Some(self.questions.lines[at as usize])
    }

    /// Goes on to the next line that something is asked of.
    fn next_line(&mut self) -> Option<u32> {
        let by_point = self.point(self.next_point).map(|(line, _)| line);
        let by_line = self.line_of(self.next_line);
        self.line = match (by_point, by_line) {
            (Some(one), Some(two)) => one.min(two),
            (one, two) => one.or(two)?,
        };
        self.columns.clear();
        for position in self.next_point.. {
            match self.point(position) {
                Some((line, column)) if line == self.line => self.columns.push(column),
                _ => break,
            }
        }
        self.nearest.clear();
        self.nearest.resize(self.columns.len(), None);
        self.cursor = 0;
        self.whole = WholeLine::Nothing;
        Some(self.line)
    }

    fn take(&mut self, segment: Segment) {
        if let Some(written) = segment.written {
            self.whole = match self.whole {
                WholeLine::Nothing => WholeLine::One(written.source, written.line),
                WholeLine::One(source, line)
                    if (source, line) == (written.source, written.line) =>
                {
                    self.whole
                }
                _ => WholeLine::Several,
            };
        }
        // Segments mostly come in order, but need not.
        let is_behind = self.cursor > 0 && self.columns[self.cursor - 1] >= segment.column;
        if is_behind {
            self.cursor = self.columns.partition_point(|&each| each < segment.column);
        }
        while self
            .columns
            .get(self.cursor)
            .is_some_and(|&each| each < segment.column)
        {
            self.cursor += 1;
        }
        // Of several segments at one column the first counts.
        if let Some(nearest) = self.nearest.get_mut(self.cursor)
            && nearest.is_none_or(|known| known.column < segment.column)
        {
            *nearest = Some(segment);
        }
    }

    /// Hands out what was learnt of the line.
    fn close_line(&mut self, answers: &mut Answers) {
        let mut last: Option<Segment> = None;
        for (&column, nearest) in self.columns.iter().zip(&self.nearest) {
            last = nearest.or(last);
            let question = self.points[self.next_point] as usize;
            self.next_point += 1;
            answers.points[question] = last.and_then(|segment| {
                Some(Written {
                    is_exact: segment.column == column,
                    ..segment.written?
                })
            });
        }
        while self.line_of(self.next_line) == Some(self.line) {
            let question = self.lines[self.next_line] as usize;
            self.next_line += 1;
            answers.lines[question] = match self.whole {
                WholeLine::One(source, line) => Some((source, line)),
                _ => None,
            };
        }
    }
}

/// The text of mappings, and how far it was read.
struct Bytes<'a> {
    text: &'a [u8],
    at: usize,
}

/// What a byte that is no base64 digit stands for.
const NO_DIGIT: u8 = 0xff;
/// The value of each base64 digit.
const DIGITS: [u8; 256] = digits();

const fn digits() -> [u8; 256] {
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut table = [NO_DIGIT; 256];
    let mut value = 0;
    while value < alphabet.len() {
        table[alphabet[value] as usize] = value as u8;
        value += 1;
    }
    table
}

impl Bytes<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    fn is_at_end_of_segment(&self) -> bool {
        matches!(self.peek(), None | Some(b',' | b';'))
    }

    /// A number of five bits a digit, the lowest first; bit 0 of the whole is the sign. Like every
    /// reader of source maps this one takes numbers of 32 bits.
    fn number(&mut self) -> Option<i64> {
        let mut value = 0u64;
        for shift in (0..35).step_by(5) {
            let digit = DIGITS[self.peek()? as usize];
            if digit == NO_DIGIT {
                return None;
            }
            value |= u64::from(digit & 31) << shift;
            self.at += 1;
            if digit & 32 == 0 {
                let size = i64::try_from(value >> 1).ok()?;
                return Some(if value & 1 == 0 { size } else { -size });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(mappings: &str, points: &[(u32, u32)]) -> Vec<Option<Written>> {
        let questions = Questions {
            points: points.to_vec(),
            lines: Vec::new(),
        };
        answer(mappings.as_bytes(), &questions).points
    }

    /// A place that has an answer. The name is none below 0.
    fn written(place: [u32; 3], name: i64, is_exact: bool) -> Option<Written> {
        Some(Written {
            source: place[0],
            line: place[1],
            column: place[2],
            name: u32::try_from(name).ok(),
            is_exact,
        })
    }

    #[test]
    fn the_last_segment_at_or_before_a_place_tells_it() {
        // Line 0: 0 → 0:0:0, 8 → 0:0:4 name 0; line 1: 4 → 1:2:0, 9 → nowhere.
        let map = "AAAA,QAAIA;ICEJ,K";
        assert_eq!(
            points(
                map,
                &[(1, 20), (0, 7), (0, 8), (0, 99), (1, 3), (1, 4), (2, 0)]
            ),
            [
                None,
                written([0, 0, 0], -1, false),
                written([0, 0, 4], 0, true),
                written([0, 0, 4], 0, false),
                None,
                written([1, 2, 0], -1, true),
                None,
            ]
        );
    }

    #[test]
    fn segments_out_of_order_are_found_all_the_same() {
        // Columns 20, then 4, then 10.
        let map = "oBAAA,hBACA,MACA";
        assert_eq!(
            points(map, &[(0, 3), (0, 4), (0, 12), (0, 25)]),
            [
                None,
                written([0, 1, 0], -1, true),
                written([0, 2, 0], -1, false),
                written([0, 0, 0], -1, false),
            ]
        );
    }

    #[test]
    fn a_line_has_an_answer_if_all_of_it_is_from_one_line() {
        let questions = Questions {
            points: Vec::new(),
            lines: vec![1, 0, 2, 9],
        };
        // Line 0: source lines 0 and 0; line 1: 0 and 1; line 2: nothing.
        let answers = answer(b"AAAA,IAAI;AAAA,IACA;;", &questions);
        assert_eq!(answers.lines, [None, Some((0, 0)), None, None]);
        assert_eq!(answers.damaged_at, None);
    }

    #[test]
    fn damage_ends_the_reading_and_names_the_byte() {
        let asked = |map: &str| {
            let questions = Questions {
                points: vec![(0, 0), (5, 0)],
                lines: Vec::new(),
            };
            let answers = answer(map.as_bytes(), &questions);
            (answers.points[0].is_some(), answers.damaged_at)
        };
        assert_eq!(asked("AAAA;?"), (true, Some(5)));
        assert_eq!(asked("AAAA;AA"), (true, Some(7)));
        assert_eq!(asked("AAAA;AAAAAA"), (true, Some(10)));
        // Longer than any number of 32 bits.
        assert_eq!(asked("AAAA;ggggggggggggA"), (true, Some(12)));
        assert_eq!(asked("AAAA;ggggggg"), (true, Some(12)));
        assert_eq!(asked(""), (false, None));
        // Before the first source: nowhere, and no error.
        assert_eq!(asked("ADAA"), (false, None));
    }
}
