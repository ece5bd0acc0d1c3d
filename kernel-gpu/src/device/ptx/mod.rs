//! One file per PTX instruction family: a wrapper per instruction, with the section of the PTX ISA it comes from, the
//! layout of its operands across lanes, and the alignment it needs. All shared-memory addresses are 32-bit addresses of
//! the `.shared` window.

/// The instruction of a wrapper, whose operands these are.
///
/// What it asks of whoever executes it is the `# Safety` of the wrapper. That section is what a reader has to compare with the PTX
/// ISA: nothing else is unsafe about a wrapper.
#[collapse_debuginfo(yes)]
macro_rules! instruction {
    ($($assembly:tt)*) => {
        // SAFETY: the caller of the wrapper keeps its `# Safety`.
        unsafe { core::arch::asm!($($assembly)*) }
    };
}

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
