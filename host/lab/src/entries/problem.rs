//! The problem that an entry is timed on: one that fills a GPU, and that the CPU checks in a second.

use contract::config::{Mask, Scores, Sequence};
use contract::manifest::Entry;
use contract::problem::{Problem, Shape, Slopes};
use contract::tile::Grid;
use contract::view::Layout;

use cli::error::Result;
use cli::inputs::{Distribution, Inputs, Lengths};
use cli::score_mod::{BiasForm, ScoreModForm};

/// Seed of the inputs.
const SEED: u64 = 1;
/// Rows of a sequence, where the entry does not say.
const ROWS: u32 = 512;
/// Rows of the few heads whose keys are split among blocks.
const LONG_ROWS: u32 = 4096;

/// The problem for `entry`: 128 heads of 512 rows; four heads of 4,096 rows if it splits keys; 16 packed sequences of 60 to 960 rows,
/// eight heads each, if it takes packed ones. Entries that change scores get a bias, or slopes if their sequences are packed.
///
/// # Errors
/// When no entry accepts such a problem.
pub fn problem(entry: &Entry) -> Result<Problem> {
    let problem = batch(entry)?;
    match lengths(entry) {
        Some(lengths) => Ok(lengths.apply(problem)?.0),
        None => Ok(problem),
    }
}

/// The inputs of [`problem`].
///
/// # Errors
/// As for [`problem`].
pub fn inputs(entry: &Entry) -> Result<Inputs> {
    let inputs = Inputs::generate(batch(entry)?, Distribution::Normal, SEED)?;
    match lengths(entry) {
        Some(lengths) => Ok(inputs.with_lengths(&lengths)?),
        None => Ok(inputs),
    }
}

/// The problem before its rows are divided into sequences.
fn batch(entry: &Entry) -> Result<Problem> {
    let shape = match entry.sequence {
        Sequence::Packed => Shape::new(1, 8, packed().iter().sum()),
        Sequence::Exact(rows) => Shape::new(8, 16, rows),
        Sequence::Any if entry.config.grid() == Grid::SplitKeys => Shape::new(1, 4, LONG_ROWS),
        Sequence::Any => Shape::new(8, 16, ROWS),
    };
    let shape = shape.with_head_dim(entry.config.columns());
    let problem = Problem::new(shape, entry.mask, Layout::Bhsd)?.with_element(entry.element);
    Ok(problem.with_score_mod(score_mod(entry).of(shape))?)
}

fn lengths(entry: &Entry) -> Option<Lengths> {
    (entry.sequence == Sequence::Packed).then(|| Lengths::Shared(packed()))
}

/// Rows of the packed sequences.
fn packed() -> Vec<u32> {
    (1..=16).map(|index| 60 * index).collect()
}

fn score_mod(entry: &Entry) -> ScoreModForm {
    match (entry.scores, entry.sequence) {
        (Scores::Unmodified, _) => ScoreModForm::NONE,
        (Scores::Modified, Sequence::Packed) => ScoreModForm { alibi: Some(Slopes::PerHead), ..ScoreModForm::NONE },
        (Scores::Modified, _) => ScoreModForm { bias: Some(BiasForm::Hqk), padded_bias: true, ..ScoreModForm::NONE },
    }
}

/// How the inputs are called: `8x16x512x64`, or the rows and heads of packed sequences.
pub fn name(inputs: &Inputs) -> String {
    let Shape { batch, heads, sequence, head_dim, .. } = inputs.problem().shape();
    let window = if inputs.problem().mask() == Mask::Window { ", window" } else { "" };
    match inputs.lengths() {
        [] => format!("{batch}x{heads}x{sequence}x{head_dim}{window}"),
        _ => format!("{sequence} packed rows x{heads}x{head_dim}{window}"),
    }
}

#[cfg(test)]
mod tests {
    use contract::variants::VARIANTS;

    use super::*;
    use cli::device::Device;
    use cli::executor::Executor;
    use cli::executor::sim::SimExecutor;

    #[test]
    fn every_entry_computes_the_problem_that_it_is_timed_on() {
        let simulator = SimExecutor::new(90).expect("sm_90 is known");
        let device: &Device = simulator.device();
        for entry in VARIANTS.iter().map(Entry::from) {
            let problem = problem(&entry).expect("a problem");
            let plan = cli::launch::plan(&entry, &problem, device);
            assert!(plan.is_ok(), "{}: {}", entry.name, plan.err().map_or_else(String::new, |error| error.to_string()));
        }
    }
}
