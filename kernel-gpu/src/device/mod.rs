//! The device half: instruction wrappers and kernels, built only for `nvptx64`.
#![cfg_attr(
    any(feature = "candidates", not(any(feature = "sm_80", feature = "sm_90a"))),
    allow(
        dead_code,
        unused_imports,
        unused_macros,
        reason = "candidates are compiled without some parts of the kernels, other crates without the kernels"
    )
)]

#[cfg(any(feature = "sm_80", feature = "sm_90a"))]
pub mod attention;
pub mod codegen;
mod hidden;
#[cfg(all(any(feature = "sm_80", feature = "sm_90a"), not(feature = "candidates")))]
pub mod probe;
pub mod ptx;
#[cfg(feature = "sm_80")]
pub mod sm80;
#[cfg(feature = "sm_90a")]
pub mod sm90;
mod unroll;

pub(crate) use unroll::unrolled;
