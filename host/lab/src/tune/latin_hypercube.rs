//! A Latin hypercube sample (McKay, Beckman & Conover 1979) of a set of points that is not a full product. Every axis
//! is divided into as many strata as there are samples, and each stratum is used once. Each sample is replaced by the
//! nearest point not yet taken.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use super::features::Features;

/// Indices of `count` points of `features` that are spread over all axes; of all points if there are fewer.
pub fn sample(features: &Features, count: usize, seed: u64) -> Vec<usize> {
    let mut left: Vec<usize> = (0..features.count()).collect();
    if count >= left.len() {
        return left;
    }
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let strata: Vec<Vec<usize>> = features
        .axes()
        .iter()
        .map(|_| {
            let mut strata: Vec<usize> = (0..count).collect();
            strata.shuffle(&mut random);
            strata
        })
        .collect();
    let position = |level: usize, levels: usize| (level as f64 + 0.5) / levels as f64;
    let points: Vec<Vec<f64>> = left
        .iter()
        .map(|&index| {
            features.axes().iter().zip(features.levels(index)).map(|(axis, &at)| position(at, axis.levels)).collect()
        })
        .collect();
    let mut chosen = Vec::with_capacity(count);
    for sample in 0..count {
        let wanted: Vec<f64> = strata.iter().map(|strata| position(strata[sample], count)).collect();
        let distance =
            |index: usize| -> f64 { points[index].iter().zip(&wanted).map(|(is, want)| (is - want).powi(2)).sum() };
        let distances = left.iter().enumerate().map(|(place, &index)| (place, distance(index)));
        let nearest = distances.min_by(|(_, a), (_, b)| a.total_cmp(b));
        chosen.extend(nearest.map(|(place, _)| left.swap_remove(place)));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::tile::{Configuration, Sm80};
    use std::collections::BTreeSet;

    /// All of 8 × 8 × 8 configurations.
    fn cube() -> Features {
        let mut configs = Vec::new();
        for block_m in 0..8 {
            for block_n in 0..8 {
                configs.extend((0..8).map(|warps| Configuration::Sm80(Sm80::new(block_m, block_n, warps, 2))));
            }
        }
        Features::new(&configs)
    }

    #[test]
    fn every_level_of_every_axis_is_sampled_about_as_often() {
        let features = cube();
        let chosen = sample(&features, 64, 1);
        assert_eq!(chosen.iter().collect::<BTreeSet<_>>().len(), 64, "a point was chosen twice");
        for axis in 0..3 {
            for level in 0..8 {
                let count = chosen.iter().filter(|&&index| features.levels(index)[axis] == level).count();
                assert!((5..=11).contains(&count), "level {level} of axis {axis} was chosen {count} times of 64");
            }
        }
    }

    #[test]
    fn a_sample_depends_on_the_seed_only_and_is_never_larger_than_the_set() {
        let features = cube();
        assert_eq!(sample(&features, 20, 3), sample(&features, 20, 3));
        assert_ne!(sample(&features, 20, 3), sample(&features, 20, 4));
        assert_eq!(sample(&features, 1000, 3).into_iter().collect::<BTreeSet<_>>(), (0..512).collect());
        assert_eq!(sample(&Features::new(&[]), 5, 0), Vec::<usize>::new());
        assert_eq!(sample(&features, usize::MAX, 3), (0..512).collect::<Vec<_>>());
    }
}
