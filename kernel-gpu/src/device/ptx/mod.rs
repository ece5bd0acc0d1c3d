//! One file per PTX instruction family: a wrapper per instruction, with the section of the PTX ISA it comes from, the
//! layout of its operands across lanes, and the alignment it needs. All shared-memory addresses are 32-bit addresses of
//! the `.shared` window.

pub mod bulk_copy;
pub mod cluster;
pub mod cp_async;
pub mod element;
pub mod grid;
pub mod ldmatrix;
pub mod math;
pub mod mbarrier;
pub mod memory;
pub mod mma;
pub mod proxy;
pub mod shuffle;
pub mod stmatrix;
pub mod sync;
pub mod vote;
pub mod warpgroup;
pub mod wgmma;
