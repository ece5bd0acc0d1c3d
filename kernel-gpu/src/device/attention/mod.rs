//! Code shared by the kernel families: everything except the matrix products and the pipelines that feed them.
//!
//! Accumulators of `mma.sync` and `wgmma` have the same layout: of each 16×8 tile, lane 4g + t of a warp holds rows g and
//! g + 8, columns 2t and 2t + 1. Mask, softmax and epilogue work on this layout.

pub mod bias;
pub mod block;
pub mod copy;
pub mod epilogue;
pub mod head_dim;
pub mod head_rows;
pub mod kernel;
mod lane;
pub mod mask;
pub mod other_rows;
pub mod place;
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

/// Unnormalised O of one warp: 8-column tiles, for each strip of 16 rows.
pub type Output<K, const M_TILES: usize> = [OutputStrip<K>; M_TILES];
/// Unnormalised O of a strip of 16 rows.
pub type OutputStrip<K> = <<K as Kernel>::HeadDim as HeadDim>::Output;
