//! The sm_90a family: `wgmma`, with tiles that a producer loads by TMA ([`tma`]).
//!
//! [`softmax`] and [`probabilities`] are those of a warpgroup.

mod probabilities;
mod softmax;
pub mod tma;
