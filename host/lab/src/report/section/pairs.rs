//! Contenders compared turn by turn within a record.

use crate::report::content::{Block, Cell, Table};
use crate::report::number::{range, ratio};
use cli::record::{BenchRecord, Pair};

/// A table of the ratios of all pairs, if there are any.
pub fn block(record: &BenchRecord) -> Option<Block> {
    if record.pairs.is_empty() {
        return None;
    }
    let rows = record.pairs.iter().map(|pair| {
        vec![
            Cell::from(format!("{}: {}", pair.case, pair.first)),
            Cell::from(pair.second.clone()),
            Cell::number(pair.ratio, ratio),
            interval(pair).into(),
            verdict(pair).into(),
        ]
    });
    let table = Table {
        caption: "Ratio of medians, first over second".into(),
        header: ["case: first", "second", "ratio", "95 % interval", "verdict"].map(str::to_owned).into(),
        rows: rows.collect(),
    };
    Some(Block {
        title: Some("Side by side".into()),
        text: vec!["Two contenders whose samples were taken in the same turns.".into()],
        tables: vec![table],
        ..Block::default()
    })
}

fn interval(pair: &Pair) -> String {
    range(pair.ratio_interval.low, pair.ratio_interval.high, ratio)
}

fn verdict(pair: &Pair) -> &'static str {
    if pair.ratio_interval.contains(1.0) {
        "not told apart"
    } else if pair.ratio < 1.0 {
        "the first is faster"
    } else {
        "the second is faster"
    }
}
