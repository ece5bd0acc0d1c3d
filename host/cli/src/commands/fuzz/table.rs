//! The result of a campaign as a table.

use crate::check::Severities;
use crate::fuzz::fuzzer::FailedCase;
use crate::fuzz::trial::Failure;
use comfy_table::{Cell, CellAlignment};

use super::record::Record;
use crate::commands::{Verdict, output};

/// Failed cases shown in full.
const SHOWN: usize = 10;
/// Failures shown per case.
const FAILURES_SHOWN: usize = 3;

/// One row per distribution; below, every kind of failure with the command that reproduces it.
pub fn render(record: &Record) -> String {
    let mut text = output::wrapped(&heading(record));
    let mut table = output::table();
    table.set_header(["inputs", "cases", "passed", "median", "p95", "max", "elements"]);
    for row in &record.distributions {
        let quantile = |value: fn(&crate::fuzz::summary::Quantiles) -> f64| {
            let text = row.worst.as_ref().map_or("–".to_owned(), |worst| format!("{:.2}", value(worst)));
            Cell::new(text).set_alignment(CellAlignment::Right)
        };
        table.add_row([
            Cell::new(row.distribution.name()),
            Cell::new(row.cases).set_alignment(CellAlignment::Right),
            output::verdict_cell(row.passed, row.passed == row.cases).set_alignment(CellAlignment::Right),
            quantile(|worst| worst.median),
            quantile(|worst| worst.p95),
            quantile(|worst| worst.maximum),
            Cell::new(histogram(&row.elements)),
        ]);
    }
    text += &format!("{}\n", output::fitted(table));
    text += &output::wrapped(
        " median, p95, max: largest error of a case over what is tolerated\n elements: errors up to 1/64, 1/32, … 1, and beyond\n",
    );
    text += &failures(record);
    text + &ending(record)
}

fn heading(record: &Record) -> String {
    let device = &record.device;
    let commit = record.git_commit.as_ref().map_or(String::new(), |commit| format!(" ({commit})"));
    let limits = record.plan.limits;
    let mut text = format!(
        "{}, sm_{}: {}\n{}{commit}; seed {}, sequences up to {}, up to {} query-key pairs\n",
        device.name,
        device.architecture,
        record.device_reason,
        record.folder.display(),
        record.plan.seed,
        limits.sequence,
        limits.pairs
    );
    for reason in &record.unfit {
        text += &format!("left out: {reason}\n");
    }
    text
}

/// A histogram with a bar per count. Heights are logarithmic, so that one element in a million is still visible.
fn histogram(elements: &Severities) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let total: u64 = elements.counts().iter().sum();
    let bar = |&count: &u64| match count {
        0 => '·',
        _ => {
            let tens = (count as f64 / total as f64).log10();
            BARS[(tens + BARS.len() as f64 - 1.0).clamp(0.0, BARS.len() as f64 - 1.0).round() as usize]
        }
    };
    elements.counts().iter().map(bar).collect()
}

fn failures(record: &Record) -> String {
    let (first_of_kind, others): (Vec<_>, Vec<_>) = record.failed.iter().partition(|case| case.simplest.is_some());
    let mut text: String = first_of_kind.iter().take(SHOWN).map(|case| failed_case(case)).collect();
    let left_out = first_of_kind.len().saturating_sub(SHOWN);
    if left_out > 0 {
        text += &format!("\n{left_out} more kinds of failures (--json lists all)\n");
    }
    if !others.is_empty() {
        text += &format!("\n{} more cases fail like one of these (--json lists all)\n", others.len());
    }
    text
}

fn failed_case(failed: &FailedCase) -> String {
    let mut text = format!("\ncase {} fails: {}\n  {}\n", failed.index, list(&failed.failures), failed.command);
    if let Some(simplest) = &failed.simplest {
        let tried = simplest.tried;
        text += &format!(" simplest of {tried} tried: {}\n  {}\n", list(&simplest.failures), simplest.command);
    }
    text
}

fn list(failures: &[Failure]) -> String {
    let shown: Vec<_> = failures.iter().take(FAILURES_SHOWN).map(Failure::to_string).collect();
    let more = match failures.len().saturating_sub(FAILURES_SHOWN) {
        0 => String::new(),
        more => format!("\n   and {more} more"),
    };
    shown.join("\n   ") + &more
}

fn ending(record: &Record) -> String {
    let Record { cases, passed_cases, seconds, .. } = record;
    let rate = *cases as f64 / seconds.max(f64::MIN_POSITIVE);
    let percent = 100.0 * *passed_cases as f64 / (*cases).max(1) as f64;
    let verdict = match record.verdict() {
        Verdict::Pass => "PASS",
        Verdict::Fail => "FAIL",
        Verdict::CannotRun => "not finished",
    };
    let mut text = String::new();
    if let Some(reason) = &record.cannot_run {
        text += &format!("\nended early: {reason}\n");
    }
    if record.interrupted {
        text += "\ninterrupted: the cases that were not run are unknown\n";
    }
    text + &format!(
        "\n{verdict}: {passed_cases} of {cases} cases passed ({percent:.2} %) in {seconds:.1} s ({rate:.1}/s)\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_histogram_shows_rare_elements() {
        let mut severities = Severities::default();
        (0..100_000).for_each(|_| severities.add(0.0));
        severities.add(2.0);
        assert_eq!(histogram(&severities), "█······▃");
        assert_eq!(histogram(&Severities::default()), "········");
    }
}
