//! Why inputs are refused.

use contract::refusal::Refusal;

/// Sizes, lengths or storages that do not go together; the message says which, and what would.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

impl From<Refusal> for Invalid {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.to_string())
    }
}

/// Result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Invalid>;
