//! Measures contenders against each other.
//!
//! All contenders of a case are checked first. Then each takes one sample per turn, in an order shuffled for every
//! turn, so that drifting clocks and other work on the machine affect all of them alike.

mod entrant;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::contender::{Contender, Workload};
use crate::error::{Error, Result};
use crate::host_memory;
use crate::inputs::Inputs;
use crate::record::{Case, Ceilings, Row, RunProtocol};
use crate::sampled_check::SampledCheck;
use crate::statistics::Bootstrap;
use crate::telemetry::{Monitor, summarise};
use entrant::Entrant;

/// Initial turns whose samples are discarded: caches and clocks are still in the state that preparation left.
const DISCARDED_TURNS: usize = 2;

/// The settings that all cases of a bench share.
pub struct Bench<'a> {
    /// How to measure.
    pub protocol: RunProtocol,
    /// Heads of each case that are compared with the f64 reference.
    pub heads_checked: usize,
    /// Bootstrap resamples per interval; [`RESAMPLES`](crate::statistics::RESAMPLES) for numbers that are reported.
    pub resamples: usize,
    /// Peak rates of the GPU.
    pub ceilings: &'a Ceilings,
    /// Reads the GPU's clocks and temperature.
    pub monitor: &'a Monitor,
    /// Ends the bench when it is set.
    pub stop: &'a AtomicBool,
}

/// A case with its inputs and reference computed.
pub struct PreparedCase {
    case: Case,
    workload: Workload,
    check: SampledCheck,
}

impl PreparedCase {
    /// The case.
    pub fn case(&self) -> &Case {
        &self.case
    }
}

/// Observes the progress of a case.
pub trait Observer {
    /// `contender` is being prepared and checked.
    fn checking(&mut self, case: &Case, contender: &str);
    /// A turn has ended.
    fn turned(&mut self, case: &Case);
}

impl Bench<'_> {
    /// Number of turns per case, for progress bars.
    pub fn turns(&self) -> usize {
        DISCARDED_TURNS + self.protocol.samples
    }

    /// Checks and measures `contenders` in `case`, one row each. If a contender fails, its row says why.
    ///
    /// # Errors
    /// As [`Bench::prepare`] and [`Bench::measure`].
    pub fn run(
        &self,
        case: &Case,
        contenders: &mut [Box<dyn Contender>],
        observer: &mut dyn Observer,
    ) -> Result<Vec<Row>> {
        self.measure(&self.prepare(case)?, contenders, observer)
    }

    /// Fills the inputs of `case` and computes their reference.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the case is not accepted or does not fit host memory.
    pub fn prepare(&self, case: &Case) -> Result<PreparedCase> {
        let problem = case.problem()?;
        host_memory::check(&problem)?;
        let RunProtocol { distribution, input_seed, timing, .. } = self.protocol;
        let inputs = Inputs::generate(problem, distribution, input_seed)?;
        let check = SampledCheck::new(&inputs, distribution, self.heads_checked, input_seed)?;
        Ok(PreparedCase { case: *case, workload: Workload { inputs, protocol: timing }, check })
    }

    /// Checks and measures `contenders` in a `prepared` case.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the bench was stopped.
    pub fn measure<'c>(
        &self,
        prepared: &PreparedCase,
        contenders: impl IntoIterator<Item = &'c mut Box<dyn Contender>>,
        observer: &mut dyn Observer,
    ) -> Result<Vec<Row>> {
        let PreparedCase { case, workload, check } = prepared;
        let mut entrants = Vec::new();
        for contender in contenders {
            self.go_on()?;
            observer.checking(case, contender.name());
            entrants.push(Entrant::enter(contender.as_mut(), workload, check));
        }
        let mut readings = Vec::new();
        let mut random = ChaCha8Rng::seed_from_u64(self.protocol.order_seed);
        let mut order: Vec<usize> = (0..entrants.len()).collect();
        for turn in 0..self.turns() {
            self.go_on()?;
            order.shuffle(&mut random);
            for &index in &order {
                entrants[index].take_turn(turn >= DISCARDED_TURNS);
            }
            readings.extend(self.monitor.read());
            observer.turned(case);
        }
        let gpu = summarise(&readings);
        let bootstrap = Bootstrap::new(random.random()).with_resamples(self.resamples);
        Ok(entrants.into_iter().map(|entrant| entrant.row(case, gpu.clone(), self.ceilings, &bootstrap)).collect())
    }

    fn go_on(&self) -> Result<()> {
        match self.stop.load(Relaxed) {
            true => Err(Error::Unavailable("interrupted; nothing was written".into())),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
