//! Puts an entry, mutated or not, through everything that a kernel is checked with.

mod cases;
mod values;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};
use cli::check::{self, Outputs, UnitScaleBounds};
use cli::error::Error;
use cli::executor::Outcome;
use cli::executor::sim::{DEFAULT_ARCHITECTURE, SimExecutor};
use cli::forward::Forward;
use cli::inputs::Inputs;
use cli::ptx_module::PtxModule;
use cli::reference::Reference;
use contract::manifest::Entry;
use ptx_sim::{BoxLoad, FindingClass, Options};
use serde::Serialize;

use cases::Case;

/// How much longer than all warps of the kernel itself together a warp of a mutant may run before it is taken to be endless.
const PATIENCE: u64 = 2;
/// A directive that every module has.
const ADDRESS_SIZE: &str = ".address_size 64";
/// Added to the module, so that dynamic shared memory does not begin at address 0, where a base that is not added to an
/// offset would not be missed.
const STATIC_SHARED: &str = ".shared .align 1024 .b8 before_the_dynamic_part[1024];";

/// What became of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The simulator found something wrong with the execution.
    Finding(FindingClass),
    /// O or LSE were not what they should be, or an input was changed.
    WrongResult,
    /// All results are right, but some warp loads other tiles than that of the kernel, or loads them in another order.
    OtherLoads,
    /// The simulator or the host refused it before it ran.
    Refused,
    /// Nothing noticed, as nothing comes to the instruction.
    NotExecuted,
    /// Nothing noticed.
    Survived,
}

/// A case with its inputs, the outputs they should give, and what the kernel itself takes for it.
struct Prepared {
    inputs: Inputs,
    reference: Reference,
    bounds: Option<UnitScaleBounds>,
    loads: Vec<BoxLoad>,
    instructions_per_warp: u64,
}

/// The checks of one entry.
pub struct Trial {
    entry: Entry,
    original: PtxModule,
    /// Prepared when a mutant comes to them: most get no further than the first.
    cases: Vec<(Case, OnceLock<Result<Prepared>>)>,
}

impl Trial {
    /// The checks of `entry`, with `ptx` as its text.
    ///
    /// # Errors
    /// When the entry cannot have the problems it is tried on.
    pub fn new(entry: &Entry, file: &str, ptx: &str) -> Result<Self> {
        let cases = cases::of(entry)?.into_iter().map(|case| (case, OnceLock::new())).collect();
        Ok(Self { entry: entry.clone(), original: runnable(file, ptx), cases })
    }

    /// Number of its cases.
    pub fn cases(&self) -> usize {
        self.cases.len()
    }

    /// What is run of `ptx`, the text of a mutant.
    pub fn module(&self, ptx: &str) -> PtxModule {
        runnable(&self.original.file, ptx)
    }

    /// What becomes of `ptx`, which is the [module](Self::module) of a mutant, in the case of an index.
    ///
    /// # Errors
    /// When the entry cannot be run, or does not pass the check itself; when the simulator panics, which it never should.
    pub fn run(&self, ptx: &PtxModule, case: usize) -> Result<Verdict> {
        let (case, prepared) = &self.cases[case];
        let prepared = prepared.get_or_init(|| self.prepare(case)).as_ref();
        let prepared = prepared.map_err(|error| anyhow!("{error:#}"))?;
        let limit = prepared.instructions_per_warp;
        match catch_unwind(AssertUnwindSafe(|| self.execute(ptx, case, &prepared.inputs, limit))) {
            Ok(Ok(outcome)) => Ok(judge(prepared, &outcome)),
            Ok(Err(_)) => Ok(Verdict::Refused),
            Err(_) => bail!("the simulator panicked"),
        }
    }

    /// Makes the inputs of a case, whose check the entry must pass itself.
    fn prepare(&self, case: &Case) -> Result<Prepared> {
        let (inputs, bounds) = case.inputs()?;
        let reference = Reference::compute(&inputs, |_| ());
        let outcome = self.execute(&self.original, case, &inputs, Options::default().instructions_per_warp)?;
        let counters = outcome.execution.counters.as_ref().context("the simulator counts")?;
        let instructions_per_warp = counters.instructions.saturating_mul(PATIENCE);
        let loads = warp_by_warp(&outcome);
        let prepared = Prepared { inputs, reference, bounds, loads, instructions_per_warp };
        match judge(&prepared, &outcome) {
            Verdict::Survived => Ok(prepared),
            verdict => bail!("{} does not pass the checks itself: {verdict:?} on {case:?}", self.entry.name),
        }
    }

    fn execute(
        &self,
        ptx: &PtxModule,
        case: &Case,
        inputs: &Inputs,
        instructions_per_warp: u64,
    ) -> Result<Outcome<Outputs>, Error> {
        let options = Options {
            threads: 1,
            instructions_per_warp,
            schedule: case.schedule,
            box_loads: true,
            ..Options::default()
        };
        let mut simulator = SimExecutor::with_multiprocessors(DEFAULT_ARCHITECTURE, case.multiprocessors, options)?;
        Forward::prepare(&mut simulator, ptx, &self.entry, inputs, case.lse)?.execute()
    }
}

/// The module of `file` with the text `ptx`, and with static shared memory.
fn runnable(file: &str, ptx: &str) -> PtxModule {
    PtxModule::new(file, ptx.replacen(ADDRESS_SIZE, &format!("{ADDRESS_SIZE} {STATIC_SHARED}"), 1))
}

fn judge(prepared: &Prepared, outcome: &Outcome<Outputs>) -> Verdict {
    if let Some(finding) = outcome.execution.findings.first() {
        return Verdict::Finding(finding.class);
    }
    let report = check::check(&prepared.inputs, &prepared.reference, &outcome.outputs, prepared.bounds);
    let right = report.passed() && outcome.changed_inputs.is_empty() && outcome.damaged_guards.is_empty();
    match right {
        false => Verdict::WrongResult,
        true if warp_by_warp(outcome) != prepared.loads => Verdict::OtherLoads,
        true => Verdict::Survived,
    }
}

/// The boxes that each warp loaded, in order.
fn warp_by_warp(outcome: &Outcome<Outputs>) -> Vec<BoxLoad> {
    let mut loads = outcome.execution.box_loads.clone();
    loads.sort_by_key(|load| (load.block, load.warp));
    loads
}
