//! FlashAttention forward kernels for S = 512, D = 64, fp16, written in Rust and compiled to PTX.
//!
//! The crate has two halves. The target-independent half — tile configuration, shared-memory layout, launch
//! geometry, argument struct, variant list, manifest — builds everywhere, so that the host and the kernels share one
//! source of truth. The device half (`device`, only for `nvptx64`) holds one file per PTX instruction family and
//! the kernels themselves.
//!
//! What an entry computes: `O = softmax(scale · Q Kᵀ + mask) · V` for every batch and head, and optionally
//! `LSE = ln Σ exp(scale · q·k)`, after Dao et al., *FlashAttention-2* (arXiv 2307.08691).
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch))]
#![cfg_attr(all(target_arch = "nvptx64", not(feature = "rust_cuda")), feature(stdarch_nvptx))]
#![cfg_attr(
    all(target_arch = "nvptx64", any(feature = "sm_80", feature = "sm_90a"), not(feature = "rust_cuda")),
    feature(abi_ptx)
)]

pub mod args;
pub mod config;
pub mod divisor;
pub mod geometry;
pub mod last_round;
pub mod probe;
pub mod shared_tile;
pub mod variants;

#[cfg(feature = "manifest")]
pub mod candidates;
#[cfg(feature = "manifest")]
pub mod manifest;

#[cfg(target_arch = "nvptx64")]
mod device;
/// What the kernels of other crates are written with.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
pub use device::{codegen, ptx};
