//! Thread block clusters (PTX ISA, "barrier.cluster", "mapa", "Special Registers", "ld").

use crate::device::codegen::special_register;

/// `%clusterid.x`: index of the cluster in the grid, if the other dimensions are 1.
#[inline(always)]
pub fn index_x() -> u32 {
    special_register!("clusterid.x")
}

/// `%cluster_ctarank`: rank of the block in its cluster.
#[inline(always)]
pub fn rank() -> u32 {
    special_register!("cluster_ctarank")
}

/// `%cluster_nctarank`: number of blocks in the cluster.
#[inline(always)]
pub fn blocks() -> u32 {
    special_register!("cluster_nctarank")
}

/// `barrier.cluster.arrive.release.aligned`: arrives at the cluster's barrier. Costs a fence of the GPU's scope, which waits for earlier
/// stores.
///
/// # Safety
/// Every thread of the cluster executes this, the warp together, and then [`wait`] before it arrives again.
#[inline(always)]
pub unsafe fn arrive() {
    instruction!("barrier.cluster.arrive.release.aligned;", options(nostack));
}

/// `barrier.cluster.wait.acquire.aligned`: waits until all threads of the cluster have arrived, whose accesses before are then performed
/// and visible.
///
/// # Safety
/// Every thread of the cluster executes this, the warp together, after [`arrive`].
#[inline(always)]
pub unsafe fn wait() {
    instruction!("barrier.cluster.wait.acquire.aligned;", options(nostack));
}

/// `mapa.shared::cluster.u32`: the shared::cluster address that corresponds to `shared` in the block of that rank.
///
/// # Safety
/// `shared` is an address in the block's shared memory; the cluster has more than `rank` blocks.
#[inline(always)]
pub unsafe fn address_in_block(shared: u32, rank: u32) -> u32 {
    let address;
    instruction!(
        "mapa.shared::cluster.u32 {}, {}, {};",
        out(reg32) address, in(reg32) shared, in(reg32) rank,
        options(pure, nomem, nostack)
    );
    address
}

/// `ld.shared::cluster.v2.f32`.
///
/// # Safety
/// `address` is an 8-byte aligned address in the cluster's shared memory of 8 initialised bytes, of a block that has not exited.
#[inline(always)]
pub unsafe fn load_pair(address: u32) -> [f32; 2] {
    let (a, b);
    instruction!(
        "ld.shared::cluster.v2.f32 {{{}, {}}}, [{}];",
        out(reg32) a, out(reg32) b, in(reg32) address,
        options(nostack, readonly)
    );
    [a, b]
}

/// `ld.shared::cluster.v4.f32`.
///
/// # Safety
/// As for [`load_pair`], of 16 bytes at a multiple of 16.
#[inline(always)]
pub unsafe fn load_four(address: u32) -> [f32; 4] {
    let (a, b, c, d);
    instruction!(
        "ld.shared::cluster.v4.f32 {{{}, {}, {}, {}}}, [{}];",
        out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, in(reg32) address,
        options(nostack, readonly)
    );
    [a, b, c, d]
}
