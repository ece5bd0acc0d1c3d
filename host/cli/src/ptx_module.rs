//! A PTX module as text.

use std::sync::Arc;

/// A PTX module to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxModule {
    /// File name, for messages.
    pub file: String,
    /// The PTX text, shared since it may be long.
    pub text: Arc<str>,
}
