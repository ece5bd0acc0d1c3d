//! The device half: instruction wrappers and kernels, built only for `nvptx64`.

pub mod codegen;
pub mod mask;
pub mod ptx;
pub mod sequence;
pub mod sm80;
mod unroll;

pub(crate) use unroll::unroll;
