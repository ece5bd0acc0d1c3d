//! Race detection within a cluster, which is usually a single block.

use std::collections::HashMap;
use std::sync::Arc;

use super::access::Access;
use super::agent::{Agent, Engine, Scope, Semantics, Strength};
use super::announced::{Announced, joined};
use super::announcements::Shard;
use super::clock::{Clock, Knowledge};
use super::clocks::Clocks;
use super::grid::Trace;
use super::line::{LINE_BYTES, LINE_CELLS, Line};
use super::pages::Pages;
use super::shadow::{CELL_BYTES, Kind, Meeting, Met, PAGE_CELLS, Record};
use crate::cluster_addresses::{own_shared, shared_base, shared_rank};
use crate::lanes::lanes;
use crate::parse::Space;

/// The earlier of two racing accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Conflict {
    pub agent: Agent,
    pub pc: u32,
    pub writes: bool,
    pub kind: Kind,
    /// Whether the other thread has observed it, but acquired nothing only because no liberties are taken.
    pub is_excused: bool,
    /// Its time, as counted by the agent's warp.
    time: u32,
}

impl Conflict {
    /// The same as the earlier access meets it: with a write by `agent`.
    pub fn with_write(self, agent: Agent, pc: u32) -> Conflict {
        Conflict { agent, pc, writes: true, ..self }
    }
}

/// An earlier read by lanes of a warp with which a write races.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EarlierRead {
    pub warp: u32,
    pub lanes: u32,
    pub engine: Engine,
    pub pc: u32,
    /// As counted by the warp.
    pub time: u32,
}

/// Clock of a barrier phase.
#[derive(Debug, Default)]
struct Phase {
    number: u64,
    clock: Arc<Clock>,
}

/// Clocks released by the arrivals at an mbarrier: in its even and its odd phases so far.
#[derive(Debug)]
struct Mbarrier {
    /// Number of the mbarrier, in order of first arrivals.
    number: usize,
    phases: [Phase; 2],
}

/// Dimensions of a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub blocks: usize,
    /// Warps of a block.
    pub warps: usize,
    /// Of all blocks and of the cluster.
    pub barriers: usize,
    /// Shared memory of a block from address 0 on, bytes.
    pub shared_bytes: usize,
}

impl Shape {
    /// Shared memory lines per block.
    fn shared_lines(&self) -> usize {
        self.shared_bytes.div_ceil(LINE_BYTES as usize)
    }

    /// The index of the line that contains an address of shared memory.
    pub(super) fn shared_line(&self, address: u64) -> Option<usize> {
        let line = (own_shared(address) / LINE_BYTES) as usize;
        let rank = shared_rank(address) as usize;
        (rank < self.blocks && line < self.shared_lines()).then(|| rank * self.shared_lines() + line)
    }
}

/// What an arrival at an mbarrier releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Only what an earlier fence announced.
    Relaxed,
    /// Everything before it: whoever sees the end of the phase is ordered after it.
    Releases,
    /// Also the asynchronous copies that the thread has issued.
    WithCopies,
}

/// The race detection of one cluster.
#[derive(Debug)]
pub(crate) struct Races {
    pub(super) shape: Shape,
    pub(super) clocks: Clocks,
    /// Even and odd phases of each barrier.
    barriers: Vec<[Phase; 2]>,
    /// Mbarriers with arrivals, by address.
    mbarriers: HashMap<u64, Mbarrier>,
    /// Number of mbarriers so far.
    mbarrier_count: usize,
    /// Clocks announced by strong writes, by address of the write.
    announced: HashMap<(Space, u64), Announced>,
    /// Shared memory, block by block.
    pub(super) shared: Vec<Line>,
    /// Pages of global memory, by number.
    pub(super) global: Pages,
    /// Knowledge of other clusters that threads had when they accessed global memory.
    foreign: ForeignTable,
    /// Volatile reads of shared memory with the unordered volatile writes by other lanes of the warp that they have
    /// seen; taken by [`Races::take_lockstep`].
    lockstep: Vec<(Agent, u64, Conflict)>,
    /// The reads that the last access races with.
    reads: Vec<EarlierRead>,
    /// Whether threads made strong accesses to global memory.
    may_synchronise: bool,
    /// Whether the grid may begin before the previous one has ended.
    pub(super) overlaps_previous: bool,
    /// Whether only a fence or an acquiring access acquires what a thread has observed.
    strict: bool,
    /// Whether threads have waited for the previous grid.
    has_waited: bool,
    /// Whether threads let the next grid begin before that wait.
    launched_early: bool,
}

impl Races {
    /// Race detection for clusters of a shape, in a grid that may or may not begin before the previous one has ended.
    pub fn new(shape: Shape, overlaps_previous: bool, strict: bool) -> Races {
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
            reads: Vec::new(),
            may_synchronise: false,
            overlaps_previous,
            strict,
            has_waited: false,
            launched_early: false,
        }
    }

    /// Starts the cluster with an index in the grid.
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

    /// Takes the global memory accesses of the cluster.
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

    /// Releases: joins everything before the current point of some lanes into `clock`.
    pub fn release(&mut self, warp: u32, lanes: u32, clock: &mut Clock) {
        self.clocks.release(warp, lanes, clock);
    }

    /// Acquires: orders later actions of lanes after `clock`.
    pub fn acquire(&mut self, warp: u32, lanes: u32, clock: &Arc<Clock>) {
        self.clocks.acquire(warp, lanes, clock);
    }

    /// Orders lanes of a warp with each other (`bar.warp.sync`).
    pub fn synchronise_warp(&mut self, warp: u32, lanes: u32) {
        let mut clock = Clock::default();
        self.release(warp, lanes, &mut clock);
        self.acquire(warp, lanes, &Arc::new(clock));
    }

    /// Lanes arrive at a phase of a barrier. If the arrival `releases`, what they did before is ordered before later
    /// actions of the threads that pass the barrier.
    pub fn arrive(&mut self, barrier: usize, phase: u64, warp: u32, lanes: u32, releases: bool) {
        // A barrier after an atomic operation counts as the missing fence, as in CUDA's own examples.
        if !self.strict {
            self.clocks.acquire_seen(warp, lanes);
        }
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

    /// An mbarrier is initialised, in phase 0.
    pub fn begin_mbarrier(&mut self, address: u64) {
        self.mbarriers.remove(&address);
    }

    /// A thread arrives in a phase of an mbarrier.
    pub fn arrive_at_mbarrier(&mut self, address: u64, phase: u64, agent: Agent, arrival: Arrival) {
        let Mbarrier { number, phases } = self.mbarriers.entry(address).or_insert_with(|| {
            self.mbarrier_count += 1;
            Mbarrier { number: self.mbarrier_count - 1, phases: Default::default() }
        });
        let before = phases[((phase + 1) % 2) as usize].clock.clone();
        let current = &mut phases[(phase % 2) as usize];
        if current.number != phase {
            // The end of a phase is ordered after the ends of earlier phases.
            (current.number, current.clock) = (phase, before);
        }
        let clock = Arc::make_mut(&mut current.clock);
        // A phase's clock is valid for whoever sees the end of the phase.
        clock.end_phases(*number, phase + 1);
        match arrival {
            Arrival::Relaxed => self.clocks.release_relaxed(agent.warp, 1 << agent.lane, clock),
            Arrival::Releases | Arrival::WithCopies => self.clocks.release(agent.warp, 1 << agent.lane, clock),
        }
        if arrival == Arrival::WithCopies {
            self.clocks.release_copies(agent, clock);
        }
    }

    /// A thread has seen the end of the phase before `phase`. It acquires what the phase released, now or at its next
    /// fence. Returns the number of phases whose end it knew, in every schedule.
    pub fn pass_mbarrier(&mut self, address: u64, phase: u64, agent: Agent, acquires: bool) -> u64 {
        let (Some(Mbarrier { number, phases }), Some(ended)) = (self.mbarriers.get(&address), phase.checked_sub(1))
        else {
            return 0;
        };
        let mut known = self.clocks.ended_phases(agent, *number);
        let before = &phases[((ended + 1) % 2) as usize];
        if known < ended && before.number + 1 == ended && self.clocks.is_after_arrivals(agent, *number, &before.clock) {
            known = ended;
        }
        let clock = phases[(ended % 2) as usize].clock.clone();
        if !acquires {
            let seen = Arc::new(clock.without_memory());
            self.clocks.acquire(agent.warp, 1 << agent.lane, &seen);
        }
        self.clocks.see(agent, &clock, acquires);
        known
    }

    /// The current time of an agent.
    pub fn time(&self, agent: Agent) -> u32 {
        self.clocks.now(agent)
    }

    /// Starts a new group of an engine's work for a warp.
    pub fn commit(&mut self, warp: u32, engine: Engine) {
        self.clocks.commit(warp, engine);
    }

    /// The agent's thread has waited for the agent's work up to a time.
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

    /// Lanes have waited for the previous grid.
    pub fn wait_for_previous_grid(&mut self, warp: u32, lanes: u32) {
        self.clocks.wait_for_previous_grid(warp, lanes);
        self.has_waited = true;
    }

    /// Lanes let the next grid begin.
    pub fn launch_dependents(&mut self) {
        self.launched_early |= !self.has_waited;
    }

    /// Whether the previous grid may still run when `agent` accesses global memory.
    pub fn meets_previous_grid(&self, agent: Agent) -> bool {
        self.overlaps_previous && !self.clocks.is_after_previous_grid(agent)
    }

    /// Adds an access to shared or global memory; returns an access that it races with, the first one that writes if there
    /// is one. [`Races::reads`] has the reads.
    pub fn access(&mut self, access: &Access<'_>) -> Option<Conflict> {
        let Access { agent, semantics, pc, space, address, data, writes, is_tested } = *access;
        let mut conflict: Option<Conflict> = None;
        self.reads.clear();
        let mut record = Record {
            group: self.clocks.group(agent) as u16,
            bytes: 0,
            writes,
            is_tested,
            strength: semantics.strength,
            lanes: 1 << agent.lane,
            time: self.clocks.now(agent),
            pc,
            foreign: 0,
            value: 0,
        };
        if space == Space::Global {
            self.may_synchronise |= semantics.strength.reaches_other_clusters();
            let acquired = self.clocks.foreign(agent).cloned();
            let observed = if self.strict { self.clocks.observed_of_others(agent).cloned() } else { None };
            record.foreign = self.foreign.number(Knowledge { acquired, observed });
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
            let meets = |(old, lanes, meeting): Met| {
                let other = self.clocks.agent(old.group as usize, lanes.trailing_zeros());
                let is_excused = self.strict && self.clocks.has_observed(agent, other, old.time);
                let earlier =
                    |kind| Conflict { agent: other, pc: old.pc, writes: old.writes, kind, is_excused, time: old.time };
                match meeting {
                    Meeting::Race(kind) => {
                        if !old.writes {
                            let Agent { warp, engine, .. } = other;
                            let read = EarlierRead { warp, lanes, engine, pc: old.pc, time: old.time };
                            if !self.reads.contains(&read) {
                                self.reads.push(read);
                            }
                        }
                        if conflict.is_none_or(|known| old.writes && !known.writes) {
                            conflict = Some(earlier(kind));
                        }
                    }
                    Meeting::Lockstep if conflict.is_none() && space == Space::Shared => {
                        self.lockstep.push((access.agent, address, earlier(Kind::Volatile)));
                    }
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

    /// The reads that the last access races with.
    pub fn reads(&self) -> &[EarlierRead] {
        &self.reads
    }

    /// The cluster writes some of `bytes` bytes of global memory, ordered or not.
    pub fn write_to(&self, address: u64, bytes: usize) -> Option<Conflict> {
        let written = (address..address + bytes as u64)
            .find_map(|address| self.global.line(address)?.write_to((address % LINE_BYTES) as usize))?;
        let agent = self.clocks.agent(written.group as usize, written.lanes.trailing_zeros());
        Some(Conflict { agent, pc: written.pc, writes: true, kind: Kind::Plain, is_excused: false, time: written.time })
    }

    /// Whether some lane of the warp of the earlier access has been ordered before `agent` since. Lanes that execute an
    /// instruction together are ordered alike, so that one represents all.
    pub fn is_after_warp_of(&self, agent: Agent, conflict: &Conflict) -> bool {
        conflict.agent.warp == agent.warp || self.clocks.knows_of_warp(agent, conflict.agent, conflict.time)
    }

    /// Whether `agent` is ordered after what lanes of a warp did at a time.
    pub fn is_after(&self, agent: Agent, (warp, lanes): (u32, u32), time: u32) -> bool {
        self.clocks.concurrent(agent, warp as usize, lanes, time) == 0
    }

    /// Whether `agent` is ordered after what some lane of a warp did at a time or later.
    pub fn is_after_any(&self, agent: Agent, warp: u32, time: u32) -> bool {
        self.clocks.knows_of_warp(agent, Agent::new(warp, 0, Engine::Thread), time)
    }

    /// Whether some of these lanes of a warp are ordered after what lanes of another warp did at a time.
    pub fn knows(&self, (warp, among): (u32, u32), (other, lanes): (u32, u32), time: u32) -> bool {
        self.clocks.knows((warp, among), (other, lanes), time)
    }

    /// Takes the volatile reads of shared memory that are ordered only in lockstep: reader, address, write.
    pub fn take_lockstep(&mut self) -> Vec<(Agent, u64, Conflict)> {
        std::mem::take(&mut self.lockstep)
    }

    /// A strong read has seen the last strong write. An atomic operation acquires what it has seen even without the fence that PTX
    /// requires after it.
    pub fn observe(&mut self, agent: Agent, semantics: Semantics, space: Space, address: u64, is_atomic: bool) {
        let rank = self.clocks.rank(agent.warp as usize);
        if let Some(clock) = self.announced.get(&(space, address)).and_then(|announced| announced.to(rank).as_ref()) {
            self.clocks.see(agent, clock, semantics.acquires || is_atomic && !self.strict);
        }
    }

    /// A strong write announces what its thread did before. An atomic operation also passes on what the previous write
    /// announced; a store does not.
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
    /// Whether block `rank` has begun before the current point of the thread of `agent`, in every schedule.
    pub fn is_after_begin(&self, agent: Agent, rank: u64) -> bool {
        self.clocks.is_after_begin(agent, rank as usize)
    }

    /// Called when all threads of a block have ended: returns the accesses to its shared memory, by other blocks and by its own
    /// copies to them, that are not ordered before the end of any of its threads. One per instruction and warp, with its address.
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
                    found.push((address, Conflict { agent, pc, writes, kind: Kind::Plain, is_excused: false, time }));
                }
            }
        }
        found
    }

    /// Whether an access to the shared memory of block `rank` may come after the end of its threads, which know
    /// `known`.
    fn outlives(&self, record: &Record, rank: u64, known: &Clock) -> bool {
        let agent = self.clocks.agent(record.group.into(), record.lanes.trailing_zeros());
        let is_remote = self.clocks.rank(agent.warp as usize) as u64 != rank;
        let concerns = match (agent.engine, record.writes, record.strength) {
            // A copy that nothing waited for is reported as such.
            (Engine::Copies, true, Strength::Weak) => false,
            // A copy to another block reads here until something there has waited for it.
            (Engine::Copies, false, _) => true,
            _ => is_remote,
        };
        concerns && !known.covers(record.group.into(), record.lanes, record.time)
    }
}

/// Strong accesses of a thread to global memory that are visible to other clusters. The caller holds the lock on the
/// announcements at the address.
impl Races {
    /// A read has seen the last write, as in [`Races::observe`].
    pub fn observe_others(&mut self, agent: Agent, semantics: Semantics, shard: &Shard, address: u64, is_atomic: bool) {
        if let Some(announced) = shard.get(&address) {
            self.clocks.see_others(agent, announced, address, semantics.acquires || is_atomic && !self.strict);
        }
    }

    /// A write announces what its thread did before; an atomic operation also passes on what the previous write announced.
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

/// Knowledge of threads about other clusters, numbered from 1.
#[derive(Debug, Default)]
struct ForeignTable {
    known: Vec<Knowledge>,
}

impl ForeignTable {
    /// The number of a thread's knowledge; 0 for none.
    fn number(&mut self, foreign: Knowledge) -> u16 {
        if foreign.is_none() {
            return 0;
        }
        let found = self.known.iter().rposition(|known| known.is(&foreign));
        let index = found.unwrap_or_else(|| {
            self.known.push(foreign);
            self.known.len() - 1
        });
        // Later ones beyond the maximum count as the last.
        u16::try_from(index + 1).unwrap_or(u16::MAX)
    }
}
