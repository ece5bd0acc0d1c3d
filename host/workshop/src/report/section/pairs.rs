//! Contenders that were compared sample by sample within a record.

use crate::error::Result;
use crate::record::{BenchRecord, Pair};
use crate::report::content::{Block, Cell, Table};
use crate::report::number::{range, ratio};
use crate::report::plot::{Label, Plot, Ratio, Style, ratios};

/// The ratios of all pairs, where there are any.
pub fn block(record: &BenchRecord) -> Result<Option<Block>> {
    if record.pairs.is_empty() {
        return Ok(None);
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
    let drawn = record.pairs.iter().map(|pair| Ratio {
        label: Label { name: format!("{}: {} / {}", pair.case, pair.first, pair.second), value: ratio(pair.ratio) },
        ratio: pair.ratio,
        interval: pair.ratio_interval,
        style: Style::nth(0),
    });
    let plot = Plot {
        caption: "Ratio of medians with its interval; left of 1 the first is faster".into(),
        description: format!("{} ratios of medians with their intervals, as in the table below", record.pairs.len()),
        svg: ratios(drawn.collect())?,
    };
    Ok(Some(Block {
        title: Some("Side by side".into()),
        text: vec!["Two contenders whose samples were taken in the same turns.".into()],
        plots: vec![plot],
        tables: vec![table],
        ..Block::default()
    }))
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
