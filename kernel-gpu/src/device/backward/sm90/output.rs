//! Where gradients are stored.

use super::kernel::Sm90Backward;
use crate::device::hidden;
use crate::device::tile::head_rows::HeadRows;
use contract::args::Strides;
use contract::geometry::BlockWork;
use contract::packed::SequenceTile;

/// The rows of a head of a gradient. What depends on the launch alone is computed here, for every item: it would occupy registers from the
/// block's beginning on.
#[inline(always)]
pub fn head_rows<K: Sm90Backward>(tensor: u64, strides: &Strides, work: BlockWork, tile: SequenceTile) -> HeadRows {
    let strides = Strides { row: hidden::recompute_address(strides.row), ..*strides };
    HeadRows::new::<K::Element>(tensor, &strides, work, tile.begin)
}
