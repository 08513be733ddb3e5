//! Questions that a user writes: `top 10 self where package = "lodash" and thread = main by line`.
//!
//! The conditions are those of `--where` (`crate::expression`). docs/query.md has the grammar.

mod groups;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;

use nodespy_model::{FastMap, Profile, Sample, StackIndex, WeightUnit};

use crate::expression::{Bound, Condition, ExpressionError, Field, Node, Parser, Row};
use crate::weights::group_weights;
use groups::{Groups, Membership};

pub use groups::RowKey;

/// How many rows are listed when the query does not say.
const DEFAULT_TOP: usize = 20;
/// How many rows a query can ask for.
const MAX_TOP: usize = 100_000;

/// What is added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aggregate {
    /// The weight of samples at their leaf.
    SelfWeight,
    /// The weight of samples with a frame anywhere in the stack, each counted once.
    TotalWeight,
    /// How many samples there are at their leaf, whatever their weight.
    Samples,
}

impl Aggregate {
    const ALL: [Self; 3] = [Self::SelfWeight, Self::TotalWeight, Self::Samples];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::SelfWeight => "self",
            Self::TotalWeight => "total",
            Self::Samples => "samples",
        }
    }
}

/// A question.
#[derive(Debug, Clone)]
pub struct Query {
    text: String,
    top: usize,
    aggregate: Aggregate,
    condition: Condition,
    rows: Vec<Row>,
    by: Field,
}

/// What a query found.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// What was added up.
    pub aggregate: Aggregate,
    /// What rows are grouped by.
    pub by: Field,
    /// What weights count.
    pub unit: WeightUnit,
    /// The weight of everything, which shares are of.
    pub whole: u64,
    /// The weight of the samples that the condition holds for.
    pub matched: u64,
    /// The heaviest rows, heaviest first.
    pub rows: Vec<AnswerRow>,
    /// How many more rows there are.
    pub rows_left_out: usize,
}

/// One row of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswerRow {
    /// What the row is about.
    pub key: RowKey,
    /// Its weight.
    pub weight: u64,
}

impl Query {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let mut parser = Parser::new(text)?;
        let top = match parser.take_word("top") {
            true => top(&mut parser)?,
            false => DEFAULT_TOP,
        };
        let aggregate = aggregate(&mut parser)?;
        let mut clauses = Clauses::default();
        while clauses.read_next(&mut parser)? {}
        let (node, rows) = clauses.joined().without_shares()?;
        let condition = Condition {
            text: text.to_owned(),
            node,
            tests: parser.into_tests(),
        };
        Ok(Self {
            text: text.to_owned(),
            top,
            aggregate,
            condition,
            rows,
            by: clauses.by.unwrap_or(Field::Function),
        })
    }

    /// The text it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Asks a profile of one event.
    pub fn answer(&self, profile: &Profile) -> Answer {
        profile.assert_one_event();
        let bound = Bound::new(&self.condition, profile);
        let weight_of = |sample: &Sample| match self.aggregate {
            Aggregate::Samples => 1,
            _ => sample.weight,
        };
        let whole = sum(profile.samples.iter().map(weight_of));
        let groups = Groups::by(profile, &self.by);
        let (weights, matched) = match self.aggregate {
            Aggregate::TotalWeight => total_weights(profile, &bound, &groups),
            _ => {
                let mut weights = vec![0u64; groups.len()];
                let mut matched = 0u64;
                for sample in &profile.samples {
                    if bound.holds_at_leaf(sample) {
                        let group = groups.of_sample(sample, sample.stack);
                        add(&mut weights[group], weight_of(sample));
                        add(&mut matched, weight_of(sample));
                    }
                }
                (weights, matched)
            }
        };
        let mut rows = self.rows_of(groups, &weights, whole);
        let rows_left_out = rows.len().saturating_sub(self.top);
        rows.truncate(self.top);
        Answer {
            aggregate: self.aggregate,
            by: self.by.clone(),
            unit: match self.aggregate {
                Aggregate::Samples => WeightUnit::Samples,
                _ => profile.unit(),
            },
            whole,
            matched,
            rows,
            rows_left_out,
        }
    }

    /// The groups with a weight that the conditions on rows hold for, heaviest first.
    fn rows_of(&self, groups: Groups<'_>, weights: &[u64], whole: u64) -> Vec<AnswerRow> {
        let is_wanted = |weight: u64| {
            let share = weight as f64 / whole.max(1) as f64;
            let mut tests = self.rows.iter();
            weight > 0 && tests.all(|row| row.compare.holds(share, row.share.of_one()))
        };
        let keys = groups.into_keys().into_iter().zip(weights);
        let mut rows: Vec<AnswerRow> = keys
            .filter(|(_, weight)| is_wanted(**weight))
            .map(|(key, weight)| AnswerRow {
                key,
                weight: *weight,
            })
            .collect();
        rows.sort_by(|one, other| {
            (Reverse(one.weight), &one.key).cmp(&(Reverse(other.weight), &other.key))
        });
        rows
    }
}

/// The weight of every group wherever it is in a stack, and that of all samples that a frame is counted of.
fn total_weights(profile: &Profile, bound: &Bound<'_>, groups: &Groups<'_>) -> (Vec<u64>, u64) {
    // Samples of which the tests of samples say the same differ in their stacks only.
    let mut kinds: FastMap<_, Vec<&Sample>> = FastMap::default();
    for sample in &profile.samples {
        kinds.entry(bound.bits_of(sample)).or_default().push(sample);
    }
    let mut weights = vec![0u64; groups.len()];
    let mut matched = 0u64;
    for (bits, samples) in kinds {
        let mut has_match: Vec<bool> = Vec::with_capacity(profile.stacks.len());
        let mut self_weights = vec![0u64; profile.stacks.len()];
        let all = (0..profile.stacks.len() as u32).map(StackIndex::new);
        let holds: Vec<bool> = all.map(|stack| bound.holds(bits, Some(stack))).collect();
        for (stack, holds) in profile.stacks.iter().zip(&holds) {
            let above = stack.parent.is_some_and(|parent| has_match[parent.at()]);
            has_match.push(*holds || above);
        }
        for sample in samples {
            let is_match = match sample.stack {
                Some(stack) => has_match[stack.at()],
                None => bound.holds(bits, None),
            };
            if !is_match {
                continue;
            }
            add(&mut matched, sample.weight);
            match (groups.membership(), sample.stack) {
                (Membership::Frames, Some(stack)) => {
                    add(&mut self_weights[stack.at()], sample.weight);
                }
                (_, stack) => add(&mut weights[groups.of_sample(sample, stack)], sample.weight),
            }
        }
        if groups.membership() == Membership::Frames {
            let group_of =
                |stack: StackIndex| holds[stack.at()].then(|| groups.of_frame(Some(stack)));
            let of_kind = group_weights(profile, &self_weights, groups.len(), group_of);
            for (weight, (_, total)) in weights.iter_mut().zip(of_kind) {
                add(weight, total);
            }
        }
    }
    (weights, matched)
}

fn add(sum: &mut u64, weight: u64) {
    *sum = sum.saturating_add(weight);
}

fn sum(weights: impl Iterator<Item = u64>) -> u64 {
    weights.fold(0, u64::saturating_add)
}

fn top(parser: &mut Parser) -> Result<usize, ExpressionError> {
    let number = parser.peek().text.parse().ok();
    let number = number.filter(|number| (1..=MAX_TOP).contains(number));
    let number =
        number.ok_or_else(|| parser.expected(&format!("how many rows, from 1 to {MAX_TOP}")))?;
    parser.next();
    Ok(number)
}

fn aggregate(parser: &mut Parser) -> Result<Aggregate, ExpressionError> {
    let found = Aggregate::ALL
        .into_iter()
        .find(|aggregate| parser.is_word(aggregate.name()));
    let found = found.ok_or_else(|| parser.expected("self, total or samples"))?;
    parser.next();
    Ok(found)
}

/// What follows the head of a query, in any order, each once.
#[derive(Default)]
struct Clauses {
    condition: Option<Node>,
    under: Option<Node>,
    by: Option<Field>,
}

impl Clauses {
    /// Reads the next clause; false at the end.
    fn read_next(&mut self, parser: &mut Parser) -> Result<bool, ExpressionError> {
        let is_first = |is_there: bool, parser: &Parser| match is_there {
            true => Err(parser.expected("each of where, under and by once")),
            false => Ok(()),
        };
        if parser.is_word("where") {
            is_first(self.condition.is_some(), parser)?;
            parser.next();
            self.condition = Some(parser.condition()?);
        } else if parser.is_word("under") {
            is_first(self.under.is_some(), parser)?;
            parser.next();
            self.under = Some(parser.under()?);
        } else if parser.is_word("by") {
            is_first(self.by.is_some(), parser)?;
            parser.next();
            let field = Field::called(&parser.peek().text).filter(Field::is_group);
            let list = Field::list(Field::is_group);
            self.by = Some(field.ok_or_else(|| parser.expected(&list))?);
            parser.next();
        } else {
            let what = match self.condition {
                Some(_) => "and, or, under, by or the end",
                None => "where, under, by or the end",
            };
            parser.expect_end(what)?;
            return Ok(false);
        }
        Ok(true)
    }

    /// Both conditions as one.
    fn joined(&mut self) -> Node {
        let parts: Vec<Node> = [self.under.take(), self.condition.take()]
            .into_iter()
            .flatten()
            .collect();
        Node::And(parts)
    }
}
