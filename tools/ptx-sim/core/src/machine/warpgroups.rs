//! Instructions that the four warps of a warpgroup must execute together.
//!
//! Each warp executes its part when it arrives: no effect of such an instruction depends on the other three warps. At
//! the end of the block it is checked that all four executed it equally often, and that there are as many registers as
//! they requested with `setmaxnreg`.

use std::collections::BTreeMap;

/// Maximum warps of a block.
const BLOCK_WARPS: usize = 32;

/// A warp of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WarpName {
    /// The rank of its block.
    pub rank: u32,
    /// Its index in the block.
    pub in_block: u32,
}

/// Number of executions of each warpgroup instruction by each warp of a block, by rank of the block and index of the
/// instruction.
#[derive(Debug, Default)]
pub(crate) struct Warpgroups {
    counts: BTreeMap<(u32, u32), [u64; BLOCK_WARPS]>,
    /// By warp, registers per thread of its last `setmaxnreg`, and the index of that instruction.
    registers: BTreeMap<WarpName, (u32, u32)>,
}

impl Warpgroups {
    /// Warps of a warpgroup; the index of the first is a multiple of this.
    pub const WARPS: usize = 4;

    /// Clears everything.
    pub fn clear(&mut self) {
        self.counts.clear();
        self.registers.clear();
    }

    /// Records that a warp executed the instruction at `pc`.
    pub fn executed(&mut self, pc: u32, warp: WarpName) {
        self.counts.entry((warp.rank, pc)).or_insert([0; BLOCK_WARPS])[warp.in_block as usize] += 1;
    }

    /// Records the registers per thread that a warp requested with the instruction at `pc`.
    pub fn set_registers(&mut self, pc: u32, warp: WarpName, registers: u32) {
        self.registers.insert(warp, (registers, pc));
    }

    /// Takes the number of executions of each instruction by each warp.
    pub fn take_counts(&mut self) -> BTreeMap<(u32, u32), [u64; BLOCK_WARPS]> {
        std::mem::take(&mut self.counts)
    }

    /// Takes the registers per thread that each warp last requested, with the index of that instruction.
    pub fn take_registers(&mut self) -> BTreeMap<WarpName, (u32, u32)> {
        std::mem::take(&mut self.registers)
    }
}
