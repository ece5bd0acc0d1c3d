//! What happens when no warp of a block can go on.

use super::barriers::{BARRIERS, Barrier, CLUSTER_BARRIER, barrier_name};
use super::block::Block;
use super::context::lane_list;
use super::warp::{Group, Progress};
use crate::decode::Program;
use crate::finding::FindingClass;

impl Block<'_> {
    /// Gets a block going again in which no warp can go on; false when it cannot.
    pub(super) fn resolve(&mut self) -> bool {
        for index in 0..self.warps.len() {
            let waiting = self.warps[index].groups.iter().enumerate();
            let at_collective = waiting.filter(|(_, group)| group.progress == Progress::AtCollective);
            if let Some((group, _)) = at_collective.min_by_key(|(_, group)| group.pc) {
                self.step(index, group, true);
                return true;
            }
        }
        for barrier in 0..BARRIERS {
            let ended = self.warps.iter().filter(|warp| warp.groups.is_empty());
            let ended: Vec<u32> = ended.map(|warp| warp.index).collect();
            let state = &self.state.barriers[barrier];
            let missing = state.expected.saturating_sub(state.arrived);
            if state.arrived > 0 && missing <= 32 * ended.len() as u32 {
                // Threads that ended count as having arrived at the barrier of a cluster.
                if barrier == CLUSTER_BARRIER {
                    self.state.barriers[barrier].complete();
                    return true;
                }
                self.report_waiting(barrier, FindingClass::BarrierDivergence, |_| {
                    format!(
                        "{} of the block ended without reaching barrier {barrier}, where others wait",
                        warp_list(&ended)
                    )
                });
                self.state.barriers[barrier].complete();
                return true;
            }
        }
        if self.let_waits_time_out() {
            return true;
        }
        self.report_deadlock();
        false
    }

    /// Reports something at the first warp that waits at a barrier.
    fn report_waiting(&mut self, barrier: usize, class: FindingClass, message: impl FnOnce(&Barrier) -> String) {
        let is_here =
            |group: &Group| matches!(group.progress, Progress::AtBarrier { barrier: at, .. } if at == barrier);
        let found = self
            .warps
            .iter()
            .enumerate()
            .find_map(|(index, warp)| warp.groups.iter().position(is_here).map(|group| (index, group)));
        let state = self.state.barriers[barrier];
        if let Some((index, group)) = found {
            self.with_group(index, group, |context| context.report(class, Vec::new(), || message(&state)));
        }
    }

    fn report_deadlock(&mut self) {
        let program: &Program = self.machine.program;
        let waits = self.warps.iter().flat_map(|warp| warp.groups.iter().map(move |group| (warp, group)));
        let list: Vec<String> = waits
            .map(|(warp, group)| {
                let line = program.instructions.get(group.pc as usize).map_or(0, |instruction| instruction.line);
                let place = match group.progress {
                    Progress::AtBarrier { barrier, .. } => {
                        let Barrier { arrived, expected, .. } = self.state.barriers[barrier];
                        format!("waits at {} ({arrived} of {expected} threads arrived)", barrier_name(barrier))
                    }
                    Progress::AtMbarrier { mbarrier, .. } => {
                        let state = self.state.mbarriers.get(mbarrier).map_or(String::new(), |state| state.describe());
                        format!("waits at the mbarrier at {mbarrier:#x} ({state})")
                    }
                    Progress::Ready | Progress::AtCollective => "waits".to_owned(),
                };
                format!("warp {} {} {place}, line {line}", warp.index, lane_list(group.lanes))
            })
            .collect();
        let found = self.warps.iter().position(|warp| !warp.groups.is_empty());
        let ended: Vec<u32> = self.warps.iter().filter(|warp| warp.groups.is_empty()).map(|warp| warp.index).collect();
        let Some(index) = found else { return };
        self.with_group(index, 0, |context| {
            context.report(FindingClass::Deadlock, Vec::new(), || {
                let mut text = format!("no warp of the block can go on: {}", list.join("; "));
                if !ended.is_empty() {
                    text.push_str(&format!("; {} ended", warp_list(&ended)));
                }
                text
            });
        });
    }
}

fn warp_list(warps: &[u32]) -> String {
    let mask = warps.iter().fold(0_u32, |mask, warp| mask | 1 << warp);
    lane_list(mask).replacen("lane", "warp", 1)
}
