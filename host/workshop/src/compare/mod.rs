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

/// How the rows of two records compare.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What all rows together come down to.
    pub overall: Change,
    /// What a difference had to reach.
    pub thresholds: Thresholds,
    /// The rows that both records have.
    pub rows: Vec<ComparedRow>,
    /// Why other rows were not compared, as text.
    pub left_out: Vec<String>,
    /// Differences that do not make times incomparable, as text.
    pub differences: Vec<String>,
}

/// One contender in one case, in both records.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedRow {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// The contender.
    pub contender: String,
    /// What happened to it.
    pub change: Change,
    /// Why.
    pub ground: Ground,
}

/// What a row's verdict rests on.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ground {
    /// Times.
    Times(Evidence),
    /// It was right and now is wrong.
    Wrong {
        /// How wrong.
        reason: String,
    },
}

impl Comparison {
    /// Compares `new` with `old`, of all contenders or only of those called `contenders`. `progress` is called for each row of `new`.
    ///
    /// The whole is a regression when one row is, else an improvement when one row is.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the records measured unlike things, or have no row in common.
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
