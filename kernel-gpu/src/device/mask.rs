//! Masks as types: which keys a query row attends to.
//!
//! Rows count from the first query. For masks with a begin they are positions among the keys instead
//! ([`Sequence::first_position`]); these are negative before the first key, as numbers modulo 2³².

use crate::device::sequence::Sequence;
use contract::args::ForwardArgs;
use contract::longest_first::WorkOrder;

/// A mask, applied to tiles of scores. Begin and end of the attended keys are non-decreasing in the row.
pub trait Mask {
    /// Whether every row attends to all keys.
    const ALL_KEYS: bool;
    /// Whether keys before those that a row attends to are masked: the first tile may then be after key 0, and any tile may
    /// need masking.
    const HAS_BEGIN: bool;
    /// The order of work items.
    const ORDER: WorkOrder;

    /// The first key that `row` attends to.
    fn keys_begin(args: &ForwardArgs, row: u32) -> u32;

    /// End of the keys that any row before `rows_end` attends to, out of `length` keys. `row + 1` gives the end for `row`
    /// itself.
    fn keys_end(args: &ForwardArgs, rows_end: u32, length: u32) -> u32;

    /// Position of the first row that attends to `key` or a later one, as far as the mask decides.
    fn positions_begin(args: &ForwardArgs, key: u32) -> i32;

    /// End of the positions of rows that attend to any key before `keys_end`, likewise.
    fn positions_end(args: &ForwardArgs, keys_end: u32) -> i32;

    /// Whether the tile of keys `[keys_start, keys_start + keys)` needs masking for any of `rows` (first, number).
    fn touches<S: Sequence>(args: &ForwardArgs, rows: (u32, u32), keys_start: u32, keys: u32, length: u32) -> bool;
}

/// Every key.
pub struct Full;

impl Mask for Full {
    const ALL_KEYS: bool = true;
    const HAS_BEGIN: bool = false;
    const ORDER: WorkOrder = WorkOrder::HeadByHead;

    #[inline(always)]
    fn keys_begin(_: &ForwardArgs, _row: u32) -> u32 {
        0
    }

    #[inline(always)]
    fn keys_end(_: &ForwardArgs, _rows_end: u32, length: u32) -> u32 {
        length
    }

    #[inline(always)]
    fn positions_begin(_: &ForwardArgs, _key: u32) -> i32 {
        i32::MIN
    }

    #[inline(always)]
    fn positions_end(_: &ForwardArgs, _keys_end: u32) -> i32 {
        i32::MAX
    }

    #[inline(always)]
    fn touches<S: Sequence>(_: &ForwardArgs, _rows: (u32, u32), keys_start: u32, keys: u32, length: u32) -> bool {
        S::HAS_TAIL && keys_start + keys > length
    }
}

/// Keys at or before the row's own position (top-left aligned).
pub struct Causal;

impl Mask for Causal {
    const ALL_KEYS: bool = false;
    const HAS_BEGIN: bool = false;
    const ORDER: WorkOrder = WorkOrder::LongestFirst;

    #[inline(always)]
    fn keys_begin(_: &ForwardArgs, _row: u32) -> u32 {
        0
    }

    #[inline(always)]
    fn keys_end(_: &ForwardArgs, rows_end: u32, length: u32) -> u32 {
        rows_end.min(length)
    }

    #[inline(always)]
    fn positions_begin(_: &ForwardArgs, key: u32) -> i32 {
        key as i32
    }

    #[inline(always)]
    fn positions_end(_: &ForwardArgs, _keys_end: u32) -> i32 {
        i32::MAX
    }

    #[inline(always)]
    fn touches<S: Sequence>(
        args: &ForwardArgs,
        (rows_start, rows): (u32, u32),
        keys_start: u32,
        keys: u32,
        length: u32,
    ) -> bool {
        keys_start + keys > rows_start + 1 || Full::touches::<S>(args, (rows_start, rows), keys_start, keys, length)
    }
}

/// Keys from a number of rows before (or after) the row's position to another one, both arguments of the launch.
pub struct Window;

impl Mask for Window {
    const ALL_KEYS: bool = false;
    const HAS_BEGIN: bool = true;
    const ORDER: WorkOrder = WorkOrder::HeadByHead;

    #[inline(always)]
    fn keys_begin(args: &ForwardArgs, row: u32) -> u32 {
        // No overflow: positions and `window_left` are at most 2³⁰ in magnitude.
        (row as i32 - args.window_left).max(0) as u32
    }

    #[inline(always)]
    fn keys_end(args: &ForwardArgs, rows_end: u32, length: u32) -> u32 {
        // No overflow, likewise.
        (rows_end as i32 + args.window_right).max(0).min(length as i32) as u32
    }

    #[inline(always)]
    fn positions_begin(args: &ForwardArgs, key: u32) -> i32 {
        // No overflow, likewise.
        key as i32 - args.window_right
    }

    #[inline(always)]
    fn positions_end(args: &ForwardArgs, keys_end: u32) -> i32 {
        (keys_end as i32).saturating_add(args.window_left)
    }

    #[inline(always)]
    fn touches<S: Sequence>(
        args: &ForwardArgs,
        (rows_start, rows): (u32, u32),
        keys_start: u32,
        keys: u32,
        length: u32,
    ) -> bool {
        keys_start < Self::keys_begin(args, rows_start.wrapping_add(rows).wrapping_sub(1))
            || keys_start + keys > Self::keys_end(args, rows_start.wrapping_add(1), length)
    }
}
