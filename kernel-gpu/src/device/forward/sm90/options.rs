//! Maps the options of a kernel to its parts.

use crate::device::forward::sm90::consumer::BetweenWarpgroups;
use crate::device::forward::sm90::overlapped::WithinWarpgroup;
use crate::device::order::{PackedStreamed, SplitKeys, Streamed, WholeHead};
use crate::device::sequence::{Any, Exact, Packed};
use crate::device::softmax::{AddedSums, ProductSums, Softmax};
use crate::device::tma::kernel::TmaKernel;

/// How often a warpgroup goes through K and V of a work item ([`contract::tile::Sm90Tma::passes`]), and whether keys are split
/// among blocks.
pub struct Passes<const COUNT: u32, const SPLITS_KEYS: bool>;

/// Something with an order for sequences `S`.
pub trait InOrder<S> {
    /// The order.
    type Order;
}

impl<const LENGTH: u32> InOrder<Exact<LENGTH>> for Passes<1, false> {
    type Order = Streamed;
}

impl InOrder<Any> for Passes<1, false> {
    type Order = Streamed;
}

impl InOrder<Packed> for Passes<1, false> {
    type Order = PackedStreamed;
}

impl<const LENGTH: u32> InOrder<Exact<LENGTH>> for Passes<2, false> {
    type Order = WholeHead;
}

impl InOrder<Any> for Passes<1, true> {
    type Order = SplitKeys;
}

/// Whether row sums are products of P with ones ([`TmaKernel::SUMS_BY_PRODUCT`]).
pub struct SumsByProduct<const IS_SO: bool>;

/// Something with a softmax for kernels `K`.
pub trait WithSoftmax<K: TmaKernel> {
    /// The softmax.
    type Softmax: Softmax<K>;
}

impl<K: TmaKernel> WithSoftmax<K> for SumsByProduct<true> {
    type Softmax = ProductSums<K>;
}

impl<K: TmaKernel> WithSoftmax<K> for SumsByProduct<false> {
    type Softmax = AddedSums<K>;
}

/// Whether the softmax of a warpgroup overlaps with its own PV products ([`TmaKernel::OVERLAPS`]).
pub struct Overlaps<const IS_SO: bool>;

/// Something with the loop of a computing warpgroup.
pub trait WithConsumer {
    /// The loop.
    type Consumer;
}

impl WithConsumer for Overlaps<true> {
    type Consumer = WithinWarpgroup;
}

impl WithConsumer for Overlaps<false> {
    type Consumer = BetweenWarpgroups;
}
