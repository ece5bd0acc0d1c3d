//! Comparisons of two records.

use crate::report::content::{Block, Cell, Notice, Section, Table};
use crate::report::number::{microseconds, percent, range, ratio};
use crate::report::plot::{Label, Plot, Ratio, Style, ratios};
use crate::report::source::Named;
use cli::compare::{Change, ComparedRow, Comparison, Evidence, Ground};
use cli::error::Result;

const HEADER: [&str; 8] =
    ["case and contender", "verdict", "new µs", "old µs", "new / old", "95 % interval", "Cliff’s δ", "p"];

/// The section of all comparisons, if there are any.
pub fn comparisons(comparisons: &[Named<Comparison>]) -> Result<Option<Section>> {
    if comparisons.is_empty() {
        return Ok(None);
    }
    let blocks = comparisons.iter().map(|Named { name, content }| block(name, content)).collect::<Result<_>>()?;
    Ok(Some(Section { id: "comparisons".into(), title: "Verdicts: new against old".into(), blocks }))
}

fn block(name: &str, comparison: &Comparison) -> Result<Block> {
    let count = |change| comparison.rows.iter().filter(|row| row.change == change).count();
    let thresholds = &comparison.thresholds;
    let text = vec![
        format!(
            "{}: of {} rows, {} improved and {} regressed.",
            capitalised(comparison.overall.name()),
            comparison.rows.len(),
            count(Change::Improved),
            count(Change::Regressed)
        ),
        format!(
            "A change needs intervals that are apart, |δ| of at least {}, p below {}, and a ratio that reaches {} less or {} \
             more within its interval.",
            thresholds.effect,
            thresholds.significance,
            percent(thresholds.improvement),
            percent(thresholds.regression)
        ),
    ];
    let left_out = comparison.left_out.iter().map(|reason| {
        Notice::new(format!("Not compared: {reason}"), "measure the same cases and contenders in both records.")
    });
    let differences = comparison.differences.iter().map(|difference| {
        let advice = "measure both sides anew under the same circumstances where the verdict matters.";
        Notice::new(format!("Differs: {difference}"), advice)
    });
    Ok(Block {
        title: Some(name.to_owned()),
        text,
        warnings: left_out.chain(differences).collect(),
        plots: plot(comparison)?.into_iter().collect(),
        tables: vec![Table {
            caption: format!("{name}: evidence"),
            header: HEADER.map(str::to_owned).into(),
            rows: comparison.rows.iter().map(cells).collect(),
        }],
        ..Block::default()
    })
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

fn times(row: &ComparedRow) -> Option<&Evidence> {
    match &row.ground {
        Ground::Times(evidence) => Some(evidence),
        Ground::Wrong { .. } => None,
    }
}

fn plot(comparison: &Comparison) -> Result<Option<Plot>> {
    let drawn: Vec<Ratio> = comparison
        .rows
        .iter()
        .filter_map(|row| {
            let evidence = times(row)?;
            Some(Ratio {
                label: Label { name: format!("{} {}", row.case, row.contender), value: ratio(evidence.ratio) },
                ratio: evidence.ratio,
                interval: evidence.ratio_interval,
                style: Style::nth(match row.change {
                    Change::None => 0,
                    Change::Regressed => 1,
                    Change::Improved => 2,
                }),
            })
        })
        .collect();
    if drawn.is_empty() {
        return Ok(None);
    }
    Ok(Some(Plot {
        caption:
            "New over old, with intervals; circles: no significant difference, squares: regressed, triangles: improved"
                .into(),
        description: format!(
            "{} ratios of new to old medians with their intervals, as in the table below",
            drawn.len()
        ),
        svg: ratios(drawn)?,
    }))
}

fn cells(row: &ComparedRow) -> Vec<Cell> {
    let name = Cell::from(format!("{} {}", row.case, row.contender));
    match &row.ground {
        Ground::Wrong { reason } => vec![name, format!("{}: {reason}", row.change.name()).into()],
        Ground::Times(evidence) => vec![
            name,
            row.change.name().into(),
            Cell::number(evidence.new_median_us, microseconds),
            Cell::number(evidence.old_median_us, microseconds),
            Cell::number(evidence.ratio, ratio),
            range(evidence.ratio_interval.low, evidence.ratio_interval.high, ratio).into(),
            Cell::number(evidence.rank_test.cliffs_delta, |delta| format!("{delta:+.2}")),
            Cell::number(evidence.rank_test.p_value, |p| format!("{p:.1e}")),
        ],
    }
}
