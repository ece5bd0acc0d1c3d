//! A block: its shared memory and barriers, and whose turn it is.

use super::context::{Context, Flow, lane_list, without_addresses};
use super::grid::Machine;
use super::lanes;
use super::warp::{Group, Progress, Warp};
use crate::counters::Counters;
use crate::decode::Program;
use crate::finding::{FindingClass, Findings, LaneAddress};
use crate::isa::Collective;
use crate::memory::Bytes;

/// Instructions a warp executes before it is another one's turn.
const TURN: u64 = 4096;
/// Barriers of a block.
pub(crate) const BARRIERS: usize = 16;

/// What `bar.red` computes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reduction {
    /// Threads that took part.
    pub threads: u32,
    /// Those whose predicate was true.
    pub true_threads: u32,
}

/// A barrier of a block.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Barrier {
    /// Times it completed.
    pub phase: u64,
    /// Threads that arrived in this phase.
    pub arrived: u32,
    /// Threads this phase waits for; set by the first to arrive.
    pub expected: u32,
    /// What the phase reduces so far.
    pub reduction: Reduction,
    /// Results of the previous even and odd phase.
    pub results: [Reduction; 2],
}

impl Barrier {
    /// Begins the next phase.
    pub fn complete(&mut self) {
        self.results[(self.phase % 2) as usize] = self.reduction;
        self.reduction = Reduction::default();
        self.phase += 1;
        self.arrived = 0;
        self.expected = 0;
    }
}

/// What the warps of a block share.
pub(crate) struct BlockState {
    /// `%ctaid`.
    pub position: [u32; 3],
    /// Threads of the block, rounded up to whole warps.
    pub threads: u32,
    pub shared: Bytes,
    pub barriers: [Barrier; BARRIERS],
    pub findings: Findings,
    pub counters: Counters,
}

/// A block being executed. It is used again for the next one.
pub(crate) struct Block<'a> {
    machine: &'a Machine<'a>,
    state: BlockState,
    warps: Vec<Warp>,
}

/// Why a warp's turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
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
                shared: Bytes::new(machine.shared_bytes),
                barriers: [Barrier::default(); BARRIERS],
                findings: Findings::default(),
                counters: Counters::default(),
            },
            warps: (0..warps).map(|_| Warp::new(machine.program)).collect(),
        }
    }

    /// Runs the block at `position`.
    pub fn run(&mut self, position: [u32; 3]) -> (Findings, Counters) {
        self.start(position);
        loop {
            let mut progress = false;
            for index in 0..self.warps.len() {
                let before = self.warps[index].steps;
                let turn = self.turn(index);
                progress |= self.warps[index].steps != before;
                if turn == Turn::Stop || self.machine.is_stopped() {
                    self.machine.stop();
                    return self.finish();
                }
            }
            if self.warps.iter().all(|warp| warp.groups.is_empty()) {
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
        self.state.counters.blocks = 1;
        for (index, warp) in self.warps.iter_mut().enumerate() {
            warp.start(self.machine.program, &self.machine.launch, index as u32, position);
        }
    }

    fn finish(&mut self) -> (Findings, Counters) {
        (std::mem::take(&mut self.state.findings), std::mem::take(&mut self.state.counters))
    }

    /// Lets a warp run until its turn is over.
    fn turn(&mut self, index: usize) -> Turn {
        let limit = self.machine.instructions_per_warp;
        let end = (self.warps[index].steps + TURN).min(limit);
        while self.warps[index].steps < end {
            let Some(group) = next_group(&self.warps[index], &self.state) else { return Turn::Blocked };
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
    fn step(&mut self, index: usize, group: usize, force: bool) -> Turn {
        let machine: &Machine<'a> = self.machine;
        let warp = &mut self.warps[index];
        let Group { pc, lanes: here, progress } = warp.groups[group];
        let Some(instruction) = machine.program.instructions.get(pc as usize) else {
            // The end of the body ends the thread.
            warp.steps += 1;
            retire(warp, here);
            return Turn::Over;
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
        if let Progress::AtBarrier { .. } = progress {
            // It was released: the barrier's result is there.
            let mut context = Context { machine, block: &mut self.state, warp, instruction, pc, active, here };
            instruction.operation.resume(&mut context);
            self.warps[index].steps += 1;
            send(&mut self.warps[index], here, pc + 1);
            return Turn::Over;
        }
        if active != 0 && instruction.collective != Collective::No {
            let wanted = wanted_lanes(warp, instruction.collective, active);
            if wanted & warp.live() & !active != 0 && !force {
                wait_for_lanes(warp, pc, here, active);
                return Turn::Over;
            }
        }
        warp.steps += 1;
        if active == 0 {
            send(warp, here, pc + 1);
            return Turn::Over;
        }
        self.state.counters.instructions += 1;
        instruction.class.count(&mut self.state.counters);
        let mut context = Context { machine, block: &mut self.state, warp, instruction, pc, active, here };
        check_collective(&mut context);
        let flow = instruction.operation.execute(&mut context);
        self.follow(index, pc, here, active, flow)
    }

    /// Moves the lanes `here`, of which `active` executed the instruction at `pc`, where it sends them.
    fn follow(&mut self, index: usize, pc: u32, here: u32, active: u32, flow: Flow) -> Turn {
        let warp = &mut self.warps[index];
        match flow {
            Flow::Next => send(warp, here, pc + 1),
            Flow::Branch { lanes: taken, target, again } => {
                send(warp, taken, target);
                send(warp, here & !taken & !again, pc + 1);
            }
            Flow::Exit { lanes: ended } => {
                self.report_forgotten_copies(index, pc, ended);
                let warp = &mut self.warps[index];
                retire(warp, ended);
                send(warp, here & !ended, pc + 1);
            }
            Flow::Wait { barrier, completes } => {
                send(warp, here & !active, pc + 1);
                let phase = self.state.barriers[barrier].phase;
                park(warp, active, Progress::AtBarrier { barrier, phase });
                if completes {
                    self.state.barriers[barrier].complete();
                }
            }
            Flow::Stop => return Turn::Stop,
        }
        Turn::Over
    }

    /// Runs `action` in the surroundings of a group's next instruction.
    fn with_group(&mut self, index: usize, group: usize, action: impl FnOnce(&mut Context<'_>)) {
        let machine: &Machine<'a> = self.machine;
        let warp = &mut self.warps[index];
        let Group { pc, lanes: active, .. } = warp.groups[group];
        let here = active;
        let Some(instruction) = machine.program.instructions.get(pc as usize) else { return };
        action(&mut Context { machine, block: &mut self.state, warp, instruction, pc, active, here });
    }

    /// Reports copies that exiting lanes began and never waited for.
    fn report_forgotten_copies(&mut self, index: usize, pc: u32, ended: u32) {
        let machine: &Machine<'a> = self.machine;
        let warp = &mut self.warps[index];
        let forgotten = lanes(ended).filter(|lane| !warp.copies[*lane].pending.is_empty());
        let forgotten: Vec<_> = forgotten.map(|lane| (lane, warp.copies[lane].pending.front().copied())).collect();
        let Some((_, Some(first))) = forgotten.first().copied() else { return };
        let which = forgotten
            .iter()
            .map(|(lane, copy)| LaneAddress { lane: *lane as u32, address: copy.map(|copy| copy.address) });
        let which = which.collect();
        let instruction = &machine.program.instructions[pc as usize];
        let mut context =
            Context { machine, block: &mut self.state, warp, instruction, pc, active: ended, here: ended };
        context.report_at(first.pc, FindingClass::AsyncCopyNotWaited, which, || {
            "the thread ends without having waited for this asynchronous copy".to_owned()
        });
    }

    /// Gets a block going again in which no warp can go on; false when it cannot.
    fn resolve(&mut self) -> bool {
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
                        format!("waits at barrier {barrier} ({arrived} of {expected} threads arrived)")
                    }
                    _ => "waits".to_owned(),
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

/// The group whose turn it is: of those that can go on, the one at the lowest instruction, so that lanes which went
/// different ways meet again.
fn next_group(warp: &Warp, block: &BlockState) -> Option<usize> {
    let can_go_on = |group: &Group| match group.progress {
        Progress::Ready => true,
        Progress::AtCollective => false,
        Progress::AtBarrier { barrier, phase } => block.barriers[barrier].phase != phase,
    };
    if let [group] = warp.groups.as_slice() {
        return can_go_on(group).then_some(0);
    }
    let ready = warp.groups.iter().enumerate().filter(|(_, group)| can_go_on(group));
    ready.min_by_key(|(_, group)| group.pc).map(|(index, _)| index)
}

/// Moves lanes to `pc`, where they join those that are there already.
fn send(warp: &mut Warp, lanes: u32, pc: u32) {
    if let [group] = warp.groups.as_mut_slice()
        && group.lanes == lanes
    {
        (group.pc, group.progress) = (pc, Progress::Ready);
        return;
    }
    remove(warp, lanes);
    let joins = |group: &&mut Group| group.pc == pc && !matches!(group.progress, Progress::AtBarrier { .. });
    match warp.groups.iter_mut().find(joins) {
        _ if lanes == 0 => {}
        Some(group) => {
            group.lanes |= lanes;
            group.progress = Progress::Ready;
        }
        None => warp.groups.push(Group { pc, lanes, progress: Progress::Ready }),
    }
}

/// Takes lanes out of their groups.
fn remove(warp: &mut Warp, lanes: u32) {
    warp.groups.iter_mut().for_each(|group| group.lanes &= !lanes);
    warp.groups.retain(|group| group.lanes != 0);
}

/// Makes the group of `lanes` wait.
fn park(warp: &mut Warp, lanes: u32, progress: Progress) {
    let groups = warp.groups.iter_mut().filter(|group| group.lanes & lanes != 0);
    groups.for_each(|group| group.progress = progress);
}

/// Ends lanes.
fn retire(warp: &mut Warp, ended: u32) {
    warp.exited |= ended;
    remove(warp, ended);
    // Collective instructions no longer wait for the lanes that ended.
    for group in warp.groups.iter_mut().filter(|group| group.progress == Progress::AtCollective) {
        group.progress = Progress::Ready;
    }
}

/// Lanes that have to execute a collective instruction together with `active`.
fn wanted_lanes(warp: &Warp, collective: Collective, active: u32) -> u32 {
    match collective {
        Collective::No => active,
        Collective::Warp | Collective::Barrier => u32::MAX,
        Collective::Mask(slot) => warp.value(slot, active.trailing_zeros() as usize) as u32,
    }
}

/// Parks lanes at a collective instruction; lanes whose guard is false go on.
fn wait_for_lanes(warp: &mut Warp, pc: u32, here: u32, active: u32) {
    send(warp, here & !active, pc + 1);
    park(warp, active, Progress::AtCollective);
    // Passing lanes by is progress even though nothing was executed.
    warp.steps += u64::from(here != active);
}

/// Reports lanes that a collective instruction lacks.
fn check_collective(context: &mut Context<'_>) {
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

/// The guard of an instruction whose predicate was not written in all lanes.
#[cold]
fn guard_of_unwritten(
    machine: &Machine<'_>,
    block: &mut BlockState,
    warp: &mut Warp,
    pc: u32,
    guard: crate::decode::Guard,
    here: u32,
) -> u32 {
    let instruction = &machine.program.instructions[pc as usize];
    let mut context = Context { machine, block, warp, instruction, pc, active: here, here };
    context.require(&[guard.slot]);
    warp.guarded(guard, here)
}
