//! A bench record.

use super::{cases, environment, overview, pairs, roofline};
use crate::report::cases::distinct;
use crate::report::contenders::Contenders;
use crate::report::content::Section;
use crate::report::source::Named;
use cli::error::Result;
use cli::record::BenchRecord;

/// The section of record number `number`.
pub fn record(number: usize, record: &Named<BenchRecord>, contenders: &Contenders) -> Result<Section> {
    let Named { name, content } = record;
    let mut blocks = overview::blocks(content, contenders)?;
    blocks.extend(pairs::block(content));
    blocks.extend(roofline::block(content, contenders)?);
    for case in distinct(content) {
        blocks.push(cases::block(content, case, contenders)?);
    }
    blocks.extend(environment::blocks(content));
    Ok(Section { id: format!("record-{number}"), title: format!("Times: {name}"), blocks })
}
