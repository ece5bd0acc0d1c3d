//! Plans and results as text.

use std::fmt::Write;
use std::path::Path;

use crate::tune::plan::{Plan, SiftedSpace};
use crate::tune::record::{Decision, Outcome, Record, Trial};
use cli::record::Case;
use cli::statistics::Interval;
use comfy_table::CellAlignment;
use contract::config::Sequence;

use cli::commands::output;

/// Default number of candidates shown per case.
pub const SHOWN: usize = 5;

/// What became of the points of each space, and what to do next.
pub fn plan(plan: &Plan, path: Option<&Path>) -> String {
    let mut text = String::new();
    for spaces in plan.spaces.chunk_by(|a, b| (a.kind, a.sequence) == (b.kind, b.sequence)) {
        text += &sifted(&spaces[0], plan.pool.architecture);
    }
    let entries = plan.pool.candidates.len();
    text += &output::wrapped(&format!(
        "{entries} entries for {} cases, {} of them shipped, searched by {}\n",
        plan.cases.len(),
        plan.incumbents.len(),
        plan.strategy.name()
    ));
    if let Some(path) = path {
        let _ = writeln!(text, "next: cargo xtask ptx --variants {} --out FOLDER", path.display());
    }
    text
}

fn sifted(space: &SiftedSpace, architecture: u32) -> String {
    let sequence = match space.sequence {
        Sequence::Exact(length) => format!("S = {length}"),
        Sequence::Any => "any S".into(),
        Sequence::Packed => "packed sequences".into(),
    };
    let mut table = output::table();
    table.set_header(["points", &format!("{}, {sequence}, on sm_{architecture}", space.kind.name())]);
    table.add_row([space.points.to_string(), "in the search space".into()]);
    for rejected in &space.rejected {
        table.add_row([format!("- {}", rejected.points), format!("rejected: {}", rejected.reason)]);
    }
    table.add_row([format!("= {}", space.survivors), "pass every gate".into()]);
    if space.chosen < space.survivors {
        table.add_row([space.chosen.to_string(), "are compiled, a Latin hypercube sample".into()]);
    }
    table.column_mut(0).into_iter().for_each(|column| {
        column.set_cell_alignment(CellAlignment::Right);
    });
    format!("{}\n\n", output::fitted(table))
}

/// The fastest candidates and the decision for each case, then the failures.
pub fn results(record: &Record, top: usize) -> String {
    let header = &record.header;
    let mut text = format!(
        "{}, {} trials, searched by {}\n",
        header.environment.device.name,
        record.trials.len(),
        header.strategy.name()
    );
    for case in cases(record) {
        text += &case_table(record, &case, top);
    }
    text += &failures(record);
    text
}

/// The cases in order of their first trial.
fn cases(record: &Record) -> Vec<Case> {
    let mut cases = Vec::new();
    let tried = record.trials.iter().map(|trial| trial.case);
    for case in tried.chain(record.decisions.iter().map(|decision| decision.case)) {
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    cases
}

fn case_table(record: &Record, case: &Case, top: usize) -> String {
    let mut table = output::table();
    table.set_header(["/ incumbent", "µs", "samples", &case.to_string()]);
    for trial in fastest(record, case).into_iter().take(top) {
        if let (Outcome::Measured { median_us, .. }, Some(ratio)) = (&trial.outcome, trial.outcome.ratio()) {
            let numbers = [format!("{ratio:.3}"), format!("{median_us:.2}"), trial.samples.to_string()];
            table.add_row(numbers.into_iter().chain([trial.candidate.clone()]));
        }
    }
    table.column_iter_mut().take(3).for_each(|column| {
        column.set_cell_alignment(CellAlignment::Right);
    });
    let mut text = format!("\n{}\n", output::fitted(table));
    let decision = record.last_decisions().into_iter().find(|decision| decision.case == *case);
    text += &decision.map_or(" not decided yet\n".to_owned(), decided);
    text
}

/// The trial of each candidate with the most samples; sorted by samples, then by time.
fn fastest<'a>(record: &'a Record, case: &Case) -> Vec<&'a Trial> {
    let of_case: Vec<&Trial> = record.trials.iter().filter(|trial| trial.case == *case).collect();
    let has_more =
        |trial: &Trial| of_case.iter().any(|other| other.candidate == trial.candidate && other.samples > trial.samples);
    let mut last: Vec<&Trial> =
        of_case.iter().copied().filter(|trial| trial.outcome.ratio().is_some() && !has_more(trial)).collect();
    last.sort_by(|a, b| {
        let ratio = |trial: &Trial| trial.outcome.ratio().unwrap_or(f64::INFINITY);
        b.samples.cmp(&a.samples).then(ratio(a).total_cmp(&ratio(b)))
    });
    last
}

fn decided(decision: &Decision) -> String {
    let Some(challenge) = &decision.challenge else {
        return format!(" stays: {} is the fastest\n", decision.incumbent);
    };
    let Interval { low, high } = challenge.pair.ratio_interval;
    let ratio = format!("{:.3} (95 %: {low:.3} to {high:.3})", challenge.pair.ratio);
    match challenge.improved {
        true => format!(" new: {} takes {ratio} of the time of {}\n", challenge.candidate, decision.incumbent),
        false => format!(
            " stays: {}; {} takes {ratio} of its time, which is not enough\n",
            decision.incumbent, challenge.candidate
        ),
    }
}

fn failures(record: &Record) -> String {
    let failed = record.trials.iter().filter_map(|trial| match &trial.outcome {
        Outcome::Measured { .. } => None,
        Outcome::Wrong { reason } => Some(format!(" WRONG: {} in {}: {reason}\n", trial.candidate, trial.case)),
        Outcome::NotRun { reason } => Some(format!(" not run: {} in {}: {reason}\n", trial.candidate, trial.case)),
    });
    let failed: String = failed.collect();
    if failed.is_empty() { failed } else { format!("\n{failed}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::plan::Request;
    use crate::tune::search::Strategy;
    use crate::tune::space::Space;
    use contract::config::{Element, Family, Mask};
    use contract::problem::Shape;
    use contract::view::Layout;

    #[test]
    fn a_plan_shows_how_many_points_each_gate_rejected() {
        let shape = Shape::new(4, 8, 512);
        let request = Request {
            spaces: Space::built_in(Family::Sm90a).unwrap(),
            architecture: 90,
            cases: vec![Case::plain(shape, Element::F16, Mask::Full, Layout::Bhsd)],
            strategy: Strategy::Tpe,
            candidates: Some(5),
            seed: 0,
        };
        let shown = plan(&Plan::new(&request).unwrap(), Some(Path::new("plan.json")));
        for expected in [
            "sm90_tma, S = 512, on sm_90",
            "in the search space",
            "rejected: bank conflicts: 8 rows of a tile take 8 wavefronts",
            "pass every gate",
            "5 are compiled, a Latin hypercube sample",
            "searched by tpe",
            "next: cargo xtask ptx --variants plan.json",
        ] {
            let squeezed = shown.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(squeezed.contains(expected), "{expected:?} is missing in:\n{shown}");
        }
    }
}
