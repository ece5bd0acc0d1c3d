//! expected error: the swizzle permutes more chunks than a row of this shared tile has

#[path = "../../src/shared_tile.rs"]
#[allow(dead_code)]
mod shared_tile;

use shared_tile::{F16, Row, SharedTile, Swizzle128};

// 4 chunks to a row: the swizzle would send chunks to the next rows.
const TILE: SharedTile<F16, 64, Row<32, Swizzle128>> = SharedTile::at(0);

fn main() {
    TILE.chunk(1, 0);
}
