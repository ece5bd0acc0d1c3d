//! Warnings about a record, each kind once, with advice and the rows that it concerns.

use std::collections::BTreeMap;

use crate::report::cases;
use crate::report::content::Notice;
use cli::record::{BenchRecord, Outcome, Row, Warning};

/// Every kind of warning in `record`, and every reason why a contender has no times.
pub fn notices(record: &BenchRecord) -> Vec<Notice> {
    let mut kinds: BTreeMap<(String, &str), Vec<&Row>> = BTreeMap::new();
    let mut note = |what: String, advice, row| kinds.entry((what, advice)).or_default().push(row);
    for row in &record.rows {
        match &row.outcome {
            Outcome::Wrong { correctness } => note(format!("Wrong, not timed: {correctness}"), WRONG, row),
            Outcome::NotRun { reason } => note(format!("Not run: {reason}"), NOT_RUN, row),
            Outcome::Measured(measurement) => {
                measurement.warnings.iter().for_each(|warning| {
                    let (what, advice) = kind(warning);
                    note(what, advice, row);
                });
            }
        }
    }
    let notice = |((what, advice), rows): ((String, &str), Vec<&Row>)| Notice {
        what,
        advice: Some(advice.to_owned()),
        place: Some(place(record, &rows)),
    };
    kinds.into_iter().map(notice).collect()
}

const WRONG: &str = "do not use this contender for these cases; fa512 run shows where its outputs differ.";
const NOT_RUN: &str = "mend what the reason names and measure again, or leave the contender out.";

/// The warning for all rows that have it, and advice.
fn kind(warning: &Warning) -> (String, &'static str) {
    use cli::record::{HIGHEST_TEMPERATURE, LARGEST_VARIATION, LAUNCH_BOUND_US};
    match warning {
        Warning::Scattered { .. } => (
            format!(
                "Samples vary by more than {:.0} %: something else uses the GPU, or its clocks move",
                100.0 * LARGEST_VARIATION
            ),
            "see that the GPU is idle, or lock its clocks, and measure again.",
        ),
        Warning::Hot { .. } => {
            (format!("The GPU was hotter than {HIGHEST_TEMPERATURE:.0} °C"), "let it cool down and measure again.")
        }
        Warning::Throttled { reasons } => (
            format!("The GPU held its clocks back ({})", reasons.join(", ")),
            "compare only contenders of this record, which were measured in the same turns.",
        ),
        Warning::LaunchBound { .. } => (
            format!("Calls are shorter than {LAUNCH_BOUND_US:.0} µs: a launch takes about as long"),
            "launch such calls from a CUDA graph, or put more heads or sequences into one call.",
        ),
    }
}

/// Where `rows` are: their cases, with contenders unless it is all of them.
fn place(record: &BenchRecord, rows: &[&Row]) -> String {
    if rows.len() == record.rows.len() {
        return "All rows.".into();
    }
    let of_case = |case| {
        let all = record.rows.iter().filter(|row| row.case == case).count();
        let here: Vec<&str> = rows.iter().filter(|row| row.case == case).map(|row| row.contender.as_str()).collect();
        match here.len() {
            0 => None,
            count if count == all => Some(format!("{case}: all")),
            _ => Some(format!("{case}: {}", here.join(", "))),
        }
    };
    cases::distinct(record).into_iter().filter_map(of_case).collect::<Vec<_>>().join("; ")
}
