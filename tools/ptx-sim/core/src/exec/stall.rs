//! What happens when no warp of a cluster can go on.

use std::collections::BTreeMap;

use super::cluster::Cluster;
use crate::finding::FindingClass;
use crate::lanes::lane_list;
use crate::machine::{Barrier, Group, NAMED_BARRIERS, Progress, Warp};
use crate::program::Program;

/// Gets a cluster going again in which no warp can go on; false when it cannot.
pub(super) fn resolve(cluster: &mut Cluster<'_>) -> bool {
    for index in 0..cluster.warps.len() {
        let waiting = cluster.warps[index].groups.iter().enumerate();
        let at_collective = waiting.filter(|(_, group)| group.progress == Progress::AtCollective);
        if let Some((group, _)) = at_collective.min_by_key(|(_, group)| group.pc) {
            cluster.step(index, group, true);
            return true;
        }
    }
    if (0..cluster.state.barriers.len()).any(|barrier| release_by_exit(cluster, barrier)) || let_waits_time_out(cluster)
    {
        return true;
    }
    report_deadlock(cluster);
    false
}

/// The rank of the block that a barrier belongs to and its number there; `None` for the barrier of the cluster.
fn owner(cluster: &Cluster<'_>, barrier: usize) -> Option<(u32, usize)> {
    let is_of_block = barrier != cluster.state.cluster_barrier();
    is_of_block.then_some(((barrier / NAMED_BARRIERS) as u32, barrier % NAMED_BARRIERS))
}

/// Completes a barrier that only threads have not reached that ended; false when that is not what it waits for.
fn release_by_exit(cluster: &mut Cluster<'_>, barrier: usize) -> bool {
    let owner = owner(cluster, barrier);
    let takes_part = |warp: &&Warp| owner.is_none_or(|(rank, _)| warp.rank == rank);
    let ended: Vec<u32> = cluster
        .warps
        .iter()
        .filter(takes_part)
        .filter(|warp| warp.groups.is_empty())
        .map(|warp| warp.in_block)
        .collect();
    let state = &cluster.state.barriers[barrier];
    let missing = state.expected.saturating_sub(state.arrived);
    if state.arrived == 0 || missing > 32 * ended.len() as u32 {
        return false;
    }
    // Threads that exit release a barrier for all threads of the block or the cluster (PTX ISA, "exit").
    if let Some((_, number)) = owner
        && !state.is_for_all
    {
        report_waiting(cluster, barrier, FindingClass::BarrierDivergence, |_| {
            format!("{} of the block ended without reaching barrier {number}, where others wait", warp_list(&ended))
        });
    }
    cluster.state.barriers[barrier].complete();
    true
}

/// Lets the waits of a cluster in which no warp can go on return false, as they do after a time; false when that was tried
/// before and changed nothing.
fn let_waits_time_out(cluster: &mut Cluster<'_>) -> bool {
    let waits: Vec<(usize, u32)> = cluster.waiting_at_mbarriers();
    if waits.is_empty() {
        return false;
    }
    let state = &mut cluster.state;
    let others = [
        state.barriers.iter().map(|barrier| barrier.phase).sum(),
        state.barriers.iter().map(|barrier| u64::from(barrier.arrived)).sum(),
        cluster.warps.iter().map(|warp| u64::from(warp.exited.count_ones())).sum(),
    ];
    if state.mbarriers.is_stuck(others) {
        return false;
    }
    for (index, lanes) in waits {
        cluster.time_out(index, lanes);
    }
    true
}

/// Reports something at the first warp that waits at a barrier.
fn report_waiting(
    cluster: &mut Cluster<'_>,
    barrier: usize,
    class: FindingClass,
    message: impl FnOnce(&Barrier) -> String,
) {
    let is_here = |group: &Group| matches!(group.progress, Progress::AtBarrier { barrier: at, .. } if at == barrier);
    let found = cluster
        .warps
        .iter()
        .enumerate()
        .find_map(|(index, warp)| warp.groups.iter().position(is_here).map(|group| (index, group)));
    let state = cluster.state.barriers[barrier];
    if let Some((index, group)) = found {
        cluster.with_group(index, group, |context| context.report(class, Vec::new(), || message(&state)));
    }
}

fn report_deadlock(cluster: &mut Cluster<'_>) {
    let Some(index) = cluster.warps.iter().position(|warp| !warp.groups.is_empty()) else { return };
    let waits = cluster.warps.iter().flat_map(|warp| warp.groups.iter().map(move |group| (warp, group)));
    let waits: Vec<String> = waits.map(|(warp, group)| describe_wait(cluster, warp, group)).collect();
    let mut text = format!(
        "no warp of the {} can go on: {}",
        if cluster.state.blocks == 1 { "block" } else { "cluster" },
        waits.join("; ")
    );
    let mut ended: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for warp in cluster.warps.iter().filter(|warp| warp.groups.is_empty()) {
        ended.entry(warp.rank).or_default().push(warp.in_block);
    }
    for (rank, warps) in ended {
        text.push_str(&format!("; {}{} ended", block_name(cluster, rank), warp_list(&warps)));
    }
    cluster.with_group(index, 0, |context| context.report(FindingClass::Deadlock, Vec::new(), || text));
}

/// What lanes of a warp wait for, in words.
fn describe_wait(cluster: &Cluster<'_>, warp: &Warp, group: &Group) -> String {
    let program: &Program = cluster.machine.program;
    let instruction = program.instructions.get(group.pc as usize);
    let line = instruction.map_or_else(|| "the end".to_owned(), |instruction| cluster.machine.line(instruction));
    let place = match group.progress {
        Progress::AtBarrier { barrier, .. } => {
            let Barrier { arrived, expected, .. } = cluster.state.barriers[barrier];
            let name = owner(cluster, barrier)
                .map_or_else(|| "the cluster's barrier".to_owned(), |(_, number)| format!("barrier {number}"));
            format!("waits at {name} ({arrived} of {expected} threads arrived)")
        }
        Progress::AtMbarrier { mbarrier, .. } => {
            let state = cluster.state.mbarriers.get(mbarrier).map_or(String::new(), |state| state.describe());
            format!("waits at the mbarrier at {mbarrier:#x} ({state})")
        }
        Progress::Ready | Progress::AtCollective => "waits".to_owned(),
    };
    let block = block_name(cluster, warp.rank);
    format!("{block}warp {} {} {place}, {line}", warp.in_block, lane_list(group.lanes))
}

/// What a block is called before its warps; nothing where there is no other.
fn block_name(cluster: &Cluster<'_>, rank: u32) -> String {
    let [x, y, z] = cluster.machine.place(cluster.state.number, rank).block;
    if cluster.state.blocks == 1 { String::new() } else { format!("block ({x}, {y}, {z}) ") }
}

fn warp_list(warps: &[u32]) -> String {
    let mask = warps.iter().fold(0_u32, |mask, warp| mask | 1 << warp);
    lane_list(mask).replacen("lane", "warp", 1)
}
