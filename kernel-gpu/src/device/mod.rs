//! The device half: instruction wrappers and kernels, built only for `nvptx64`.
#![cfg_attr(
    any(feature = "planted", feature = "candidates"),
    allow(
        dead_code,
        unused_imports,
        unused_macros,
        reason = "planted bugs are compiled without the kernels, candidates without some of their parts"
    )
)]

#[cfg(not(feature = "planted"))]
pub mod attention;
pub mod codegen;
mod hidden;
#[cfg(feature = "planted")]
pub mod planted;
// What a GPU reaches at most is no question of the code generator.
#[cfg(not(any(feature = "planted", feature = "candidates", feature = "rust_cuda")))]
pub mod probe;
pub mod ptx;
#[cfg(feature = "sm_80")]
pub mod sm80;
#[cfg(feature = "sm_90a")]
pub mod sm90;
mod unroll;

pub(crate) use unroll::unroll;
