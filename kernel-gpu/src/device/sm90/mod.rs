//! The sm_90a family: `wgmma`, with tiles that a producer loads by TMA ([`tma`]).
//!
//! [`softmax`] is that of a warpgroup, [`probabilities`] its result.

mod probabilities;
mod softmax;
pub mod tma;
