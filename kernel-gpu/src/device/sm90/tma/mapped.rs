//! Where sequences lie in the [tensor maps](contract::tensor_map).

use crate::device::attention::sequence::{Any, Exact, Packed, Sequence};
use contract::args::ForwardArgs;
use contract::geometry::BlockWork;
use contract::packed::SequenceTile;

/// Sequences whose rows are copied through tensor maps.
pub trait Mapped: Sequence {
    /// Whether the sequence of a work item has to be looked up in memory.
    const IS_LOOKED_UP: bool;

    /// Where row 0 of the head lies in the maps.
    fn in_maps(args: &ForwardArgs, work: BlockWork, tile: SequenceTile) -> InMaps;
}

/// Coordinates of a row in the tensor maps.
#[derive(Clone, Copy)]
pub struct InMaps {
    /// The row's.
    pub row: u32,
    /// The head's.
    pub head: u32,
    /// The batch entry's; of packed sequences, where the sequence ends.
    pub batch: u32,
}

impl InMaps {
    /// `rows` rows further on.
    #[inline(always)]
    pub fn after(self, rows: u32) -> Self {
        Self { row: self.row + rows, ..self }
    }

    /// As copies take them, of a column of the row.
    #[inline(always)]
    pub fn coordinates(self, column: u32) -> [i32; 4] {
        [column as i32, self.row as i32, self.head as i32, self.batch as i32]
    }
}

impl<const LENGTH: u32> Mapped for Exact<LENGTH> {
    const IS_LOOKED_UP: bool = false;

    #[inline(always)]
    fn in_maps(_: &ForwardArgs, work: BlockWork, _: SequenceTile) -> InMaps {
        in_maps_of_batch(work)
    }
}

impl Mapped for Any {
    const IS_LOOKED_UP: bool = false;

    #[inline(always)]
    fn in_maps(_: &ForwardArgs, work: BlockWork, _: SequenceTile) -> InMaps {
        in_maps_of_batch(work)
    }
}

impl Mapped for Packed {
    const IS_LOOKED_UP: bool = true;

    /// The map's rows end with the sequence's ([`contract::tensor_map`]).
    #[inline(always)]
    fn in_maps(args: &ForwardArgs, work: BlockWork, tile: SequenceTile) -> InMaps {
        InMaps { row: args.sequence - tile.length, head: work.head, batch: tile.begin + tile.length }
    }
}

/// Where row 0 of a head lies, of sequences that are not packed.
#[inline(always)]
pub fn in_maps_of_batch(BlockWork { batch, head, .. }: BlockWork) -> InMaps {
    InMaps { row: 0, head, batch }
}
