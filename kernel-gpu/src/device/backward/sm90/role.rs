//! The roles of a block's warps.

use super::kernel::Sm90Backward;
use contract::config::WARPGROUP_WARPS;

/// What a warp does that does not compute products. Those that do are all warps before these.
#[derive(Clone, Copy)]
pub enum Role {
    /// Copies tiles.
    Producer,
    /// The first of the two that compute statistics, or add dQ to sums in the workspace.
    Helper,
}

impl Role {
    /// Warps that are [`Self::Helper`].
    pub const HELPERS: u32 = 2;

    /// Number of warps that compute products for items.
    pub const fn consumers<K: Sm90Backward>() -> u32 {
        K::WARPGROUPS * WARPGROUP_WARPS
    }

    /// Number of warps that compute products, also for dQ from dS that is handed over.
    pub const fn computing<K: Sm90Backward>() -> u32 {
        Self::consumers::<K>() + if K::HANDS_OVER { WARPGROUP_WARPS } else { 0 }
    }

    /// The first warp that has the role.
    pub const fn warp<K: Sm90Backward>(self) -> u32 {
        Self::computing::<K>() + self as u32
    }
}
