//! Reading and writing records.

use std::path::Path;

use super::BenchRecord;
use crate::document::Format;
use crate::error::{Error, Result};

/// Files that hold a [`BenchRecord`].
pub const FORMAT: Format =
    Format { kind: "fa512-bench", version: 3, oldest: 1, name: "bench record", source: "fa512 bench --json FILE" };

impl BenchRecord {
    /// Reads the record at `path`.
    ///
    /// # Errors
    /// As [`Format::load`].
    pub fn load(path: &Path) -> Result<Self> {
        let record: Self = FORMAT.load(path)?;
        record.check().map_err(|reason| Error::Invalid(format!("{}: {reason}", path.display())))?;
        Ok(record)
    }

    /// Requires every summary to be that of its samples; but for intervals, whose random numbers another version may draw otherwise.
    fn check(&self) -> std::result::Result<(), String> {
        let measured = self.rows.iter().filter_map(|row| Some((row, row.measurement()?)));
        for (row, measurement) in measured {
            if let Some((name, stored, actual)) = measurement.summary_us.first_other_than(&measurement.samples_us) {
                return Err(format!(
                    "a damaged bench record: {} {} says a {name} of {stored}, and its samples have {actual}",
                    row.case, row.contender
                ));
            }
        }
        Ok(())
    }

    /// Writes the record to `path`, which is replaced in one step.
    ///
    /// # Errors
    /// As [`Format::save`].
    pub fn save(&self, path: &Path) -> Result<()> {
        FORMAT.save(path, self)
    }
}
