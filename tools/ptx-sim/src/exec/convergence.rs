//! Lanes of a warp that go different ways and meet again, and instructions that need them together.

use crate::context::{Context, without_addresses};
use crate::finding::FindingClass;
use crate::lanes::lane_list;
use crate::machine::{BlockState, Group, Progress, Warp};
use crate::program::Collective;

impl Warp {
    /// The group whose turn it is: of those that can go on, the one at the lowest instruction, so that lanes which went
    /// different ways meet again.
    pub fn next_group(&self, block: &BlockState) -> Option<usize> {
        let can_go_on = |group: &Group| match group.progress {
            Progress::Ready => true,
            Progress::AtCollective => false,
            Progress::AtBarrier { barrier, phase } => block.barriers[barrier].phase != phase,
            Progress::AtMbarrier { mbarrier, phase } => {
                block.mbarriers.get(mbarrier).is_none_or(|mbarrier| mbarrier.phase != phase)
            }
        };
        if let [group] = self.groups.as_slice() {
            return can_go_on(group).then_some(0);
        }
        let ready = self.groups.iter().enumerate().filter(|(_, group)| can_go_on(group));
        ready.min_by_key(|(_, group)| group.pc).map(|(index, _)| index)
    }

    /// Moves lanes to `pc`, where they join those that are there already.
    pub fn send(&mut self, lanes: u32, pc: u32) {
        if let [group] = self.groups.as_mut_slice()
            && group.lanes == lanes
        {
            (group.pc, group.progress) = (pc, Progress::Ready);
            return;
        }
        self.remove(lanes);
        let joins = |group: &&mut Group| group.pc == pc && !matches!(group.progress, Progress::AtBarrier { .. });
        match self.groups.iter_mut().find(joins) {
            _ if lanes == 0 => {}
            Some(group) => {
                group.lanes |= lanes;
                group.progress = Progress::Ready;
            }
            None => self.groups.push(Group { pc, lanes, progress: Progress::Ready }),
        }
    }

    /// Takes lanes out of their groups.
    fn remove(&mut self, lanes: u32) {
        self.groups.iter_mut().for_each(|group| group.lanes &= !lanes);
        self.groups.retain(|group| group.lanes != 0);
    }

    /// Makes the group of `lanes` wait.
    pub fn park(&mut self, lanes: u32, progress: Progress) {
        let groups = self.groups.iter_mut().filter(|group| group.lanes & lanes != 0);
        groups.for_each(|group| group.progress = progress);
    }

    /// Ends lanes.
    pub fn retire(&mut self, ended: u32) {
        self.exited |= ended;
        self.remove(ended);
        // Collective instructions no longer wait for the lanes that ended.
        for group in self.groups.iter_mut().filter(|group| group.progress == Progress::AtCollective) {
            group.progress = Progress::Ready;
        }
    }

    /// Parks lanes at a collective instruction; lanes whose guard is false go on.
    pub fn wait_for_lanes(&mut self, pc: u32, here: u32, active: u32) {
        self.send(here & !active, pc + 1);
        self.park(active, Progress::AtCollective);
        // Passing lanes by is progress even though nothing was executed.
        self.steps += u64::from(here != active);
    }
}

/// Lanes that have to execute a collective instruction together with `active`.
pub(super) fn wanted_lanes(warp: &Warp, collective: Collective, active: u32) -> u32 {
    match collective {
        Collective::No => active,
        Collective::Warp | Collective::Barrier => u32::MAX,
        Collective::Mask(slot) => warp.value(slot, active.trailing_zeros() as usize) as u32,
    }
}

/// Reports lanes that a collective instruction lacks.
pub(super) fn check_collective(context: &mut Context<'_>) {
    let (active, existing) = (context.active, context.warp.existing);
    let (class, missing) = match context.instruction.collective {
        Collective::No => return,
        Collective::Warp => (FindingClass::CollectiveLanesMissing, !active),
        Collective::Barrier => (FindingClass::BarrierDivergence, existing & !active),
        Collective::Mask(slot) => {
            context.require(&[slot]);
            let mask = wanted_lanes(context.warp, context.instruction.collective, active);
            let outside = active & !mask;
            if outside != 0 {
                context.report(FindingClass::CollectiveLanesMissing, without_addresses(outside), || {
                    format!("{} execute this but are not in its mask {mask:#010x}", lane_list(outside))
                });
            }
            (FindingClass::CollectiveLanesMissing, mask & context.warp.live() & !active)
        }
    };
    if missing == 0 {
        return;
    }
    let name = &context.instruction.name;
    let (exited, absent) = (missing & existing & context.warp.exited, missing & !existing);
    let elsewhere = missing & context.warp.live();
    let machine = context.machine;
    let groups = &context.warp.groups;
    let place = groups.iter().find(|group| group.lanes & elsewhere != 0).map(|group| group.pc);
    let line = place.and_then(|pc| machine.program.instructions.get(pc as usize)).map(|instruction| instruction.line);
    context.report(class, without_addresses(missing), || {
        let mut reasons = Vec::new();
        if elsewhere != 0 {
            let at = line.map_or(String::new(), |line| format!(" (line {line})"));
            reasons.push(format!("{} took another path{at}", lane_list(elsewhere)));
        }
        if exited != 0 {
            reasons.push(format!("{} exited", lane_list(exited)));
        }
        if absent != 0 {
            reasons.push(format!("{} have no thread", lane_list(absent)));
        }
        format!("`{name}` is executed by {} only: {}", lane_list(active), reasons.join(", "))
    });
}
