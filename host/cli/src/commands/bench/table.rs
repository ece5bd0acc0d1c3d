//! The result of a bench as a table.

use std::fmt::Write;

use crate::record::{BenchRecord, Outcome, Pair, Row, Telemetry};
use crate::statistics::Summary;
use crate::timing::L2;
use comfy_table::{Cell, CellAlignment};

use crate::commands::output;

const HEADER: [&str; 11] = [
    "case",
    "contender",
    "median µs",
    "95 % interval",
    "p95",
    "p99",
    "CV %",
    "TFLOP/s",
    "% tensor",
    "% copy",
    "launch µs",
];

/// The measurements as text: setup first, then warnings, then the table.
pub fn render(record: &BenchRecord) -> String {
    let mut text = circumstances(record);
    text += &remarks(record);
    let mut table = output::table();
    table.set_header(HEADER);
    table.column_iter_mut().skip(2).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    for row in &record.rows {
        table.add_row(cells(row));
    }
    text += &format!("\n{}\n", output::fitted(table));
    for pair in &record.pairs {
        let Pair { case, first, second, ratio, ratio_interval } = pair;
        let (low, high) = (ratio_interval.low, ratio_interval.high);
        let _ = writeln!(text, "{case}: {first} / {second} = {ratio:.3} (95 %: {low:.3} to {high:.3})");
    }
    text
}

fn cells(row: &Row) -> Vec<Cell> {
    let mut cells = vec![Cell::new(row.case), Cell::new(&row.contender)];
    match &row.outcome {
        Outcome::Measured(measurement) => {
            let Summary { median, median_interval, p95, p99, coefficient_of_variation, .. } = measurement.summary_us;
            let percent = |part: Option<f64>| part.map_or("-".to_owned(), |part| format!("{:.0}", part * 100.0));
            let numbers = [
                format!("{median:.2}"),
                format!("{:.2}–{:.2}", median_interval.low, median_interval.high),
                format!("{p95:.2}"),
                format!("{p99:.2}"),
                format!("{:.1}", coefficient_of_variation * 100.0),
                format!("{:.0}", measurement.teraflops),
                percent(measurement.tensor_utilisation),
                percent(measurement.bandwidth_utilisation),
                measurement.batch.host_launch_us.map_or("-".to_owned(), |launch| format!("{launch:.1}")),
            ];
            cells.extend(numbers.map(Cell::new));
        }
        Outcome::Wrong { .. } => cells.push(output::verdict_cell("WRONG", false)),
        Outcome::NotRun { .. } => cells.push(Cell::new("not run")),
    }
    cells
}

fn circumstances(record: &BenchRecord) -> String {
    let environment = &record.environment;
    let protocol = &record.protocol;
    let driver = match &environment.telemetry {
        Telemetry::Nvml { driver_version, .. } => format!("driver {driver_version}"),
        Telemetry::Absent { reason } => format!("no clocks, power or temperature recorded ({reason})"),
    };
    let l2 = match protocol.timing.l2 {
        L2::Warm => "L2 warm: every call on the same inputs".to_owned(),
        L2::Cold { bytes } => format!("L2 cold: calls rotate over inputs larger than twice its {} MiB", bytes >> 20),
    };
    let mut ceilings: Vec<_> = record
        .ceilings
        .tensor
        .iter()
        .map(|ceiling| format!("{} {:.0} TFLOP/s", ceiling.instruction, ceiling.teraflops))
        .collect();
    ceilings.extend(record.ceilings.copy_terabytes_per_second.map(|rate| format!("copy {rate:.2} TB/s")));
    format!(
        "{}, sm_{}, {driver}\n{} samples each, taken in turns in random order; a sample is a CUDA graph of about {:.0} ms; \
         {l2}\nmeasured ceilings: {}\n",
        environment.device.name,
        environment.device.architecture,
        protocol.samples,
        protocol.timing.sample_us / 1e3,
        ceilings.join(", ")
    )
}

/// Notes below the table: how much was checked, why a contender is missing, warnings.
fn remarks(record: &BenchRecord) -> String {
    let mut text = checked(record);
    for (what, rows) in record.remarks() {
        let _ = writeln!(text, "{what}\n    {}", rows.join("; "));
    }
    text
}

fn checked(record: &BenchRecord) -> String {
    let checked = record.rows.iter().filter_map(Row::measurement).map(|measurement| &measurement.correctness);
    let fewest =
        checked.map(|correctness| (correctness.heads_checked, correctness.heads)).min_by_key(|(checked, heads)| {
            // Compares checked/heads without a division.
            checked * u64::from(u16::MAX) / heads
        });
    match fewest {
        Some((checked, heads)) if checked == heads => "checked before timing: every head against f64\n".into(),
        Some((checked, heads)) => format!(
            "checked before timing: at least {checked} heads of each case against f64 (of up to {heads}), and that all others \
             were written\n"
        ),
        None => String::new(),
    }
}
