//! Puts an entry, mutated or not, through everything that a kernel is checked with.

use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::{Context, Result, bail};
use fa512::check::{self, UnitScaleBounds};
use fa512::error::Error;
use fa512::executor::PtxModule;
use fa512::executor::sim::{DEFAULT_ARCHITECTURE, SimExecutor};
use fa512::forward::{Forward, Outcome};
use fa512::inputs::{Distribution, Inputs};
use fa512::problem::{Layout, Problem, Shape, TensorStrides};
use fa512::reference::Reference;
use kernel_gpu::args::Strides;
use kernel_gpu::config::{Mask, Sequence};
use kernel_gpu::manifest::Entry;
use ptx_sim::{FindingClass, Options};
use serde::Serialize;

/// How much longer than the kernel itself a mutant may run before it is taken to be endless.
const PATIENCE: u64 = 4;
/// Seed of the inputs.
const INPUT_SEED: u64 = 512;

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The simulator found something wrong with the execution.
    Finding(FindingClass),
    /// O or LSE were not what they should be, or an input was changed.
    WrongResult,
    /// The simulator or the host refused it before it ran.
    Refused,
    /// Nothing noticed.
    Survived,
}

/// Inputs with the outputs they should give.
struct Case {
    inputs: Inputs,
    reference: Reference,
    bounds: Option<UnitScaleBounds>,
    lse: bool,
}

impl Case {
    fn new(problem: Problem, distribution: Distribution, lse: bool) -> Result<Self> {
        let inputs = Inputs::generate(problem, distribution, INPUT_SEED)?;
        let bounds = UnitScaleBounds::applicable(Some(distribution), inputs.problem());
        let reference = Reference::compute(&inputs, |_| ());
        Ok(Self { inputs, reference, bounds, lse })
    }
}

/// The checks of one entry.
pub struct Trial {
    entry: Entry,
    file: String,
    cases: Vec<Case>,
    instructions_per_warp: u64,
}

impl Trial {
    /// The checks of `entry`, which must pass all of them itself, with `ptx` as its text.
    ///
    /// # Errors
    /// When the entry cannot be run, or something is wrong with it.
    pub fn new(entry: &Entry, file: &str, ptx: &str) -> Result<Self> {
        let cases = cases(entry)?;
        let (entry, file) = (entry.clone(), file.to_owned());
        let mut trial = Self { entry, file, cases, instructions_per_warp: Options::default().instructions_per_warp };
        let mut most = 0;
        for case in &trial.cases {
            let outcome = trial.execute(ptx, case)?;
            let verdict = judge(case, &outcome);
            if verdict != Verdict::Survived {
                bail!(
                    "{} does not pass the checks itself: {verdict:?} on {:?}",
                    trial.entry.name,
                    case.inputs.problem()
                );
            }
            let counters = outcome.execution.counters.context("the simulator counts")?;
            most = most.max(counters.instructions / counters.blocks.max(1));
        }
        // A warp executes at most about half of what the warps of an average block execute together.
        trial.instructions_per_warp = most.saturating_mul(PATIENCE);
        Ok(trial)
    }

    /// What becomes of `ptx`, a mutant of the entry's text.
    ///
    /// # Errors
    /// When the simulator panics, which it never should.
    pub fn run(&self, ptx: &str) -> Result<Verdict> {
        for case in &self.cases {
            let outcome = catch_unwind(AssertUnwindSafe(|| self.execute(ptx, case)));
            let verdict = match outcome {
                Ok(Ok(outcome)) => judge(case, &outcome),
                Ok(Err(_)) => Verdict::Refused,
                Err(_) => bail!("the simulator panicked"),
            };
            if verdict != Verdict::Survived {
                return Ok(verdict);
            }
        }
        Ok(Verdict::Survived)
    }

    fn execute(&self, ptx: &str, case: &Case) -> Result<Outcome, Error> {
        let options = Options { threads: 1, instructions_per_warp: self.instructions_per_warp, ..Options::default() };
        let mut simulator = SimExecutor::with_options(DEFAULT_ARCHITECTURE, options)?;
        let module = PtxModule { file: self.file.clone(), text: ptx.to_owned() };
        Forward::prepare(&mut simulator, &module, &self.entry, &case.inputs, case.lse)?.execute()
    }
}

fn judge(case: &Case, outcome: &Outcome) -> Verdict {
    if let Some(finding) = outcome.execution.findings.first() {
        return Verdict::Finding(finding.class);
    }
    let report = check::check(&case.inputs, &case.reference, &outcome.outputs, case.bounds);
    let right = report.passed() && outcome.changed_inputs.is_empty() && outcome.damaged_guards.is_empty();
    if right { Verdict::Survived } else { Verdict::WrongResult }
}

/// What an entry is tried on, the quickest first: most mutants get no further.
fn cases(entry: &Entry) -> Result<Vec<Case>> {
    let shapes: Vec<Shape> = match entry.sequence {
        Sequence::Exact(sequence) => vec![shape(1, 1, sequence), shape(2, 2, sequence)],
        Sequence::Any => vec![shape(1, 1, 65), shape(2, 2, 130), shape(1, 1, 1), shape(1, 2, 257)],
    };
    let [first, second] = [shapes[0], shapes[1]];
    let mut cases = vec![Case::new(contiguous(first, entry.mask)?, Distribution::Normal, true)?];
    cases.push(Case::new(apart(second, entry.mask)?, Distribution::Normal, true)?);
    for shape in &shapes[2..] {
        cases.push(Case::new(contiguous(*shape, entry.mask)?, Distribution::Uniform, true)?);
    }
    // Running maxima that grow, one score far above the others, ties.
    let adversarial = Shape { batch: 1, heads: 3, ..first };
    cases.push(Case::new(contiguous(adversarial, entry.mask)?, Distribution::Adversarial, true)?);
    cases.push(Case::new(contiguous(first, entry.mask)?, Distribution::LargeLogits, true)?);
    let non_finite = Shape { batch: 1, heads: 4, ..first };
    cases.push(Case::new(contiguous(non_finite, entry.mask)?, Distribution::NonFinite, true)?);
    cases.push(Case::new(contiguous(first, entry.mask)?, Distribution::Normal, false)?);
    Ok(cases)
}

fn shape(batch: u32, heads: u32, sequence: u32) -> Shape {
    Shape { batch, heads, sequence }
}

fn contiguous(shape: Shape, mask: Mask) -> Result<Problem> {
    Ok(Problem::new(shape, mask, Layout::Bhsd)?)
}

/// A problem in which no two strides are the same, nor any two elements next to each other that need not be.
fn apart(shape: Shape, mask: Mask) -> Result<Problem> {
    let strides = |row: u64| {
        let head = row * u64::from(shape.sequence) + 8 * row;
        Strides { batch: head * u64::from(shape.heads) + 24 * row, head, row }
    };
    let strides = TensorStrides { q: strides(72), k: strides(80), v: strides(88), o: strides(96) };
    Ok(contiguous(shape, mask)?.with_strides(strides)?)
}
