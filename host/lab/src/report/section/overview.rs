//! Overview of a record: verdict, all times, warnings, medians, and times against sequence length.

use crate::report::cases;
use crate::report::contenders::Contenders;
use crate::report::content::{Block, Cell, Table, WidePlot};
use crate::report::number::{date, microseconds};
use crate::report::plot::{Line, Plot, lines};
use crate::report::speed::{self, Entry};
use crate::report::verdict::Verdict;
use cli::error::Result;
use cli::record::{BenchRecord, Case, Outcome, Row};
use contract::problem::{DEFAULT_HEAD_DIM, Shape};

/// Verdict, times, cases, warnings and medians; then plots against S, if there are several.
pub fn blocks(record: &BenchRecord, contenders: &Contenders) -> Result<Vec<Block>> {
    let legend = contenders.legend(record)?;
    let what = format!(
        "{} (sm_{}), {}; {} samples of each contender, in turns in random order.",
        record.environment.device.name,
        record.environment.device.architecture,
        date(record.started_at),
        record.protocol.samples
    );
    if record.rows.is_empty() {
        let text = vec![what, "The record has no rows.".into()];
        return Ok(vec![Block { text, ..Block::default() }]);
    }
    let plots = time_plots(record, contenders)?;
    let verdict = Verdict::new(record);
    let first = Block {
        verdict: Some(verdict.words()),
        text: vec![what],
        wide_plot: speed_plot(record, contenders, &verdict),
        ..Block::default()
    };
    let warnings = super::warnings::notices(record);
    let title = (!warnings.is_empty()).then(|| "Before believing the numbers".to_owned());
    let warnings = Block { title, warnings, ..Block::default() };
    let medians = Block { title: Some("Medians".into()), tables: vec![medians(record)], ..Block::default() };
    let times = (!plots.is_empty()).then(|| Block {
        title: Some("Time against sequence length".into()),
        text: vec!["Medians with their intervals; the numbers are in the table above.".into()],
        legend,
        plots,
        ..Block::default()
    });
    Ok([first, warnings, medians].into_iter().chain(times).collect())
}

/// The times of all cases, relative to the leader's.
fn speed_plot(record: &BenchRecord, contenders: &Contenders, verdict: &Verdict) -> Option<WidePlot> {
    let mut entries: Vec<Entry> = Vec::new();
    for row in record.rows.iter().filter(|row| row.measurement().is_some()) {
        if !entries.iter().any(|entry| entry.contender == row.contender) {
            let (contender, label) = (row.contender.clone(), row.contender.clone());
            entries.push(Entry { contender, label, tone: contenders.style(&row.contender).tone });
        }
    }
    let groups = speed::groups(record, &entries, verdict.leader());
    let measure = verdict.leader().map_or("the fastest’s".to_owned(), |leader| format!("that of {leader}"));
    (!groups.is_empty()).then(|| WidePlot {
        caption: format!("Median time by case (BxHxS and mask), as a multiple of {measure}"),
        description: format!(
            "Bars: median times of {} contenders in {} cases, as in the table of medians",
            entries.len(),
            groups.len()
        ),
        wide: speed::draw(&groups, &speed::WIDE).svg(""),
        narrow: speed::draw(&groups, &speed::NARROW).svg(""),
    })
}

/// A table with a row per case and a column per contender.
fn medians(record: &BenchRecord) -> Table {
    let mut names: Vec<&str> = Vec::new();
    for row in &record.rows {
        if !names.contains(&row.contender.as_str()) {
            names.push(&row.contender);
        }
    }
    let rows = cases::distinct(record).into_iter().map(|case| {
        let find = |name: &str| record.rows.iter().find(|row| row.case == case && row.contender == name);
        let fastest = cases::fastest(record, case);
        let cell = |name: &&str| median_cell(find(name), fastest);
        std::iter::once(Cell::from(case.to_string())).chain(names.iter().map(cell)).collect()
    });
    Table {
        caption: "Median time in µs, the fastest of each case in bold; a case is B×H×S and the mask".into(),
        rows: rows.collect(),
        header: std::iter::once("case").chain(names.iter().copied()).map(str::to_owned).collect(),
    }
}

fn median_cell(row: Option<&Row>, fastest: Option<f64>) -> Cell {
    match row.map(|row| &row.outcome) {
        Some(Outcome::Measured(measurement)) => {
            let median = measurement.summary_us.median;
            Cell { best: fastest == Some(median), ..Cell::number(median, microseconds) }
        }
        Some(Outcome::Wrong { .. }) => "wrong".into(),
        Some(Outcome::NotRun { .. }) => "not run".into(),
        None => "–".into(),
    }
}

/// A plot for each combination of other parameters that was measured with several S.
fn time_plots(record: &BenchRecord, contenders: &Contenders) -> Result<Vec<Plot>> {
    let mut groups: Vec<Case> = Vec::new();
    for case in cases::distinct(record) {
        if !groups.iter().any(|&group| same_but_for_sequence(group, case)) {
            groups.push(case);
        }
    }
    let plots = groups.into_iter().map(|group| time_plot(record, group, contenders));
    plots.filter_map(Result::transpose).collect()
}

fn same_but_for_sequence(a: Case, b: Case) -> bool {
    let at_one = |case: Case| Case { shape: Shape { sequence: 1, kv_sequence: 1, ..case.shape }, ..case };
    at_one(a) == at_one(b)
}

fn time_plot(record: &BenchRecord, group: Case, contenders: &Contenders) -> Result<Option<Plot>> {
    let mut names: Vec<&str> = Vec::new();
    let mut contender_lines: Vec<Line> = Vec::new();
    let mut sequences = std::collections::BTreeSet::new();
    for row in record.rows.iter().filter(|row| same_but_for_sequence(row.case, group)) {
        let Some(summary) = row.measurement().map(|measurement| measurement.summary_us) else { continue };
        let interval = summary.median_interval;
        if ![interval.low, summary.median, interval.high].iter().all(|&time| time > 0.0) {
            continue;
        }
        let line = names.iter().position(|&name| name == row.contender).unwrap_or_else(|| {
            names.push(&row.contender);
            contender_lines.push(Line { points: Vec::new(), style: contenders.style(&row.contender) });
            names.len() - 1
        });
        sequences.insert(row.case.shape.sequence);
        contender_lines[line].points.push((f64::from(row.case.shape.sequence), summary.median, interval));
    }
    if sequences.len() < 2 {
        return Ok(None);
    }
    contender_lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    let Shape { batch, heads, head_dim, .. } = group.shape;
    let columns = if head_dim == DEFAULT_HEAD_DIM { String::new() } else { format!(" D={head_dim}") };
    let what = format!("B={batch} H={heads}{columns}, {} mask, {}", group.mask.name(), group.layout.name());
    Ok(Some(Plot {
        description: format!("Median time against sequence length for {what}: a line for each of {}", names.join(", ")),
        caption: format!("{what}: median time in µs"),
        svg: lines(&contender_lines)?,
    }))
}
