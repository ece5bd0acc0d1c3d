//! FlashAttention forward kernels for S = 512, D = 64, fp16, written in Rust and compiled to PTX.
//!
//! What an entry computes: `O = softmax(scale · Q Kᵀ + mask) · V` for every batch and head, and optionally
//! `LSE = ln Σ exp(scale · q·k)`, after Dao et al., *FlashAttention-2* (arXiv 2307.08691).
//!
//! `device`, only for `nvptx64`, holds one file per PTX instruction family and the kernels; `entries` makes one entry for
//! each variant. What both sides of a launch agree on is the crate `contract`, in the folder beside this one's source.
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

/// What the kernels of other crates are written with.
#[cfg(target_arch = "nvptx64")]
#[doc(hidden)]
pub use device::{codegen, ptx};
