//! The error type of this crate.

use contract::refusal::Refusal;

/// Sizes, lengths or storages that are inconsistent. The message says which, and what is accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Invalid(pub String);

impl From<Refusal> for Invalid {
    fn from(refusal: Refusal) -> Self {
        Self(refusal.to_string())
    }
}

/// Result of the fallible functions of this crate.
pub type Result<T> = std::result::Result<T, Invalid>;
