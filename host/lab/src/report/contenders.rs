//! The contenders of a page; each has the same style in all plots.

use super::content::LegendEntry;
use super::plot::{self, Style};
use super::source::Named;
use cli::error::Result;
use cli::record::BenchRecord;

/// Contenders in the order of their first appearance.
pub struct Contenders {
    names: Vec<String>,
}

impl Contenders {
    /// All contenders of `records`.
    pub fn of(records: &[Named<BenchRecord>]) -> Self {
        let mut names: Vec<String> = Vec::new();
        for row in records.iter().flat_map(|record| &record.content.rows) {
            if !names.contains(&row.contender) {
                names.push(row.contender.clone());
            }
        }
        Self { names }
    }

    /// The style of `contender`.
    pub fn style(&self, contender: &str) -> Style {
        Style::nth(self.names.iter().position(|name| name == contender).unwrap_or(0))
    }

    /// Marker and name of every contender in `record`.
    pub fn legend(&self, record: &BenchRecord) -> Result<Vec<LegendEntry>> {
        let here = self.names.iter().filter(|&name| record.rows.iter().any(|row| row.contender == *name));
        here.map(|name| Ok(LegendEntry { marker: plot::marker(self.style(name))?, name: name.clone() })).collect()
    }
}
