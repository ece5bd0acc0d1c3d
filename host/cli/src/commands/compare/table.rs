//! A comparison as a table, for a terminal or a pull request.

use std::fmt::Write;

use crate::compare::{Change, ComparedRow, Comparison, Ground};
use crate::record::BenchRecord;
use comfy_table::{Cell, CellAlignment};

use crate::commands::output;

const HEADER: [&str; 9] =
    ["case", "contender", "new µs", "old µs", "new / old", "95 % interval", "Cliff's δ", "p", "verdict"];
/// Number of columns before the numbers.
const NAMES: usize = 2;

/// The comparison as a table, with the overall verdict.
pub fn text(comparison: &Comparison) -> String {
    let mut table = output::table();
    table.set_header(HEADER);
    table.column_iter_mut().skip(NAMES).take(6).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    for row in &comparison.rows {
        let mut cells: Vec<_> = cells(row).map(Cell::new).into();
        let verdict = match row.change {
            Change::None => Cell::new("no difference"),
            change => output::verdict_cell(change.name(), change == Change::Improved),
        };
        *cells.last_mut().expect("a row has cells") = verdict;
        table.add_row(cells);
    }
    format!("{}\n\n{}{}\n", output::fitted(table), remarks(comparison, ""), whole(comparison))
}

/// The same as markdown, with the device of the new record.
pub fn markdown(comparison: &Comparison, new: &BenchRecord) -> String {
    let mut text = format!("**{}**\n\n", whole(comparison));
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    text += &line(&HEADER.map(str::to_owned));
    text += &line(&std::array::from_fn::<_, 9, _>(|column| {
        let number = (NAMES..HEADER.len() - 1).contains(&column);
        (if number { "---:" } else { "---" }).to_owned()
    }));
    for row in &comparison.rows {
        text += &line(&cells(row));
    }
    let device = &new.environment.device;
    let _ = writeln!(text, "\n{}, sm_{}, {} samples each.\n", device.name, device.architecture, new.protocol.samples);
    text += &remarks(comparison, "- ");
    text
}

fn cells(row: &ComparedRow) -> [String; 9] {
    let (case, contender, verdict) = (row.case.to_string(), row.contender.clone(), row.change.name().to_owned());
    match &row.ground {
        Ground::Times(evidence) => [
            case,
            contender,
            format!("{:.2}", evidence.new_median_us),
            format!("{:.2}", evidence.old_median_us),
            format!("{:.3}", evidence.ratio),
            format!("{:.3}–{:.3}", evidence.ratio_interval.low, evidence.ratio_interval.high),
            format!("{:+.2}", evidence.rank_test.cliffs_delta),
            format!("{:.1e}", evidence.rank_test.p_value),
            verdict,
        ],
        Ground::Wrong { .. } => {
            let none = || "-".to_owned();
            [case, contender, "WRONG".into(), none(), none(), none(), none(), none(), verdict]
        }
    }
}

fn remarks(comparison: &Comparison, bullet: &str) -> String {
    let wrong = comparison.rows.iter().filter_map(|row| match &row.ground {
        Ground::Wrong { reason } => Some(format!("{} {} is wrong now: {reason}", row.case, row.contender)),
        Ground::Times(_) => None,
    });
    let left_out = comparison.left_out.iter().map(|row| format!("not compared: {row}"));
    let differences = comparison.differences.iter().map(|difference| format!("differs: {difference}"));
    wrong.chain(left_out).chain(differences).map(|remark| format!("{bullet}{remark}\n")).collect()
}

fn whole(comparison: &Comparison) -> String {
    let count = |change| comparison.rows.iter().filter(|row| row.change == change).count();
    let counted = [Change::Improved, Change::Regressed].map(|change| format!("{} {}", count(change), change.name()));
    format!(
        "{}: of {} rows {} (improved: at least {:.0} % faster, regressed: at least {:.0} % slower)",
        comparison.overall.name(),
        comparison.rows.len(),
        counted.join(", "),
        comparison.thresholds.improvement * 100.0,
        comparison.thresholds.regression * 100.0
    )
}
