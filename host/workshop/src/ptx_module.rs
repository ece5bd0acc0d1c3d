//! PTX text on its way to a device.

use std::sync::Arc;

/// A PTX module to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxModule {
    /// File name, for messages.
    pub file: String,
    /// The PTX text, which may be long.
    pub text: Arc<str>,
}
