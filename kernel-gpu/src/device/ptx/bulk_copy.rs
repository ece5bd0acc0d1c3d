//! Bulk copies between global and shared memory (PTX ISA, "Data Movement and Conversion Instructions: Bulk copy" and
//! "Tensor copy").
//!
//! One thread starts a copy of many bytes. A load signals its bytes to an mbarrier ([`super::mbarrier`]); a store belongs to
//! a bulk group of its thread. Both are performed by the async proxy: a store sees what ordinary instructions wrote to
//! shared memory only after a `fence.proxy.async`.
//!
//! Plain copies need sizes and addresses that are multiples of 16 bytes. Tensor copies move a box of the tensor that a tensor map
//! describes (`cuTensorMapEncodeTiled`); the box in shared memory is 128-byte aligned, or 1024-byte aligned if rows are
//! addressed individually under the 128-byte swizzle. The innermost coordinate comes first.

use core::arch::asm;

/// `cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes`: starts copying to shared memory.
///
/// # Safety
/// `shared` and `global` are 16-byte aligned addresses of `bytes` accessible bytes, a multiple of 16; neither is written,
/// and `shared` not read, until a wait for the phase of the initialised `mbarrier` that expects them.
#[inline(always)]
pub unsafe fn load(shared: u32, global: u64, bytes: u32, mbarrier: u32) {
    instruction!(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{}], [{}], {}, [{}];",
        in(reg32) shared, in(reg64) global, in(reg32) bytes, in(reg32) mbarrier,
        options(nostack)
    );
}

/// `cp.async.bulk.global.shared::cta.bulk_group`: starts copying to global memory.
///
/// # Safety
/// `global` and `shared` are 16-byte aligned addresses of `bytes` accessible bytes, a multiple of 16. `shared` is
/// initialised, with a fence after ordinary writes; it is not written until [`wait_for_reads`].
#[inline(always)]
pub unsafe fn store(global: u64, shared: u32, bytes: u32) {
    instruction!(
        "cp.async.bulk.global.shared::cta.bulk_group [{}], [{}], {};",
        in(reg64) global, in(reg32) shared, in(reg32) bytes,
        options(nostack)
    );
}

/// `cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32`: starts adding to global memory.
///
/// # Safety
/// As for [`store`].
#[inline(always)]
pub unsafe fn add_f32(global: u64, shared: u32, bytes: u32) {
    instruction!(
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [{}], [{}], {};",
        in(reg64) global, in(reg32) shared, in(reg32) bytes,
        options(nostack)
    );
}

macro_rules! tensor_copies {
    ($($rank:literal $load:ident $store:ident($($index:literal),*) $coordinates:literal;)*) => {$(
        #[doc = concat!("`cp.async.bulk.tensor.", $rank, "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes`: starts")]
        /// copying a box to shared memory; elements outside the tensor become zeros.
        ///
        /// # Safety
        /// `map` is the 64-byte aligned address of a tensor map of that rank; `shared` that of its box, aligned to 128
        /// bytes, which is neither read nor written until a wait for the phase of the initialised `mbarrier` that expects
        /// all bytes of the box.
        #[inline(always)]
        pub unsafe fn $load(shared: u32, map: u64, coordinates: [i32; $rank], mbarrier: u32) {
            instruction!(
                concat!(
                    "cp.async.bulk.tensor.", $rank, "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes ",
                    "[{shared}], [{map}, ", $coordinates, "], [{mbarrier}];"
                ),
                $(in(reg32) coordinates[$index],)*
                shared = in(reg32) shared, map = in(reg64) map, mbarrier = in(reg32) mbarrier,
                options(nostack)
            );
        }

        #[doc = concat!("`cp.async.bulk.tensor.", $rank, "d.global.shared::cta.tile.bulk_group`: starts copying a box to global")]
        /// memory; elements outside the tensor are left out.
        ///
        /// # Safety
        /// `map` is the 64-byte aligned address of a tensor map of that rank; `shared` that of its box, aligned to 128
        /// bytes, initialised, and fenced where ordinary instructions wrote it. It is not written until
        /// [`wait_for_reads`].
        #[inline(always)]
        pub unsafe fn $store(map: u64, coordinates: [i32; $rank], shared: u32) {
            instruction!(
                concat!(
                    "cp.async.bulk.tensor.", $rank, "d.global.shared::cta.tile.bulk_group ",
                    "[{map}, ", $coordinates, "], [{shared}];"
                ),
                $(in(reg32) coordinates[$index],)*
                shared = in(reg32) shared, map = in(reg64) map,
                options(nostack)
            );
        }
    )*};
}

tensor_copies! {
    2 load_box_2d store_box_2d(0, 1) "{{{}, {}}}";
    3 load_box_3d store_box_3d(0, 1, 2) "{{{}, {}, {}}}";
    4 load_box_4d store_box_4d(0, 1, 2, 3) "{{{}, {}, {}, {}}}";
}

/// `prefetch.tensormap`: prefetches a tensor map.
///
/// # Safety
/// `map` is the address of a tensor map.
#[inline(always)]
pub unsafe fn prefetch_map(map: u64) {
    instruction!("prefetch.tensormap [{}];", in(reg64) map, options(nostack));
}

/// `cp.async.bulk.prefetch.tensor.4d.L2.global.tile`: prefetches a box into L2. It does not read the box architecturally: a
/// later load sees whatever has been written to it since.
///
/// # Safety
/// `map` is the 64-byte aligned address of a tensor map of that rank.
#[inline(always)]
pub unsafe fn prefetch_box_4d(map: u64, coordinates: [i32; 4]) {
    let [a, b, c, d] = coordinates;
    instruction!(
        "cp.async.bulk.prefetch.tensor.4d.L2.global.tile [{map}, {{{}, {}, {}, {}}}];",
        in(reg32) a, in(reg32) b, in(reg32) c, in(reg32) d,
        map = in(reg64) map,
        options(nostack)
    );
}

/// `cp.async.bulk.commit_group`: the calling thread's stores since the last commit become one group, possibly empty.
#[inline(always)]
pub fn commit_group() {
    // SAFETY: groups copies that were started safely; touches no memory.
    unsafe { asm!("cp.async.bulk.commit_group;", options(nostack)) };
}

/// `cp.async.bulk.wait_group.read`: waits until all but the latest `PENDING` bulk groups of the calling thread have read their
/// sources, which may then be overwritten.
#[inline(always)]
pub fn wait_for_reads<const PENDING: u32>() {
    // SAFETY: the instruction only waits.
    unsafe { asm!("cp.async.bulk.wait_group.read {};", const PENDING, options(nostack)) };
}

/// `cp.async.bulk.wait_group`: waits until all bulk groups of the calling thread are complete, whose writes it then sees.
#[inline(always)]
pub fn wait_for_writes() {
    // SAFETY: the instruction only waits.
    unsafe { asm!("cp.async.bulk.wait_group 0;", options(nostack)) };
}
