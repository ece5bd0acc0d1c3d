//! Thread block clusters (PTX ISA, "barrier.cluster", "mapa").

/// `barrier.cluster.arrive.release.aligned` and `barrier.cluster.wait.acquire.aligned`: waits for all threads of the
/// cluster; their earlier accesses are done and visible.
///
/// # Safety
/// Every thread of the cluster executes this together.
#[inline(always)]
pub unsafe fn synchronise() {
    instruction!("barrier.cluster.arrive.release.aligned;", "barrier.cluster.wait.acquire.aligned;", options(nostack));
}

/// `mapa.shared::cluster.u32`: the address, in the cluster's shared memory, of what `shared` is in the block of that rank.
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
