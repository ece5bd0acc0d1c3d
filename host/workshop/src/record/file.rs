//! Reading and writing records.

use std::path::Path;

use super::BenchRecord;
use crate::document::Format;
use crate::error::Result;

/// Files that hold a [`BenchRecord`].
pub const FORMAT: Format =
    Format { kind: "fa512-bench", version: 2, oldest: 1, name: "bench record", source: "fa512 bench --json FILE" };

impl BenchRecord {
    /// Reads the record at `path`.
    ///
    /// # Errors
    /// As [`Format::load`].
    pub fn load(path: &Path) -> Result<Self> {
        FORMAT.load(path)
    }

    /// Writes the record to `path`, which is replaced in one step.
    ///
    /// # Errors
    /// As [`Format::save`].
    pub fn save(&self, path: &Path) -> Result<()> {
        FORMAT.save(path, self)
    }
}
