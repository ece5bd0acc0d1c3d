//! What is wrong with the state that a block leaves when all its warps have ended.

use super::block::Block;
use crate::finding::{FindingClass, LaneAddress};
use crate::lanes::LANES;
use crate::machine::Warpgroups;
use crate::race::{Agent, Engine};

/// Registers of a multiprocessor.
const MULTIPROCESSOR_REGISTERS: u32 = 65_536;
/// A thread has registers in multiples of this.
const REGISTERS_MULTIPLE: u32 = 8;
/// Most registers of a thread.
const THREAD_REGISTERS: u32 = 256;

/// Reports what a block that ended leaves: copies nobody waited for, and what its warpgroups did not do together.
pub(super) fn report(block: &mut Block<'_>) {
    report_unobserved_landings(block);
    report_forgotten_bulk_reads(block);
    report_split_warpgroups(block);
    report_registers_beyond_the_pool(block);
}

/// Reports copies to shared memory that nobody waited for.
fn report_unobserved_landings(block: &mut Block<'_>) {
    for (address, landing) in block.state.mbarriers.take_unobserved() {
        let which = vec![LaneAddress { lane: landing.lane, address: Some(landing.address) }];
        block.with_instruction(landing.warp as usize, landing.pc, |context| {
            context.report(FindingClass::AsyncCopyNotWaited, which, || {
                format!(
                    "the block ends without anybody having waited for phase {} of the mbarrier at {address:#x}, which says \
                     when this asynchronous copy is done",
                    landing.phase
                )
            });
        });
    }
}

/// Reports bulk copies whose reads nobody waited for.
fn report_forgotten_bulk_reads(block: &mut Block<'_>) {
    for read in block.state.bulk_reads.take_pending() {
        let Agent { warp, lane, engine: Engine::BulkReads } = read.reader else { continue };
        block.with_instruction(warp as usize, read.pc, |context| {
            let which = vec![LaneAddress { lane, address: Some(read.address) }];
            context.report(FindingClass::AsyncCopyNotWaited, which, || {
                "the thread ends without having waited for this copy to read its source in shared memory".to_owned()
            });
        });
    }
}

/// Reports instructions that only some warps of a warpgroup executed.
fn report_split_warpgroups(block: &mut Block<'_>) {
    let counts = block.state.warpgroups.take_counts();
    for (pc, counts) in counts {
        for (group, counts) in counts.chunks(Warpgroups::WARPS).enumerate() {
            if counts.iter().all(|count| *count == counts[0]) {
                continue;
            }
            let most = counts.iter().max().map_or(0, |most| *most);
            let first = group * Warpgroups::WARPS;
            let warp = first + counts.iter().position(|count| *count == most).unwrap_or(0);
            block.with_instruction(warp, pc, |context| {
                context.report(FindingClass::CollectiveLanesMissing, Vec::new(), || {
                    format!(
                        "all four warps of a warpgroup must execute this together: warps {first}-{} executed it \
                         {counts:?} times",
                        first + Warpgroups::WARPS - 1
                    )
                });
            });
        }
    }
}

/// The registers that the block begins with at most, which `setmaxnreg` then moves between its warps: a thread has no more
/// than `.maxnreg`, and than leave room for `.minnctapersm` blocks on a multiprocessor.
fn pool_registers(block: &Block<'_>) -> u32 {
    let program = block.machine.program;
    let blocks = program.minimum_blocks.unwrap_or(1).max(1);
    let room = MULTIPROCESSOR_REGISTERS / block.state.threads.saturating_mul(blocks);
    let of_thread = room.min(program.maximum_registers.unwrap_or(THREAD_REGISTERS)).min(THREAD_REGISTERS);
    of_thread / REGISTERS_MULTIPLE * REGISTERS_MULTIPLE * block.state.threads
}

/// Reports warps that together keep more registers than the block has: the last of them waits for ever.
fn report_registers_beyond_the_pool(block: &mut Block<'_>) {
    let registers = block.state.warpgroups.take_registers();
    let pool = pool_registers(block);
    let total = LANES as u32 * registers.values().map(|(registers, _)| registers).sum::<u32>();
    let greediest = registers.iter().max_by_key(|(_, (registers, _))| *registers);
    let Some((warp, (_, pc))) = greediest.filter(|_| total > pool) else { return };
    block.with_instruction(*warp as usize, *pc, |context| {
        context.report(FindingClass::Deadlock, Vec::new(), || {
            format!(
                "{} warps of the block ask for {total} registers together and keep them, of {pool} that it begins with \
                 at most: setmaxnreg.inc waits for ever",
                registers.len(),
            )
        });
    });
}
