//! The parts that a kernel is composed of, as types.

use crate::device::lane::Lane;
use crate::device::order::Order;
use crate::device::softmax::Softmax;
use crate::device::tma::context::Context;
use crate::device::tma::kernel::TmaKernel;

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
    /// Warpgroup together, once; `lane.warp` is the same in all lanes.
    unsafe fn consume(context: &Context<'_, K>, lane: Lane);
}
