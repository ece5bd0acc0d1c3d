//! The combination of results over different keys of the same rows, of groups of warps ([`key_groups`](super::key_groups)) and of blocks
//! ([`parts`](super::parts)). Let mᵢ, lᵢ and Oᵢ be the shift, the sum and the unnormalised output of part i, and m the largest shift:
//!
//! ```text
//! l = Σ 2^(mᵢ − m) lᵢ     O = Σ 2^(mᵢ − m) Oᵢ
//! ```

use super::kernel::Sm80Kernel;
use crate::device::kernel::OutputStrip;
use crate::device::lane::ROWS_PER_LANE;
use crate::device::ptx::math;
use crate::device::ptx::mma::FragmentC;
use crate::device::softmax::finite_or_zero;
use crate::device::tile::head_dim::{Fragments, HeadDim};
use crate::device::unrolled;
use contract::parts::FRAGMENT_BYTES;

/// Gives the softmax state of a strip and its O to `store`, in fragments, with the offset of each.
#[inline(always)]
pub fn store_strip<K: Sm80Kernel>(
    output: &OutputStrip<K>,
    (shift, sum): ([f32; ROWS_PER_LANE], [f32; ROWS_PER_LANE]),
    mut store: impl FnMut(u32, FragmentC),
) {
    store(0, [shift[0], shift[1], sum[0], sum[1]]);
    unrolled!(at most 32; for n in K::HeadDim::N_TILES => { store((n as u32 + 1) * FRAGMENT_BYTES, output.all()[n]) });
}

/// Factors on the rows of two parts of O that are added: 2^(mᵢ − m).
#[derive(Clone, Copy)]
pub struct Weights {
    own: [f32; ROWS_PER_LANE],
    others: [f32; ROWS_PER_LANE],
}

/// Adds another part's shifts and sums of the same rows to a lane's own.
#[inline(always)]
pub fn add_softmax(
    (own_shift, own_sum): (&mut [f32; ROWS_PER_LANE], &mut [f32; ROWS_PER_LANE]),
    (shift, sum): ([f32; ROWS_PER_LANE], [f32; ROWS_PER_LANE]),
) -> Weights {
    let mut weights = Weights { own: [0.0; ROWS_PER_LANE], others: [0.0; ROWS_PER_LANE] };
    unrolled!(at most 2; for r in ROWS_PER_LANE => {
        let (one, other) = (attended(own_shift[r], own_sum[r]), attended(shift[r], sum[r]));
        let largest = math::max(one, other);
        weights.own[r] = math::exp2(one - finite_or_zero(largest));
        weights.others[r] = math::exp2(other - finite_or_zero(largest));
        own_shift[r] = largest;
        own_sum[r] = math::fma(weights.others[r], sum[r], weights.own[r] * own_sum[r]);
    });
    weights
}

/// Adds another part's fragment of O to a lane's own.
#[inline(always)]
pub fn add_fragment(fragment: &mut FragmentC, part: FragmentC, Weights { own, others }: Weights) {
    unrolled!(at most 4; for i in 4 => {
        fragment[i] = math::fma(others[i / 2], part[i], own[i / 2] * fragment[i]);
    });
}

/// The shift of a row with sum `sum`, or −∞ if the row attended to nothing and its shift must not count.
#[inline(always)]
fn attended(shift: f32, sum: f32) -> f32 {
    if sum == 0.0 { f32::NEG_INFINITY } else { shift }
}
