//! The backward pass by `cp.async`, `ldmatrix` and `mma.sync`, in one launch without a workspace.
//!
//! Some blocks compute dK and dV of some keys, others dQ of some queries; in entries of its own, the first ones dBias.
//!
//! [`keys`] has those of keys, [`queries`] those of queries, [`bias`](self::bias) those of dBias, [`statistics`] what they know of a query row,
//! [`memory`] their shared memory, [`output`] what they store. Where one warp has no registers for all columns of a gradient of its rows, it
//! shares them with another one: [`pairs`].

mod bias;
mod bias_elements;
mod kernel;
mod keys;
mod memory;
mod output;
mod pairs;
mod queries;
mod statistics;

pub use kernel::Sm80Backward;

use crate::device::codegen::thread;
use crate::device::lane::Lane;
use contract::backward::args::BackwardArgs;

/// What a warp accumulates, as types.
pub trait Division<K: Sm80Backward, const ROWS: u32, const STEP: u32, const M_TILES: usize> {
    /// Of dK and dV.
    type OfKeys: keys::Accumulators<K, ROWS, STEP, M_TILES>;
    /// Of dQ.
    type OfQueries: queries::Accumulators<K, ROWS, STEP, M_TILES>;
}

/// Whether pairs of warps share rows.
pub struct Paired<const IS_SO: bool>;

impl<K: Sm80Backward, const ROWS: u32, const STEP: u32, const M_TILES: usize> Division<K, ROWS, STEP, M_TILES>
    for Paired<false>
{
    type OfKeys = keys::alone::Both<K, ROWS, M_TILES>;
    type OfQueries = queries::alone::All<K, M_TILES>;
}

impl<K: Sm80Backward, const ROWS: u32, const STEP: u32, const M_TILES: usize> Division<K, ROWS, STEP, M_TILES>
    for Paired<true>
{
    type OfKeys = keys::paired::One<K, M_TILES>;
    type OfQueries = queries::paired::Half<K, M_TILES>;
}

/// Computes dK and dV of `ROWS` keys, or dQ of `ROWS` queries, `STEP` rows of the other tensors at a time. Each warp, or pair of warps, has
/// `M_TILES` strips of 16 rows.
#[inline(always)]
pub fn backward<K, D, const ROWS: u32, const STEP: u32, const M_TILES: usize>(args: &BackwardArgs)
where
    K: Sm80Backward,
    D: Division<K, ROWS, STEP, M_TILES>,
{
    let (mut block, lane) = (thread::block_idx_x(), Lane::current());
    // SAFETY: all threads of the block are here, and the branch is the block's.
    unsafe {
        if const { K::COMPUTES_D_BIAS } {
            if block < args.bias.blocks {
                bias::gradient::<K, ROWS, STEP, M_TILES>(args, block, lane);
                return;
            }
            block -= args.bias.blocks;
        }
        if block < args.key_blocks {
            keys::gradients::<K, D::OfKeys, ROWS, STEP, M_TILES>(args, block, lane);
        } else {
            queries::gradients::<K, D::OfQueries, ROWS, STEP, M_TILES>(args, block - args.key_blocks, lane);
        }
    }
}
