//! Everything that differs between code generators: declaration of entries, thread indices, barriers, and the start of
//! dynamic shared memory. Names are those of `cuda_std` where it has them. An rlib needs no panic handler, and no entry can
//! panic: `cargo xtask ptx` refuses PTX that contains a call.

#[cfg(feature = "rust_cuda")]
mod rust_cuda;
#[cfg(not(feature = "rust_cuda"))]
mod rustc;

#[cfg(feature = "rust_cuda")]
pub use rust_cuda::{thread, warp};
#[cfg(not(feature = "rust_cuda"))]
pub use rustc::{thread, warp};

#[cfg(feature = "rust_cuda")]
pub(crate) use rust_cuda::kernel;
#[cfg(not(feature = "rust_cuda"))]
pub(crate) use rustc::kernel;

/// Reads a 32-bit special register.
macro_rules! special_register {
    ($name:literal) => {{
        let value: u32;
        // SAFETY: reading a special register has no effect.
        unsafe {
            core::arch::asm!(concat!("mov.u32 {}, %", $name, ";"), out(reg32) value, options(pure, nomem, nostack))
        };
        value
    }};
}
pub(crate) use special_register;

/// Address of the second argument of entry `$name`.
///
/// Taken by assembly, since Rust's reference to a by-value argument may point to a copy in local memory. Both code generators
/// use this parameter name.
#[cfg(feature = "sm_90a")]
macro_rules! tensor_maps {
    ($name:ident) => {{
        let address: u64;
        // SAFETY: taking an address has no effect; the entry has a second parameter, readable by every thread.
        unsafe {
            core::arch::asm!(
                concat!("mov.b64 {0}, ", stringify!($name), "_param_1;\n\tcvta.param.u64 {0}, {0};"),
                out(reg64) address,
                options(pure, nomem, nostack)
            )
        };
        address
    }};
}
#[cfg(feature = "sm_90a")]
pub(crate) use tensor_maps;

/// Dynamic shared memory. `cuda_std`'s is aligned to 16 bytes only, less than swizzled tiles need.
pub mod shared {
    /// Declares dynamic shared memory. Once per crate with kernels: PTX must declare the symbols that it refers to.
    #[doc(hidden)]
    #[macro_export]
    macro_rules! dynamic_shared_memory {
        () => {
            ::core::arch::global_asm!(".extern .shared .align 1024 .b8 fa512_dynamic_shared[];");
        };
    }

    dynamic_shared_memory!();

    /// Shared-memory address of the first byte of the block's dynamic shared memory; a multiple of 1024.
    #[inline(always)]
    pub fn dynamic_shared_mem() -> u32 {
        let address: u32;
        // SAFETY: taking an address has no effect; the symbol is declared by `dynamic_shared_memory!`.
        unsafe {
            core::arch::asm!("mov.u32 {}, fa512_dynamic_shared;", out(reg32) address, options(pure, nomem, nostack))
        };
        address
    }
}
