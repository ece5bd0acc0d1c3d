//! The device half: instruction wrappers and kernels, built only for `nvptx64`.
//!
//! [`forward`] and [`backward`] have the kernels, a folder for each family. What they are made of is beside them: [`products`], [`copy`] and
//! [`stores`] of the sm_80 family; [`mask`], [`scores`], [`softmax`],
//! [`sequence`], [`tile`]; and for kernels with a TMA producer [`tma`] and, above it, [`order`]. Below all of them are [`ptx`], a file for
//! each family of instructions, and [`codegen`].
//!
//! Accumulators of `mma.sync` and `wgmma` have the same layout: of each 16×8 tile, [lane](lane::Lane) 4g + t of a warp holds rows g and
//! g + 8, columns 2t and 2t + 1. Mask and softmax work on this layout.
//!
//! [`together`] says what the `# Safety` sections promise.
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
pub mod backward;
pub mod codegen;
#[cfg(feature = "sm_80")]
mod copy;
#[cfg(any(feature = "sm_80", feature = "sm_90a"))]
pub mod forward;
mod hidden;
#[cfg(any(feature = "sm_80", feature = "sm_90a"))]
pub mod kernel;
#[cfg(any(feature = "sm_80", feature = "sm_90a"))]
mod lane;
#[cfg(any(feature = "sm_80", feature = "sm_90a"))]
pub mod mask;
#[cfg(feature = "sm_90a")]
mod order;
#[cfg(all(any(feature = "sm_80", feature = "sm_90a"), not(feature = "candidates")))]
pub mod probe;
#[cfg(feature = "sm_80")]
mod products;
pub mod ptx;
#[cfg(any(feature = "sm_80", feature = "sm_90a"))]
pub mod scores;
#[cfg(any(feature = "sm_80", feature = "sm_90a"))]
pub mod sequence;
#[cfg(any(feature = "sm_80", feature = "sm_90a"))]
mod softmax;
#[cfg(any(feature = "sm_80", feature = "sm_90a"))]
mod stores;
#[cfg(any(feature = "sm_80", feature = "sm_90a"))]
pub mod tile;
#[cfg(feature = "sm_90a")]
pub mod tma;
mod together;
mod unroll;

pub(crate) use unroll::unrolled;
