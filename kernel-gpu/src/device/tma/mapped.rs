//! Coordinates of sequences in the [tensor maps](contract::tensor_map).

use crate::device::sequence::{Any, Exact, Packed, Sequence};
use contract::args::ForwardArgs;
use contract::geometry::BlockWork;
use contract::packed::{Rows, SequenceTile};

/// Sequences that are copied through tensor maps.
pub trait Mapped: Sequence {
    /// Whether the sequence of a work item has to be looked up in device memory.
    const IS_LOOKED_UP: bool;

    /// Coordinates of row 0 of the head in the maps of Q and O.
    fn in_maps(args: &ForwardArgs, work: BlockWork, tile: SequenceTile) -> InMaps;

    /// Coordinates of key 0 of the head's keys in the maps of K and V.
    fn keys_in_maps(args: &ForwardArgs, work: BlockWork, keys: Rows) -> InMaps;
}

/// Coordinates of a row in the tensor maps.
#[derive(Clone, Copy, Default)]
pub struct InMaps {
    /// Row coordinate.
    pub row: u32,
    /// Head coordinate.
    pub head: u32,
    /// Batch coordinate; for packed sequences the end of the sequence.
    pub batch: u32,
}

impl InMaps {
    /// The row `rows` rows further on.
    #[inline(always)]
    pub fn after(self, rows: u32) -> Self {
        Self { row: self.row + rows, ..self }
    }

    /// The coordinates of a column of the row, in the order of copy instructions.
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

    #[inline(always)]
    fn keys_in_maps(args: &ForwardArgs, work: BlockWork, _: Rows) -> InMaps {
        in_maps_of_batch(args.of_keys(work))
    }
}

impl Mapped for Any {
    const IS_LOOKED_UP: bool = false;

    #[inline(always)]
    fn in_maps(_: &ForwardArgs, work: BlockWork, _: SequenceTile) -> InMaps {
        in_maps_of_batch(work)
    }

    #[inline(always)]
    fn keys_in_maps(args: &ForwardArgs, work: BlockWork, _: Rows) -> InMaps {
        in_maps_of_batch(args.of_keys(work))
    }
}

impl Mapped for Packed {
    const IS_LOOKED_UP: bool = true;

    #[inline(always)]
    fn in_maps(args: &ForwardArgs, work: BlockWork, SequenceTile { begin, length, .. }: SequenceTile) -> InMaps {
        of_sequence(args.sequence, work.head, Rows { begin, length })
    }

    #[inline(always)]
    fn keys_in_maps(args: &ForwardArgs, work: BlockWork, keys: Rows) -> InMaps {
        of_sequence(args.kv_sequence, args.of_keys(work).head, keys)
    }
}

/// For packed sequences, a coordinate selects where the sequence ends in a tensor of `rows` rows ([`contract::tensor_map`]).
#[inline(always)]
fn of_sequence(rows: u32, head: u32, Rows { begin, length }: Rows) -> InMaps {
    InMaps { row: rows - length, head, batch: begin + length }
}

/// Coordinates of row 0 of a head, for sequences that are not packed.
#[inline(always)]
pub fn in_maps_of_batch(BlockWork { batch, head, .. }: BlockWork) -> InMaps {
    InMaps { row: 0, head, batch }
}
