//! Probabilities of a warp, as operands of its products with V.

use crate::device::lane::{Scores, pack_probabilities};
use crate::device::ptx::element::Element;
use crate::device::ptx::mma::FragmentA;
use crate::device::unrolled;

/// P of one warp, rounded to elements: a fragment per 16 keys.
pub type Probabilities<const K_STEPS: usize> = [FragmentA; K_STEPS];

/// P as fragments of A.
#[inline(always)]
pub fn pack<E: Element, const N_TILES: usize, const K_STEPS: usize>(
    scores: &Scores<1, N_TILES>,
) -> Probabilities<K_STEPS> {
    const { assert!(2 * K_STEPS == N_TILES) };
    let mut probabilities = [[0; 4]; K_STEPS];
    unrolled!(at most 8; for k in K_STEPS => {
        probabilities[k] = pack_probabilities::<E>(scores[0][2 * k], scores[0][2 * k + 1]);
    });
    probabilities
}
