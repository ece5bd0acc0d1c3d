//! Measures contenders against each other.
//!
//! All contenders of a case are checked, then take one sample each in every turn, in an order that is drawn anew for each
//! turn, so that drifting clocks and neighbours disturb all of them alike.

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

/// Turns whose samples are thrown away: the first one finds the caches and clocks that preparing the others left.
const DISCARDED_TURNS: usize = 2;

/// What all cases of a bench have in common.
pub struct Bench<'a> {
    /// How to measure.
    pub protocol: RunProtocol,
    /// Heads of each case that are compared with the f64 reference.
    pub heads_checked: usize,
    /// Resamples of each interval; [`RESAMPLES`](crate::statistics::RESAMPLES) for a number that is reported.
    pub resamples: usize,
    /// What the GPU reaches at most.
    pub ceilings: &'a Ceilings,
    /// Reads the GPU's clocks and temperature.
    pub monitor: &'a Monitor,
    /// Ends the bench when it is set.
    pub stop: &'a AtomicBool,
}

/// A case whose inputs and reference are there.
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

/// Told how far a case is.
pub trait Observer {
    /// `contender` is being prepared and checked.
    fn checking(&mut self, case: &Case, contender: &str);
    /// A turn is over.
    fn turned(&mut self, case: &Case);
}

impl Bench<'_> {
    /// Turns that each case has, for progress.
    pub fn turns(&self) -> usize {
        DISCARDED_TURNS + self.protocol.samples
    }

    /// Checks and measures `contenders` in `case`: one row for each. What goes wrong with a contender is in its row.
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
    /// [`Error::Invalid`] when the case is not acceptable or does not fit host memory.
    pub fn prepare(&self, case: &Case) -> Result<PreparedCase> {
        let problem = case.problem()?;
        host_memory::check(&problem)?;
        let RunProtocol { distribution, input_seed, timing, .. } = self.protocol;
        let inputs = Inputs::generate(problem, distribution, input_seed)?;
        let check = SampledCheck::new(&inputs, distribution, self.heads_checked, input_seed)?;
        Ok(PreparedCase { case: *case, workload: Workload { inputs, protocol: timing }, check })
    }

    /// Checks and measures `contenders` in the case that was `prepared`.
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
