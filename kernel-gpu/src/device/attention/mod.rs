//! What the kernel families share: everything but the matrix products and the pipeline that feeds them.
//!
//! The accumulators of `mma.sync` and `wgmma` have the same layout: of each 16×8 tile, lane 4g + t of a warp holds rows g
//! and g + 8, columns 2t and 2t + 1. Mask, softmax and epilogue work on that layout alone.

pub mod block;
pub mod copy;
pub mod epilogue;
pub mod head_dim;
pub mod head_rows;
pub mod kernel;
mod lane;
pub mod mask;
pub mod score_mod;
pub mod sequence;
pub mod shared_memory;
pub mod softmax;

pub use lane::{Lane, ROWS_PER_LANE, Scores, pack_probabilities};

use crate::shared_tile::SharedTile;
use head_dim::HeadDim;
use kernel::Kernel;

/// A tile of `ROWS` rows of Q, K, V or O in shared memory.
pub type Tile<K, const ROWS: u32> = SharedTile<<K as Kernel>::Element, ROWS, <<K as Kernel>::HeadDim as HeadDim>::Row>;

/// Unnormalised O of one warp: for each strip of 16 rows, tiles of 8 columns.
pub type Output<K, const M_TILES: usize> = [OutputStrip<K>; M_TILES];
/// Unnormalised O of a strip of 16 rows.
pub type OutputStrip<K> = <<K as Kernel>::HeadDim as HeadDim>::Output;
