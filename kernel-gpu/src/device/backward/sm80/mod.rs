//! The backward pass by `cp.async`, `ldmatrix` and `mma.sync`, in one launch without a workspace.
//!
//! The first blocks compute dK and dV of some keys, the others dQ of some queries. Both compute S and dP: seven products instead of five,
//! but no block adds to what another one computes. So a launch gives the same bits every time.
//!
//! [`keys`] has the first blocks, [`queries`] the others, [`statistics`] what both know of a query row, [`memory`] their shared memory.

mod keys;
mod memory;
mod queries;
mod statistics;

use core::marker::PhantomData;

use crate::device::codegen::thread;
use crate::device::copy::Copiers;
use crate::device::kernel::{Kernel, Output};
use crate::device::lane::{Lane, Scores, pack_probabilities};
use crate::device::ptx::mma::FragmentA;
use crate::device::sequence::other_rows::{self, Share};
use crate::device::sequence::{Of, Sequence};
use crate::device::stores::store_strip;
use crate::device::tile::head_dim::{Fragments, HeadDim};
use crate::device::tile::head_rows::HeadRows;
use crate::device::unrolled;
use contract::args::{ForwardArgs, Strides};
use contract::backward::args::BackwardArgs;
use contract::backward::variants::Tile;
use contract::config::MMA_M;
use contract::geometry::BlockWork;

/// The specialisation of a backward kernel.
pub trait Sm80Backward: Kernel {
    /// How its blocks divide the work.
    const TILE: Tile;

    /// Who copies rows of D = `head_dim` columns.
    #[inline(always)]
    fn copiers(head_dim: u32) -> WholeBlock<Self> {
        WholeBlock { head_dim, _kernel: PhantomData }
    }
}

/// All threads of a block of kernel `K`.
#[derive(Clone, Copy)]
pub struct WholeBlock<K> {
    head_dim: u32,
    _kernel: PhantomData<K>,
}

impl<K: Sm80Backward> Copiers for WholeBlock<K> {
    #[inline(always)]
    fn threads(&self) -> u32 {
        const { K::TILE.threads() }
    }

    #[inline(always)]
    fn head_dim(&self) -> u32 {
        self.head_dim
    }
}

/// Computes dK and dV of `ROWS` keys, or dQ of `ROWS` queries, `STEP` rows of the other tensors at a time. Each warp has `M_TILES` strips
/// of 16 rows.
#[inline(always)]
pub fn backward<K: Sm80Backward, const ROWS: u32, const STEP: u32, const M_TILES: usize>(args: &BackwardArgs) {
    let (block, lane) = (thread::block_idx_x(), Lane::current());
    // SAFETY: all threads of the block are here, and the branch is the block's.
    unsafe {
        if block < args.key_blocks {
            keys::gradients::<K, ROWS, STEP, M_TILES>(args, block, lane);
        } else {
            queries::gradients::<K, ROWS, STEP, M_TILES>(args, block - args.key_blocks, lane);
        }
    }
}

/// Clears the calling block's share of the rows of gradients that belong to no sequence.
///
/// # Safety
/// Block together, with each share of each head of the tensors once in the launch.
#[inline(always)]
unsafe fn clear_other_rows<K: Sm80Backward, const COUNT: usize>(
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
    let share = Share { number: work.query_tile, of: shares };
    let threads = (lane.thread, const { K::TILE.threads() });
    unrolled!(at most 2; for i in COUNT => {
        let (tensor, strides) = gradients[i];
        let head = HeadRows::new::<K::Element>(tensor, strides, work, 0);
        // SAFETY: the caller's promise.
        unsafe { other_rows::clear_gradient(head, (rows, problem.head_dim), all, share, threads) };
    });
}

/// P or dS of 16 columns, rounded to elements: the left operands of products.
#[inline(always)]
fn packed<K: Sm80Backward, const M_TILES: usize>(scores: &Scores<M_TILES, 2>) -> [FragmentA; M_TILES] {
    let mut fragments = [[0; 4]; M_TILES];
    unrolled!(at most 4; for m in M_TILES => { fragments[m] = pack_probabilities::<K::Element>(scores[m][0], scores[m][1]) });
    fragments
}

/// Stores a gradient, multiplied by `scale`, to the warp's rows of a head: those from `first_row` on, of `length`.
///
/// # Safety
/// Warp together; no other warp writes these rows.
#[inline(always)]
unsafe fn store<K: Sm80Backward, const M_TILES: usize>(
    gradient: &mut Output<K, M_TILES>,
    head: HeadRows,
    scale: f32,
    (first_row, length): (u32, u32),
    problem: &ForwardArgs,
    lane: Lane,
) {
    unrolled!(at most 4; for m in M_TILES => {
        unrolled!(at most 32; for n in K::HeadDim::N_TILES => {
            unrolled!(at most 4; for i in 4 => { gradient[m].all_mut()[n][i] *= scale });
        });
        let rows = (first_row + m as u32 * MMA_M, length);
        // SAFETY: the caller's promise.
        unsafe { store_strip::<K>(&gradient[m], head, problem, rows, lane) };
    });
}
