//! expected error: ldmatrix reads of this shared tile have bank conflicts

#[path = "../../src/shared_tile.rs"]
#[allow(dead_code)]
mod shared_tile;

use shared_tile::{F16, Linear, Row, SharedTile};

// 192-byte rows without a swizzle: every other row of a matrix begins in the same bank.
const TILE: SharedTile<F16, 64, Row<96, Linear>> = SharedTile::at(0);

fn main() {
    TILE.chunk(1, 0);
}
