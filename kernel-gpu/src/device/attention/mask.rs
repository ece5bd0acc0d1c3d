//! Masks as types: which keys a query row attends to.

use super::sequence::Sequence;

/// A mask, applied to tiles of scores.
pub trait Mask {
    /// Whether every row attends to all keys.
    #[cfg(feature = "sm_90a")]
    const ALL_KEYS: bool;

    /// End of the keys that any of the rows before `rows_end` attends to, out of `length`. With `row + 1` that is the end
    /// of what `row` itself attends to, since no row attends to fewer keys than those before it.
    fn keys_end(rows_end: u32, length: u32) -> u32;

    /// Whether a tile of keys `[keys_start, keys_start + keys)` has anything to mask for rows from `rows_start` on.
    fn touches<S: Sequence>(rows_start: u32, keys_start: u32, keys: u32, length: u32) -> bool;
}

/// Every key.
pub struct Full;

impl Mask for Full {
    #[cfg(feature = "sm_90a")]
    const ALL_KEYS: bool = true;

    #[inline(always)]
    fn keys_end(_rows_end: u32, length: u32) -> u32 {
        length
    }

    #[inline(always)]
    fn touches<S: Sequence>(_rows_start: u32, keys_start: u32, keys: u32, length: u32) -> bool {
        S::HAS_TAIL && keys_start + keys > length
    }
}

/// Keys at or before the row's own position (top-left aligned).
pub struct Causal;

impl Mask for Causal {
    #[cfg(feature = "sm_90a")]
    const ALL_KEYS: bool = false;

    #[inline(always)]
    fn keys_end(rows_end: u32, length: u32) -> u32 {
        rows_end.min(length)
    }

    #[inline(always)]
    fn touches<S: Sequence>(rows_start: u32, keys_start: u32, keys: u32, length: u32) -> bool {
        keys_start + keys > rows_start + 1 || Full::touches::<S>(rows_start, keys_start, keys, length)
    }
}
