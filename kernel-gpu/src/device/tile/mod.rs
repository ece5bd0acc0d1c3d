//! Rows of Q, K, V and O: their width, and where they are in global memory. Their layout in shared memory is a
//! [`SharedTile`](crate::shared_tile::SharedTile).

pub mod head_dim;
pub mod head_rows;

#[cfg(feature = "sm_80")]
use crate::device::kernel::Kernel;
#[cfg(feature = "sm_80")]
use crate::shared_tile::SharedTile;
#[cfg(feature = "sm_80")]
use head_dim::HeadDim;

/// A tile of `ROWS` whole rows of a head in shared memory.
#[cfg(feature = "sm_80")]
pub type Tile<K, const ROWS: u32> = SharedTile<<K as Kernel>::Element, ROWS, <<K as Kernel>::HeadDim as HeadDim>::Row>;
