//! Parts: the keys of a work item are split among blocks that leave their results in memory, where a second launch of the same
//! kernel combines them.
//!
//! For kernels without clusters, what [`crate::schedule::split_keys`] is for those with them ("Flash-Decoding", Dao, Haziza, Massa and
//! Sizov, 2023). The memory is a workspace of the caller's; nothing has to be written to it before.

use crate::spec::config::{MMA_M, MMA_N, Mask, WARP_SIZE};
use crate::spec::shape::Shape;

/// Maximum parts of an item.
pub const MOST_PARTS: u32 = 64;
/// Columns that a warp combines at once.
pub const COMBINED_COLUMNS: u32 = 32;
/// Parts from which on the warps of a combining block share the parts of few columns, instead of the columns.
const MANY_PARTS: u32 = 8;
/// Bytes that a warp leaves for a fragment of 16 rows and 8 columns: neighbouring lanes have neighbouring chunks, which lie in different
/// banks of shared memory.
pub const FRAGMENT_BYTES: u32 = WARP_SIZE * 4 * size_of::<f32>() as u32;

/// Bytes that a part leaves for 16 rows: a fragment of shifts and sums, and O.
pub const fn strip_bytes(columns: u32) -> u32 {
    (columns / MMA_N + 1) * FRAGMENT_BYTES
}

/// Strips of 16 rows of an item of `rows` rows.
pub const fn strips(rows: u32) -> u32 {
    rows / MMA_M
}

/// Minimum steps of a part. A row attends to the first keys of every part that has any of its keys, from which its shift is guessed:
/// under a causal mask, the last part begins before the item's rows do.
#[inline(always)]
pub const fn fewest_steps(rows: u32, step: u32, mask_has_all_keys: bool) -> u32 {
    if mask_has_all_keys { 1 } else { rows.div_ceil(step) + 1 }
}

/// Groups of [`COMBINED_COLUMNS`] columns that one combining block has, of all `columns`.
#[inline(always)]
pub const fn column_groups_of_a_block(parts: u32, columns: u32) -> u32 {
    if parts < MANY_PARTS { columns / COMBINED_COLUMNS } else { 1 }
}

/// Combining blocks of an item.
pub const fn combining_blocks(parts: u32, rows: u32, columns: u32) -> u32 {
    strips(rows) * (columns / COMBINED_COLUMNS / column_groups_of_a_block(parts, columns))
}

/// Bytes of the workspace of `items` items in `parts` parts; 0 if they are in one.
pub const fn workspace_bytes(items: u32, parts: u32, rows: u32, columns: u32) -> u64 {
    if parts < 2 { 0 } else { items as u64 * (parts * strips(rows) * strip_bytes(columns)) as u64 }
}

/// Whether the caller of a launch provides a workspace, if a plan can use one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workspace {
    /// No: items are not split in parts.
    None,
    /// Yes, one of [`Plan::workspace_bytes`](crate::launch::plan::Plan::workspace_bytes).
    Provided,
}

/// The tile of a kernel that leaves parts.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// Query rows.
    pub rows: u32,
    /// Keys of a step.
    pub step: u32,
}

/// Numbers of parts among which the fastest is looked for: a few, and those that fill the GPU, whose multiprocessors have `resident`
/// blocks each, once or twice. More would leave too much: results of parts pass through memory.
pub fn candidates(tile: Tile, shape: Shape, mask: Mask, (multiprocessors, resident): (u32, u32)) -> [Option<u32>; 8] {
    let (is_full, queries, keys) = (matches!(mask, Mask::Full), shape.sequence, shape.kv_sequence);
    let steps = if is_full { keys } else { keys.min(queries) }.div_ceil(tile.step);
    let heads = shape.batch.saturating_mul(shape.heads);
    let items = heads.saturating_mul(queries.div_ceil(tile.rows)).max(1);
    let room = multiprocessors.saturating_mul(resident.max(1));
    let most =
        (steps / fewest_steps(tile.rows, tile.step, is_full)).min(MOST_PARTS).min(room.saturating_mul(2) / items);
    let filling = [multiprocessors / items, multiprocessors.saturating_mul(2) / items, room / items, most];
    let [a, b, c, d] = filling;
    [2, 3, 4, 6, a, b, c, d].map(|parts| Some(parts).filter(|parts| (2..=most).contains(parts)))
}

/// Bytes that the `parts` parts of a head of `sequence` queries leave; 0 if there is one.
pub fn left_bytes(sequence: u32, parts: u32, columns: u32) -> f64 {
    if parts < 2 {
        0.0
    } else {
        f64::from(sequence.div_ceil(MMA_M)) * f64::from(parts) * f64::from(strip_bytes(columns))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::vec::Vec;

    const TILE: Tile = Tile { rows: 64, step: 64 };

    fn numbers(shape: Shape, mask: Mask) -> Vec<u32> {
        candidates(TILE, shape, mask, (132, 2)).into_iter().flatten().collect()
    }

    #[test]
    fn parts_fill_the_gpu_and_have_keys_for_all_rows() {
        let one_query = |keys| Shape::new(1, 3, 1).with_kv_sequence(keys);
        assert_eq!(numbers(one_query(64 * 100), Mask::Full), [2, 3, 4, 6, 44, 64], "of three heads");
        assert_eq!(numbers(one_query(64 * 5), Mask::Full), [2, 3, 4, 5], "a step for each");
        assert_eq!(numbers(one_query(64), Mask::Full), [0_u32; 0]);
        let causal = numbers(Shape::new(1, 1, 64 * 9), Mask::Causal);
        assert_eq!(causal, [2, 3, 4, 4], "two steps: those of the last part begin before the rows do");
        assert_eq!(
            numbers(Shape::new(1, 264, 64).with_kv_sequence(4096), Mask::Full),
            [2, 2],
            "twice as many as find places"
        );
        assert_eq!(numbers(Shape::new(1, 265, 64).with_kv_sequence(4096), Mask::Full), [0_u32; 0]);
        assert_eq!(numbers(Shape::new(u32::MAX, u32::MAX, 64), Mask::Full), [0_u32; 0]);
    }

    #[test]
    fn a_workspace_has_a_place_for_each_strip_of_each_part() {
        assert_eq!(workspace_bytes(63, 1, 64, 128), 0);
        assert_eq!(workspace_bytes(63, 3, 64, 128), 63 * 3 * 64 * (128 + 8) * 4);
        assert_eq!(workspace_bytes(u32::MAX, MOST_PARTS, 128, 128), u64::from(u32::MAX) * 64 * 128 * 136 * 4);
        assert_eq!(left_bytes(100, 3, 128), 7.0 * 3.0 * 16.0 * 136.0 * 4.0, "strips without rows leave nothing");
    }

    #[test]
    fn combining_blocks_have_all_columns_of_a_strip_or_a_warps() {
        assert_eq!([2, 7, 8, 64].map(|parts| combining_blocks(parts, 64, 128)), [4, 4, 16, 16]);
        assert_eq!([2, 8].map(|parts| combining_blocks(parts, 16, 32)), [1, 1]);
    }
}
