//! Which keys a query attends to, in numbers.

use core::ops::Range;

use crate::config::Mask;
use crate::shape::Shape;

/// Which keys a query attends to around its own position i among the keys: those from i − left to i + right, `None` for no limit.
/// A key before the first or behind the last is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Keys before its own position.
    pub left: Option<u32>,
    /// Keys behind its own position.
    pub right: Option<u32>,
}

impl Window {
    /// Every key.
    pub const UNLIMITED: Self = Self { left: None, right: None };
    /// The keys up to the query's own position.
    pub const CAUSAL: Self = Self { left: None, right: Some(0) };

    /// The mask that it is where the first query is at the first key.
    pub(super) const fn mask(self) -> Mask {
        match (self.left, self.right) {
            (None, None) => Mask::Full,
            (None, Some(0)) => Mask::Causal,
            _ => Mask::Window,
        }
    }
}

/// Where the position of a query lies among the keys, if there are not as many of these.
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
    /// Both.
    pub const ALL: [Self; 2] = [Self::TopLeft, Self::BottomRight];

    /// The name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TopLeft => "top-left",
            Self::BottomRight => "bottom-right",
        }
    }

    /// The key at which the first of so many queries is; negative where there are fewer keys.
    pub const fn first_position(self, queries: u32, keys: u32) -> i64 {
        match self {
            Self::TopLeft => 0,
            Self::BottomRight => keys as i64 - queries as i64,
        }
    }
}

/// The keys that query i attends to, counted from its row: from i − left up to and with i + right. Either may be negative; what is
/// beyond the first key or the last has no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Band {
    /// Rows from a query back to its first key.
    pub left: i32,
    /// Rows from a query on to its last key.
    pub right: i32,
}

impl Band {
    /// No limit to one side: more rows than there are.
    const UNLIMITED: i32 = i32::MAX;

    /// A side, if it has a limit.
    pub(super) const fn limit(side: i32) -> Option<i32> {
        if side == Self::UNLIMITED { None } else { Some(side) }
    }

    /// That of a window in sequences of so many `queries` and `keys`, whose positions are aligned so.
    pub(crate) const fn new(window: Window, alignment: Alignment, queries: u32, keys: u32) -> Self {
        let first = alignment.first_position(queries, keys);
        Self { left: side(window.left, -first), right: side(window.right, first) }
    }

    /// Keys that query `row` attends to, of `keys`.
    pub(crate) const fn keys_of(self, row: u32, keys: u32) -> Range<u32> {
        let end = clamped(row as i64 + self.right as i64 + 1, keys);
        let begin = clamped(row as i64 - self.left as i64, end);
        begin..end
    }

    /// The simplest mask that leaves each query of `shape` the same keys: a side that reaches beyond all of them has no limit.
    pub(super) const fn mask(self, Shape { sequence, kv_sequence, .. }: Shape) -> Mask {
        let all_before = self.left as i64 >= sequence as i64 - 1;
        let all_behind = self.right as i64 >= kv_sequence as i64 - 1;
        match (all_before, all_behind) {
            (true, true) => Mask::Full,
            (true, false) if self.right == 0 => Mask::Causal,
            _ => Mask::Window,
        }
    }

    /// [`Self::mask`] where the last query of every sequence is at its last key, whatever their numbers within `shape`.
    pub(super) const fn mask_at_last(self, Shape { sequence, kv_sequence, .. }: Shape) -> Mask {
        let all_before = self.left as i64 >= kv_sequence as i64 - 1;
        // Of keys behind a query's own there are at most as many as queries behind it.
        let all_behind = self.right as i64 >= sequence as i64 - 1;
        if all_before && all_behind { Mask::Full } else { Mask::Window }
    }
}

/// A side of a window, so many rows further.
const fn side(keys: Option<u32>, further: i64) -> i32 {
    match keys {
        None => Band::UNLIMITED,
        Some(keys) => {
            let rows = keys as i64 + further;
            // Neither side reaches back by more rows than a sequence has.
            if rows < i32::MAX as i64 { rows as i32 } else { Band::UNLIMITED }
        }
    }
}

/// `number` within 0 and `most`.
const fn clamped(number: i64, most: u32) -> u32 {
    if number <= 0 {
        0
    } else if number < most as i64 {
        number as u32
    } else {
        most
    }
}
