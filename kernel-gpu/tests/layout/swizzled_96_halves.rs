//! expected: compiles

#[path = "../../src/shared_tile.rs"]
#[allow(dead_code)]
mod shared_tile;

use shared_tile::{F16, Row, SharedTile, Swizzle64};

// Rows of 192 bytes begin in two bank groups by turns, and the swizzle moves every other pair of rows.
const TILE: SharedTile<F16, 64, Row<96, Swizzle64>> = SharedTile::at(0);

fn main() {
    assert_eq!(TILE.chunk(2, 0), 2 * 192 + 16);
}
