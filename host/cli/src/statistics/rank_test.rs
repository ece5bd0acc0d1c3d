//! Whether two sets of samples differ, and by how much: Mann-Whitney U and Cliff's δ.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

use super::Samples;

/// Total number of samples up to which the p-value is exact, if there are no ties.
const EXACT_UP_TO: usize = 40;

/// Rank comparison of two sets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RankTest {
    /// Mann-Whitney U: number of pairs in which the first set's value is larger, ties counted half.
    pub u: f64,
    /// Two-sided p-value: probability of a U at least as far from n₁n₂/2 if both sets come from one distribution.
    pub p_value: f64,
    /// Cliff's δ, −1 to 1: P(first > second) − P(first < second).
    pub cliffs_delta: f64,
}

impl RankTest {
    /// Compares `first` with `second`.
    ///
    /// The p-value is exact for up to 40 samples without ties, otherwise from the normal approximation with corrections
    /// for ties and continuity (Mann & Whitney 1947; Lehmann 1975, section 1.4).
    pub fn new(first: &Samples, second: &Samples) -> Self {
        let (n1, n2) = (first.count(), second.count());
        let Ranking { rank_sum, ties } = Ranking::new(first, second);
        let u = rank_sum - (n1 * (n1 + 1)) as f64 / 2.0;
        let pairs = (n1 * n2) as f64;
        let p_value = if ties == 0.0 && n1 + n2 <= EXACT_UP_TO {
            exact_p_value(u.max(pairs - u) as usize, n1, n2)
        } else {
            approximate_p_value(u, n1 as f64, n2 as f64, ties)
        };
        Self { u, p_value, cliffs_delta: 2.0 * u / pairs - 1.0 }
    }
}

/// The joint ranking of two sets.
struct Ranking {
    /// Sum of the first set's ranks, counted from 1; equal values share the mean of their ranks.
    rank_sum: f64,
    /// Σ t³ − t over the groups of t equal values.
    ties: f64,
}

impl Ranking {
    fn new(first: &Samples, second: &Samples) -> Self {
        let of_first = first.sorted().iter().map(|&value| (value, true));
        let mut values: Vec<_> = of_first.chain(second.sorted().iter().map(|&value| (value, false))).collect();
        values.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let mut ranking = Self { rank_sum: 0.0, ties: 0.0 };
        let mut before = 0.0;
        for group in values.chunk_by(|(a, _), (b, _)| a == b) {
            let size = group.len() as f64;
            let of_first = group.iter().filter(|(_, first)| *first).count() as f64;
            ranking.rank_sum += of_first * (before + (size + 1.0) / 2.0);
            ranking.ties += size.powi(3) - size;
            before += size;
        }
        ranking
    }
}

fn approximate_p_value(u: f64, n1: f64, n2: f64, ties: f64) -> f64 {
    let n = n1 + n2;
    let deviation = (n1 * n2 / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)))).sqrt();
    let distance = ((u - n1 * n2 / 2.0).abs() - 0.5).max(0.0);
    if distance == 0.0 {
        return 1.0;
    }
    2.0 * Normal::standard().sf(distance / deviation)
}

/// Twice the fraction of orders of `n1` and `n2` values whose U is at least `u`, for `u` of at least n₁n₂/2.
fn exact_p_value(u: usize, n1: usize, n2: usize) -> f64 {
    let orders = orders_by_u(n1, n2);
    let extreme: f64 = orders[u..].iter().sum();
    (2.0 * extreme / orders.iter().sum::<f64>()).min(1.0)
}

/// The number of orders of `n1` and `n2` distinct values with each U: the coefficients of the Gaussian binomial,
/// Π (1 − x^(n₂+i)) / (1 − xⁱ) for i from 1 to n₁. They are integers below 2⁵³ for up to 40 values.
fn orders_by_u(n1: usize, n2: usize) -> Vec<f64> {
    let mut coefficients = vec![0.0; n1 * n2 + 1];
    coefficients[0] = 1.0;
    for i in 1..=n1 {
        for power in (n2 + i..coefficients.len()).rev() {
            coefficients[power] -= coefficients[power - n2 - i];
        }
        for power in i..coefficients.len() {
            coefficients[power] += coefficients[power - i];
        }
    }
    coefficients
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::summary::tests::{assert_close, scattered};
    use rand::SeedableRng;
    use rand::rngs::ChaCha8Rng;
    use rand_distr::{Distribution, Normal};

    fn changed(samples: Samples, change: impl Fn(f64) -> f64) -> Samples {
        Samples::new(samples.in_order().iter().map(|&sample| change(sample)).collect()).unwrap()
    }

    /// U and p of scipy.stats.mannwhitneyu (SciPy 1.17.1), δ of numpy.sign(a[:, None] - b).mean() (NumPy 2.4.6).
    fn assert_test(first: &Samples, second: &Samples, [u, p_value, cliffs_delta]: [f64; 3]) {
        let test = RankTest::new(first, second);
        assert_close(test.u, u, "scipy.stats.mannwhitneyu");
        assert_close(test.p_value, p_value, "scipy.stats.mannwhitneyu");
        assert_close(test.cliffs_delta, cliffs_delta, "numpy");
        let swapped = RankTest::new(second, first);
        assert_close(swapped.p_value, p_value, "symmetry");
        assert_close(swapped.cliffs_delta, -cliffs_delta, "symmetry");
    }

    #[test]
    fn large_sets_are_tested_as_scipy_does() {
        let (first, second) = (scattered(100, 37, 101), scattered(80, 29, 103));
        let golden = [3179.5, 0.018_242_703_460_724_388, -0.205_125];
        assert_test(&first, &changed(second.clone(), |sample| sample + 0.1), golden);
        let golden = [0.5, 1.145_316_590_436_134_8e-30, -0.999_875];
        assert_test(&first, &changed(second, |sample| sample * 1.1), golden);
    }

    #[test]
    fn ties_are_corrected_for_as_scipy_does() {
        let golden = [2545.0, 0.107_936_983_904_224_9, -0.151_666_666_666_666_67];
        assert_test(&scattered(100, 37, 11), &scattered(60, 29, 13), golden);
        assert_test(&scattered(6, 3, 4), &scattered(5, 2, 5), [12.0, 0.640_373_539_453_048_8, -0.2]);
    }

    #[test]
    fn small_sets_are_tested_exactly() {
        let samples = |values: &[f64]| Samples::new(values.to_vec()).unwrap();
        let (male, female) = (samples(&[19.0, 22.0, 16.0, 29.0, 24.0]), samples(&[20.0, 11.0, 17.0, 12.0]));
        assert_test(&male, &female, [17.0, 0.111_111_111_111_111_1, 0.7]);
        let shifted = |count| changed(scattered(count, 29, 103), |sample| sample + 0.205);
        assert_test(&scattered(20, 37, 101), &shifted(20), [130.0, 0.059_563_831_561_703_59, -0.35]);
        let three = changed(scattered(3, 37, 101), |sample| sample + 0.003);
        assert_test(&three, &shifted(7), [6.0, 0.383_333_333_333_333_3, -0.428_571_428_571_428_57]);
    }

    #[test]
    fn equal_values_tell_nothing() {
        let same = Samples::new(vec![2.0; 50]).unwrap();
        let test = RankTest::new(&same, &same);
        assert_eq!((test.p_value, test.cliffs_delta), (1.0, 0.0));
    }

    #[test]
    fn one_in_twenty_tests_of_equal_distributions_is_significant() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let times = Normal::new(50.0, 1.5).unwrap();
        let mut draw = || Samples::new((0..100).map(|_| times.sample(&mut random)).collect()).unwrap();
        let significant = (0..1000).filter(|_| RankTest::new(&draw(), &draw()).p_value < 0.05).count();
        assert!((35..=65).contains(&significant), "{significant} of 1000 tests of nothing are significant");
    }
}
