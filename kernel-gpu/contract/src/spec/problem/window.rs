//! Windows: which keys a query attends to, as numbers.

use core::ops::Range;

use crate::spec::config::Mask;
use crate::spec::shape::Shape;

/// Window of keys around a query's position i among the keys: keys i − left to i + right; `None` means no limit.
/// Positions before the first key and after the last have no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Keys before its own position.
    pub left: Option<u32>,
    /// Keys after its own position.
    pub right: Option<u32>,
}

impl Window {
    /// All keys.
    pub const UNLIMITED: Self = Self { left: None, right: None };
    /// Keys up to and including the query's own position.
    pub const CAUSAL: Self = Self { left: None, right: Some(0) };

    /// The mask that the window equals if the first query is at the first key.
    pub(super) const fn mask(self) -> Mask {
        match (self.left, self.right) {
            (None, None) => Mask::Full,
            (None, Some(0)) => Mask::Causal,
            _ => Mask::Window,
        }
    }
}

/// How the positions of queries are aligned with keys; matters if their numbers differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Alignment {
    /// The first query is at the first key.
    #[default]
    TopLeft,
    /// The last query is at the last key.
    BottomRight,
}

impl Alignment {
    /// All alignments.
    pub const ALL: [Self; 2] = [Self::TopLeft, Self::BottomRight];

    /// The name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TopLeft => "top-left",
            Self::BottomRight => "bottom-right",
        }
    }

    /// The key position of the first of `queries` queries; negative if there are fewer keys.
    pub const fn first_position(self, queries: u32, keys: u32) -> i64 {
        match self {
            Self::TopLeft => 0,
            Self::BottomRight => keys as i64 - queries as i64,
        }
    }
}

/// The keys that query i attends to, relative to its row: i − left to i + right, inclusive. Either may be negative. A limit
/// beyond the first or last key counts as no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Band {
    /// Rows from a query back to its first key.
    pub left: i32,
    /// Rows from a query forward to its last key.
    pub right: i32,
}

impl Band {
    /// No limit on one side: more rows than there can be.
    const UNLIMITED: i32 = i32::MAX;

    /// The limit of a side, if it has one.
    pub(super) const fn limit(side: i32) -> Option<i32> {
        if side == Self::UNLIMITED { None } else { Some(side) }
    }

    /// The band of a window in sequences of `queries` queries and `keys` keys, aligned by `alignment`.
    pub(crate) const fn new(window: Window, alignment: Alignment, queries: u32, keys: u32) -> Self {
        let first = alignment.first_position(queries, keys);
        Self { left: side(window.left, -first), right: side(window.right, first) }
    }

    /// Keys, of `keys`, that query `row` attends to.
    pub(crate) const fn keys_of(self, row: u32, keys: u32) -> Range<u32> {
        let end = clamped(row as i64 + self.right as i64 + 1, keys);
        let begin = clamped(row as i64 - self.left as i64, end);
        begin..end
    }

    /// The simplest equivalent mask for sequences of `shape`: a side that reaches beyond all keys has no limit.
    pub(super) const fn mask(self, Shape { sequence, kv_sequence, .. }: Shape) -> Mask {
        let all_before = self.left as i64 >= sequence as i64 - 1;
        let all_behind = self.right as i64 >= kv_sequence as i64 - 1;
        match (all_before, all_behind) {
            (true, true) => Mask::Full,
            (true, false) if self.right == 0 => Mask::Causal,
            _ => Mask::Window,
        }
    }

    /// [`Self::mask`] for bottom-right alignment in every sequence, for any lengths within `shape`.
    pub(super) const fn mask_at_last(self, Shape { sequence, kv_sequence, .. }: Shape) -> Mask {
        let all_before = self.left as i64 >= kv_sequence as i64 - 1;
        // At most as many keys as queries lie after a query's own position.
        let all_behind = self.right as i64 >= sequence as i64 - 1;
        if all_before && all_behind { Mask::Full } else { Mask::Window }
    }
}

/// A side of a window, extended by `further` rows.
const fn side(keys: Option<u32>, further: i64) -> i32 {
    match keys {
        None => Band::UNLIMITED,
        Some(keys) => {
            let rows = keys as i64 + further;
            // Neither side is below minus the length of a sequence.
            if rows < i32::MAX as i64 { rows as i32 } else { Band::UNLIMITED }
        }
    }
}

/// `number` clamped to 0 … `most`.
const fn clamped(number: i64, most: u32) -> u32 {
    if number <= 0 {
        0
    } else if number < most as i64 {
        number as u32
    } else {
        most
    }
}
