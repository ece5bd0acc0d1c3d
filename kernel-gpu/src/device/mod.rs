//! The device half: instruction wrappers and kernels, built only for `nvptx64`.
#![cfg_attr(
    any(feature = "planted", feature = "probe"),
    allow(
        dead_code,
        unused_imports,
        unused_macros,
        reason = "planted bugs and probes are compiled without the kernels"
    )
)]

pub mod codegen;
pub mod mask;
#[cfg(feature = "planted")]
pub mod planted;
#[cfg(feature = "probe")]
pub mod probe;
pub mod ptx;
pub mod sequence;
pub mod sm80;
mod unroll;

pub(crate) use unroll::unroll;
