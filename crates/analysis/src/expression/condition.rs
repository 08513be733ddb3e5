//! A condition as it was read: tests joined by `and`, `or` and `not`.

use std::fmt;

use nodespy_model::{Category, Nanoseconds, Tier};

use super::{ExpressionError, Parser};
use crate::filter::{Pattern, Share, TimeRange};
use crate::subsystem::Subsystem;

/// A condition on samples and their frames.
#[derive(Debug, Clone)]
pub struct Condition {
    pub(crate) text: String,
    pub(crate) node: Node,
    pub(crate) tests: Vec<Test>,
}

impl Condition {
    /// Reads it, as the filter `--where` takes it.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let mut parser = Parser::new(text)?;
        let node = parser.condition()?;
        parser.expect_end("and, or, or the end")?;
        let (node, rows) = node.without_shares()?;
        match rows.first() {
            Some(row) => Err(ExpressionError::at(
                row.column,
                "share is of a row of `nodespy query`; filters have --min-share for it",
            )),
            None => Ok(Self {
                text: text.to_owned(),
                node,
                tests: parser.into_tests(),
            }),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// How tests are joined.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Always,
    Test(usize),
    Share(Row),
    Not(Box<Self>),
    And(Vec<Self>),
    Or(Vec<Self>),
}

impl Node {
    /// The condition without tests of rows, which are about what was counted and not about samples, and these apart.
    pub(crate) fn without_shares(self) -> Result<(Self, Vec<Row>), ExpressionError> {
        let parts = match self {
            Self::And(parts) => parts,
            other => vec![other],
        };
        let mut rows = Vec::new();
        let mut rest = Vec::new();
        for part in parts {
            match part {
                Self::Share(row) => rows.push(row),
                Self::And(_) => {
                    let (inner, more) = part.without_shares()?;
                    rows.extend(more);
                    rest.push(inner);
                }
                part => match part.first_share() {
                    Some(row) => {
                        return Err(ExpressionError::at(
                            row.column,
                            "share is of a whole row: join it with `and`, not with `or` or `not`",
                        ));
                    }
                    None => rest.push(part),
                },
            }
        }
        let node = match rest.len() {
            0 => Self::Always,
            _ => Self::And(rest),
        };
        Ok((node, rows))
    }

    fn first_share(&self) -> Option<&Row> {
        match self {
            Self::Share(row) => Some(row),
            Self::Not(inner) => inner.first_share(),
            Self::And(parts) | Self::Or(parts) => parts.iter().find_map(Self::first_share),
            Self::Always | Self::Test(_) => None,
        }
    }
}

/// A test of a row: of its share of the whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) compare: Compare,
    pub(crate) share: Share,
    pub(crate) column: usize,
}

/// One test of a frame or a sample.
#[derive(Debug, Clone)]
pub(crate) enum Test {
    Function(Match),
    Caller(Match),
    /// This frame or one of its callers.
    Under(Match),
    File(Match),
    Line(Compare, u32),
    Package(Match),
    Subsystem(Subsystem),
    Category(Category),
    Tier(Tier),
    Thread(Match),
    Process(Match),
    Label(String, Match),
    During(TimeRange),
    Time(Compare, Nanoseconds),
}

/// What a text is compared with.
#[derive(Debug, Clone)]
pub(crate) enum Match {
    /// Equal to it, in the sense of the field.
    Is(String),
    /// Has a match of it.
    Has(Pattern),
}

/// How numbers are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    Equal,
    Less,
    LessOrEqual,
    More,
    MoreOrEqual,
}

impl Compare {
    pub(crate) fn holds<T: PartialOrd>(self, value: T, bound: T) -> bool {
        match self {
            Self::Equal => value == bound,
            Self::Less => value < bound,
            Self::LessOrEqual => value <= bound,
            Self::More => value > bound,
            Self::MoreOrEqual => value >= bound,
        }
    }
}
