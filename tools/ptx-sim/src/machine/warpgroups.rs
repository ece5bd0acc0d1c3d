//! Instructions that the four warps of a warpgroup have to execute together.
//!
//! Each warp executes its part when it gets there: nothing such an instruction does depends on the other three. That all
//! four executed it equally often is checked when the block ends, and whether there are as many registers as they asked
//! for with `setmaxnreg`.

use std::collections::BTreeMap;

/// Most warps of a block.
const BLOCK_WARPS: usize = 32;

/// A warp of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WarpName {
    /// The rank of its block.
    pub rank: u32,
    /// Its index there.
    pub in_block: u32,
}

/// How often each warp of a block executed each instruction of warpgroups, by the rank of the block and the index of the
/// instruction.
#[derive(Debug, Default)]
pub(crate) struct Warpgroups {
    counts: BTreeMap<(u32, u32), [u64; BLOCK_WARPS]>,
    /// By warp, the registers of a thread that its last `setmaxnreg` named, and the index of that instruction.
    registers: BTreeMap<WarpName, (u32, u32)>,
}

impl Warpgroups {
    /// Warps of a warpgroup, the first of which has an index that is a multiple of this.
    pub const WARPS: usize = 4;

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.clear();
        self.registers.clear();
    }

    /// Notes that a warp executed the instruction at `pc`.
    pub fn executed(&mut self, pc: u32, warp: WarpName) {
        self.counts.entry((warp.rank, pc)).or_insert([0; BLOCK_WARPS])[warp.in_block as usize] += 1;
    }

    /// Notes that a warp asked for so many registers a thread, with the instruction at `pc`.
    pub fn set_registers(&mut self, pc: u32, warp: WarpName, registers: u32) {
        self.registers.insert(warp, (registers, pc));
    }

    /// How often each warp executed each instruction; forgets it.
    pub fn take_counts(&mut self) -> BTreeMap<(u32, u32), [u64; BLOCK_WARPS]> {
        std::mem::take(&mut self.counts)
    }

    /// The registers of a thread that each warp asked for last, and the index of that instruction; forgets it.
    pub fn take_registers(&mut self) -> BTreeMap<WarpName, (u32, u32)> {
        std::mem::take(&mut self.registers)
    }
}
