//! The cases of a record.

use cli::record::{BenchRecord, Case, Row};

/// The cases of `record` in order of their first rows.
pub fn distinct(record: &BenchRecord) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for row in &record.rows {
        if !cases.contains(&row.case) {
            cases.push(row.case);
        }
    }
    cases
}

/// The measured rows of `case` with their medians in µs, fastest first.
pub fn by_speed(record: &BenchRecord, case: Case) -> Vec<(&Row, f64)> {
    let rows = record.rows.iter().filter(|row| row.case == case);
    let mut rows: Vec<_> = rows.filter_map(|row| Some((row, row.measurement()?.summary_us.median))).collect();
    rows.sort_by(|a, b| a.1.total_cmp(&b.1));
    rows
}

/// The smallest median of `case`, µs.
pub fn fastest(record: &BenchRecord, case: Case) -> Option<f64> {
    by_speed(record, case).first().map(|&(_, median)| median)
}
