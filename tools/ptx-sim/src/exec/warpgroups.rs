//! Instructions that the four warps of a warpgroup have to execute together.
//!
//! Each warp executes its part when it gets there: nothing such an instruction does depends on the other three. That all
//! four executed it equally often is checked when the block ends, and whether there are as many registers as they asked
//! for with `setmaxnreg`.

use std::collections::BTreeMap;

use super::block::Block;
use crate::finding::FindingClass;

/// Warps of a warpgroup, the first of which has an index that is a multiple of this.
pub(crate) const WARPS: usize = 4;
/// Most warps of a block.
const BLOCK_WARPS: usize = 32;
/// Registers of a multiprocessor, for warps of 32 lanes.
const POOL_REGISTERS: u32 = 65_536 / 32;

/// How often each warp of a block executed each instruction of warpgroups, by index of the instruction.
#[derive(Debug, Default)]
pub(crate) struct Warpgroups {
    counts: BTreeMap<u32, [u64; BLOCK_WARPS]>,
    /// By warp, the registers of a thread that its last `setmaxnreg` named, and the index of that instruction.
    registers: BTreeMap<u32, (u32, u32)>,
}

impl Warpgroups {
    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.clear();
        self.registers.clear();
    }

    /// Notes that a warp executed the instruction at `pc`.
    pub fn executed(&mut self, pc: u32, warp: u32) {
        self.counts.entry(pc).or_insert([0; BLOCK_WARPS])[warp as usize] += 1;
    }

    /// Notes that a warp asked for so many registers a thread, with the instruction at `pc`.
    pub fn set_registers(&mut self, pc: u32, warp: u32, registers: u32) {
        self.registers.insert(warp, (registers, pc));
    }
}

impl Block<'_> {
    /// Reports instructions that only some warps of a warpgroup executed.
    pub(super) fn report_split_warpgroups(&mut self) {
        let counts = std::mem::take(&mut self.state.warpgroups.counts);
        for (pc, counts) in counts {
            for (group, counts) in counts.chunks(WARPS).enumerate() {
                if counts.iter().all(|count| *count == counts[0]) {
                    continue;
                }
                let most = counts.iter().max().map_or(0, |most| *most);
                let first = group * WARPS;
                let warp = first + counts.iter().position(|count| *count == most).unwrap_or(0);
                self.with_instruction(warp, pc, |context| {
                    context.report(FindingClass::CollectiveLanesMissing, Vec::new(), || {
                        format!(
                            "all four warps of a warpgroup must execute this together: warps {first}-{} executed it \
                             {counts:?} times",
                            first + WARPS - 1
                        )
                    });
                });
            }
        }
    }

    /// Reports warps that together keep more registers than there are: the last of them waits for ever.
    pub(super) fn report_registers_beyond_the_pool(&mut self) {
        let registers = std::mem::take(&mut self.state.warpgroups.registers);
        let total: u32 = registers.values().map(|(registers, _)| registers).sum();
        let greediest = registers.iter().max_by_key(|(_, (registers, _))| *registers);
        let Some((warp, (_, pc))) = greediest.filter(|_| total > POOL_REGISTERS) else { return };
        self.with_instruction(*warp as usize, *pc, |context| {
            context.report(FindingClass::Deadlock, Vec::new(), || {
                format!(
                    "{} warps of the block ask for {} registers together and keep them, of {} that a multiprocessor has: \
                     setmaxnreg.inc waits for ever",
                    registers.len(),
                    total * 32,
                    POOL_REGISTERS * 32
                )
            });
        });
    }
}
