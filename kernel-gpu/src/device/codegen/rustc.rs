//! rustc's own nvptx64 backend.

/// Declares an entry point of the PTX module, as `cuda_std`'s `#[kernel]` does.
macro_rules! kernel {
    (fn $name:ident($args:ident: $type:ty) $body:block) => {
        /// # Safety
        /// The host planned the launch: the addresses and strides in the argument describe memory of the launching context, and the
        /// grid and block are those of the entry's variant.
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $name($args: $type) $body
    };
    (fn $name:ident($args:ident: $type:ty, $maps:ident: $maps_type:ident) $body:block) => {
        /// # Safety
        /// As for every entry; the second argument holds the encoded tensor maps of the launch.
        #[unsafe(no_mangle)]
        pub unsafe extern "ptx-kernel" fn $name($args: $type, _: $maps_type) {
            let $maps = $crate::device::codegen::tensor_maps!($name);
            $body
        }
    };
}
pub(crate) use kernel;

/// Thread indices and the block's barrier.
pub mod thread {
    use crate::device::codegen::special_register;

    /// `%tid.x`
    #[inline(always)]
    pub fn thread_idx_x() -> u32 {
        special_register!("tid.x")
    }

    /// `%ctaid.x`
    #[inline(always)]
    pub fn block_idx_x() -> u32 {
        special_register!("ctaid.x")
    }

    /// `%nctaid.x`
    #[inline(always)]
    pub fn grid_dim_x() -> u32 {
        special_register!("nctaid.x")
    }

    /// `%ctaid.y`
    #[cfg(feature = "sm_80")]
    #[inline(always)]
    pub fn block_idx_y() -> u32 {
        special_register!("ctaid.y")
    }

    /// `%nctaid.y`
    #[cfg(feature = "sm_80")]
    #[inline(always)]
    pub fn grid_dim_y() -> u32 {
        special_register!("nctaid.y")
    }

    /// `bar.sync 0` as an intrinsic, which the compiler, unlike inline assembly, knows to be convergent: it does not duplicate it
    /// into the arms of a divergent branch, where each part of the threads would wait for the
    /// other.
    ///
    /// # Safety
    /// Every thread of the block executes this together.
    #[inline(always)]
    pub unsafe fn sync_threads() {
        // SAFETY: block together.
        unsafe { core::arch::nvptx::_syncthreads() };
    }
}

/// The warp's barriers.
pub mod warp {
    unsafe extern "C" {
        /// `core` has no function for this intrinsic of LLVM (`IntrinsicsNVVM.td`).
        #[link_name = "llvm.nvvm.bar.warp.sync"]
        fn bar_warp_sync(mask: u32);
    }

    /// `bar.warp.sync` for all lanes.
    ///
    /// # Safety
    /// Every lane of the warp executes this together.
    #[inline(always)]
    pub unsafe fn sync_warp() {
        // SAFETY: warp together.
        unsafe { core::arch::asm!("bar.warp.sync 0xffffffff;", options(nostack)) };
    }

    /// The same barrier as an intrinsic, for the same reason as [`sync_threads`](super::thread::sync_threads).
    ///
    /// # Safety
    /// Every lane of the warp executes this together.
    #[inline(always)]
    pub unsafe fn converge() {
        // SAFETY: warp together.
        unsafe { bar_warp_sync(u32::MAX) };
    }
}
