//! Maps the options of a kernel to its order.

use super::{PackedStreamed, SplitKeys, Streamed, WholeHead};
use crate::device::attention::sequence::{Any, Exact, Packed};

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
