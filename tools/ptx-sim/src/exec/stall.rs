//! What happens when no warp of a block can go on.

use super::block::Block;
use crate::finding::FindingClass;
use crate::lanes::lane_list;
use crate::machine::{BARRIERS, Barrier, CLUSTER_BARRIER, Group, Progress, barrier_name};
use crate::program::Program;

/// Gets a block going again in which no warp can go on; false when it cannot.
pub(super) fn resolve(block: &mut Block<'_>) -> bool {
    for index in 0..block.warps.len() {
        let waiting = block.warps[index].groups.iter().enumerate();
        let at_collective = waiting.filter(|(_, group)| group.progress == Progress::AtCollective);
        if let Some((group, _)) = at_collective.min_by_key(|(_, group)| group.pc) {
            block.step(index, group, true);
            return true;
        }
    }
    for barrier in 0..BARRIERS {
        let ended = block.warps.iter().filter(|warp| warp.groups.is_empty());
        let ended: Vec<u32> = ended.map(|warp| warp.index).collect();
        let state = &block.state.barriers[barrier];
        let missing = state.expected.saturating_sub(state.arrived);
        if state.arrived > 0 && missing <= 32 * ended.len() as u32 {
            // Threads that exit release a barrier for all threads of the block or the cluster (PTX ISA, "exit").
            if barrier == CLUSTER_BARRIER || state.is_for_all {
                block.state.barriers[barrier].complete();
                return true;
            }
            report_waiting(block, barrier, FindingClass::BarrierDivergence, |_| {
                format!(
                    "{} of the block ended without reaching barrier {barrier}, where others wait",
                    warp_list(&ended)
                )
            });
            block.state.barriers[barrier].complete();
            return true;
        }
    }
    if let_waits_time_out(block) {
        return true;
    }
    report_deadlock(block);
    false
}

/// Lets the waits of a block in which no warp can go on return false, as they do after a time; false when that was tried
/// before and changed nothing.
fn let_waits_time_out(block: &mut Block<'_>) -> bool {
    let waits: Vec<(usize, u32)> = block.waiting_at_mbarriers();
    if waits.is_empty() {
        return false;
    }
    let state = &mut block.state;
    let others = [
        state.barriers.iter().map(|barrier| barrier.phase).sum(),
        state.barriers.iter().map(|barrier| u64::from(barrier.arrived)).sum(),
        block.warps.iter().map(|warp| u64::from(warp.exited.count_ones())).sum(),
    ];
    if state.mbarriers.is_stuck(others) {
        return false;
    }
    for (index, lanes) in waits {
        block.time_out(index, lanes);
    }
    true
}

/// Reports something at the first warp that waits at a barrier.
fn report_waiting(
    block: &mut Block<'_>,
    barrier: usize,
    class: FindingClass,
    message: impl FnOnce(&Barrier) -> String,
) {
    let is_here = |group: &Group| matches!(group.progress, Progress::AtBarrier { barrier: at, .. } if at == barrier);
    let found = block
        .warps
        .iter()
        .enumerate()
        .find_map(|(index, warp)| warp.groups.iter().position(is_here).map(|group| (index, group)));
    let state = block.state.barriers[barrier];
    if let Some((index, group)) = found {
        block.with_group(index, group, |context| context.report(class, Vec::new(), || message(&state)));
    }
}

fn report_deadlock(block: &mut Block<'_>) {
    let program: &Program = block.machine.program;
    let waits = block.warps.iter().flat_map(|warp| warp.groups.iter().map(move |group| (warp, group)));
    let list: Vec<String> = waits
        .map(|(warp, group)| {
            let line = program.instructions.get(group.pc as usize).map_or(0, |instruction| instruction.line);
            let place = match group.progress {
                Progress::AtBarrier { barrier, .. } => {
                    let Barrier { arrived, expected, .. } = block.state.barriers[barrier];
                    format!("waits at {} ({arrived} of {expected} threads arrived)", barrier_name(barrier))
                }
                Progress::AtMbarrier { mbarrier, .. } => {
                    let state = block.state.mbarriers.get(mbarrier).map_or(String::new(), |state| state.describe());
                    format!("waits at the mbarrier at {mbarrier:#x} ({state})")
                }
                Progress::Ready | Progress::AtCollective => "waits".to_owned(),
            };
            format!("warp {} {} {place}, line {line}", warp.index, lane_list(group.lanes))
        })
        .collect();
    let found = block.warps.iter().position(|warp| !warp.groups.is_empty());
    let ended: Vec<u32> = block.warps.iter().filter(|warp| warp.groups.is_empty()).map(|warp| warp.index).collect();
    let Some(index) = found else { return };
    block.with_group(index, 0, |context| {
        context.report(FindingClass::Deadlock, Vec::new(), || {
            let mut text = format!("no warp of the block can go on: {}", list.join("; "));
            if !ended.is_empty() {
                text.push_str(&format!("; {} ended", warp_list(&ended)));
            }
            text
        });
    });
}

fn warp_list(warps: &[u32]) -> String {
    let mask = warps.iter().fold(0_u32, |mask, warp| mask | 1 << warp);
    lane_list(mask).replacen("lane", "warp", 1)
}
