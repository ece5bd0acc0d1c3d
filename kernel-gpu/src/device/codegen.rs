//! Everything that differs between code generators: how an entry is declared, how a thread learns its indices, how it
//! waits for others, where dynamic shared memory begins. The names are those of `cuda_std` where it has them. An rlib needs no panic handler, and
//! no entry can panic: `cargo xtask ptx` refuses PTX with a call in it.

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

/// A special register of the calling thread, of 32 bits.
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

/// Address of the second argument of the entry `$name`.
///
/// By assembly: what Rust's reference to an argument by value points to may be a copy in local memory. Both code generators
/// name the parameter so.
#[cfg(feature = "sm_90a")]
macro_rules! tensor_maps {
    ($name:ident) => {{
        let address: u64;
        // SAFETY: taking an address has no effect; the entry has a second parameter, which every thread may read.
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

/// Dynamic shared memory. That of `cuda_std` is aligned to 16 bytes only, less than swizzled tiles need.
pub mod shared {
    /// Declares dynamic shared memory, in every crate with kernels once: what its PTX refers to it has to declare.
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
