//! The device half: instruction wrappers and kernels, built only for `nvptx64`.
#![cfg_attr(
    any(feature = "planted", feature = "probe", feature = "candidates"),
    allow(
        dead_code,
        unused_imports,
        unused_macros,
        reason = "planted bugs and probes are compiled without the kernels, candidates without some of their parts"
    )
)]

#[cfg(not(any(feature = "planted", feature = "probe")))]
pub mod attention;
pub mod codegen;
#[cfg(feature = "planted")]
pub mod planted;
#[cfg(feature = "probe")]
pub mod probe;
pub mod ptx;
#[cfg(feature = "sm_80")]
pub mod sm80;
#[cfg(feature = "sm_90a")]
pub mod sm90;
mod unroll;

pub(crate) use unroll::unroll;
