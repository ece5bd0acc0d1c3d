//! Errors of calls.

use crate::code::Code;
use crate::problem::Problem;

/// A result code, and optionally a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The code that the driver returns.
    pub code: Code,
    /// What was wrong, where, and what to do about it; `None` if the code says it all.
    pub message: Option<String>,
    /// The kind of mistake, if it has a name.
    pub problem: Option<Problem>,
}

/// Result type of most functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// An error with a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: Some(message.into()), problem: None }
    }

    /// The same error with a kind of mistake.
    pub fn of(self, problem: Problem) -> Self {
        Self { problem: Some(problem), ..self }
    }

    /// [`Code::INVALID_VALUE`] with a message.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::INVALID_VALUE, message)
    }

    /// [`Code::NOT_SUPPORTED`] with a message.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Code::NOT_SUPPORTED, message)
    }
}

impl From<Code> for Error {
    fn from(code: Code) -> Self {
        Self { code, message: None, problem: None }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.code)?;
        self.message.as_ref().map_or(Ok(()), |message| write!(formatter, ": {message}"))
    }
}

impl std::error::Error for Error {}
