//! Operands and results of the products: P and dS in elements, and the stores of gradients.

use super::kernel::Sm80Backward;
use crate::device::backward::output;
use crate::device::kernel::Output;
use crate::device::lane::{Lane, Scores, pack_probabilities};
use crate::device::ptx::mma::FragmentA;
use crate::device::sequence::other_rows::{self, Share};
use crate::device::sequence::{Of, Sequence};
use crate::device::tile::head_rows::HeadRows;
use crate::device::unrolled;
use contract::args::{ForwardArgs, Strides};
use contract::config::MMA_M;
use contract::geometry::BlockWork;

/// Clears the calling block's share of the rows of gradients that belong to no sequence.
///
/// # Safety
/// Block together, with each share of each head of the tensors once in the launch.
#[inline(always)]
pub unsafe fn clear_other_rows<K: Sm80Backward, const COUNT: usize>(
    problem: &ForwardArgs,
    gradients: [(u64, &Strides); COUNT],
    of: Of,
    (work, shares): (BlockWork, u32),
    lane: Lane,
) {
    let Some(all) = K::Sequence::rows_beside_others(problem, of) else { return };
    let rows = match of {
        Of::Queries => problem.sequence,
        Of::Keys => problem.kv_sequence,
    };
    let threads = (lane.thread, const { K::TILE.threads() });
    let share = Share { number: work.query_tile, of: shares };
    unrolled!(at most 2; for i in COUNT => {
        let (tensor, strides) = gradients[i];
        let head = HeadRows::new::<K::Element>(tensor, strides, work, 0);
        // SAFETY: the caller's promise.
        unsafe { other_rows::clear_gradient(head, (rows, problem.head_dim), all, share, threads) };
    });
}

/// P or dS of 16 columns, rounded to elements: the left operands of products.
#[inline(always)]
pub fn packed<K: Sm80Backward, const M_TILES: usize>(scores: &Scores<M_TILES, 2>) -> [FragmentA; M_TILES] {
    let mut fragments = [[0; 4]; M_TILES];
    unrolled!(at most 4; for m in M_TILES => { fragments[m] = pack_probabilities::<K::Element>(scores[m][0], scores[m][1]) });
    fragments
}

/// Stores a gradient, multiplied by `scale`, to the warp's rows of a head: those from `first_row` on, of `length`.
///
/// # Safety
/// Warp together; no other warp writes these rows.
#[inline(always)]
pub unsafe fn store<K: Sm80Backward, const M_TILES: usize>(
    gradient: &mut Output<K, M_TILES>,
    head: HeadRows,
    scale: f32,
    (first_row, length): (u32, u32),
    problem: &ForwardArgs,
    lane: Lane,
) {
    unrolled!(at most 4; for m in M_TILES => {
        let rows = (first_row + m as u32 * MMA_M, length);
        // SAFETY: the caller's promise.
        unsafe { output::store::<K>(&mut gradient[m], head, scale, rows, problem, lane) };
    });
}
