//! Rows of Q, K, V and O: their width, and where they are in global memory. Their layout in shared memory is a
//! [`SharedTile`](crate::shared_tile::SharedTile).

pub mod head_dim;
pub mod head_rows;
