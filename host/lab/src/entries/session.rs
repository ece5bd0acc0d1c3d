//! Checks and times pairs of entries.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use contract::manifest::Entry;

use super::problem;
use super::record::{Journal, Pair};
use crate::journal::End;
use cli::check;
use cli::contender::{Contender, Workload};
use cli::error::{Error, Result};
use cli::ptx_folder::PtxFolder;
use cli::reference::Reference;
use cli::statistics::{Bootstrap, Samples};
use cli::timing::{Protocol, Sampler};

/// Turns whose samples are discarded: caches and clocks are still in the state that preparation left.
const DISCARDED_TURNS: usize = 2;

/// An entry's two contenders, in the order of the folders.
pub type Contenders = [Box<dyn Contender>; 2];

/// The settings of a run.
pub struct Session<'a> {
    /// How samples are taken.
    pub protocol: Protocol,
    /// Samples of each entry.
    pub samples: usize,
    /// The time limit.
    pub time: Option<Duration>,
    /// Ends the run when it is set.
    pub stop: &'a AtomicBool,
}

/// The inputs of entries that follow each other, and their reference.
struct Prepared {
    workload: Workload,
    reference: Reference,
}

/// The entries that both folders have and whose names contain `part`. Those that are timed on one problem follow each other.
///
/// # Errors
/// When an entry has no problem.
pub fn common<'a>([first, second]: [&'a PtxFolder; 2], part: &str) -> Result<Vec<&'a Entry>> {
    let is_there = |entry: &Entry| second.entries().any(|(other, _)| other.name == entry.name);
    let mut found = Vec::new();
    for (entry, _) in first.entries().filter(|(entry, _)| entry.name.contains(part) && is_there(entry)) {
        found.push((format!("{:?}", problem::problem(entry)?), entry));
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found.into_iter().map(|(_, entry)| entry).collect())
}

impl Session<'_> {
    /// Measures those of `entries` that `journal` has not. Returns those that are wrong, and why.
    ///
    /// # Errors
    /// When the GPU is lost, or the record cannot be written.
    pub fn run(
        &self,
        entries: &[&Entry],
        mut contenders: impl FnMut(&Entry) -> Result<Contenders>,
        journal: &mut Journal,
        measured: impl Fn(),
    ) -> Result<(End, Vec<String>)> {
        let (begun, mut wrong) = (Instant::now(), Vec::new());
        let mut prepared: Option<Prepared> = None;
        for entry in entries {
            if journal.pairs.iter().any(|known| known.entry == entry.name) {
                measured();
                continue;
            }
            if self.time.is_some_and(|time| begun.elapsed() >= time) {
                return Ok((End::Late, wrong));
            }
            if self.stop.load(Relaxed) {
                return Ok((End::Interrupted, wrong));
            }
            let problem = problem::problem(entry)?;
            let now = match prepared.take().filter(|known| *known.workload.inputs.problem() == problem) {
                Some(known) => known,
                None => self.prepare(entry)?,
            };
            match self.measure(&entry.name, &mut contenders(entry)?, &now) {
                Ok(pair) => journal.add(pair)?,
                Err(Error::Invalid(reason)) => wrong.push(format!("{}: {reason}", entry.name)),
                Err(error) => return Err(error),
            }
            measured();
            prepared = Some(now);
        }
        Ok((End::Done, wrong))
    }

    fn prepare(&self, entry: &Entry) -> Result<Prepared> {
        let inputs = problem::inputs(entry)?;
        let reference = Reference::compute(&inputs, |_| ());
        Ok(Prepared { workload: Workload { inputs, protocol: self.protocol }, reference })
    }

    /// Checks both contenders, then times them in turns, each first in every second one.
    fn measure(&self, entry: &str, [first, second]: &mut Contenders, prepared: &Prepared) -> Result<Pair> {
        let mut samplers = [checked(first.as_mut(), prepared)?, checked(second.as_mut(), prepared)?];
        let mut samples = [Vec::new(), Vec::new()];
        for turn in 0..DISCARDED_TURNS + self.samples {
            for side in [turn % 2, 1 - turn % 2] {
                let sample = samplers[side].sample()?;
                if turn >= DISCARDED_TURNS {
                    samples[side].push(sample);
                }
            }
        }
        let [first_us, second_us] = samples.map(Samples::new);
        let (first_us, second_us) = (first_us?, second_us?);
        let interval = Bootstrap::new(0).paired_ratio_of_medians(&second_us, &first_us);
        let us = [first_us.median(), second_us.median()];
        Ok(Pair {
            entry: entry.to_owned(),
            problem: problem::name(&prepared.workload.inputs),
            us: us.map(|us| rounded(us, 1e3)),
            ratio: rounded(us[1] / us[0], 1e4),
            interval: [interval.low, interval.high].map(|end| rounded(end, 1e4)),
        })
    }
}

/// Checks all of what `contender` computes, and prepares it for timing.
fn checked<'a>(contender: &'a mut dyn Contender, prepared: &'a Prepared) -> Result<Box<dyn Sampler + 'a>> {
    let Prepared { workload, reference } = prepared;
    let name = contender.name().to_owned();
    let mut prepared = contender.prepare(workload)?;
    let answer = prepared.answer()?;
    if !check::check(&workload.inputs, reference, &answer.outputs, None).passed() {
        return Err(Error::Invalid(format!("wrong by {name}")));
    }
    match answer.violations.as_slice() {
        [] => prepared.into_sampler(),
        violations => Err(Error::Invalid(format!("wrong by {name}, which {}", violations.join(", ")))),
    }
}

fn rounded(value: f64, per_unit: f64) -> f64 {
    (value * per_unit).round() / per_unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use cli::inputs::{Distribution, Inputs};
    use cli::stand_ins::{Behaviour, Stub};
    use cli::timing::L2;
    use contract::config::Mask;
    use contract::problem::{Problem, Shape};
    use contract::view::Layout;

    /// Measures two contenders on the CPU on a small problem.
    fn measure(behaviours: [Behaviour; 2]) -> Result<Pair> {
        let stop = AtomicBool::new(false);
        let session = Session { protocol: Protocol::new(L2::Warm), samples: 4, time: None, stop: &stop };
        let problem = Problem::new(Shape::new(1, 2, 16), Mask::Causal, Layout::Bhsd)?;
        let inputs = Inputs::generate(problem, Distribution::Normal, 1)?;
        let reference = Reference::compute(&inputs, |_| ());
        let prepared = Prepared { workload: Workload { inputs, protocol: session.protocol }, reference };
        let [first, second] = behaviours;
        let stub = |name: &str, behaviour| -> Box<dyn Contender> { Box::new(Stub { name: name.into(), behaviour }) };
        session.measure("an entry", &mut [stub("the first", first), stub("the second", second)], &prepared)
    }

    #[test]
    fn a_ratio_is_the_second_over_the_first() {
        let pair = measure([Behaviour::Takes(4.0), Behaviour::Takes(6.0)]).expect("both are right");
        assert_eq!((pair.us, pair.ratio, pair.interval), ([4.0, 6.0], 1.5, [1.5, 1.5]));
        assert_eq!((pair.entry.as_str(), pair.problem.as_str()), ("an entry", "1x2x16x64"));
    }

    #[test]
    fn what_is_wrong_is_not_timed_and_says_who() {
        for (behaviours, who) in [
            ([Behaviour::Wrong, Behaviour::FailsWhenTimed], "the first"),
            ([Behaviour::Right, Behaviour::Wrong], "the second"),
        ] {
            let refusal = measure(behaviours).expect_err("one is wrong").to_string();
            assert_eq!(refusal, format!("wrong by {who}"));
        }
    }
}
