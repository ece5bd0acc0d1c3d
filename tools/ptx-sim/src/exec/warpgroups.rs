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
/// Registers of a multiprocessor.
const MULTIPROCESSOR_REGISTERS: u32 = 65_536;
/// A thread has registers in multiples of this.
const REGISTERS_MULTIPLE: u32 = 8;
/// Most registers of a thread.
const THREAD_REGISTERS: u32 = 256;

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

    /// The registers that the block begins with at most, which `setmaxnreg` then moves between its warps: a thread has no more
    /// than `.maxnreg`, and than leave room for `.minnctapersm` blocks on a multiprocessor.
    fn pool_registers(&self) -> u32 {
        let program = self.machine.program;
        let blocks = program.minimum_blocks.unwrap_or(1).max(1);
        let room = MULTIPROCESSOR_REGISTERS / self.state.threads.saturating_mul(blocks);
        let of_thread = room.min(program.maximum_registers.unwrap_or(THREAD_REGISTERS)).min(THREAD_REGISTERS);
        of_thread / REGISTERS_MULTIPLE * REGISTERS_MULTIPLE * self.state.threads
    }

    /// Reports warps that together keep more registers than the block has: the last of them waits for ever.
    pub(super) fn report_registers_beyond_the_pool(&mut self) {
        let registers = std::mem::take(&mut self.state.warpgroups.registers);
        let pool = self.pool_registers();
        let total = 32 * registers.values().map(|(registers, _)| registers).sum::<u32>();
        let greediest = registers.iter().max_by_key(|(_, (registers, _))| *registers);
        let Some((warp, (_, pc))) = greediest.filter(|_| total > pool) else { return };
        self.with_instruction(*warp as usize, *pc, |context| {
            context.report(FindingClass::Deadlock, Vec::new(), || {
                format!(
                    "{} warps of the block ask for {total} registers together and keep them, of {pool} that it begins with \
                     at most: setmaxnreg.inc waits for ever",
                    registers.len(),
                )
            });
        });
    }
}
