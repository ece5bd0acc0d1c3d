//! What is copied between a head and shared memory: a strip of queries, a tile of keys.

use super::mapped::InMaps;
use contract::geometry::BlockWork;
use contract::packed::SequenceTile;

/// A strip of a head, to or from shared memory.
#[derive(Clone, Copy)]
pub struct StripCopy {
    /// Where it is in shared memory.
    pub strip: u32,
    /// Parity of the phases that say that it is full, and then computed.
    pub parity: u32,
    /// The head.
    pub work: BlockWork,
    /// The strip's first row, and the sequence that it counts from.
    pub tile: SequenceTile,
    /// Keys of the sequence.
    pub kv_length: u32,
}

impl StripCopy {
    /// What says that no strip follows, where sequences are looked up.
    pub const END: SequenceTile = SequenceTile { sequence: 0, begin: 0, length: 0, first_row: u32::MAX };

    /// Whether it says that no strip follows.
    #[inline(always)]
    pub fn is_end(&self) -> bool {
        self.tile.first_row == Self::END.first_row
    }

    /// Whether it has a row of its sequence.
    #[inline(always)]
    pub fn has_rows(&self) -> bool {
        self.tile.first_row < self.tile.length
    }
}

/// A tile of K and V of a head, to shared memory.
#[derive(Clone, Copy)]
pub struct TileCopy {
    /// Where it is in shared memory.
    pub stage: u32,
    /// Parity of the phase that says that it is full.
    pub parity: u32,
    /// Whether it is the stage's first tile.
    pub is_first: bool,
    /// The first of its keys.
    pub first_key: InMaps,
    /// Whether none of its keys is there, so that zeros take their place: a box wholly outside of a map of packed sequences would be
    /// read from where the map begins, before the tensor.
    pub is_outside: bool,
}
