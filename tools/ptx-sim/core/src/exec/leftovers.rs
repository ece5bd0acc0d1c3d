//! What is wrong with the state that a cluster leaves when all its warps have ended.

use super::cluster::Cluster;
use crate::finding::{FindingClass, LaneAddress};
use crate::lanes::LANES;
use crate::machine::{WarpName, Warpgroups};
use crate::race::{Agent, Engine};

/// Registers of a multiprocessor.
const MULTIPROCESSOR_REGISTERS: u32 = 65_536;
/// A thread has registers in multiples of this.
const REGISTERS_MULTIPLE: u32 = 8;
/// Most registers of a thread.
const THREAD_REGISTERS: u32 = 256;

/// Reports what a cluster that ended leaves: copies nobody waited for, and what its warpgroups did not do together.
pub(super) fn report(cluster: &mut Cluster<'_>) {
    report_unobserved_landings(cluster);
    report_forgotten_bulk_reads(cluster);
    report_split_warpgroups(cluster);
    report_registers_beyond_the_pool(cluster);
}

/// Reports copies to shared memory that nobody waited for.
fn report_unobserved_landings(cluster: &mut Cluster<'_>) {
    for (address, landing) in cluster.state.mbarriers.take_unobserved() {
        let which = vec![LaneAddress { lane: landing.lane, address: Some(landing.address) }];
        cluster.with_instruction(landing.warp as usize, landing.pc, |context| {
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
fn report_forgotten_bulk_reads(cluster: &mut Cluster<'_>) {
    for read in cluster.state.bulk_reads.take_pending() {
        let Agent { warp, lane, engine: Engine::BulkReads } = read.reader else { continue };
        cluster.with_instruction(warp as usize, read.pc, |context| {
            let which = vec![LaneAddress { lane, address: Some(read.address) }];
            context.report(FindingClass::AsyncCopyNotWaited, which, || {
                "the thread ends without having waited for this copy to read its source in shared memory".to_owned()
            });
        });
    }
}

/// Reports instructions that only some warps of a warpgroup executed.
fn report_split_warpgroups(cluster: &mut Cluster<'_>) {
    let counts = cluster.state.warpgroups.take_counts();
    for ((rank, pc), counts) in counts {
        for (group, counts) in counts.chunks(Warpgroups::WARPS).enumerate() {
            if counts.iter().all(|count| *count == counts[0]) {
                continue;
            }
            let most = counts.iter().max().map_or(0, |most| *most);
            let first = group * Warpgroups::WARPS;
            let warp = first + counts.iter().position(|count| *count == most).unwrap_or(0);
            cluster.with_instruction(cluster.index(rank, warp as u32), pc, |context| {
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
fn pool_registers(cluster: &Cluster<'_>) -> u32 {
    let program = cluster.machine.program;
    let blocks = program.minimum_blocks.unwrap_or(1).max(1);
    let room = MULTIPROCESSOR_REGISTERS / cluster.state.threads.saturating_mul(blocks);
    let of_thread = room.min(program.maximum_registers.unwrap_or(THREAD_REGISTERS)).min(THREAD_REGISTERS);
    of_thread / REGISTERS_MULTIPLE * REGISTERS_MULTIPLE * cluster.state.threads
}

/// Reports warps that together keep more registers than the block has: the last of them waits for ever.
fn report_registers_beyond_the_pool(cluster: &mut Cluster<'_>) {
    let all = cluster.state.warpgroups.take_registers();
    let pool = pool_registers(cluster);
    for rank in 0..cluster.state.blocks {
        let of_block: Vec<_> = all.iter().filter(|(warp, _)| warp.rank == rank).collect();
        report_registers_of_block(cluster, &of_block, pool);
    }
}

/// The same for the warps of one block, each with its registers and the instruction that asked for them.
fn report_registers_of_block(cluster: &mut Cluster<'_>, registers: &[(&WarpName, &(u32, u32))], pool: u32) {
    let total = LANES as u32 * registers.iter().map(|(_, (registers, _))| registers).sum::<u32>();
    let greediest = registers.iter().max_by_key(|(_, (registers, _))| *registers);
    let Some((warp, (_, pc))) = greediest.filter(|_| total > pool) else { return };
    cluster.with_instruction(cluster.index(warp.rank, warp.in_block), *pc, |context| {
        context.report(FindingClass::Deadlock, Vec::new(), || {
            format!(
                "{} warps of the block ask for {total} registers together and keep them, of {pool} that it begins with \
                 at most: setmaxnreg.inc waits for ever",
                registers.len(),
            )
        });
    });
}
