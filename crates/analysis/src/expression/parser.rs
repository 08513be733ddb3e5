//! Tokens to conditions, by recursive descent. Every error says where it is and what was expected.

use nodespy_model::{Category, Nanoseconds, Tier};

use super::condition::{Compare, Match, Node, Row, Test};
use super::token::{Token, TokenKind, tokens};
use super::{ExpressionError, Field, MAX_DEPTH, MAX_TESTS};
use crate::filter::{Pattern, Share, TimeRange, parse_seconds};
use crate::subsystem::Subsystem;

/// Reads tokens one after the other.
pub(crate) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    tests: Vec<Test>,
}

type Parsed<T> = Result<T, ExpressionError>;

impl Parser {
    pub(crate) fn new(text: &str) -> Parsed<Self> {
        Ok(Self {
            tokens: tokens(text)?,
            at: 0,
            depth: 0,
            tests: Vec::new(),
        })
    }

    pub(crate) fn into_tests(self) -> Vec<Test> {
        self.tests
    }

    /// The next token. The last, the end, stays the next.
    pub(crate) fn peek(&self) -> &Token {
        &self.tokens[self.at]
    }

    pub(crate) fn next(&mut self) -> Token {
        let token = self.tokens[self.at].clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    pub(crate) fn is_word(&self, word: &str) -> bool {
        let token = self.peek();
        token.kind == TokenKind::Word && token.text == word
    }

    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let is_there = self.is_word(word);
        if is_there {
            self.next();
        }
        is_there
    }

    /// That something else was expected than the next token.
    pub(crate) fn expected(&self, what: &str) -> ExpressionError {
        expected(what, self.peek())
    }

    pub(crate) fn expect_end(&self, what: &str) -> Parsed<()> {
        match self.peek().kind {
            TokenKind::End => Ok(()),
            _ => Err(self.expected(what)),
        }
    }

    /// `and` binds stronger than `or`.
    pub(crate) fn condition(&mut self) -> Parsed<Node> {
        let mut parts = vec![self.conjunction()?];
        while self.take_word("or") {
            parts.push(self.conjunction()?);
        }
        Ok(joined(parts, Node::Or))
    }

    fn conjunction(&mut self) -> Parsed<Node> {
        let mut parts = vec![self.negation()?];
        while self.take_word("and") {
            parts.push(self.negation()?);
        }
        Ok(joined(parts, Node::And))
    }

    fn negation(&mut self) -> Parsed<Node> {
        let column = self.peek().column;
        let is_open = self.peek().kind == TokenKind::Open;
        let is_not = self.is_word("not");
        if !is_open && !is_not {
            return self.test();
        }
        if self.depth == MAX_DEPTH {
            return Err(ExpressionError::at(
                column,
                format!("this nests deeper than {MAX_DEPTH}"),
            ));
        }
        self.next();
        self.depth += 1;
        let node = match is_not {
            true => Node::Not(Box::new(self.negation()?)),
            false => {
                let inner = self.condition()?;
                if self.peek().kind != TokenKind::Close {
                    return Err(self.expected("and, or, or )"));
                }
                self.next();
                inner
            }
        };
        self.depth -= 1;
        Ok(node)
    }

    fn test(&mut self) -> Parsed<Node> {
        let token = self.next();
        if token.kind == TokenKind::Word && token.text == "under" {
            return self.under();
        }
        let field = match token.kind {
            TokenKind::Word => Field::called(&token.text).filter(Field::is_test),
            _ => None,
        };
        let Some(field) = field else {
            let near = Field::nearest(&token.text).map(|name| format!("; did you mean {name}?"));
            let list = Field::list(Field::is_test);
            let mut error = expected(&format!("a field ({list}), under, not or ("), &token);
            error.message.push_str(&near.unwrap_or_default());
            return Err(error);
        };
        let operator = self.operator(&field)?;
        let value = self.value(&field)?;
        let node = self.test_of(&field, &operator, &value)?;
        Ok(match operator.is_negated {
            true => Node::Not(Box::new(node)),
            false => node,
        })
    }

    /// What follows `under`: a function by its name, or `~` and an expression.
    pub(crate) fn under(&mut self) -> Parsed<Node> {
        let is_operator = self.peek().kind == TokenKind::Operator;
        let operator = match is_operator {
            true => self.operator(&Field::Function)?,
            false => Operator::default(),
        };
        let value = self.value(&Field::Function)?;
        let node = self.add(Test::Under(operator.text(&value)?), value.column)?;
        Ok(match operator.is_negated {
            true => Node::Not(Box::new(node)),
            false => node,
        })
    }

    fn operator(&mut self, field: &Field) -> Parsed<Operator> {
        let token = self.next();
        let is_number = matches!(field, Field::Line | Field::Time | Field::Share);
        let is_word = matches!(field, Field::Subsystem | Field::Category | Field::Tier);
        let known = match (token.kind, token.text.as_str()) {
            (TokenKind::Operator, text) => Operator::called(text),
            _ => None,
        };
        let is_fit = |operator: &Operator| match operator.compare {
            Compare::Equal => !operator.is_pattern || !(is_number || is_word),
            _ => is_number,
        };
        known.filter(is_fit).ok_or_else(|| {
            let list = match (is_number, is_word) {
                (true, _) => "=, !=, <, <=, > or >=",
                (_, true) => "= or !=",
                _ => "=, !=, ~ or !~",
            };
            expected(&format!("{list} after {}", field.name()), &token)
        })
    }

    fn value(&mut self, field: &Field) -> Parsed<Token> {
        let token = self.next();
        match token.kind {
            TokenKind::Word | TokenKind::Quoted => Ok(token),
            _ => Err(expected(&format!("a value for {}", field.name()), &token)),
        }
    }

    fn test_of(&mut self, field: &Field, operator: &Operator, value: &Token) -> Parsed<Node> {
        let text = || operator.text(value);
        let test = match field {
            Field::Function => Test::Function(text()?),
            Field::Caller => Test::Caller(text()?),
            Field::File => Test::File(text()?),
            Field::Package => Test::Package(text()?),
            Field::Thread => Test::Thread(text()?),
            Field::Process => Test::Process(text()?),
            Field::Label(key) => Test::Label(key.clone(), text()?),
            Field::Subsystem => Test::Subsystem(subsystem(value)?),
            Field::Category => Test::Category(category(value)?),
            Field::Tier => Test::Tier(tier(value)?),
            Field::Line => Test::Line(operator.compare, line(value)?),
            Field::Time => time(operator.compare, value)?,
            Field::Share => {
                let share = Share::parse(&value.text)
                    .map_err(|message| ExpressionError::at(value.column, message))?;
                let row = Row {
                    compare: operator.compare,
                    share,
                    column: value.column,
                };
                return Ok(Node::Share(row));
            }
            Field::Context => return Err(expected("a field", value)),
        };
        self.add(test, value.column)
    }

    fn add(&mut self, test: Test, column: usize) -> Parsed<Node> {
        if self.tests.len() == MAX_TESTS {
            return Err(ExpressionError::at(
                column,
                format!("these are more than {MAX_TESTS} tests"),
            ));
        }
        self.tests.push(test);
        Ok(Node::Test(self.tests.len() - 1))
    }
}

fn joined(mut parts: Vec<Node>, join: fn(Vec<Node>) -> Node) -> Node {
    match parts.len() {
        1 => parts.remove(0),
        _ => join(parts),
    }
}

fn expected(what: &str, found: &Token) -> ExpressionError {
    let found_words = match found.kind {
        TokenKind::End => "the end".to_owned(),
        _ => format!("{:?}", found.text),
    };
    ExpressionError::at(
        found.column,
        format!("expected {what}, found {found_words}"),
    )
}

/// An operator: how it compares, whether it takes a pattern, whether it means the contrary.
#[derive(Debug, Clone, Copy)]
struct Operator {
    compare: Compare,
    is_pattern: bool,
    is_negated: bool,
}

impl Default for Operator {
    fn default() -> Self {
        Self {
            compare: Compare::Equal,
            is_pattern: false,
            is_negated: false,
        }
    }
}

impl Operator {
    fn called(text: &str) -> Option<Self> {
        let plain = |compare: Compare| Self {
            compare,
            ..Self::default()
        };
        Some(match text {
            "=" | "==" => Self::default(),
            "!=" => Self {
                is_negated: true,
                ..Self::default()
            },
            "~" => Self {
                is_pattern: true,
                ..Self::default()
            },
            "!~" => Self {
                is_pattern: true,
                is_negated: true,
                ..Self::default()
            },
            "<" => plain(Compare::Less),
            "<=" => plain(Compare::LessOrEqual),
            ">" => plain(Compare::More),
            ">=" => plain(Compare::MoreOrEqual),
            _ => return None,
        })
    }

    /// What the field of a text is compared with.
    fn text(&self, value: &Token) -> Parsed<Match> {
        match self.is_pattern {
            true => Pattern::parse(&value.text)
                .map(Match::Has)
                .map_err(|message| ExpressionError::at(value.column, message)),
            false => Ok(Match::Is(value.text.clone())),
        }
    }
}

/// The one of `all` that goes by the value's text; the error lists them.
fn one_of<T: Copy>(
    all: &[T],
    what: &str,
    names: impl Fn(T) -> [&'static str; 2],
    value: &Token,
) -> Parsed<T> {
    let is_meant = |each: &&T| {
        let mut names = names(**each).into_iter();
        names.any(|name| !name.is_empty() && name.eq_ignore_ascii_case(&value.text))
    };
    all.iter().find(is_meant).copied().ok_or_else(|| {
        let list: Vec<String> = all
            .iter()
            .map(|each| names(*each)[0])
            .filter(|name| !name.is_empty())
            .map(|name| match name.contains(' ') {
                true => format!("{name:?}"),
                false => name.to_owned(),
            })
            .collect();
        expected(&format!("{what} ({})", list.join(", ")), value)
    })
}

fn subsystem(value: &Token) -> Parsed<Subsystem> {
    let names = |each: Subsystem| [each.key(), each.label()];
    one_of(&Subsystem::ALL, "a subsystem", names, value)
}

fn category(value: &Token) -> Parsed<Category> {
    let names = |each: Category| [each.label(), ""];
    one_of(&Category::ALL, "a category", names, value)
}

fn tier(value: &Token) -> Parsed<Tier> {
    let names = |each: Tier| [each.label(), ""];
    one_of(&Tier::ALL, "a tier", names, value)
}

fn line(value: &Token) -> Parsed<u32> {
    let number = value.text.parse();
    number.map_err(|_| expected("the number of a line", value))
}

fn time(compare: Compare, value: &Token) -> Parsed<Test> {
    let wrong = |message: String| ExpressionError::at(value.column, message);
    if compare == Compare::Equal {
        return TimeRange::parse(&value.text)
            .map(Test::During)
            .map_err(wrong);
    }
    let seconds = parse_seconds(&value.text).map_err(wrong)?;
    Ok(Test::Time(compare, (seconds * 1e9) as Nanoseconds))
}
