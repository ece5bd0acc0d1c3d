//! The forward pass, a folder for each family of kernels.

#[cfg(feature = "sm_80")]
pub mod sm80;
#[cfg(feature = "sm_90a")]
pub mod sm90;
