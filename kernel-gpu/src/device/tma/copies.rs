//! Copies between a head and shared memory: 64 rows, and descriptions of a strip of queries and of a tile of keys.

use crate::device::kernel::Kernel;
use crate::device::ptx::bulk_copy;
use crate::device::tma::mapped::InMaps;
use crate::device::tma::ring::Ring;
use crate::device::tma::rows::Rows;
use crate::device::unrolled;
use contract::geometry::BlockWork;
use contract::packed::SequenceTile;

/// A copy of a strip of a head, to or from shared memory.
#[derive(Clone, Copy)]
pub struct StripCopy {
    /// Index of its place in shared memory.
    pub place: u32,
    /// Parity of the phases in which it is full, and then computed.
    pub parity: u32,
    /// The head.
    pub work: BlockWork,
    /// The strip's first row, and the sequence that it belongs to.
    pub tile: SequenceTile,
    /// Number of keys of the sequence.
    pub kv_length: u32,
}

impl StripCopy {
    /// Marks the end of the strips, where sequences are looked up.
    pub const END: SequenceTile = SequenceTile { sequence: 0, begin: 0, length: 0, first_row: u32::MAX };

    /// Whether it is the end mark.
    #[inline(always)]
    pub fn is_end(&self) -> bool {
        self.tile.first_row == Self::END.first_row
    }

    /// Whether it has any row of its sequence.
    #[inline(always)]
    pub fn has_rows(&self) -> bool {
        self.tile.first_row < self.tile.length
    }
}

/// A copy of a tile of K and V of a head to shared memory.
#[derive(Clone, Copy)]
pub struct TileCopy<K> {
    /// Its position in the ring of stages.
    pub ring: Ring<K>,
    /// Whether it is the stage's first tile.
    pub is_first: bool,
    /// Its first key.
    pub first_key: InMaps,
    /// Whether it has no keys and is filled with zeros instead: for a box wholly outside a map of packed sequences, the GPU would
    /// read at the map's start, before the tensor.
    pub is_outside: bool,
}

/// Starts copying 64 rows of a head to `tile`; the copy signals mbarrier `full`.
///
/// # Safety
/// As for [`bulk_copy::load_box_4d`], with a map as encoded by the host.
#[inline(always)]
pub unsafe fn load_rows<K: Kernel>(tile: Rows<K>, map: u64, first: InMaps, full: u32) {
    unrolled!(at most 4; for panel in const { Rows::<K>::PANELS as usize } => {
        let coordinates = first.coordinates(panel as u32 * Rows::<K>::PANEL_COLUMNS);
        // SAFETY: a panel of the tile is a box of the map; the caller vouches for the rest.
        unsafe { bulk_copy::load_box_4d(tile.panel(panel as u32), map, coordinates, full) };
    });
}
