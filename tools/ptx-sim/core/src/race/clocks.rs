//! The clocks of a cluster's threads.

use std::sync::Arc;

use super::agent::{Agent, Engine, Scope};
use super::clock::{Clock, Foreign, join_shared};
use super::known::Known;
use crate::lanes::LANES;

/// Clocks of a thread that its fences have released, and clocks seen but not yet acquired by a fence.
#[derive(Clone, Debug, Default)]
struct Fences {
    released: Option<Arc<Clock>>,
    /// The same for fences of at least cluster scope.
    released_to_cluster: Option<Arc<Clock>>,
    seen: Option<Clock>,
    /// The same for other clusters.
    seen_of_others: Option<Arc<Foreign>>,
    /// The last events of another cluster seen, their address, and whether they were acquired at once.
    last_seen: Option<(Arc<Foreign>, u64, bool)>,
}

/// The clocks of a cluster's threads. The threads of a warp share the current time, which advances when one of them
/// releases. Each thread has its own knowledge of what happened before it.
#[derive(Debug)]
pub(crate) struct Clocks {
    /// Index of the cluster in the grid.
    cluster: u64,
    /// Number of warps.
    warps: usize,
    /// Number of warps per block.
    warps_of_block: usize,
    /// Whether a thread has seen but not yet acquired an announcement.
    has_seen: bool,
    /// Current time of each warp's threads, then of each of their engines.
    now: Vec<u32>,
    /// Knowledge of each warp's threads. Threads that passed a barrier together share one clock.
    known: Vec<Known>,
    /// Per engine and thread, the time up to which the thread has waited for the engine.
    finished: Vec<u32>,
    fences: Vec<Fences>,
}

impl Clocks {
    /// The clocks at the start of a cluster of a number of blocks and warps per block.
    pub fn new(blocks: usize, warps_of_block: usize, cluster: u64) -> Clocks {
        let warps = blocks * warps_of_block;
        let nothing = Arc::new(Clock::default());
        Clocks {
            cluster,
            warps,
            warps_of_block,
            has_seen: false,
            now: vec![1; Engine::ALL.len() * warps],
            known: vec![Known::new(nothing); warps],
            finished: vec![0; Engine::ALL.len() * LANES * warps],
            fences: vec![Fences::default(); LANES * warps],
        }
    }

    /// The group number of `agent`.
    pub fn group(&self, agent: Agent) -> usize {
        agent.group(self.warps)
    }

    /// The index of `agent` among all agents.
    fn index(&self, agent: Agent) -> usize {
        self.group(agent) * LANES + agent.lane as usize
    }

    /// The agent at lane `lane` of a group.
    pub fn agent(&self, group: usize, lane: u32) -> Agent {
        Agent::of_group(group, lane, self.warps)
    }

    /// Whether a group writes data that the check for races does not know.
    pub fn writes_unseen(&self, group: usize) -> bool {
        !self.is_of_threads(group) && self.agent(group, 0).engine.writes_unseen()
    }

    /// The current time of an agent.
    pub fn now(&self, agent: Agent) -> u32 {
        self.now[self.group(agent)]
    }

    /// The knowledge of the thread of `agent`.
    fn known_of(&self, agent: Agent) -> &Clock {
        self.known[agent.warp as usize].of(agent.lane)
    }

    /// The lanes of `group` whose accesses at `time` are not ordered before the current point of the thread of `agent`.
    pub fn concurrent(&self, agent: Agent, group: usize, lanes: u32, time: u32) -> u32 {
        let rest = match self.is_of_threads(group) {
            true if group == agent.warp as usize => lanes & !(1 << agent.lane),
            true => lanes,
            false => self.not_waited_for(agent, group, lanes, time),
        };
        if rest == 0 {
            return 0;
        }
        let known = self.known_of(agent);
        crate::lanes::lanes(rest)
            .filter(|lane| known.time(group * LANES + lane) < time)
            .fold(0, |mask, lane| mask | 1 << lane)
    }

    /// The rank of the block that a warp belongs to.
    pub fn rank(&self, warp: usize) -> usize {
        warp / self.warps_of_block
    }

    /// Whether two groups of agents belong to the same block.
    pub fn are_of_one_block(&self, one: u16, other: u16) -> bool {
        let rank = |group: u16| self.rank(usize::from(group) % self.warps);
        self.warps == self.warps_of_block || rank(one) == rank(other)
    }

    /// Whether a group consists of the threads of a warp themselves.
    pub fn is_of_threads(&self, group: usize) -> bool {
        group < self.warps
    }

    /// The lanes of an asynchronous group, except the one for which the thread of `agent` has waited.
    fn not_waited_for(&self, agent: Agent, group: usize, lanes: u32, time: u32) -> u32 {
        let other = self.agent(group, agent.lane);
        let own_lane = if other.engine == Engine::Matrix { 0 } else { agent.lane };
        let is_over = time <= self.finished[group * LANES + own_lane as usize];
        if other.warp == agent.warp && is_over { lanes & !(1 << own_lane) } else { lanes }
    }

    /// Whether the thread of `agent` is ordered after some point at or after `time` of a lane of the warp of `other`.
    pub fn knows_of_warp(&self, agent: Agent, other: Agent, time: u32) -> bool {
        let (known, first) = (self.known_of(agent), self.group(other) * LANES);
        (first..first + LANES).any(|lane| known.time(lane) >= time)
    }

    /// Whether some of these lanes of a warp are ordered after what lanes of another warp did at a time.
    pub fn knows(&self, (warp, among): (u32, u32), (other, lanes): (u32, u32), time: u32) -> bool {
        self.known[warp as usize].of_any(among).any(|known| known.covers(other as usize, lanes, time))
    }

    /// Releases: joins everything before the current point of some lanes of a warp into `clock`. Whoever acquires that
    /// clock is ordered after it.
    pub fn release(&mut self, warp: u32, lanes: u32, clock: &mut Clock) {
        self.known[warp as usize].of_any(lanes).for_each(|known| clock.join(known));
        for lane in crate::lanes::lanes(lanes) {
            let thread = self.index(Agent::new(warp, lane, Engine::Thread));
            clock.advance(thread, self.now[warp as usize]);
            for engine in [Engine::Copies, Engine::BulkReads, Engine::BulkWrites] {
                let index = self.index(Agent::new(warp, lane, engine));
                clock.advance(index, self.finished[index]);
            }
        }
        let matrix = self.index(Agent::matrix(warp));
        clock.advance(matrix, self.finished[matrix]);
        clock.begun |= 1 << self.rank(warp as usize);
        self.now[warp as usize] += 1;
    }

    /// Joins into `clock` what a relaxed arrival releases: that the block of the warp has begun, and what the threads
    /// announced by earlier fences.
    pub fn release_relaxed(&mut self, warp: u32, lanes: u32, clock: &mut Clock) {
        clock.begun |= 1 << self.rank(warp as usize);
        for lane in crate::lanes::lanes(lanes) {
            if let Some(released) = &self.fences[warp as usize * LANES + lane].released_to_cluster {
                clock.join(released);
            }
        }
    }

    /// Whether block `rank` has begun before the current point of the thread of `agent`, in every schedule.
    pub fn is_after_begin(&self, agent: Agent, rank: usize) -> bool {
        rank == self.rank(agent.warp as usize) || self.known_of(agent).begun >> rank & 1 == 1
    }

    /// The common knowledge of a block's threads.
    pub fn known_of_block(&self, rank: usize) -> Clock {
        let mut clock = Clock::default();
        let warps = &self.known[rank * self.warps_of_block..(rank + 1) * self.warps_of_block];
        for known in warps.iter().flat_map(|known| known.of_any(u32::MAX)) {
            if !clock.includes(known) {
                clock.join(known);
            }
        }
        clock
    }

    /// Joins the copies that a thread has issued into `clock`.
    pub fn release_copies(&mut self, agent: Agent, clock: &mut Clock) {
        let copies = Agent { engine: Engine::Copies, ..agent };
        clock.advance(self.index(copies), self.now(copies));
        self.commit(copies.warp, copies.engine);
    }

    /// Acquires: orders later actions of lanes of a warp after `clock`.
    pub fn acquire(&mut self, warp: u32, lanes: u32, clock: &Arc<Clock>) {
        self.known[warp as usize].acquire(lanes, clock);
    }

    /// Orders later actions of lanes of a warp after the previous grid.
    pub fn wait_for_previous_grid(&mut self, warp: u32, lanes: u32) {
        self.acquire(warp, lanes, &Arc::new(Clock { after_previous_grid: true, ..Clock::default() }));
    }

    /// Whether the current point of the thread of `agent` is ordered after the previous grid, in every schedule.
    pub fn is_after_previous_grid(&self, agent: Agent) -> bool {
        self.known_of(agent).after_previous_grid
    }

    /// Number of phases of an mbarrier that completed before the current point of the thread of `agent`, in every
    /// schedule.
    pub fn ended_phases(&self, agent: Agent, mbarrier: usize) -> u64 {
        self.known_of(agent).phases.get(mbarrier).copied().unwrap_or(0)
    }

    /// Whether an agent is ordered after all arrivals at an mbarrier in the phase with this clock. Then it knows the end of the phase without
    /// having seen it.
    pub fn is_after_arrivals(&self, agent: Agent, mbarrier: usize, phase: &Clock) -> bool {
        let mut known = Clock::clone(self.known_of(agent));
        known.end_phases(mbarrier, u64::MAX);
        known.includes(phase)
    }

    /// Starts a new group of an engine's work for a warp: a wait for earlier work does not cover later work.
    pub fn commit(&mut self, warp: u32, engine: Engine) {
        let group = self.group(Agent::new(warp, 0, engine));
        self.now[group] += 1;
    }

    /// The thread of `agent` has waited for the engine's work up to `time`.
    pub fn finish(&mut self, agent: Agent, time: u32) {
        let index = self.index(agent);
        self.finished[index] = self.finished[index].max(time);
    }

    /// The clocks that a strong write of this thread announces: everything so far if it releases, else everything
    /// before the last fence. One for its own block, and one for other blocks of its cluster.
    pub fn announced(&mut self, agent: Agent, releases: bool) -> [Option<Arc<Clock>>; 2] {
        if !releases {
            let Fences { released, released_to_cluster, .. } = &self.fences[agent.thread()];
            return [released.clone(), released_to_cluster.clone()];
        }
        let clock = self.released(agent);
        [Some(clock.clone()), Some(clock)]
    }

    /// Everything so far, released.
    fn released(&mut self, agent: Agent) -> Arc<Clock> {
        let mut clock = Clock::default();
        self.release(agent.warp, 1 << agent.lane, &mut clock);
        Arc::new(clock)
    }

    /// A strong read of this thread has seen a write that announced `clock`.
    pub fn see(&mut self, agent: Agent, clock: &Arc<Clock>, acquires: bool) {
        if acquires {
            self.acquire(agent.warp, 1 << agent.lane, clock);
        } else {
            self.has_seen = true;
            self.fences[agent.thread()].seen.get_or_insert_default().join(clock);
        }
    }

    /// What a strong write of this thread announces to other clusters, as with [`Clocks::announced`].
    pub fn announced_to_others(&mut self, agent: Agent, releases: bool) -> Option<Arc<Foreign>> {
        if !releases {
            return self.known_of(agent).published.clone();
        }
        let mut clock = Clock::default();
        self.release(agent.warp, 1 << agent.lane, &mut clock);
        let others = clock.foreign.take();
        clock.published = None;
        let mut all = Foreign::of(self.cluster, Arc::new(clock));
        others.iter().for_each(|others| all.join(others));
        Some(Arc::new(all))
    }

    /// A strong read of this thread at `address` has seen a write of another cluster that announced `others`.
    pub fn see_others(&mut self, agent: Agent, others: &Arc<Foreign>, address: u64, acquires: bool) {
        let last = &mut self.fences[agent.thread()].last_seen;
        let is_new = !last
            .as_ref()
            .is_some_and(|(seen, at, acquired)| Arc::ptr_eq(seen, others) && (*at, *acquired) == (address, acquires));
        // A spinning loop reads the same announcement repeatedly.
        if !is_new {
            return;
        }
        *last = Some((others.clone(), address, acquires));
        let read = Arc::new(others.read_at(address));
        if acquires {
            self.acquire_others(agent, &read);
        } else {
            self.has_seen = true;
            join_shared(&mut self.fences[agent.thread()].seen_of_others, &Some(read));
        }
    }

    fn acquire_others(&mut self, agent: Agent, others: &Arc<Foreign>) {
        let mut clock = Clock { foreign: Some(others.clone()), ..Clock::default() };
        // Drop what came from this cluster itself.
        if let Some(own) = others.clock(self.cluster) {
            clock.join(own);
        }
        self.acquire(agent.warp, 1 << agent.lane, &Arc::new(clock));
    }

    /// Lanes acquire what they have seen.
    pub fn acquire_seen(&mut self, warp: u32, lanes: u32) {
        if self.has_seen {
            for lane in crate::lanes::lanes(lanes) {
                let agent = Agent::new(warp, lane, Engine::Thread);
                if let Some(seen) = self.fences[agent.thread()].seen.take() {
                    self.acquire(warp, 1 << lane, &Arc::new(seen));
                }
                if let Some(others) = self.fences[agent.thread()].seen_of_others.take() {
                    self.acquire_others(agent, &others);
                }
            }
        }
    }

    /// Whether a thread of a warp has knowledge of other clusters.
    pub fn knows_of_others(&self, warp: u32) -> bool {
        self.known[warp as usize].of_any(u32::MAX).any(|known| known.foreign.is_some())
    }

    /// Knowledge of the thread of `agent` of other clusters.
    pub fn foreign(&self, agent: Agent) -> Option<&Arc<Foreign>> {
        self.known_of(agent).foreign.as_ref()
    }

    /// What the thread of `agent` has seen, but not acquired, of other clusters.
    pub fn observed_of_others(&self, agent: Agent) -> Option<&Arc<Foreign>> {
        self.fences[agent.thread()].seen_of_others.as_ref()
    }

    /// Whether the thread of `agent` has seen, but not acquired, what comes after the access of `other` at `time`.
    pub fn has_observed(&self, agent: Agent, other: Agent, time: u32) -> bool {
        let Fences { seen, seen_of_others, .. } = &self.fences[agent.thread()];
        let own = seen_of_others.as_ref().and_then(|others| others.clock(self.cluster));
        let mut clocks = seen.iter().chain(own.map(Arc::as_ref));
        clocks.any(|clock| clock.covers(self.group(other), 1 << other.lane, time))
    }

    /// A fence of GPU scope.
    pub fn fence_to_others(&mut self, agent: Agent) {
        self.acquire_seen(agent.warp, 1 << agent.lane);
        let published = self.announced_to_others(agent, true);
        self.acquire(agent.warp, 1 << agent.lane, &Arc::new(Clock { published, ..Clock::default() }));
    }

    /// A fence: acquires what was seen, and makes later strong writes announce what came before.
    pub fn fence(&mut self, agent: Agent, scope: Scope) {
        if let Some(seen) = self.fences[agent.thread()].seen.take() {
            self.acquire(agent.warp, 1 << agent.lane, &Arc::new(seen));
        }
        let released = self.released(agent);
        let fences = &mut self.fences[agent.thread()];
        if scope >= Scope::Cluster {
            fences.released_to_cluster = Some(released.clone());
        }
        fences.released = Some(released);
    }
}
