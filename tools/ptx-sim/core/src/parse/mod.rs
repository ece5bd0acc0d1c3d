//! PTX text to syntax tree. The tree is generic: it knows no instructions, so that a new one needs no change here.

mod ast;
mod body;
mod directives;
mod functions;
mod lexer;
mod types;

use std::collections::HashMap;

pub(crate) use ast::{
    Base, Entry, Formal, Function, Guard, Initialiser, Instruction, Location, Operand, Position, RegisterNames,
    Signature, Statement, Variable,
};
pub(crate) use types::{Kind, Space, Type};

use lexer::{Kind as TokenKind, Lexer, Token};

/// Why a text is not valid PTX.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct ParseError {
    /// The file name given to [`Module::parse`](crate::Module::parse).
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
    /// What was found and what was expected.
    pub message: String,
}

/// A whole PTX text.
#[derive(Debug)]
pub(crate) struct Syntax {
    pub version: (u32, u32),
    /// The first item of `.target`, for example `sm_80`.
    pub target: String,
    /// `.file` names by number.
    pub files: HashMap<u32, String>,
    pub locations: Vec<Location>,
    pub variables: Vec<Variable>,
    pub entries: Vec<Entry>,
    /// Each function once, defined or only declared.
    pub functions: Vec<Function>,
    /// Other names of functions, by `.alias`.
    pub aliases: HashMap<String, String>,
}

impl Syntax {
    /// Parses `text`.
    pub fn parse(text: &str, file: &str) -> Result<Syntax, ParseError> {
        let mut lexer = Lexer::new(text);
        let tokens = [lexer.token(), lexer.token()];
        let mut parser = Parser {
            file,
            lexer,
            tokens,
            syntax: Syntax {
                version: (0, 0),
                target: String::new(),
                files: HashMap::new(),
                locations: Vec::new(),
                variables: Vec::new(),
                entries: Vec::new(),
                functions: Vec::new(),
                aliases: HashMap::new(),
            },
            location: None,
            known_locations: HashMap::new(),
            element_bytes: HashMap::new(),
        };
        let parsed = parser.module();
        // An invalid token ends the text, so the parser may have stopped for that reason.
        match parser.lexer.failure.take() {
            Some((position, message)) => parser.error(position, message),
            None => parsed.map(|()| parser.syntax),
        }
    }
}

impl Syntax {
    /// The number of the function `name`, or of the function of which it is an alias.
    pub fn function(&self, name: &str) -> Option<usize> {
        let name = self.aliases.get(name).map_or(name, String::as_str);
        self.functions.iter().position(|function| function.name == name)
    }
}

/// A cursor over the tokens, and the results so far.
struct Parser<'a> {
    file: &'a str,
    lexer: Lexer<'a>,
    /// The next two tokens.
    tokens: [Token<'a>; 2],
    syntax: Syntax,
    /// The current `.loc`.
    location: Option<u32>,
    /// The latest location at each (file, line, column), which an `inlined_at` refers to.
    known_locations: HashMap<(u32, u32, u32), u32>,
    /// Element size of each variable, in bytes, by its latest declaration.
    element_bytes: HashMap<String, u64>,
}

type Parse<T> = Result<T, ParseError>;

impl<'a> Parser<'a> {
    fn peek(&self) -> TokenKind<'a> {
        self.tokens[0].kind
    }

    fn peek_second(&self) -> TokenKind<'a> {
        self.tokens[1].kind
    }

    fn position(&self) -> Position {
        self.tokens[0].position
    }

    fn advance(&mut self) -> TokenKind<'a> {
        let token = self.lexer.token();
        let [first, second] = self.tokens;
        self.tokens = [second, token];
        first.kind
    }

    fn error<T>(&self, position: Position, message: impl Into<String>) -> Parse<T> {
        Err(ParseError {
            file: self.file.to_owned(),
            line: position.line,
            column: position.column,
            message: message.into(),
        })
    }

    fn expected<T>(&self, what: &str) -> Parse<T> {
        self.error(self.position(), format!("expected {what}, found {}", self.peek().describe()))
    }

    /// Consumes `symbol` if it is next.
    fn eat(&mut self, symbol: char) -> bool {
        let found = self.peek() == TokenKind::Symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, symbol: char) -> Parse<()> {
        if self.eat(symbol) { Ok(()) } else { self.expected(&format!("`{symbol}`")) }
    }

    fn word(&mut self, what: &str) -> Parse<&'a str> {
        match self.peek() {
            TokenKind::Word(word) => {
                self.advance();
                Ok(word)
            }
            _ => self.expected(what),
        }
    }

    fn integer(&mut self, what: &str) -> Parse<u64> {
        match self.peek() {
            TokenKind::Integer(value) => {
                self.advance();
                Ok(value)
            }
            _ => self.expected(what),
        }
    }

    fn small_integer(&mut self, what: &str) -> Parse<u32> {
        let position = self.position();
        let value = self.integer(what)?;
        u32::try_from(value).or_else(|_| self.error(position, format!("{what} {value} is too large")))
    }

    /// Skips a balanced `{ … }`.
    fn skip_braces(&mut self) -> Parse<()> {
        let start = self.position();
        self.expect('{')?;
        let mut depth = 1;
        while depth > 0 {
            match self.advance() {
                TokenKind::Symbol('{') => depth += 1,
                TokenKind::Symbol('}') => depth -= 1,
                TokenKind::End => return self.error(start, "a `{` that is never closed"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Skips a balanced `( … )`.
    fn skip_parentheses(&mut self) -> Parse<()> {
        let start = self.position();
        self.expect('(')?;
        let mut depth = 1;
        while depth > 0 {
            match self.advance() {
                TokenKind::Symbol('(') => depth += 1,
                TokenKind::Symbol(')') => depth -= 1,
                TokenKind::End => return self.error(start, "a `(` that is never closed"),
                _ => {}
            }
        }
        Ok(())
    }

    /// Skips up to and including the next `;`.
    fn skip_statement(&mut self) -> Parse<()> {
        loop {
            match self.peek() {
                TokenKind::Symbol(';') => {
                    self.advance();
                    return Ok(());
                }
                TokenKind::End => return self.expected("`;`"),
                _ => {
                    self.advance();
                }
            }
        }
    }
}
