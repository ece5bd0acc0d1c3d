//! Reading and writing records.

use std::path::Path;

use super::{BenchRecord, Ceilings, Outcome, Pair, Row};
use crate::document::Format;
use crate::error::{Error, Result};
use crate::statistics::agrees;

/// The file format of a [`BenchRecord`].
pub const FORMAT: Format =
    Format { kind: "fa512-bench", version: 3, oldest: 1, name: "bench record", source: "fa512 bench --json FILE" };

/// Checks that the summaries in `rows` and `pairs` follow from their samples. Intervals of ratios may differ by their
/// own width, since another version may draw other random numbers.
pub fn check(rows: &[Row], pairs: &[Pair], ceilings: &Ceilings) -> std::result::Result<(), String> {
    for row in rows {
        if let Outcome::Measured(measurement) = &row.outcome
            && !measurement.correctness.passed()
        {
            let Row { case, contender, .. } = row;
            return Err(format!("{case} {contender} is measured, and {}", measurement.correctness));
        }
        if let Some((name, stored, actual)) = row.first_other_than_measured(ceilings) {
            let Row { case, contender, .. } = row;
            return Err(format!("{case} {contender} says a {name} of {stored}, and its samples have {actual}"));
        }
    }
    for pair in pairs {
        let Pair { case, first, second, ratio, ratio_interval: stored } = pair;
        let Some(measured) = pair.measured_again(rows) else {
            return Err(format!("{case} has a ratio of {first} to {second} without samples of both"));
        };
        if !agrees(*ratio, measured.ratio) {
            let actual = measured.ratio;
            return Err(format!(
                "{case} says a ratio of {first} to {second} of {ratio}, and their samples have {actual}"
            ));
        }
        let actual = measured.ratio_interval;
        if !stored.is_near(&actual) {
            return Err(format!(
                "{case} says an interval of {first} to {second} from {} to {}, and their samples have {} to {}",
                stored.low, stored.high, actual.low, actual.high
            ));
        }
    }
    Ok(())
}

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

    fn check(&self) -> std::result::Result<(), String> {
        check(&self.rows, &self.pairs, &self.ceilings).map_err(|reason| format!("a damaged bench record: {reason}"))
    }

    /// Writes the record to `path`, replacing the file atomically.
    ///
    /// # Errors
    /// As [`Format::save`].
    pub fn save(&self, path: &Path) -> Result<()> {
        FORMAT.save(path, self)
    }
}
