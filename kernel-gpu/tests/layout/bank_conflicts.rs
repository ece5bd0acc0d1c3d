//! expected error: ldmatrix reads of this shared tile have bank conflicts

#[path = "../../src/shared_tile.rs"]
#[allow(dead_code)]
mod shared_tile;

use shared_tile::{F16, Linear, Row, SharedTile};

// 128-byte rows without a swizzle: the 8 rows of a matrix all begin in bank 0.
const TILE: SharedTile<F16, 64, Row<64, Linear>> = SharedTile::at(0);

fn main() {
    TILE.chunk(1, 0);
}
