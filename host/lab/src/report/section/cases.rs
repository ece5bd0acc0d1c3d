//! One case: its contenders side by side.

use crate::report::cases;
use crate::report::contenders::Contenders;
use crate::report::content::{Block, Cell, Table};
use crate::report::number::{microseconds, percent, range, ratio};
use crate::report::plot::{Bar, Distribution, Label, Plot, bars, histograms};
use cli::error::Result;
use cli::record::{BenchRecord, Case, Measurement, Outcome, Row};

const HEADER: [&str; 12] = [
    "contender",
    "median µs",
    "95 % interval",
    "of the fastest",
    "min µs",
    "p95 µs",
    "p99 µs",
    "CV",
    "TFLOP/s",
    "of tensor peak",
    "of copy rate",
    "largest |ΔO|",
];

/// Plots and a table of the contenders of `case`.
pub fn block(record: &BenchRecord, case: Case, contenders: &Contenders) -> Result<Block> {
    let rows: Vec<&Row> = record.rows.iter().filter(|row| row.case == case).collect();
    let measured: Vec<(&Row, &Measurement)> = rows.iter().filter_map(|row| Some((*row, row.measurement()?))).collect();
    let fastest = cases::fastest(record, case);
    Ok(Block {
        title: Some(format!("Case {case}")),
        plots: if measured.is_empty() { Vec::new() } else { plots(&measured, case, contenders)? },
        tables: vec![Table {
            caption: format!("{case}: contenders"),
            header: HEADER.map(str::to_owned).into(),
            rows: rows.iter().map(|row| cells(row, fastest)).collect(),
        }],
        ..Block::default()
    })
}

fn plots(measured: &[(&Row, &Measurement)], case: Case, contenders: &Contenders) -> Result<Vec<Plot>> {
    let bar = |(row, measurement): &(&Row, &Measurement)| {
        let summary = measurement.summary_us;
        Bar {
            label: Label { name: row.contender.clone(), value: format!("{} µs", microseconds(summary.median)) },
            value: summary.median.max(0.0),
            interval: Some(summary.median_interval),
            style: contenders.style(&row.contender),
            marked: true,
        }
    };
    let distribution = |(row, measurement): &(&'_ Row, &'_ Measurement)| Label {
        name: row.contender.clone(),
        value: format!("CV {}", percent(measurement.summary_us.coefficient_of_variation)),
    };
    let distributions = measured.iter().map(|pair| Distribution {
        label: distribution(pair),
        samples: &pair.1.samples_us,
        style: contenders.style(&pair.0.contender),
    });
    let of_what = format!("of {} contenders in case {case}, as in the table below", measured.len());
    Ok(vec![
        Plot {
            caption: "Median time".into(),
            description: format!("Bars: median times {of_what}"),
            svg: bars(measured.iter().map(bar).collect(), "µs")?,
        },
        Plot {
            caption: "Distribution of the samples".into(),
            description: format!("Histograms: samples {of_what}, as differences from their own medians"),
            svg: histograms(distributions.collect())?,
        },
    ])
}

fn cells(row: &Row, fastest: Option<f64>) -> Vec<Cell> {
    let name = Cell::from(row.contender.clone());
    let measurement = match &row.outcome {
        Outcome::Measured(measurement) => measurement,
        Outcome::Wrong { correctness } => return vec![name, format!("wrong: {correctness}").into()],
        Outcome::NotRun { reason } => return vec![name, format!("not run: {reason}").into()],
    };
    let summary = measurement.summary_us;
    let whole = |value: f64| format!("{value:.0}");
    let part = |value: f64| format!("{:.0} %", value * 100.0);
    vec![
        name,
        Cell { best: fastest == Some(summary.median), ..Cell::number(summary.median, microseconds) },
        Cell::from(range(summary.median_interval.low, summary.median_interval.high, microseconds)),
        Cell::optional(fastest.map(|fastest| summary.median / fastest), |value| format!("× {}", ratio(value))),
        Cell::number(summary.minimum, microseconds),
        Cell::number(summary.p95, microseconds),
        Cell::number(summary.p99, microseconds),
        Cell::number(summary.coefficient_of_variation, percent),
        Cell::number(measurement.teraflops, whole),
        Cell::optional(measurement.tensor_utilisation, part),
        Cell::optional(measurement.bandwidth_utilisation, part),
        Cell::optional(measurement.correctness.largest_output_error, |error| format!("{error:.1e}")),
    ]
}
