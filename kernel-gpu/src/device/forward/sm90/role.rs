//! The roles of a block's warps.

use crate::device::tma::kernel::TmaKernel;
use contract::config::WARPGROUP_WARPS;

/// What a warp does that does not compute. The consumers are all warps before these.
#[derive(Clone, Copy)]
pub enum Role {
    /// Loads Q, K and V.
    Producer,
    /// Stores O and LSE.
    Storer,
    /// Finds the work items, where sequences are looked up.
    Finder,
    /// Clears rows that belong to no sequence, where sequences are looked up.
    Cleaner,
}

const _: () = assert!(Role::Cleaner as u32 + 1 == WARPGROUP_WARPS, "the roles fill a warpgroup");

impl Role {
    /// Number of warps that compute.
    pub const fn consumers<K: TmaKernel>() -> u32 {
        K::WARPGROUPS * WARPGROUP_WARPS
    }

    /// The warp that has the role.
    pub const fn warp<K: TmaKernel>(self) -> u32 {
        Self::consumers::<K>() + self as u32
    }
}
