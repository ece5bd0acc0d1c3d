//! Who computes it: the tile of a block, and the order in which blocks take work items.

pub mod architecture;
pub mod divisor;
pub mod geometry;
pub mod last_round;
pub mod longest_first;
pub mod packed;
pub mod parts;
pub mod residency;
pub mod split_keys;
pub mod tile;
