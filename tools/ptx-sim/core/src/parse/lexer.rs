//! Tokenisation of PTX.

use super::Position;

/// One token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Token<'a> {
    pub kind: Kind<'a>,
    pub position: Position,
}

/// Kind of a token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind<'a> {
    /// A name, opcode or register: starts with a letter, `_`, `$` or `%`.
    Word(&'a str),
    /// A directive or modifier without its dot, for example `L2::128B`.
    Dot(&'a str),
    /// An integer literal.
    Integer(u64),
    /// A single-precision literal, `0f3F800000`; its bits.
    Single(u32),
    /// A double-precision literal, `0d3FF0000000000000` or `1.0`; its bits.
    Double(u64),
    /// A string literal without its quotes.
    Text(&'a str),
    /// A single punctuation character.
    Symbol(char),
    /// The end of the text.
    End,
}

impl Kind<'_> {
    /// The token in words, for messages.
    pub fn describe(&self) -> String {
        match self {
            Kind::Word(word) => format!("`{word}`"),
            Kind::Dot(word) => format!("`.{word}`"),
            Kind::Integer(value) => format!("`{value}`"),
            Kind::Single(_) | Kind::Double(_) => "a floating-point literal".to_owned(),
            Kind::Text(_) => "a string".to_owned(),
            Kind::Symbol(symbol) => format!("`{symbol}`"),
            Kind::End => "the end of the file".to_owned(),
        }
    }
}

/// Splits text into tokens, the last of which is [`Kind::End`].
pub(super) struct Lexer<'a> {
    rest: &'a str,
    position: Position,
    /// The first invalid token and its position; nothing after it is read.
    pub failure: Option<Failure>,
}

/// A position, and what is wrong there.
pub(super) type Failure = (Position, String);

/// Number of bytes at the start of a text that can be part of a word.
fn word_length(text: &str) -> usize {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
    text.bytes().position(|byte| !is_word(byte)).unwrap_or(text.len())
}

impl<'a> Lexer<'a> {
    /// At the start of `text`.
    pub fn new(text: &'a str) -> Lexer<'a> {
        Lexer { rest: text, position: Position { line: 1, column: 1 }, failure: None }
    }

    /// The next token. An invalid one ends the text.
    pub fn token(&mut self) -> Token<'a> {
        let (kind, position) = self.next().unwrap_or_else(|failure| {
            let position = failure.0;
            self.failure = Some(failure);
            self.rest = "";
            (Kind::End, position)
        });
        Token { kind, position }
    }

    fn next(&mut self) -> Result<(Kind<'a>, Position), Failure> {
        self.skip_blanks()?;
        let position = self.position;
        let Some(first) = self.rest.chars().next() else { return Ok((Kind::End, position)) };
        let kind = match first {
            '0'..='9' => self.number()?,
            '.' => self.directive()?,
            '"' => self.text()?,
            '%' | '_' | '$' | 'a'..='z' | 'A'..='Z' => {
                let length = 1 + word_length(&self.rest[1..]);
                Kind::Word(self.take_of_line(length))
            }
            '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | ',' | ';' | ':' | '=' | '+' | '-' | '!' | '|' | '@'
            | '*' | '&' => {
                self.take_of_line(1);
                Kind::Symbol(first)
            }
            other => return Err((position, format!("unexpected character `{}`", other.escape_default()))),
        };
        Ok((kind, position))
    }

    /// Consumes `length` bytes.
    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        let last_line = match taken.rfind('\n') {
            None => taken,
            Some(end) => {
                self.position.line += taken.bytes().filter(|byte| *byte == b'\n').count() as u32;
                self.position.column = 1;
                &taken[end + 1..]
            }
        };
        self.position.column += last_line.chars().count() as u32;
        taken
    }

    /// Consumes `length` ASCII characters without line breaks.
    fn take_of_line(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        self.position.column += length as u32;
        taken
    }

    fn skip_blanks(&mut self) -> Result<(), Failure> {
        loop {
            let blank = self.rest.bytes().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(self.rest.len());
            if blank > 0 {
                self.take(blank);
            }
            if self.rest.starts_with("//") {
                self.take(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let Some(end) = self.rest.find("*/") else {
                    return Err((self.position, "a comment that does not end".to_owned()));
                };
                self.take(end + 2);
            } else {
                return Ok(());
            }
        }
    }

    /// `.word` with parts joined by `::`.
    fn directive(&mut self) -> Result<Kind<'a>, Failure> {
        let position = self.position;
        let mut length = 1;
        loop {
            let word = word_length(&self.rest[length..]);
            if word == 0 {
                return Err((position, "a `.` without a name after it".to_owned()));
            }
            length += word;
            if !self.rest[length..].starts_with("::") {
                return Ok(Kind::Dot(&self.take_of_line(length)[1..]));
            }
            length += 2;
        }
    }

    fn text(&mut self) -> Result<Kind<'a>, Failure> {
        match self.rest[1..].find(['"', '\n']) {
            Some(end) if self.rest[1 + end..].starts_with('"') => {
                let quoted = self.take(end + 2);
                Ok(Kind::Text(&quoted[1..=end]))
            }
            _ => Err((self.position, "a string that does not end on its line".to_owned())),
        }
    }

    fn number(&mut self) -> Result<Kind<'a>, Failure> {
        let position = self.position;
        let length = self.number_length();
        let literal = self.take_of_line(length);
        parse_number(literal).ok_or_else(|| (position, format!("`{literal}` is not a number PTX knows")))
    }

    fn number_length(&self) -> usize {
        let word = word_length(self.rest);
        let after = &self.rest[word..];
        let mut length = word;
        if after.starts_with('.') && after[1..].starts_with(|c: char| c.is_ascii_digit()) {
            length += 1 + word_length(&after[1..]);
        }
        let is_decimal = !self.rest[..length].starts_with("0x") && self.rest[..length].ends_with(['e', 'E']);
        if is_decimal && self.rest[length..].starts_with(['+', '-']) {
            let exponent = &self.rest[length + 1..];
            length += 1 + exponent.find(|c: char| !c.is_ascii_digit()).unwrap_or(exponent.len());
        }
        length
    }
}

fn parse_number<'a>(literal: &str) -> Option<Kind<'a>> {
    let unsigned = literal.strip_suffix('U').unwrap_or(literal);
    let prefix = literal.get(..2).unwrap_or("");
    let digits = |radix| u64::from_str_radix(&unsigned[2..], radix).ok().map(Kind::Integer);
    match prefix {
        "0f" | "0F" if literal.len() == 10 => u32::from_str_radix(&literal[2..], 16).ok().map(Kind::Single),
        "0d" | "0D" if literal.len() == 18 => u64::from_str_radix(&literal[2..], 16).ok().map(Kind::Double),
        "0x" | "0X" => digits(16),
        "0b" | "0B" => digits(2),
        _ if unsigned.len() > 1 && unsigned.starts_with('0') && unsigned.bytes().all(|byte| byte.is_ascii_digit()) => {
            u64::from_str_radix(unsigned, 8).ok().map(Kind::Integer)
        }
        _ if unsigned.bytes().all(|byte| byte.is_ascii_digit()) => unsigned.parse().ok().map(Kind::Integer),
        _ if literal.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-')) => {
            literal.parse::<f64>().ok().map(|value| Kind::Double(value.to_bits()))
        }
        _ => None,
    }
}
