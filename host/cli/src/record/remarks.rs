//! Remarks on a record's numbers.

use std::collections::BTreeMap;

use super::{BenchRecord, Outcome, Row};

impl BenchRecord {
    /// Every warning, and every reason why a contender has no times, with the rows that it concerns.
    pub fn remarks(&self) -> BTreeMap<String, Vec<String>> {
        let mut remarks: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut remark = |what: String, row: &Row| {
            remarks.entry(what).or_default().push(format!("{} {}", row.case, row.contender));
        };
        for row in &self.rows {
            match &row.outcome {
                Outcome::Measured(measurement) => {
                    measurement.warnings.iter().for_each(|warning| remark(format!("warning: {warning}"), row));
                }
                Outcome::Wrong { correctness } => remark(format!("WRONG, not timed: {correctness}"), row),
                Outcome::NotRun { reason } => remark(format!("not run: {reason}"), row),
            }
        }
        remarks
    }
}
