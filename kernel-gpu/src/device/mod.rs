//! The device half: instruction wrappers and kernels, built only for `nvptx64`.
#![cfg_attr(
    feature = "planted",
    allow(dead_code, unused_imports, unused_macros, reason = "the planted bugs are compiled without the kernels")
)]

pub mod codegen;
pub mod mask;
#[cfg(feature = "planted")]
pub mod planted;
pub mod ptx;
pub mod sequence;
pub mod sm80;
mod unroll;

pub(crate) use unroll::unroll;
