//! A bench record.

use super::{cases, environment, overview, pairs, roofline};
use crate::error::Result;
use crate::record::{BenchRecord, Case};
use crate::report::contenders::Contenders;
use crate::report::page::Section;
use crate::report::source::Named;

/// The section of the record with this number on the page.
pub fn record(number: usize, record: &Named<BenchRecord>, contenders: &Contenders) -> Result<Section> {
    let Named { name, content } = record;
    let mut blocks = overview::blocks(content, contenders)?;
    blocks.extend(pairs::block(content)?);
    blocks.extend(roofline::block(content, contenders)?);
    for case in distinct_cases(content) {
        blocks.push(cases::block(content, case, contenders)?);
    }
    blocks.extend(environment::blocks(content));
    Ok(Section { id: format!("record-{number}"), title: format!("Times: {name}"), blocks })
}

/// The cases of `record` in the order of their first rows.
pub fn distinct_cases(record: &BenchRecord) -> Vec<Case> {
    let mut cases: Vec<Case> = Vec::new();
    for row in &record.rows {
        if !cases.contains(&row.case) {
            cases.push(row.case);
        }
    }
    cases
}
