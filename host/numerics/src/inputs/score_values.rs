//! Generates a bias and ALiBi slopes.

use rand::rngs::ChaCha8Rng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution as _, StandardNormal};

use super::Distribution;
use crate::element::{Bits, Element, Encoding};

/// Random stream of the bias, far from those of heads, which count from 0.
const BIAS_STREAM: u64 = u64::MAX;

/// A bias of `elements` elements, normal with standard deviation 2. Unless the other inputs are standard normal, one
/// element in 16 is −∞, as for keys that a query does not attend to.
pub fn bias(elements: u64, element: Element, distribution: Distribution, seed: u64) -> Vec<Bits> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(BIAS_STREAM);
    let excludes = distribution != Distribution::Normal;
    let draw = |_| {
        let number: f64 = StandardNormal.sample(&mut random);
        let is_excluded = random.random_range(0..16) == 0 && excludes;
        element.encode(if is_excluded { f64::NEG_INFINITY } else { 2.0 * number })
    };
    (0..elements).map(draw).collect()
}

/// ALiBi slopes: the geometric sequence from 2^(−8/H) down to 2⁻⁸ over the heads, slightly larger in each batch entry.
pub fn slopes(count: u64, heads: u32) -> Vec<f32> {
    let heads = u64::from(heads);
    let slope = |index: u64| {
        let (batch, head) = (index / heads, index % heads);
        let exponent = -8.0 * (head + 1) as f64 / heads as f64;
        (exponent.exp2() * (1.0 + batch as f64 / 8.0)) as f32
    };
    (0..count).map(slope).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_bias_and_only_hard_inputs_exclude_keys() {
        let of = |distribution| bias(1000, Element::F16, distribution, 7);
        assert_eq!(of(Distribution::Normal), of(Distribution::Normal));
        let excluded = |bits: &[Bits]| bits.iter().filter(|&&bits| Element::F16.decode(bits).is_infinite()).count();
        assert_eq!(excluded(&of(Distribution::Normal)), 0);
        assert!((30..100).contains(&excluded(&of(Distribution::Uniform))));
    }

    #[test]
    fn slopes_are_those_of_the_paper_and_differ_between_batch_entries() {
        let slopes = slopes(16, 8);
        assert_eq!((slopes[0], slopes[7]), (0.5, 1.0 / 256.0));
        assert_ne!(slopes[8], slopes[0]);
    }
}
