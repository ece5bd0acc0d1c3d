//! FlashAttention kernels for fp16 and bf16, forward and backward, for heads of up to 256 columns, written in Rust and compiled to PTX.
//!
//! An entry computes `O = softmax(scale · Q Kᵀ + mask) · V` for every batch and head, and optionally
//! `LSE = ln Σ exp(scale · q·k)`, after Dao et al., *FlashAttention-2* (arXiv 2307.08691); a backward entry dQ, dK and dV.
//!
//! `device`, only for `nvptx64`, has one file per PTX instruction family, and the kernels; `entries` declares one entry
//! per variant. The definitions shared by both sides of a launch are in the crate `contract`, in the folder next to this source.
//! [`shared_tile`] also builds on the host, where its proofs are tested.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(asm_experimental_arch, stdarch_nvptx))]
#![cfg_attr(
    all(target_arch = "nvptx64", not(feature = "rust_cuda")),
    feature(link_llvm_intrinsics),
    allow(internal_features, reason = "`core` has no function for the warp's barrier")
)]
#![cfg_attr(
    all(target_arch = "nvptx64", any(feature = "sm_80", feature = "sm_90a"), not(feature = "rust_cuda")),
    feature(abi_ptx)
)]

pub mod shared_tile;

#[cfg(target_arch = "nvptx64")]
mod device;
#[cfg(all(target_arch = "nvptx64", any(feature = "sm_80", feature = "sm_90a")))]
mod entries;

/// Building blocks for the kernels of other crates.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
pub use device::{codegen, ptx};
