//! Which rows contribute to a tile of gradients.

use crate::device::kernel::Kernel;
use crate::device::mask::Mask;
use crate::device::sequence::Sequence;
use contract::args::ForwardArgs;
use contract::packed::{Rows, SequenceTile};

/// The queries that may attend to a tile of keys.
#[derive(Clone, Copy)]
pub struct Queries {
    /// The rows of Q of the sequence.
    pub rows: Rows,
    /// Position of the first of them among the keys.
    pub first_position: u32,
    /// The first row that attends to any key of the tile, a multiple of a step.
    pub begin: u32,
    /// End of those rows.
    pub end: u32,
}

impl Queries {
    /// Those of `tile`, of `rows` keys, in steps of `step` queries.
    #[inline(always)]
    pub fn of<K: Kernel>(problem: &ForwardArgs, tile: SequenceTile, rows: u32, step: u32) -> Self {
        let of_sequence = K::Sequence::queries(problem, tile);
        let first_position = K::Sequence::first_position(problem, of_sequence.length, tile.length);
        let row_at = |position: i32| position.saturating_sub(first_position as i32).max(0) as u32;
        let begin = row_at(K::Mask::positions_begin(problem, tile.first_row)) / step * step;
        let keys_end = (tile.first_row + rows).min(tile.length);
        let end = row_at(K::Mask::positions_end(problem, keys_end)).min(of_sequence.length);
        Self { rows: of_sequence, first_position, begin, end }
    }
}

/// The keys that a tile of queries attends to.
#[derive(Clone, Copy)]
pub struct Keys {
    /// The rows of K of the sequence.
    pub rows: Rows,
    /// Position of the tile's first query among them.
    pub position: u32,
    /// The first key that any query of the tile attends to, a multiple of a step.
    pub begin: u32,
    /// End of those keys.
    pub end: u32,
}

impl Keys {
    /// Those of `tile`, of `rows` queries, in steps of `step` keys.
    #[inline(always)]
    pub fn of<K: Kernel>(problem: &ForwardArgs, tile: SequenceTile, rows: u32, step: u32) -> Self {
        let of_sequence = K::Sequence::keys(problem, tile);
        let first_position = K::Sequence::first_position(problem, tile.length, of_sequence.length);
        let position = tile.first_row.wrapping_add(first_position);
        let end = K::Mask::keys_end(problem, position.wrapping_add(rows), of_sequence.length);
        let begin = if K::Mask::HAS_BEGIN { K::Mask::keys_begin(problem, position) / step * step } else { 0 };
        Self { rows: of_sequence, position, begin, end }
    }
}

/// Whether any query at one of the positions from the first of `positions` on, so many, attends to one of so many keys from the first of `keys`
/// on, of `length` keys.
#[inline(always)]
pub fn attend<K: Kernel>(problem: &ForwardArgs, positions: (u32, u32), keys: (u32, u32), length: u32) -> bool {
    let ((position, rows), (first_key, count)) = (positions, keys);
    let begins_behind = K::Mask::HAS_BEGIN && K::Mask::keys_begin(problem, position) >= first_key + count;
    K::Mask::keys_end(problem, position.wrapping_add(rows), length) > first_key && !begins_behind
}
