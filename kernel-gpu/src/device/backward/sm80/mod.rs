//! The backward pass by `cp.async`, `ldmatrix` and `mma.sync`, in one launch without a workspace.
//!
//! The first blocks compute dK and dV of some keys, the others dQ of some queries.
//!
//! [`keys`] has the first blocks, [`queries`] the others, [`statistics`] what both know of a query row, [`memory`] their shared memory,
//! [`output`] what they store.

mod kernel;
mod keys;
mod memory;
mod output;
mod queries;
mod statistics;

pub use kernel::Sm80Backward;

use crate::device::codegen::thread;
use crate::device::lane::Lane;
use contract::backward::args::BackwardArgs;

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
