//! Reads JSON files.

use std::path::Path;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

/// What the file at `path` holds.
///
/// # Errors
/// With the path, if the file cannot be read or holds something else.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}
