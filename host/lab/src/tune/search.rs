//! Search strategies: which candidates are measured, how often, and which remain.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::features::Features;
use super::latin_hypercube;
use super::tpe;
use cli::error::Result;

/// Samples per candidate in each rung of successive halving. Odd, so that the median is a sample.
pub const RUNGS: [usize; 3] = [3, 9, 27];
/// One in this many candidates goes on to the next rung.
const REDUCTION: usize = 3;
/// At least this many go on.
const FINALISTS: usize = 4;

/// A search strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// Measure every candidate, then the better third three times as long, and so on (successive halving)
    Exhaustive,
    /// The same for a sample of the candidates spread over all axes
    LatinHypercube,
    /// Measure some, then those most like the best so far (tree-structured Parzen estimator)
    Tpe,
}

impl Strategy {
    /// The name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exhaustive => "exhaustive",
            Self::LatinHypercube => "latin-hypercube",
            Self::Tpe => "tpe",
        }
    }
}

/// Measures candidates by their index: a GPU, or a cost model in tests.
pub trait Lab {
    /// The time of each of `candidates` over the incumbent's, from `samples` samples; `None` for one that is wrong or
    /// does not run. Returns fewer results if time runs out.
    ///
    /// # Errors
    /// When nothing can be measured any more.
    fn measure(&mut self, candidates: &[usize], samples: usize) -> Result<Vec<Option<f64>>>;
}

/// A candidate and its time over that of the incumbent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ranked {
    /// Its index.
    pub candidate: usize,
    /// The ratio with the most samples.
    pub ratio: f64,
}

/// Searches the candidates of `features`, with `trials` trials for TPE. Returns those that run, best first.
///
/// # Errors
/// As [`Lab::measure`].
pub fn search(
    strategy: Strategy,
    features: &Features,
    trials: usize,
    seed: u64,
    lab: &mut dyn Lab,
) -> Result<Vec<Ranked>> {
    let field = match strategy {
        Strategy::Exhaustive => (0..features.count()).collect(),
        Strategy::LatinHypercube => latin_hypercube::sample(features, trials, seed),
        Strategy::Tpe => tpe::search(features, trials, seed, &mut |candidates| lab.measure(candidates, RUNGS[0]))?,
    };
    successive_halving(field, &RUNGS, lab)
}

/// Successive halving (Jamieson & Talwalkar 2016): measures all of `field` with few samples, then the better third with
/// more, and so on through `rungs`. A candidate that fails in a later rung is dropped; one that is left behind keeps
/// the rank of its last rung.
///
/// # Errors
/// As [`Lab::measure`].
pub fn successive_halving(mut field: Vec<usize>, rungs: &[usize], lab: &mut dyn Lab) -> Result<Vec<Ranked>> {
    let mut ratios: BTreeMap<usize, f64> = BTreeMap::new();
    let mut left_behind: Vec<Ranked> = Vec::new();
    for (rung, &samples) in rungs.iter().enumerate() {
        let measured = lab.measure(&field, samples)?;
        let complete = measured.len() == field.len();
        for (&candidate, ratio) in field.iter().zip(measured) {
            match ratio {
                Some(ratio) => drop(ratios.insert(candidate, ratio)),
                None => drop(ratios.remove(&candidate)),
            }
        }
        let ratio = |candidate: usize| Some(Ranked { candidate, ratio: *ratios.get(&candidate)? });
        let mut ranked: Vec<_> = field.iter().filter_map(|&candidate| ratio(candidate)).collect();
        ranked.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        let last = rung + 1 == rungs.len() || !complete;
        let going_on = if last { ranked.len() } else { ranked.len().div_ceil(REDUCTION).max(FINALISTS) };
        let behind = ranked.split_off(going_on.min(ranked.len()));
        left_behind.splice(0..0, behind);
        if last {
            ranked.extend(left_behind);
            return Ok(ranked);
        }
        field = ranked.iter().map(|ranked| ranked.candidate).collect();
    }
    Ok(left_behind)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    /// A cost model with noise that averages out, and a count of the samples taken.
    pub struct Model {
        pub costs: Vec<Option<f64>>,
        pub noise: f64,
        pub random: ChaCha8Rng,
        pub samples: usize,
        /// Number of candidates that may still be measured.
        pub budget: usize,
    }

    impl Model {
        pub fn new(costs: impl IntoIterator<Item = f64>, noise: f64, seed: u64) -> Self {
            let costs = costs.into_iter().map(Some).collect();
            Self { costs, noise, random: ChaCha8Rng::seed_from_u64(seed), samples: 0, budget: usize::MAX }
        }
    }

    impl Lab for Model {
        fn measure(&mut self, candidates: &[usize], samples: usize) -> Result<Vec<Option<f64>>> {
            let affordable = candidates.len().min(self.budget);
            self.budget -= affordable;
            self.samples += samples * affordable;
            let mut noisy = |cost: f64| {
                let noise: f64 = StandardNormal.sample(&mut self.random);
                cost * (1.0 + self.noise * noise / (samples as f64).sqrt())
            };
            let measured = candidates[..affordable].iter().map(|&candidate| self.costs[candidate].map(&mut noisy));
            Ok(measured.collect())
        }
    }

    fn halve(model: &mut Model) -> Vec<Ranked> {
        successive_halving((0..model.costs.len()).collect(), &RUNGS, model).unwrap()
    }

    #[test]
    fn the_best_of_a_noisy_hundred_is_kept_for_a_fraction_of_the_samples() {
        let costs = || (0..100).map(|index| 0.7 + f64::from(index * 37 % 100) / 100.0);
        let kept = (0..200).filter(|&seed| {
            let mut model = Model::new(costs(), 0.03, seed);
            let ranked = halve(&mut model);
            assert!(model.samples < 100 * RUNGS[2] * 2 / 5, "{} samples were taken", model.samples);
            assert_eq!(ranked.len(), 100, "everybody has a rank");
            ranked[0].candidate == 0
        });
        let kept = kept.count();
        assert!(kept >= 170, "the best, 1.4 % ahead under 3 % of noise, came first in {kept} of 200 searches");
    }

    #[test]
    fn what_fails_has_no_rank() {
        let mut model = Model::new([1.0, 0.5, 0.8, 0.9, 1.2, 1.1], 0.0, 0);
        model.costs[1] = None;
        let order: Vec<_> = halve(&mut model).iter().map(|ranked| ranked.candidate).collect();
        assert_eq!(order, [2, 3, 0, 5, 4]);
        model.costs = vec![None; 6];
        assert_eq!(halve(&mut model), []);
    }

    #[test]
    fn when_time_is_over_what_was_measured_counts() {
        let costs: Vec<f64> = (0..30).map(|index| 2.0 - f64::from(index) / 30.0).collect();
        let mut model = Model { budget: 20, ..Model::new(costs.clone(), 0.0, 0) };
        let ranked = halve(&mut model);
        assert_eq!((ranked.len(), ranked[0].candidate), (20, 19), "in the first rung");
        let mut model = Model { budget: 33, ..Model::new(costs, 0.0, 0) };
        let ranked = halve(&mut model);
        assert_eq!((ranked.len(), ranked[0].candidate), (30, 29), "in the second rung");
    }
}
