//! expected error: a shared tile's row pitch must be a multiple of 16 bytes

#[path = "../../src/shared_tile.rs"]
#[allow(dead_code)]
mod shared_tile;

use shared_tile::{F16, Linear, Row, SharedTile};

// 65 halves: rows at 0x82, 0x104, 0x186 …, where a 16-byte cp.async faults.
const TILE: SharedTile<F16, 64, Row<65, Linear>> = SharedTile::at(0);

fn main() {
    TILE.chunk(1, 0);
}
