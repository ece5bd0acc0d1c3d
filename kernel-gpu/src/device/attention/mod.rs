//! Code shared by the kernel families: everything except the matrix products and the pipelines that feed them.
//!
//! Accumulators of `mma.sync` and `wgmma` have the same layout: of each 16×8 tile, lane 4g + t of a warp holds rows g and
//! g + 8, columns 2t and 2t + 1. Mask and softmax work on this layout.

pub mod bias;
pub mod head_dim;
pub mod head_rows;
pub mod kernel;
mod lane;
pub mod mask;
pub mod other_rows;
pub mod place;
pub mod score_mod;
pub mod sequence;
pub mod softmax;

pub use lane::{Lane, ROWS_PER_LANE, Scores, pack_probabilities};

use head_dim::HeadDim;
use kernel::Kernel;

/// Unnormalised O of a strip of 16 rows.
pub type OutputStrip<K> = <<K as Kernel>::HeadDim as HeadDim>::Output;
