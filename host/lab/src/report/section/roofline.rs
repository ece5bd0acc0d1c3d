//! How close contenders come to this GPU's limits.

use crate::report::cases;
use crate::report::contenders::Contenders;
use crate::report::content::{Block, Cell, Table};
use crate::report::plot::{Plot, Point, Roofline, roofline};
use cli::error::Result;
use cli::record::{BenchRecord, Row};

/// The roofline, if a ceiling was measured.
pub fn block(record: &BenchRecord, contenders: &Contenders) -> Result<Option<Block>> {
    let ceilings = &record.ceilings;
    let positive = |rate: &f64| *rate > 0.0;
    let limits = Roofline {
        terabytes_per_second: ceilings.copy_terabytes_per_second.filter(positive),
        teraflops: ceilings.teraflops().filter(positive),
    };
    let points: Vec<Point> = record.rows.iter().filter_map(|row| point(row, contenders)).collect();
    let missing = match (limits.terabytes_per_second, limits.teraflops) {
        (None, None) => return Ok(None),
        (Some(_), None) => "The record has no measured rate of matrix products: only the memory’s limit is drawn.",
        (None, Some(_)) => "The record has no measured copy bandwidth: only the tensor cores’ limit is drawn.",
        (Some(_), Some(_)) => "",
    };
    if points.is_empty() {
        return Ok(None);
    }
    let text = [
        "Reached TFLOP/s against operations per byte of Q, K, V, O and LSE, each moved once. The line is what this GPU \
         reached in the same run: a copy (rising part) and matrix products from registers (level part).",
        missing,
    ];
    let plot = Plot {
        caption: "Roofline: TFLOP/s against operations per byte".into(),
        description: "Roofline plot: the measured limits as a line, a marker for each contender and case below it"
            .into(),
        svg: roofline(&points, limits)?,
    };
    Ok(Some(Block {
        title: Some("Roofline".into()),
        text: text.into_iter().filter(|paragraph| !paragraph.is_empty()).map(str::to_owned).collect(),
        legend: contenders.legend(record)?,
        plots: vec![plot],
        tables: vec![ceiling_table(record), case_table(record, limits)],
        ..Block::default()
    }))
}

fn intensity(row: &Row) -> f64 {
    row.case.shape.operations(row.case.mask) / row.case.shape.bytes()
}

fn point(row: &Row, contenders: &Contenders) -> Option<Point> {
    let (intensity, teraflops) = (intensity(row), row.measurement()?.teraflops);
    let style = contenders.style(&row.contender);
    (intensity > 0.0 && intensity.is_finite() && teraflops > 0.0).then_some(Point { intensity, teraflops, style })
}

fn ceiling_table(record: &BenchRecord) -> Table {
    let copy = record.ceilings.copy_terabytes_per_second;
    let copy = copy.map(|rate| {
        vec!["device-to-device copy".into(), Cell::number(rate, |rate| format!("{rate:.2}")), "TB/s".into()]
    });
    let tensor = record.ceilings.tensor.iter().map(|ceiling| {
        vec![
            Cell::from(ceiling.instruction.clone()),
            Cell::number(ceiling.teraflops, |rate| format!("{rate:.0}")),
            "TFLOP/s".into(),
        ]
    });
    Table {
        caption: "Measured ceilings".into(),
        header: ["what", "rate", "unit"].map(str::to_owned).into(),
        rows: copy.into_iter().chain(tensor).collect(),
    }
}

/// The limit of each case, and the contender nearest to it.
fn case_table(record: &BenchRecord, limits: Roofline) -> Table {
    let rows = cases::distinct(record).into_iter().filter_map(|case| {
        let measured = record.rows.iter().filter(|row| row.case == case);
        let measured = measured.filter_map(|row| Some((row, row.measurement()?.teraflops)));
        let (row, teraflops) = measured.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let limit = limits.limit(intensity(row));
        Some(vec![
            Cell::from(case.to_string()),
            Cell::number(intensity(row), |value| format!("{value:.0}")),
            Cell::number(limit, |rate| format!("{rate:.0}")),
            row.contender.clone().into(),
            Cell::number(teraflops, |rate| format!("{rate:.0}")),
            Cell::number(teraflops / limit, |part| format!("{:.0} %", part * 100.0)),
        ])
    });
    Table {
        caption: "The fastest contender of each case against its limit".into(),
        header: ["case", "operations per byte", "limit, TFLOP/s", "fastest", "TFLOP/s", "of the limit"]
            .map(str::to_owned)
            .into(),
        rows: rows.collect(),
    }
}
