//! The times of a record, by case.

use crate::report::cases;
use cli::record::{BenchRecord, Case};

/// A contender to be drawn.
pub struct Entry {
    /// Its name in the record.
    pub contender: String,
    /// Its name in the drawing.
    pub label: String,
    /// Name of its tone in the palette.
    pub tone: &'static str,
}

/// The times of one case.
pub struct Group<'a> {
    /// The case.
    pub case: Case,
    /// The reference's median, µs; absent if it was not measured.
    pub reference: Option<f64>,
    /// The measured contenders with their medians in µs.
    pub bars: Vec<(&'a Entry, f64)>,
}

impl Group<'_> {
    /// `median` relative to the reference's, or to the fastest if there is no reference.
    pub fn ratio(&self, median: f64) -> f64 {
        let fastest = || self.bars.iter().map(|bar| bar.1).fold(f64::INFINITY, f64::min);
        median / self.reference.unwrap_or_else(fastest)
    }
}

/// The cases of `record` in which one of `entries` was measured.
pub fn groups<'a>(record: &BenchRecord, entries: &'a [Entry], reference: Option<&str>) -> Vec<Group<'a>> {
    let group = |case: Case| {
        let measured = cases::by_speed(record, case);
        let median = |name: &str| measured.iter().find(|(row, _)| row.contender == name).map(|&(_, median)| median);
        let bars: Vec<_> = entries.iter().filter_map(|entry| Some((entry, median(&entry.contender)?))).collect();
        Group { case, reference: reference.and_then(median), bars }
    };
    cases::distinct(record).into_iter().map(group).filter(|group| !group.bars.is_empty()).collect()
}
