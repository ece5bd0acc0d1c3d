//! A block: its shared memory and barriers, and whose turn it is.

use super::barriers::{BARRIERS, Barrier};
use super::bulk::BulkReads;
use super::context::{Context, Flow};
use super::convergence::{check_collective, wanted_lanes};
use super::grid::Machine;
use super::lanes;
use super::mbarriers::Mbarriers;
use super::proxies::Proxies;
use super::schedule::Schedule;
use super::warp::{Group, PendingCopy, Progress, Warp};
use super::warpgroups::Warpgroups;
use crate::counters::Counters;
use crate::decode::Guard;
use crate::finding::{FindingClass, Findings, LaneAddress};
use crate::isa::Collective;
use crate::memory::{Bytes, SYSTEM_SHARED_BYTES};
use crate::race::{Races, Trace};

/// What the warps of a block share.
pub(crate) struct BlockState {
    /// `%ctaid`.
    pub position: [u32; 3],
    /// Threads of the block, rounded up to whole warps.
    pub threads: u32,
    pub shared: Bytes,
    pub barriers: [Barrier; BARRIERS],
    pub mbarriers: Mbarriers,
    /// Absent when races are not looked for.
    pub races: Option<Races>,
    pub bulk_reads: BulkReads,
    pub proxies: Proxies,
    pub warpgroups: Warpgroups,
    pub findings: Findings,
    pub counters: Counters,
}

impl BlockState {
    /// Notes an ordinary write of a warp to shared memory.
    pub fn ordinary_write(&mut self, warp: u32, address: u64, bytes: usize) {
        if self.proxies.is_watching() {
            let epoch = self.epoch();
            self.proxies.write(address, bytes, warp, epoch);
        }
    }

    /// How often warps of the block synchronised.
    pub fn epoch(&self) -> u64 {
        self.mbarriers.completed + self.barriers.iter().map(|barrier| barrier.phase).sum::<u64>()
    }
}

/// What a block did.
#[derive(Default)]
pub(super) struct Outcome {
    pub findings: Findings,
    pub counters: Counters,
    /// In global memory.
    pub trace: Trace,
}

/// A block being executed. It is used again for the next one.
pub(crate) struct Block<'a> {
    pub(super) machine: &'a Machine<'a>,
    pub(super) state: BlockState,
    pub(super) warps: Vec<Warp>,
    schedule: Schedule,
    /// Indices of the warps, in the order in which they take turns.
    turns: Vec<usize>,
}

/// Why a warp's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It was long enough.
    Over,
    /// No lane can go on by itself.
    Blocked,
    /// The whole grid stops.
    Stop,
}

impl<'a> Block<'a> {
    pub fn new(machine: &'a Machine<'a>) -> Block<'a> {
        let threads: u32 = machine.launch.block.iter().product();
        let warps = threads.div_ceil(super::warp::LANES as u32);
        Block {
            machine,
            state: BlockState {
                position: [0; 3],
                threads: warps * super::warp::LANES as u32,
                shared: Bytes::new(SYSTEM_SHARED_BYTES, machine.shared_bytes),
                barriers: [Barrier::default(); BARRIERS],
                mbarriers: Mbarriers::default(),
                races: machine
                    .races
                    .then(|| Races::new(warps as usize, BARRIERS, machine.shared_end(), machine.overlaps_previous)),
                bulk_reads: BulkReads::default(),
                proxies: Proxies::new(if machine.program.uses_async_proxy() { machine.shared_end() } else { 0 }),
                warpgroups: Warpgroups::default(),
                findings: Findings::default(),
                counters: Counters::default(),
            },
            warps: (0..warps).map(|_| Warp::new(machine.program)).collect(),
            schedule: Schedule::new(0, 0),
            turns: (0..warps as usize).collect(),
        }
    }

    /// Runs the block at `position`, the `index`-th of the grid.
    pub fn run(&mut self, index: u64, position: [u32; 3]) -> Outcome {
        self.schedule = Schedule::new(self.machine.schedule, index);
        self.turns.sort_unstable();
        self.start(position);
        loop {
            let mut progress = false;
            self.schedule.order(&mut self.turns);
            for turn in 0..self.turns.len() {
                let index = self.turns[turn];
                let before = self.warps[index].steps;
                let turn = self.turn(index);
                progress |= self.warps[index].steps != before;
                if turn == Turn::Stop || self.machine.is_stopped() {
                    self.machine.stop();
                    return self.finish();
                }
            }
            if self.warps.iter().all(|warp| warp.groups.is_empty()) {
                self.report_unobserved_landings();
                self.report_forgotten_bulk_reads();
                self.report_split_warpgroups();
                self.report_registers_beyond_the_pool();
                return self.finish();
            }
            if !progress && !self.resolve() {
                return self.finish();
            }
        }
    }

    fn start(&mut self, position: [u32; 3]) {
        self.state.position = position;
        self.state.shared.clear();
        self.state.barriers = [Barrier::default(); BARRIERS];
        self.state.mbarriers.clear();
        if let Some(races) = &mut self.state.races {
            races.start();
        }
        self.state.bulk_reads.clear();
        self.state.proxies.clear();
        self.state.warpgroups.clear();
        self.state.counters.blocks = 1;
        for (index, warp) in self.warps.iter_mut().enumerate() {
            warp.start(self.machine.program, &self.machine.launch, index as u32, position);
        }
    }

    fn finish(&mut self) -> Outcome {
        Outcome {
            findings: std::mem::take(&mut self.state.findings),
            counters: std::mem::take(&mut self.state.counters),
            trace: self.state.races.as_mut().map(Races::take_trace).unwrap_or_default(),
        }
    }

    /// Lets a warp run until its turn is over.
    fn turn(&mut self, index: usize) -> Turn {
        let limit = self.machine.instructions_per_warp;
        let end = (self.warps[index].steps + self.schedule.turn()).min(limit);
        while self.warps[index].steps < end {
            let Some(group) = self.warps[index].next_group(&self.state) else { return Turn::Blocked };
            if let Turn::Stop = self.step(index, group, false) {
                return Turn::Stop;
            }
        }
        if self.warps[index].steps < limit {
            return Turn::Over;
        }
        self.report_limit(index)
    }

    fn report_limit(&mut self, index: usize) -> Turn {
        if self.warps[index].groups.is_empty() {
            return Turn::Blocked;
        }
        let limit = self.machine.instructions_per_warp;
        self.with_group(index, 0, |context| {
            context.report(FindingClass::InstructionLimit, Vec::new(), || {
                format!(
                    "the warp has executed {limit} instructions; it was stopped here, probably inside an endless loop"
                )
            });
        });
        Turn::Stop
    }

    /// Executes the next instruction of a group of lanes. With `force`, collective instructions do not wait for lanes
    /// that are missing.
    pub(super) fn step(&mut self, index: usize, group: usize, force: bool) -> Turn {
        let machine: &Machine<'a> = self.machine;
        let warp = &mut self.warps[index];
        let Group { pc, lanes: here, progress } = warp.groups[group];
        let Some(instruction) = machine.program.instructions.get(pc as usize) else {
            // The end of the body ends the thread.
            warp.steps += 1;
            return self.follow(index, pc, here, here, Flow::Exit { lanes: here });
        };
        let active = instruction.guard.map_or(here, |guard| {
            let uninitialised = here & !warp.registers.initialised[guard.slot as usize];
            if uninitialised == 0 {
                warp.guarded(guard, here)
            } else {
                guard_of_unwritten(machine, &mut self.state, warp, pc, guard, here)
            }
        });
        let warp = &mut self.warps[index];
        if let Progress::AtBarrier { barrier, phase } = progress {
            // It was released: the barrier's result is there.
            if let Some(races) = &mut self.state.races {
                races.pass(barrier, phase, warp.index, here);
            }
            let mut context = Context { machine, block: &mut self.state, warp, instruction, pc, active, here };
            instruction.operation.resume(&mut context);
            self.warps[index].steps += 1;
            self.warps[index].send(here, pc + 1);
            return Turn::Over;
        }
        if active != 0 && instruction.collective != Collective::No {
            let wanted = wanted_lanes(warp, instruction.collective, active);
            if wanted & warp.live() & !active != 0 && !force {
                warp.wait_for_lanes(pc, here, active);
                return Turn::Over;
            }
        }
        warp.steps += 1;
        if active == 0 {
            warp.send(here, pc + 1);
            return Turn::Over;
        }
        let mut context = Context { machine, block: &mut self.state, warp, instruction, pc, active, here };
        check_collective(&mut context);
        if machine.program.uses_wgmma && !instruction.operation.is_wgmma() {
            context.check_async_matrix();
        }
        let flow = instruction.operation.execute(&mut context);
        // A wait is counted when it ends.
        if !matches!(flow, Flow::WaitForPhase { .. }) {
            self.state.counters.instructions += 1;
            instruction.class.count(&mut self.state.counters);
        }
        self.follow(index, pc, here, active, flow)
    }

    /// Moves the lanes `here`, of which `active` executed the instruction at `pc`, where it sends them.
    fn follow(&mut self, index: usize, pc: u32, here: u32, active: u32, flow: Flow) -> Turn {
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
            Flow::Stop => return Turn::Stop,
        }
        Turn::Over
    }

    /// Warp and lanes of every group that waits for an mbarrier.
    pub(super) fn waiting_at_mbarriers(&self) -> Vec<(usize, u32)> {
        let groups = self.warps.iter().enumerate();
        let groups = groups.flat_map(|(index, warp)| warp.groups.iter().map(move |group| (index, group)));
        let waiting = groups.filter(|(_, group)| matches!(group.progress, Progress::AtMbarrier { .. }));
        waiting.map(|(index, group)| (index, group.lanes)).collect()
    }

    /// Ends the wait of the lanes of a warp for an mbarrier.
    pub(super) fn time_out(&mut self, index: usize, lanes: u32) {
        if let Some(group) = self.warps[index].groups.iter().position(|group| group.lanes == lanes) {
            self.warps[index].impatient = true;
            self.step(index, group, false);
            self.warps[index].impatient = false;
        }
    }

    /// Runs `action` in the surroundings of a group's next instruction.
    pub(super) fn with_group(&mut self, index: usize, group: usize, action: impl FnOnce(&mut Context<'_>)) {
        let machine: &Machine<'a> = self.machine;
        let warp = &mut self.warps[index];
        let Group { pc, lanes: active, .. } = warp.groups[group];
        let here = active;
        let Some(instruction) = machine.program.instructions.get(pc as usize) else { return };
        action(&mut Context { machine, block: &mut self.state, warp, instruction, pc, active, here });
    }

    /// Runs `action` in the surroundings of an instruction that a warp executed before.
    pub(super) fn with_instruction(&mut self, index: usize, pc: u32, action: impl FnOnce(&mut Context<'_>)) {
        let machine: &Machine<'a> = self.machine;
        let warp = &mut self.warps[index];
        let (active, here) = (warp.existing, warp.existing);
        let instruction = &machine.program.instructions[pc as usize];
        action(&mut Context { machine, block: &mut self.state, warp, instruction, pc, active, here });
    }

    /// Reports matrix products that exiting lanes never waited for.
    fn report_unfinished_matrices(&mut self, index: usize, pc: u32, ended: u32) {
        let machine: &Machine<'a> = self.machine;
        let warp = &mut self.warps[index];
        if let Some(instruction) = machine.program.instructions.get(pc as usize) {
            let (active, here) = (ended, ended);
            let mut context = Context { machine, block: &mut self.state, warp, instruction, pc, active, here };
            context.check_matrix_finished();
        }
    }

    /// Reports copies that exiting lanes began and never waited for.
    fn report_forgotten_copies(&mut self, index: usize, ended: u32) {
        let machine: &Machine<'a> = self.machine;
        let warp = &mut self.warps[index];
        let first_of = |lane: usize| {
            let forgotten = warp.copies[lane].pending.iter().find(|copy| copy.tracked.is_none());
            forgotten.map(|copy| (lane as u32, *copy))
        };
        let forgotten: Vec<(u32, PendingCopy)> = lanes(ended).filter_map(first_of).collect();
        let Some((_, PendingCopy { pc, .. })) = forgotten.first().copied() else { return };
        let which = forgotten.iter().map(|(lane, copy)| LaneAddress { lane: *lane, address: Some(copy.address) });
        let which = which.collect();
        let instruction = &machine.program.instructions[pc as usize];
        let mut context =
            Context { machine, block: &mut self.state, warp, instruction, pc, active: ended, here: ended };
        context.report(FindingClass::AsyncCopyNotWaited, which, || {
            "the thread ends without having waited for this asynchronous copy".to_owned()
        });
    }
}

/// The guard of an instruction whose predicate was not written in all lanes.
#[cold]
fn guard_of_unwritten(
    machine: &Machine<'_>,
    block: &mut BlockState,
    warp: &mut Warp,
    pc: u32,
    guard: Guard,
    here: u32,
) -> u32 {
    let instruction = &machine.program.instructions[pc as usize];
    let mut context = Context { machine, block, warp, instruction, pc, active: here, here };
    context.require(&[guard.slot]);
    warp.guarded(guard, here)
}
