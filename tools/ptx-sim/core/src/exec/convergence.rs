//! Lanes of a warp that go different ways and meet again, and instructions that need them together.

use crate::context::{Context, without_addresses};
use crate::finding::FindingClass;
use crate::lanes::{lane_list, lanes};
use crate::machine::{ClusterState, Group, Progress, Warp};
use crate::program::{Collective, Slot};

impl Warp {
    /// The group whose turn it is: of those that can go on, the one at the lowest instruction, so that lanes which went
    /// different ways meet again, unless another path has its turn.
    pub fn next_group(&mut self, cluster: &ClusterState) -> Option<usize> {
        let can_go_on = |group: &Group| match group.progress {
            Progress::Ready => true,
            Progress::AtCollective => false,
            Progress::AtBarrier { barrier, phase } => cluster.barriers[barrier].phase != phase,
            Progress::AtMbarrier { mbarrier, phase } => {
                cluster.mbarriers.get(mbarrier).is_none_or(|mbarrier| mbarrier.phase != phase)
            }
        };
        if let [group] = self.groups.as_slice() {
            return can_go_on(group).then_some(0);
        }
        let ready = self.groups.iter().enumerate().filter(|(_, group)| can_go_on(group));
        let local = &self.local;
        let depth =
            |group: &Group| local.get(group.lanes.trailing_zeros() as usize).map_or(0, |stack| stack.frames().len());
        self.paths.choose(ready, self.steps, depth)
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
                if self.groups.len() == 1 {
                    self.paths.join();
                }
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

/// The lanes of `active` that execute an instruction together now; `None` while each of them waits for others. With `force`,
/// lanes do not wait.
///
/// An instruction with a mask is executed together by the lanes that give the same one (PTX ISA, "shfl.sync", "vote.sync",
/// "match.sync", "redux.sync", "elect.sync", "bar.warp.sync").
pub(super) fn together(warp: &Warp, collective: Collective, active: u32, force: bool) -> Option<u32> {
    let elsewhere = warp.live() & !active;
    match collective {
        Collective::No => Some(active),
        Collective::Warp | Collective::Barrier => (force || elsewhere == 0).then_some(active),
        Collective::Mask(slot) => {
            let mut left = active;
            while left != 0 {
                let (mask, same) = same_mask(warp, slot, left);
                if mask & warp.live() & !same == 0 {
                    return Some(same);
                }
                left &= !same;
            }
            force.then(|| same_mask(warp, slot, active).1)
        }
    }
}

/// The mask that the first of some lanes gives, and those of them that give the same.
fn same_mask(warp: &Warp, slot: Slot, among: u32) -> (u32, u32) {
    let masks = &warp.registers.values[slot as usize];
    let mask = masks[among.trailing_zeros() as usize];
    // A literal, nearly always.
    if masks.iter().all(|other| *other == mask) {
        return (mask as u32, among);
    }
    let same = lanes(among).filter(|lane| masks[*lane] == mask);
    (mask as u32, same.fold(0, |same, lane| same | 1 << lane))
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
            let mask = context.value(slot, active.trailing_zeros() as usize) as u32;
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
    let machine = context.machine;
    let groups = &context.warp.groups;
    let is_here =
        |group: &&Group| group.pc == context.pc && matches!(context.instruction.collective, Collective::Mask(_));
    let here = groups.iter().filter(is_here).fold(0, |here, group| here | group.lanes);
    let (disagree, elsewhere) = (missing & here, missing & context.warp.live() & !here);
    let place = groups.iter().find(|group| group.lanes & elsewhere != 0).map(|group| group.pc);
    let line = place.and_then(|pc| machine.program.instructions.get(pc as usize)).map(|place| machine.line(place));
    context.report(class, without_addresses(missing), || {
        let mut reasons = Vec::new();
        if elsewhere != 0 {
            let at = line.map_or(String::new(), |line| format!(", to {line}"));
            reasons.push(format!("{} took another path{at}", lane_list(elsewhere)));
        }
        if disagree != 0 {
            reasons.push(format!("another mask given by {}", lane_list(disagree)));
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
