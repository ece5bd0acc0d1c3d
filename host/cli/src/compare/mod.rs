//! Compares two bench records: is the new one faster, slower, or the same?

mod evidence;
mod likeness;
mod provenance;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::record::{BenchRecord, Case, Outcome, Row};
use crate::statistics::Bootstrap;
pub use evidence::{Change, Evidence, Thresholds};
pub use provenance::require_measured_with;

/// Comparison of the rows of two records.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The overall change.
    pub overall: Change,
    /// The thresholds that were applied.
    pub thresholds: Thresholds,
    /// The rows that both records have.
    pub rows: Vec<ComparedRow>,
    /// Why other rows were not compared, as messages.
    pub left_out: Vec<String>,
    /// Differences that do not make times incomparable, as messages.
    pub differences: Vec<String>,
}

/// Comparison of one contender in one case.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedRow {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// The contender.
    pub contender: String,
    /// How it changed.
    pub change: Change,
    /// The basis of the verdict.
    pub ground: Ground,
}

/// The basis of a row's verdict.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    /// Times.
    Times(Evidence),
    /// It was correct and is now wrong.
    Wrong {
        /// In what way.
        reason: String,
    },
}

impl Comparison {
    /// Compares `new` with `old`: all contenders, or only those in `contenders`. Calls `progress` for each row of
    /// `new`.
    ///
    /// The overall change is a regression if any row is one, else an improvement if any row is one.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the records are not comparable, or have no row in common.
    pub fn new(
        new: &BenchRecord,
        old: &BenchRecord,
        contenders: &[String],
        thresholds: Thresholds,
        bootstrap: &Bootstrap,
        mut progress: impl FnMut(),
    ) -> Result<Self> {
        likeness::require(new, old)?;
        let wanted = |row: &&Row| contenders.is_empty() || contenders.contains(&row.contender);
        let mut rows = Vec::new();
        let mut left_out = Vec::new();
        for row in &new.rows {
            progress();
            if !wanted(&row) {
                continue;
            }
            let same = |old: &&Row| old.case == row.case && old.contender == row.contender;
            match old.rows.iter().find(same).ok_or("is not in the old record".to_owned()).and_then(|old| {
                let ground = ground(row, old, bootstrap)?;
                Ok(ComparedRow {
                    case: row.case,
                    contender: row.contender.clone(),
                    change: ground.change(&thresholds),
                    ground,
                })
            }) {
                Ok(compared) => rows.push(compared),
                Err(reason) => left_out.push(format!("{} {}: {reason}", row.case, row.contender)),
            }
        }
        let in_new = |row: &Row| new.rows.iter().any(|new| new.case == row.case && new.contender == row.contender);
        let only_old = old.rows.iter().filter(wanted).filter(|row| !in_new(row));
        left_out.extend(only_old.map(|row| format!("{} {}: is not in the new record", row.case, row.contender)));
        if rows.is_empty() {
            let reasons = if left_out.is_empty() { "they have no rows".into() } else { left_out.join("; ") };
            return Err(Error::Invalid(format!("the records have no row in common: {reasons}")));
        }
        let overall = overall(&rows);
        Ok(Self { overall, thresholds, rows, left_out, differences: likeness::differences(new, old) })
    }
}

fn overall(rows: &[ComparedRow]) -> Change {
    let any = |change| rows.iter().any(|row| row.change == change);
    [Change::Regressed, Change::Improved].into_iter().find(|&change| any(change)).unwrap_or(Change::None)
}

fn ground(new: &Row, old: &Row, bootstrap: &Bootstrap) -> std::result::Result<Ground, String> {
    let old = old.measurement().ok_or("was not measured in the old record")?;
    match &new.outcome {
        Outcome::Wrong { correctness } => Ok(Ground::Wrong { reason: correctness.to_string() }),
        Outcome::NotRun { reason } => Err(format!("was not measured in the new record: {reason}")),
        Outcome::Measured(new) if new.batch.cuda_graph != old.batch.cuda_graph => {
            Err("was timed as a CUDA graph in one record and as single launches in the other".into())
        }
        Outcome::Measured(new) => Ok(Ground::Times(Evidence::new(&new.samples_us, &old.samples_us, bootstrap))),
    }
}

impl Ground {
    fn change(&self, thresholds: &Thresholds) -> Change {
        match self {
            Ground::Times(evidence) => evidence.change(thresholds),
            Ground::Wrong { .. } => Change::Regressed,
        }
    }
}

#[cfg(test)]
mod tests;
