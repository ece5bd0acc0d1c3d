//! A contender in one case: taking part, or excluded with a reason.

use crate::contender::{Contender, Workload};
use crate::error::Result;
use crate::record::{Case, Ceilings, Correctness, GpuState, Implementation, Measurement, Outcome, Row};
use crate::sampled_check::SampledCheck;
use crate::statistics::{Bootstrap, Samples};
use crate::timing::Sampler;

/// A contender in one case.
pub struct Entrant<'a> {
    name: String,
    implementation: Option<Implementation>,
    state: State<'a>,
}

enum State<'a> {
    In { sampler: Box<dyn Sampler + 'a>, correctness: Correctness, samples_us: Vec<f64> },
    Out(Outcome),
}

impl<'a> Entrant<'a> {
    /// Prepares `contender` for `workload` and checks its answer; only a correct one is timed.
    pub fn enter(contender: &'a mut dyn Contender, workload: &'a Workload, check: &SampledCheck) -> Self {
        let name = contender.name().to_owned();
        let mut implementation = None;
        let state = Self::prepare(contender, workload, check, &mut implementation);
        let state = state.unwrap_or_else(|error| State::Out(Outcome::NotRun { reason: error.to_string() }));
        Self { name, implementation, state }
    }

    fn prepare(
        contender: &'a mut dyn Contender,
        workload: &'a Workload,
        check: &SampledCheck,
        implementation: &mut Option<Implementation>,
    ) -> Result<State<'a>> {
        let mut prepared = contender.prepare(workload)?;
        *implementation = Some(prepared.implementation());
        let correctness = check.judge(&prepared.answer()?);
        if !correctness.passed() {
            return Ok(State::Out(Outcome::Wrong { correctness }));
        }
        Ok(State::In { sampler: prepared.into_sampler()?, correctness, samples_us: Vec::new() })
    }

    /// Takes a sample; keeps it only if `counts`.
    pub fn take_turn(&mut self, counts: bool) {
        let State::In { sampler, samples_us, .. } = &mut self.state else { return };
        match sampler.sample() {
            Ok(sample) if counts => samples_us.push(sample),
            Ok(_) => {}
            Err(error) => self.state = State::Out(Outcome::NotRun { reason: error.to_string() }),
        }
    }

    /// The record's row for this contender.
    pub fn row(self, case: &Case, gpu: Option<GpuState>, ceilings: &Ceilings, bootstrap: &Bootstrap) -> Row {
        let outcome = match self.state {
            State::Out(outcome) => outcome,
            State::In { sampler, correctness, samples_us } => match Samples::new(samples_us) {
                Ok(samples_us) => {
                    let what = (case.shape, case.mask);
                    let batch = sampler.batch();
                    let measurement = Measurement::new(what, correctness, batch, samples_us, gpu, ceilings, bootstrap);
                    Outcome::Measured(Box::new(measurement))
                }
                Err(error) => Outcome::NotRun { reason: error.to_string() },
            },
        };
        Row { case: *case, contender: self.name, implementation: self.implementation, outcome }
    }
}
