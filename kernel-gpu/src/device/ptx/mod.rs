//! One file per PTX instruction family: a wrapper per instruction, with the section of the PTX ISA it comes from, the
//! layout of its operands across lanes, and the alignment it needs. All shared-memory addresses are 32-bit addresses of
//! the `.shared` window.

pub mod cp_async;
pub mod ldmatrix;
pub mod math;
pub mod memory;
pub mod mma;
#[cfg(any(feature = "sm_90a", feature = "planted"))]
pub mod proxy;
pub mod shuffle;
pub mod sync;
#[cfg(any(feature = "sm_90a", feature = "planted"))]
pub mod wgmma;
