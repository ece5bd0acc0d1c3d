//! A cluster, which nearly always is one block: its shared state and its warps, and the execution of one instruction of a warp.

use super::convergence::{check_collective, together};
use crate::context::{Context, ENDS_TOO_EARLY, Flow};
use crate::finding::{FindingClass, LaneAddress};
use crate::isa::Operation;
use crate::lanes::LANES;
use crate::machine::{ClusterState, Executed, Group, Machine, PendingCopy, Progress, Warp};
use crate::program::{Class, Collective, Guard};
use crate::race::{Agent, Conflict, Engine};

/// A cluster being executed. It is used again for the next one.
pub(super) struct Cluster<'a> {
    pub machine: &'a Machine<'a>,
    /// What each instruction of the program does.
    pub operations: &'a [Operation],
    pub state: ClusterState,
    pub warps: Vec<Warp>,
}

/// What an instruction leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A warp that goes on, or waits.
    Done,
    /// A grid that stops.
    Stop,
}

impl<'a> Cluster<'a> {
    /// A cluster that has not started.
    pub fn new(machine: &'a Machine<'a>, operations: &'a [Operation]) -> Cluster<'a> {
        let state = ClusterState::new(machine);
        let warps = state.blocks * (state.threads / LANES as u32);
        Cluster { machine, operations, state, warps: (0..warps).map(|_| Warp::new(machine.program)).collect() }
    }

    /// Begins the cluster with that number in the grid.
    pub fn start(&mut self, number: u64) {
        self.state.start(number);
        for (index, warp) in self.warps.iter_mut().enumerate() {
            warp.start(self.machine, number, index as u32);
        }
    }

    /// The index in the cluster of a warp of a block.
    pub fn index(&self, rank: u32, in_block: u32) -> usize {
        (rank * self.machine.warps_of_block() + in_block) as usize
    }

    /// Executes the next instruction of a group of lanes. With `force`, collective instructions do not wait for lanes
    /// that are missing.
    pub fn step(&mut self, index: usize, group: usize, force: bool) -> Step {
        let machine: &Machine<'a> = self.machine;
        let warp = &mut self.warps[index];
        let Group { pc, lanes: mut here, progress } = warp.groups[group];
        let Some(instruction) = machine.program.instructions.get(pc as usize) else {
            // The end of the body ends the thread.
            warp.steps += 1;
            return self.follow(index, pc, here, here, Flow::Exit { lanes: here });
        };
        let mut active = instruction.guard.map_or(here, |guard| {
            let uninitialised = here & !warp.registers.initialised[guard.slot as usize];
            if uninitialised == 0 {
                warp.guarded(guard, here)
            } else {
                guard_of_unwritten(machine, &mut self.state, warp, pc, guard, here)
            }
        });
        let operation = &self.operations[pc as usize];
        let warp = &mut self.warps[index];
        if let Progress::AtBarrier { barrier, phase } = progress {
            // It was released: the barrier's result is there.
            if let Some(races) = &mut self.state.races {
                races.pass(barrier, phase, warp.index, here);
            }
            let mut context = Context { machine, cluster: &mut self.state, warp, instruction, pc, active, here };
            operation.resume(&mut context);
            self.warps[index].steps += 1;
            self.warps[index].send(here, pc + 1);
            return Step::Done;
        }
        if let Some(races) = &self.state.races {
            let is_load = instruction.class == Class::Memory && !instruction.writes.is_empty();
            let time = if is_load { races.time(Agent::new(warp.index, 0, Engine::Thread)) } else { 0 };
            warp.recent.push(Executed { pc, here, active, time });
        }
        if active != 0 && instruction.collective != Collective::No {
            let Some(now) = together(warp, instruction.collective, active, force) else {
                warp.wait_for_lanes(pc, here, active);
                return Step::Done;
            };
            // The others execute it after them.
            (here, active) = (here & !active | now, now);
        }
        warp.steps += 1;
        if active == 0 {
            warp.send(here, pc + 1);
            return Step::Done;
        }
        let mut context = Context { machine, cluster: &mut self.state, warp, instruction, pc, active, here };
        if context.warp.groups.len() > 1 && instruction.semantics.strength.is_strong() {
            context.warp.paths.access(instruction.is_strong_read);
        }
        if instruction.collective != Collective::No {
            check_collective(&mut context);
        }
        if machine.program.uses_wgmma && !instruction.is_wgmma {
            context.check_async_matrix();
        }
        if context.cluster.loads.has_unused(context.warp.index) {
            context.use_loads(operation.is_move());
        }
        let flow = operation.execute(&mut context);
        if !self.state.doubts.is_empty() {
            self.settle_doubts(index, pc);
        }
        // A wait is counted when it ends.
        if !matches!(flow, Flow::WaitForPhase { .. }) {
            self.state.counters.instructions += 1;
            instruction.class.count(&mut self.state.counters);
        }
        self.follow(index, pc, here, active, flow)
    }

    /// Moves the lanes `here`, of which `active` executed the instruction at `pc`, where it sends them.
    fn follow(&mut self, index: usize, pc: u32, here: u32, active: u32, flow: Flow) -> Step {
        let warp = &mut self.warps[index];
        match flow {
            Flow::Next => warp.send(here, pc + 1),
            Flow::Branch { lanes: taken, target, again } => {
                warp.send(taken, target);
                warp.send(here & !taken & !again, pc + 1);
            }
            Flow::Exit { lanes: ended } => {
                self.report_forgotten_copies(index, ended);
                self.report_unfinished_matrices(index, pc, ended);
                let warp = &mut self.warps[index];
                warp.retire(ended);
                warp.send(here & !ended, pc + 1);
                if warp.groups.is_empty() {
                    self.end_warp(index);
                }
            }
            Flow::Wait { barrier, completes } => {
                warp.send(here & !active, pc + 1);
                let phase = self.state.barriers[barrier].phase;
                warp.park(active, Progress::AtBarrier { barrier, phase });
                if completes {
                    self.state.barriers[barrier].complete();
                }
            }
            Flow::WaitForPhase { mbarrier, phase } => {
                warp.send(here & !active, pc + 1);
                warp.park(active, Progress::AtMbarrier { mbarrier, phase });
            }
            Flow::Stop => return Step::Stop,
        }
        Step::Done
    }

    /// All lanes of a warp have ended; reports who still may use the shared memory of its block if it was the last one.
    fn end_warp(&mut self, index: usize) {
        let rank = self.warps[index].rank;
        self.state.running[rank as usize] -= 1;
        let is_watched = self.state.blocks > 1 && self.state.has_ended(rank.into());
        let Some(races) = self.state.races.as_ref().filter(|_| is_watched) else { return };
        for (address, Conflict { agent, pc, writes, .. }) in races.end_block(rank.into()) {
            let which = vec![LaneAddress { lane: agent.lane, address: Some(address) }];
            self.with_instruction(agent.warp as usize, pc, |context| {
                context.report(FindingClass::BlockLifetime, which, || {
                    format!(
                        "a {} in the shared memory of the block of rank {rank}, {ENDS_TOO_EARLY}",
                        if writes { "write" } else { "read" },
                    )
                });
            });
        }
    }

    /// Warp and lanes of every group that waits for an mbarrier.
    pub fn waiting_at_mbarriers(&self) -> Vec<(usize, u32)> {
        let groups = self.warps.iter().enumerate();
        let groups = groups.flat_map(|(index, warp)| warp.groups.iter().map(move |group| (index, group)));
        let waiting = groups.filter(|(_, group)| matches!(group.progress, Progress::AtMbarrier { .. }));
        waiting.map(|(index, group)| (index, group.lanes)).collect()
    }

    /// Ends the wait of the lanes of a warp for an mbarrier.
    pub fn time_out(&mut self, index: usize, lanes: u32) {
        if let Some(group) = self.warps[index].groups.iter().position(|group| group.lanes == lanes) {
            self.warps[index].impatient = true;
            self.step(index, group, false);
            self.warps[index].impatient = false;
        }
    }

    /// Runs `action` in the surroundings of a group's next instruction.
    pub fn with_group(&mut self, index: usize, group: usize, action: impl FnOnce(&mut Context<'_>)) {
        let machine: &Machine<'a> = self.machine;
        let warp = &mut self.warps[index];
        let Group { pc, lanes: active, .. } = warp.groups[group];
        let here = active;
        let Some(instruction) = machine.program.instructions.get(pc as usize) else { return };
        action(&mut Context { machine, cluster: &mut self.state, warp, instruction, pc, active, here });
    }

    /// Runs `action` in the surroundings of an instruction that a warp executed before.
    pub fn with_instruction(&mut self, index: usize, pc: u32, action: impl FnOnce(&mut Context<'_>)) {
        let machine: &Machine<'a> = self.machine;
        let warp = &mut self.warps[index];
        let (active, here) = (warp.existing, warp.existing);
        let instruction = &machine.program.instructions[pc as usize];
        action(&mut Context { machine, cluster: &mut self.state, warp, instruction, pc, active, here });
    }

    /// Reports matrix products that exiting lanes never waited for.
    fn report_unfinished_matrices(&mut self, index: usize, pc: u32, ended: u32) {
        let machine: &Machine<'a> = self.machine;
        let warp = &mut self.warps[index];
        if let Some(instruction) = machine.program.instructions.get(pc as usize) {
            let (active, here) = (ended, ended);
            let mut context = Context { machine, cluster: &mut self.state, warp, instruction, pc, active, here };
            context.check_matrix_finished();
        }
    }

    /// Reports copies that exiting lanes began and never waited for.
    fn report_forgotten_copies(&mut self, index: usize, ended: u32) {
        let forgotten = self.warps[index].forgotten_copies(ended);
        let Some((_, PendingCopy { pc, .. })) = forgotten.first().cloned() else { return };
        let which = forgotten.iter().map(|(lane, copy)| LaneAddress { lane: *lane, address: Some(copy.address) });
        let which = which.collect();
        self.with_instruction(index, pc, |context| {
            context.report(FindingClass::AsyncCopyNotWaited, which, || {
                "the thread ends without having waited for this asynchronous copy".to_owned()
            });
        });
    }
}

/// The guard of an instruction whose predicate was not written in all lanes.
#[cold]
fn guard_of_unwritten(
    machine: &Machine<'_>,
    cluster: &mut ClusterState,
    warp: &mut Warp,
    pc: u32,
    guard: Guard,
    here: u32,
) -> u32 {
    let instruction = &machine.program.instructions[pc as usize];
    let mut context = Context { machine, cluster, warp, instruction, pc, active: here, here };
    context.require(&[guard.slot]);
    warp.guarded(guard, here)
}
