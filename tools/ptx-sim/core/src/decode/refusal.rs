//! Why an instruction is refused.

/// Why something cannot be decoded.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The simulator does not know it.
    Unsupported(String),
    /// It is wrong.
    Invalid(String),
}

/// Shorthand for results of decoding.
pub(crate) type Decode<T> = Result<T, Refusal>;

/// Shorthand for [`Refusal::Invalid`].
pub(crate) fn invalid<T>(what: impl Into<String>) -> Decode<T> {
    Err(Refusal::Invalid(what.into()))
}

/// Shorthand for [`Refusal::Unsupported`].
pub(crate) fn unsupported<T>(what: impl Into<String>) -> Decode<T> {
    Err(Refusal::Unsupported(what.into()))
}
