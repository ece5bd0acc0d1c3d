//! The parts that a kernel is composed of, as types.

use super::context::Context;
use super::kernel::TmaKernel;
use super::order::Order;
use crate::device::attention::Lane;
use crate::device::sm90::softmax::Softmax;

/// A kernel with its parts.
pub trait ComposedKernel: TmaKernel {
    /// The order of strips and tiles.
    type Order: Order<Self>;
    /// The softmax of a strip.
    type Softmax: Softmax<Self>;
    /// The loop of a computing warpgroup.
    type Consumer: Consumer<Self>;
}

/// The loop of a computing warpgroup.
pub trait Consumer<K: TmaKernel> {
    /// Computes the warpgroup's strips of all work items of the block.
    ///
    /// # Safety
    /// All warps of the warpgroup call this together, once; `lane.warp` is the same in all lanes.
    unsafe fn consume(context: &Context<'_, K>, lane: Lane);
}
