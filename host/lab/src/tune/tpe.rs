//! The tree-structured Parzen estimator (Bergstra, Bardenet, Bengio & Kégl 2011) over a finite set of candidates.
//!
//! The trials so far are divided into the better quarter and the rest. Along every axis each of the two groups has a
//! density: a sum of kernels around its members. The candidate with the largest ratio of the better group's density to
//! the rest's is measured next. Since the set is finite, all candidates are evaluated and none is drawn.

use std::collections::BTreeSet;

use super::features::{Axis, Features};
use super::latin_hypercube;
use cli::error::Result;

/// Number of candidates proposed at once, to be measured in the same turns.
const BATCH: usize = 4;
/// Minimum number of trials before the first proposal, spread over all axes.
const FIRST_TRIALS: usize = 8;
/// One in this many trials is made before the first proposal.
const FIRST_PART: usize = 4;
/// One in this many trials is in the better group.
const BETTER_PART: usize = 4;
/// Weight of the uniform prior in every density.
const PRIOR: f64 = 1.0;

/// Measures candidates like [`Lab::measure`](super::search::Lab::measure).
pub type Measure<'a> = dyn FnMut(&[usize]) -> Result<Vec<Option<f64>>> + 'a;

/// The candidates that TPE measured: `trials` of them, or fewer if `measure` returns fewer results than requested.
///
/// # Errors
/// Those of `measure`.
pub fn search(features: &Features, trials: usize, seed: u64, measure: &mut Measure<'_>) -> Result<Vec<usize>> {
    let trials = trials.min(features.count());
    let first = (trials / FIRST_PART).max(FIRST_TRIALS).min(trials);
    let mut next = latin_hypercube::sample(features, first, seed);
    let mut left: BTreeSet<usize> = (0..features.count()).collect();
    let mut measured: Vec<(usize, f64)> = Vec::new();
    while !next.is_empty() {
        let results = measure(&next)?;
        let complete = results.len() == next.len();
        // A candidate that does not run counts as the worst, so that its neighbours are avoided too.
        measured.extend(next.iter().zip(results).map(|(&index, ratio)| (index, ratio.unwrap_or(f64::INFINITY))));
        if !complete {
            break;
        }
        left.retain(|index| !next.contains(index));
        next = propose(features, &measured, &left, BATCH.min(trials - measured.len()));
    }
    Ok(measured.into_iter().map(|(index, _)| index).collect())
}

/// The `count` most promising of the candidates `left`.
fn propose(features: &Features, measured: &[(usize, f64)], left: &BTreeSet<usize>, count: usize) -> Vec<usize> {
    let mut order: Vec<_> = measured.to_vec();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (better, rest) = order.split_at(order.len().div_ceil(BETTER_PART));
    let densities: Vec<_> = (0..features.axes().len())
        .map(|axis| {
            [better, rest].map(|group| density(&features.axes()[axis], group, |index| features.levels(index)[axis]))
        })
        .collect();
    let promise = |index: usize| -> f64 {
        let levels = features.levels(index).iter().zip(&densities);
        levels.map(|(&level, [better, rest])| (better[level] / rest[level]).ln()).sum()
    };
    let mut promising: Vec<(usize, f64)> = left.iter().map(|&index| (index, promise(index))).collect();
    promising.sort_by(|a, b| b.1.total_cmp(&a.1));
    promising.into_iter().take(count).map(|(index, _)| index).collect()
}

/// The density of `group` along `axis`, per level: a uniform prior plus a kernel around each member, whose width
/// shrinks as the group grows.
fn density(axis: &Axis, group: &[(usize, f64)], level: impl Fn(usize) -> usize) -> Vec<f64> {
    let width = (axis.levels as f64 / (1.0 + group.len() as f64).sqrt()).max(0.5);
    let kernel = |from: usize, to: usize| match axis.ordered {
        true => (-0.5 * ((from as f64 - to as f64) / width).powi(2)).exp(),
        false if from == to => 1.0,
        false => 0.0,
    };
    let mut density = vec![PRIOR / axis.levels as f64; axis.levels];
    for &(index, _) in group {
        let around: Vec<f64> = (0..axis.levels).map(|to| kernel(level(index), to)).collect();
        let total: f64 = around.iter().sum();
        density.iter_mut().zip(around).for_each(|(density, kernel)| *density += kernel / total);
    }
    let total: f64 = density.iter().sum();
    density.iter().map(|density| density / total).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::tile::{Configuration, Sm80};
    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;
    use rand::seq::SliceRandom;

    /// 6 × 5 × 4 × 4 configurations.
    fn pool() -> Vec<Configuration> {
        let mut pool = Vec::new();
        for block_m in 1..=6 {
            for block_n in 1..=5 {
                for warps in 1..=4 {
                    pool.extend((1..=4).map(|stages| Configuration::Sm80(Sm80::new(block_m, block_n, warps, stages))));
                }
            }
        }
        pool
    }

    /// A convex cost around one configuration.
    fn cost(config: &Configuration) -> f64 {
        let distance = |value: u32, best: u32| (f64::from(value) - f64::from(best)).powi(2);
        1.0 + 0.1 * (distance(config.block_m(), 5) + distance(config.block_n(), 2))
            + 0.05 * (distance(config.warps(), 3) + distance(config.stages(), 1))
    }

    /// Number of trials until the optimum was measured.
    fn trials_of_tpe(pool: &[Configuration], seed: u64) -> usize {
        let mut count = 0;
        let mut found = None;
        let features = Features::new(pool);
        search(&features, pool.len(), seed, &mut |candidates| {
            for &candidate in candidates {
                count += 1;
                if cost(&pool[candidate]) == 1.0 {
                    found = Some(count);
                }
            }
            let costs = candidates.iter().map(|&candidate| Some(cost(&pool[candidate])));
            Ok(costs.take(if found.is_some() { 0 } else { candidates.len() }).collect())
        })
        .unwrap();
        found.expect("the whole pool was searched")
    }

    fn trials_of_chance(pool: &[Configuration], seed: u64) -> usize {
        let mut order: Vec<usize> = (0..pool.len()).collect();
        order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        1 + order.iter().position(|&index| cost(&pool[index]) == 1.0).expect("the optimum is in the pool")
    }

    #[test]
    fn a_planted_optimum_is_found_in_far_fewer_trials_than_by_chance() {
        let pool = pool();
        let sum =
            |trials: &dyn Fn(&[Configuration], u64) -> usize| (0..20).map(|seed| trials(&pool, seed)).sum::<usize>();
        let (tpe, chance) = (sum(&trials_of_tpe), sum(&trials_of_chance));
        assert!(tpe * 2 < chance, "20 searches of {}: {tpe} trials, {chance} by chance", pool.len());
    }

    #[test]
    fn no_candidate_is_measured_twice_and_trials_are_kept_to() {
        let pool = pool();
        let features = Features::new(&pool);
        let mut seen = Vec::new();
        let mut measure = |candidates: &[usize]| {
            seen.extend_from_slice(candidates);
            Ok(candidates.iter().map(|&candidate| (candidate % 3 > 0).then(|| cost(&pool[candidate]))).collect())
        };
        let measured = search(&features, 50, 1, &mut measure).unwrap();
        assert_eq!(measured, seen);
        assert_eq!((seen.len(), seen.iter().collect::<BTreeSet<_>>().len()), (50, 50));
        assert_eq!(search(&Features::new(&[]), 50, 1, &mut |_| Ok(vec![])).unwrap(), Vec::<usize>::new());
    }
}
