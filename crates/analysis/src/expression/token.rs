//! An expression cut into words, quoted texts, operators and parentheses.

use super::{ExpressionError, MAX_BYTES};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Word,
    Quoted,
    Operator,
    Open,
    Close,
    End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) text: String,
    /// In characters, from 1.
    pub(crate) column: usize,
}

/// The tokens of a text, of which the last is the end.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>, ExpressionError> {
    if text.len() > MAX_BYTES {
        return Err(ExpressionError::at(
            1,
            format!(
                "{} bytes are more than the {MAX_BYTES} that are read",
                text.len()
            ),
        ));
    }
    let characters: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < characters.len() {
        let start = at;
        let character = characters[at];
        at += 1;
        let (kind, text) = match character {
            character if character.is_whitespace() => continue,
            '(' => (TokenKind::Open, "(".to_owned()),
            ')' => (TokenKind::Close, ")".to_owned()),
            '"' | '\'' => (TokenKind::Quoted, quoted(&characters, &mut at)?),
            '=' | '!' | '~' | '<' | '>' => {
                let second = match (character, characters.get(at)) {
                    ('!', Some('=' | '~')) | ('<' | '>' | '=', Some('=')) => characters.get(at),
                    _ => None,
                };
                at += usize::from(second.is_some());
                let operator = [character].iter().chain(second).collect();
                (TokenKind::Operator, operator)
            }
            _ => {
                while characters.get(at).is_some_and(|next| is_word(*next)) {
                    at += 1;
                }
                (TokenKind::Word, characters[start..at].iter().collect())
            }
        };
        tokens.push(Token {
            kind,
            text,
            column: start + 1,
        });
    }
    tokens.push(Token {
        kind: TokenKind::End,
        text: String::new(),
        column: characters.len() + 1,
    });
    Ok(tokens)
}

fn is_word(character: char) -> bool {
    !character.is_whitespace() && !"()\"'=!~<>".contains(character)
}

/// The text up to the quote that `at` is behind. A backslash keeps a quote from ending it and is itself otherwise, as
/// regular expressions need it.
fn quoted(characters: &[char], at: &mut usize) -> Result<String, ExpressionError> {
    let start = *at;
    let quote = characters[start - 1];
    let mut text = String::new();
    while let Some(character) = characters.get(*at).copied() {
        *at += 1;
        match character {
            character if character == quote => return Ok(text),
            '\\' if characters.get(*at) == Some(&quote) => {
                text.push(quote);
                *at += 1;
            }
            character => text.push(character),
        }
    }
    Err(ExpressionError::at(
        start,
        format!("this {quote} has no other one that ends the text"),
    ))
}
