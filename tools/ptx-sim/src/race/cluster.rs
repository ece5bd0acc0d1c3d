//! The race detection of one cluster, which nearly always is one block.

use std::collections::HashMap;
use std::sync::Arc;

use super::access::Access;
use super::agent::{Agent, Engine, Scope, Semantics, Strength};
use super::announced::{Announced, joined};
use super::clock::{Clock, Clocks};
use super::foreign::{Foreign, Shard};
use super::grid::Trace;
use super::line::{LINE_BYTES, LINE_CELLS, Line};
use super::pages::Pages;
use super::shadow::{CELL_BYTES, Meeting, Met, PAGE_CELLS, Record};
use crate::cluster_addresses::{own_shared, shared_base, shared_rank};
use crate::lanes::lanes;
use crate::parse::Space;

/// The earlier one of two accesses that race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Conflict {
    pub agent: Agent,
    pub pc: u32,
    pub writes: bool,
    /// When, in the time of the agent's warp.
    time: u32,
}

/// A barrier's clock in one phase.
#[derive(Debug, Default)]
struct Phase {
    number: u64,
    clock: Arc<Clock>,
}

/// What the arrivals at an mbarrier and in its phases up to now released: of its even and its odd phases.
#[derive(Debug)]
struct Mbarrier {
    /// Which of the cluster's mbarriers it is, in the order of their first arrivals.
    number: usize,
    phases: [Phase; 2],
}

/// How large a cluster is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub blocks: usize,
    /// Of a block.
    pub warps: usize,
    /// Of all blocks and of the cluster.
    pub barriers: usize,
    /// Of a block, from address 0 on.
    pub shared_bytes: usize,
}

impl Shape {
    /// Lines of a block's shared memory.
    fn shared_lines(&self) -> usize {
        self.shared_bytes.div_ceil(LINE_BYTES as usize)
    }

    /// The index of the line that an address of shared memory lies in.
    pub(super) fn shared_line(&self, address: u64) -> Option<usize> {
        let line = (own_shared(address) / LINE_BYTES) as usize;
        let rank = shared_rank(address) as usize;
        (rank < self.blocks && line < self.shared_lines()).then(|| rank * self.shared_lines() + line)
    }
}

/// What an arrival at an mbarrier says of what its thread did before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Nothing but what a fence announced before.
    Relaxed,
    /// Whoever sees the end of the phase comes after it.
    Releases,
    /// And after the asynchronous copies that it began.
    WithCopies,
}

/// The race detection of one cluster.
#[derive(Debug)]
pub(crate) struct Races {
    pub(super) shape: Shape,
    pub(super) clocks: Clocks,
    /// Of each barrier, its even and its odd phases.
    barriers: Vec<[Phase; 2]>,
    /// Those with arrivals, by address.
    mbarriers: HashMap<u64, Mbarrier>,
    /// How many there ever were.
    mbarrier_count: usize,
    /// What strong writes announced, by where they wrote.
    announced: HashMap<(Space, u64), Announced>,
    /// Shared memory, block by block.
    pub(super) shared: Vec<Line>,
    /// Pages of global memory, by number.
    pub(super) global: Pages,
    /// What threads knew of other clusters when they accessed global memory.
    foreign: ForeignTable,
    /// Volatile reads of shared memory, and the volatile writes by other lanes of their warp that they have seen without order,
    /// since this was taken last.
    lockstep: Vec<(Agent, u64, Conflict)>,
    /// Threads made strong accesses to global memory.
    may_synchronise: bool,
    /// The grid may begin before the one in front of it has ended.
    pub(super) overlaps_previous: bool,
    /// Threads have waited for that grid.
    has_waited: bool,
    /// They let the next grid begin before.
    launched_early: bool,
}

impl Races {
    /// Detection for clusters of that shape, in a grid that may begin before the one in front of it has ended or not.
    pub fn new(shape: Shape, overlaps_previous: bool) -> Races {
        Races {
            shape,
            clocks: Clocks::new(shape.blocks, shape.warps, 0),
            barriers: (0..shape.barriers).map(|_| Default::default()).collect(),
            mbarriers: HashMap::new(),
            mbarrier_count: 0,
            announced: HashMap::new(),
            shared: vec![Line::default(); shape.blocks * shape.shared_lines()],
            global: Pages::default(),
            foreign: ForeignTable::default(),
            lockstep: Vec::new(),
            may_synchronise: false,
            overlaps_previous,
            has_waited: false,
            launched_early: false,
        }
    }

    /// Begins the cluster with that index in the grid.
    pub fn start(&mut self, cluster: u64) {
        self.clocks = Clocks::new(self.shape.blocks, self.shape.warps, cluster);
        self.barriers.iter_mut().for_each(|phases| *phases = Default::default());
        self.mbarriers.clear();
        self.mbarrier_count = 0;
        self.announced.clear();
        self.shared.fill(Line::default());
        self.global.clear();
        self.foreign = ForeignTable::default();
        self.may_synchronise = false;
    }

    /// What the cluster did in global memory; forgets it.
    pub fn take_trace(&mut self) -> Trace {
        let mut accesses = Vec::new();
        for (number, lines) in self.global.take() {
            for (line, first) in lines.iter().zip((number * PAGE_CELLS..).step_by(LINE_CELLS)) {
                line.each_record(|cell, record| accesses.push((first + cell as u64, record)));
            }
        }
        let foreign = std::mem::take(&mut self.foreign).known;
        let ends_before_previous = self.launched_early || !self.has_waited;
        (self.has_waited, self.launched_early) = (false, false);
        Trace { accesses, foreign, may_synchronise: self.may_synchronise, ends_before_previous }
    }

    /// Adds all that happened before this point of some lanes to `clock`.
    pub fn release(&mut self, warp: u32, lanes: u32, clock: &mut Clock) {
        self.clocks.release(warp, lanes, clock);
    }

    /// Makes what lanes do from now on come after `clock`.
    pub fn acquire(&mut self, warp: u32, lanes: u32, clock: &Arc<Clock>) {
        self.clocks.acquire(warp, lanes, clock);
    }

    /// Orders lanes of a warp with each other (`bar.warp.sync`).
    pub fn synchronise_warp(&mut self, warp: u32, lanes: u32) {
        let mut clock = Clock::default();
        self.release(warp, lanes, &mut clock);
        self.acquire(warp, lanes, &Arc::new(clock));
    }

    /// Lanes arrive at a phase of a barrier; what they did before comes before what others do that pass it, if the arrival
    /// `releases` it.
    pub fn arrive(&mut self, barrier: usize, phase: u64, warp: u32, lanes: u32, releases: bool) {
        // A barrier behind an atomic operation is taken as the fence there, as CUDA's own examples have it.
        self.clocks.acquire_seen(warp, lanes);
        let Phase { number, clock } = &mut self.barriers[barrier][(phase % 2) as usize];
        if *number != phase {
            (*number, *clock) = (phase, Arc::default());
        }
        match releases {
            true => self.clocks.release(warp, lanes, Arc::make_mut(clock)),
            false => self.clocks.release_relaxed(warp, lanes, Arc::make_mut(clock)),
        }
    }

    /// Lanes have waited for a phase of a barrier.
    pub fn pass(&mut self, barrier: usize, phase: u64, warp: u32, lanes: u32) {
        let clock = self.barriers[barrier][(phase % 2) as usize].clock.clone();
        self.clocks.acquire(warp, lanes, &clock);
    }

    /// An mbarrier begins, in its phase 0.
    pub fn begin_mbarrier(&mut self, address: u64) {
        self.mbarriers.remove(&address);
    }

    /// A thread arrives in a phase of an mbarrier, as `arrival` says.
    pub fn arrive_at_mbarrier(&mut self, address: u64, phase: u64, agent: Agent, arrival: Arrival) {
        let Mbarrier { number, phases } = self.mbarriers.entry(address).or_insert_with(|| {
            self.mbarrier_count += 1;
            Mbarrier { number: self.mbarrier_count - 1, phases: Default::default() }
        });
        let before = phases[((phase + 1) % 2) as usize].clock.clone();
        let current = &mut phases[(phase % 2) as usize];
        if current.number != phase {
            // Whoever sees the end of a phase comes after the ends of those before.
            (current.number, current.clock) = (phase, before);
        }
        let clock = Arc::make_mut(&mut current.clock);
        // What a clock of a phase says holds for whoever sees its end.
        clock.end_phases(*number, phase + 1);
        match arrival {
            Arrival::Relaxed => self.clocks.release_relaxed(agent.warp, 1 << agent.lane, clock),
            Arrival::Releases | Arrival::WithCopies => self.clocks.release(agent.warp, 1 << agent.lane, clock),
        }
        if arrival == Arrival::WithCopies {
            self.clocks.release_copies(agent, clock);
        }
    }

    /// A thread has seen the end of the phase before `phase` and acquires what that released, or does so at its next fence; how
    /// many phases it knew the end of, in every schedule.
    pub fn pass_mbarrier(&mut self, address: u64, phase: u64, agent: Agent, acquires: bool) -> u64 {
        let (Some(Mbarrier { number, phases }), Some(ended)) = (self.mbarriers.get(&address), phase.checked_sub(1))
        else {
            return 0;
        };
        let known = self.clocks.ended_phases(agent, *number);
        let clock = phases[(ended % 2) as usize].clock.clone();
        if !acquires {
            let seen = Arc::new(clock.without_memory());
            self.clocks.acquire(agent.warp, 1 << agent.lane, &seen);
        }
        self.clocks.see(agent, &clock, acquires);
        known
    }

    /// The time of what an asynchronous agent is told to do now, for [`Races::finish`].
    pub fn time(&self, agent: Agent) -> u32 {
        self.clocks.now(agent)
    }

    /// Begins a new group of what an engine of a warp's threads does.
    pub fn commit(&mut self, warp: u32, engine: Engine) {
        self.clocks.commit(warp, engine);
    }

    /// The agent's thread has waited for what it did up to that time.
    pub fn finish(&mut self, agent: Agent, time: u32) {
        self.clocks.finish(agent, time);
    }

    /// Lanes execute a fence.
    pub fn fence(&mut self, warp: u32, among: u32, scope: Scope) {
        for lane in lanes(among) {
            let agent = Agent::new(warp, lane, Engine::Thread);
            self.clocks.fence(agent, scope);
            if scope == Scope::Gpu {
                self.clocks.fence_to_others(agent);
            }
        }
    }

    /// Lanes have waited for the grid before this one.
    pub fn wait_for_previous_grid(&mut self, warp: u32, lanes: u32) {
        self.clocks.wait_for_previous_grid(warp, lanes);
        self.has_waited = true;
    }

    /// Lanes let the next grid begin.
    pub fn launch_dependents(&mut self) {
        self.launched_early |= !self.has_waited;
    }

    /// Whether the grid before this one may still run when `agent` accesses global memory.
    pub fn meets_previous_grid(&self, agent: Agent) -> bool {
        self.overlaps_previous && !self.clocks.is_after_previous_grid(agent)
    }

    /// Adds an access to shared or global memory; the first one it races with.
    pub fn access(&mut self, access: &Access<'_>) -> Option<Conflict> {
        let Access { agent, semantics, pc, space, address, data, writes } = *access;
        let mut conflict = None;
        let mut record = Record {
            group: self.clocks.group(agent) as u16,
            bytes: 0,
            writes,
            strength: semantics.strength,
            lanes: 1 << agent.lane,
            time: self.clocks.now(agent),
            pc,
            foreign: 0,
            value: 0,
        };
        if space == Space::Global {
            self.may_synchronise |= semantics.strength.reaches_other_clusters();
            record.foreign = self.clocks.foreign(agent).map_or(0, |foreign| self.foreign.number(foreign));
        }
        let (mut start, mut rest) = (address, data);
        while !rest.is_empty() {
            let first = (start % LINE_BYTES) as usize;
            let (part, after) = rest.split_at(rest.len().min(LINE_BYTES as usize - first));
            let found = match space {
                Space::Shared => {
                    let index = self.shape.shared_line(start);
                    index.and_then(|index| self.shared.get_mut(index))
                }
                _ => Some(self.global.line_mut(start)),
            };
            let mut value = [0; LINE_BYTES as usize];
            if writes {
                value[first..first + part.len()].copy_from_slice(part);
            }
            let meets = |(old, lane, meeting): Met| {
                let agent = self.clocks.agent(old.group as usize, lane);
                let earlier = Conflict { agent, pc: old.pc, writes: old.writes, time: old.time };
                match meeting {
                    _ if conflict.is_some() => {}
                    Meeting::Race => conflict = Some(earlier),
                    Meeting::Lockstep if space == Space::Shared => self.lockstep.push((access.agent, address, earlier)),
                    Meeting::Lockstep => {}
                }
            };
            if let Some(found) = found {
                found.access(&self.clocks, agent, record, (first, part.len()), value, meets);
            }
            (start, rest) = (start + part.len() as u64, after);
        }
        conflict
    }

    /// A write of the cluster to some of `bytes` bytes of global memory, ordered or not.
    pub fn write_to(&self, address: u64, bytes: usize) -> Option<Conflict> {
        let written = (address..address + bytes as u64)
            .find_map(|address| self.global.line(address)?.write_to((address % LINE_BYTES) as usize))?;
        let agent = self.clocks.agent(written.group as usize, written.lanes.trailing_zeros());
        Some(Conflict { agent, pc: written.pc, writes: true, time: written.time })
    }

    /// Whether some lane of the warp that made the earlier access has come before `agent` since: lanes that execute an
    /// instruction together do so, and one of them speaks for all.
    pub fn is_after_warp_of(&self, agent: Agent, conflict: &Conflict) -> bool {
        conflict.agent.warp == agent.warp || self.clocks.knows_of_warp(agent, conflict.agent, conflict.time)
    }

    /// Takes the volatile reads of shared memory that have an order only in lockstep: reader, address, write.
    pub fn take_lockstep(&mut self) -> Vec<(Agent, u64, Conflict)> {
        std::mem::take(&mut self.lockstep)
    }

    /// A strong read has seen the memory as the last strong write left it.
    pub fn observe(&mut self, agent: Agent, semantics: Semantics, space: Space, address: u64) {
        let rank = self.clocks.rank(agent.warp as usize);
        if let Some(clock) = self.announced.get(&(space, address)).and_then(|announced| announced.to(rank).as_ref()) {
            self.clocks.see(agent, clock, semantics.acquires);
        }
    }

    /// A strong write announces what its thread did before. An atomic operation passes on what the write before it
    /// announced, a store does not.
    pub fn announce(&mut self, agent: Agent, semantics: Semantics, space: Space, address: u64, is_atomic: bool) {
        let key = (space, address);
        let rank = self.clocks.rank(agent.warp as usize);
        let before = self.announced.remove(&key).filter(|_| is_atomic).unwrap_or_default();
        let [to_block, to_cluster] = self.clocks.announced(agent, semantics.releases);
        let (to_block, to_cluster) =
            (joined(before.to(rank).clone(), to_block), joined(before.to_cluster.clone(), to_cluster));
        if to_block.is_some() || to_cluster.is_some() {
            self.announced.insert(key, Announced { rank, to_block, to_cluster });
        }
    }
}

/// The life of the blocks of a cluster.
impl Races {
    /// Whether the block of a rank has begun before what the thread of `agent` does now, in every schedule.
    pub fn is_after_begin(&self, agent: Agent, rank: u64) -> bool {
        self.clocks.is_after_begin(agent, rank as usize)
    }

    /// All threads of a block have ended: the accesses to its shared memory by other blocks, and by its copies to them, that
    /// nothing orders before the end of any of them, each with its address. One for each instruction and warp.
    pub fn end_block(&self, rank: u64) -> Vec<(u64, Conflict)> {
        let count = self.shape.shared_lines();
        let known = self.clocks.known_of_block(rank as usize);
        let mut found: Vec<(u64, Conflict)> = Vec::new();
        let lines = &self.shared[rank as usize * count..(rank as usize + 1) * count];
        let cells = lines.iter().flat_map(Line::cells);
        for (records, address) in cells.zip((shared_base(rank)..).step_by(CELL_BYTES as usize)) {
            for record in records.iter().filter(|record| self.outlives(record, rank, &known)) {
                let Record { group, lanes, time, pc, writes, .. } = *record;
                let agent = self.clocks.agent(group.into(), lanes.trailing_zeros());
                let is_known = |(_, other): &(u64, Conflict)| other.pc == pc && other.agent.warp == agent.warp;
                if !found.iter().any(is_known) {
                    found.push((address, Conflict { agent, pc, writes, time }));
                }
            }
        }
        found
    }

    /// Whether an access to the shared memory of the block of a rank may come after its threads, which know of `known`.
    fn outlives(&self, record: &Record, rank: u64, known: &Clock) -> bool {
        let agent = self.clocks.agent(record.group.into(), record.lanes.trailing_zeros());
        let is_remote = self.clocks.rank(agent.warp as usize) as u64 != rank;
        let concerns = match (agent.engine, record.writes, record.strength) {
            // A copy nobody waited for is reported as such.
            (Engine::Copies, true, Strength::Weak) => false,
            // A copy to another block reads here until somebody there has waited for it.
            (Engine::Copies, false, _) => true,
            _ => is_remote,
        };
        concerns && !known.covers(record.group.into(), record.lanes, record.time)
    }
}

/// A strong access of a thread to global memory that other clusters see, while nobody else has access to what was announced
/// there.
impl Races {
    /// A read has seen the memory as the last write left it. An atomic operation acquires what it has seen, also without the
    /// fence that PTX demands behind it.
    pub fn observe_others(&mut self, agent: Agent, semantics: Semantics, shard: &Shard, address: u64, is_atomic: bool) {
        if let Some(announced) = shard.get(&address) {
            self.clocks.see_others(agent, announced, address, semantics.acquires || is_atomic);
        }
    }

    /// A write announces what its thread did before; an atomic operation also what the write before it announced.
    pub fn announce_to_others(
        &mut self,
        agent: Agent,
        semantics: Semantics,
        shard: &mut Shard,
        address: u64,
        is_atomic: bool,
    ) {
        let before = shard.remove(&address).filter(|_| is_atomic);
        let mine = self.clocks.announced_to_others(agent, semantics.releases);
        let announced = match (before, mine) {
            (Some(mut before), Some(mine)) => {
                Arc::make_mut(&mut before).join(&mine);
                Some(before)
            }
            (before, mine) => before.or(mine),
        };
        if let Some(announced) = announced {
            shard.insert(address, announced);
        }
    }
}

/// What threads knew of other clusters, numbered from 1.
#[derive(Debug, Default)]
struct ForeignTable {
    known: Vec<Arc<Foreign>>,
}

impl ForeignTable {
    /// The number of what a thread knows.
    fn number(&mut self, foreign: &Arc<Foreign>) -> u16 {
        let found = self.known.iter().rposition(|known| Arc::ptr_eq(known, foreign));
        let index = found.unwrap_or_else(|| {
            self.known.push(foreign.clone());
            self.known.len() - 1
        });
        // Beyond that many, later ones count as the last.
        u16::try_from(index + 1).unwrap_or(u16::MAX)
    }
}
