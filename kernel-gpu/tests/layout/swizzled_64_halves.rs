//! expected: compiles

#[path = "../../src/shared_tile.rs"]
#[allow(dead_code)]
mod shared_tile;

use shared_tile::{F16, Row, SharedTile, Swizzle128};

const TILE: SharedTile<F16, 64, Row<64, Swizzle128>> = SharedTile::at(0);

fn main() {
    assert_eq!(TILE.chunk(1, 0), 128 + 16);
}
