//! Rust-CUDA's backend, through `cuda_std` (docs/rust-cuda.md).

/// Declares an entry point of the PTX module: `cuda_std`'s `#[kernel]`.
macro_rules! kernel {
    (fn $name:ident($args:ident: $type:ty) $body:block) => {
        /// # Safety
        /// The host planned the launch: the addresses and strides in the argument describe memory of the launching context, and the
        /// grid and block are those of the entry's variant.
        #[cuda_std::kernel]
        pub unsafe fn $name($args: $type) $body
    };
    (fn $name:ident($args:ident: $type:ty, $maps:ident: $maps_type:ident) $body:block) => {
        /// # Safety
        /// As for every entry; the second argument holds the encoded tensor maps of the launch.
        #[cuda_std::kernel]
        pub unsafe fn $name($args: $type, _maps: $maps_type) {
            let $maps = $crate::device::codegen::tensor_maps!($name);
            $body
        }
    };
}
pub(crate) use kernel;

/// Thread indices and the block's barrier.
pub mod thread {
    pub use cuda_std::thread::{block_idx_x, block_idx_y, grid_dim_x, grid_dim_y, thread_idx_x};

    /// `bar.sync 0` as an intrinsic, which LLVM knows to be convergent. `cuda_std` instead calls a function that only libNVVM links
    /// in; earlier, in LLVM, that is an ordinary call, which may be duplicated into both arms of a branch.
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
    pub use self::sync_warp as converge;

    /// `bar.warp.sync` for all lanes as an intrinsic, which LLVM knows to be convergent.
    ///
    /// # Safety
    /// Every lane of the warp executes this together.
    #[inline(always)]
    pub unsafe fn sync_warp() {
        // SAFETY: warp together.
        unsafe { cuda_std::warp::sync_warp(u32::MAX) };
    }
}
