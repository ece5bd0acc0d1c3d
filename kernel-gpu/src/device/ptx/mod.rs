//! One file per PTX instruction family. Each wrapper of an instruction documents its section of the PTX ISA, the layout of
//! its operands across lanes, and the alignment it needs. All shared-memory addresses are 32-bit addresses of the `.shared`
//! window.

/// Emits the instruction of a wrapper with the given operands.
///
/// Its requirements on the caller are the `# Safety` section of the wrapper, to be compared with the PTX ISA. Nothing else about a
/// wrapper is unsafe.
#[collapse_debuginfo(yes)]
macro_rules! instruction {
    ($($assembly:tt)*) => {
        // SAFETY: the caller of the wrapper upholds its `# Safety` section.
        unsafe { core::arch::asm!($($assembly)*) }
    };
}

pub mod bulk_copy;
pub mod cluster;
pub mod cp_async;
pub mod element;
pub mod global;
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
