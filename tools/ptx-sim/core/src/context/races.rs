//! Race checks of an access against earlier ones, and against the previous grid.

use std::sync::MutexGuard;

use super::faults::Faults;
use super::place::Place;
use super::view::Context;
use crate::cluster_addresses::own_shared;
use crate::doubt::Doubt;
use crate::finding::{FindingClass, LaneAddress, OtherAccess};
use crate::machine::{self, MBARRIER_BYTES};
use crate::memory::SYSTEM_SHARED_BYTES;
use crate::parse::Space;
use crate::program::Instruction;
use crate::race::{Access, Agent, Conflict, EarlierRead, Engine, Kind, Races, Semantics, Shard, Strength};
use crate::unknown::{Origin, Read, Unknown, UnknownBytes};

/// The effect of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Read,
    Write,
    /// A read and a write as one atomic operation.
    Update,
}

impl Effect {
    /// The noun phrase for an access of `bytes` bytes, before the name of the memory.
    pub fn of(self, bytes: usize) -> String {
        let what = match self {
            Effect::Read => "read of",
            Effect::Write => "write to",
            Effect::Update => "atomic operation on",
        };
        format!("a {bytes}-byte {what}")
    }
}

impl<'a> Context<'a> {
    /// Checks whether an access to shared or global memory races with an earlier one.
    pub(super) fn check_races(
        &mut self,
        faults: &mut Faults,
        place: Place,
        data: &[u8],
        effect: Effect,
        shard: Option<&mut Shard>,
    ) {
        if let Some(conflict) = self.race(faults, place, data, effect, shard) {
            if effect == Effect::Write && self.is_between_lanes(place, conflict) {
                self.doubt_written(place, data.len(), conflict);
                return;
            }
            let reads = self.earlier_reads(place.space);
            if conflict.writes || reads.is_empty() {
                self.add_race(faults, place, data.len(), effect, conflict);
            } else {
                let Place { lane, space, address, .. } = place;
                let (bytes, is_atomic) = (data.len(), effect == Effect::Update);
                self.cluster.doubts.push(Doubt { lane, space, address, bytes, is_atomic, conflict, reads });
            }
        }
    }

    /// The reads by threads that a write has just raced with; none if something else reads, too.
    fn earlier_reads(&self, space: Space) -> Vec<EarlierRead> {
        let reads = self.cluster.races.as_ref().map_or(&[][..], Races::reads);
        let are_by_threads = reads.iter().all(|read| read.engine == Engine::Thread);
        let writes_at_once = matches!(self.engine(space, Effect::Write), Engine::Thread | Engine::BulkWrites);
        if are_by_threads && writes_at_once { reads.to_vec() } else { Vec::new() }
    }

    /// Reports writes of the instruction that race with reads on whose values something depends.
    pub fn report_doubts(&mut self, doubts: &[Doubt]) {
        let mut faults = Faults::default();
        for Doubt { lane, space, address, bytes, is_atomic, conflict, .. } in doubts {
            let effect = if *is_atomic { Effect::Update } else { Effect::Write };
            let place = Place::new(*lane, Some(*space), *address, 1);
            self.add_race(&mut faults, place, *bytes, effect, *conflict);
        }
        self.report_faults(faults);
    }

    /// Adds a fault for an access that races with an earlier one.
    fn add_race(&self, faults: &mut Faults, place: Place, bytes: usize, effect: Effect, conflict: Conflict) {
        let Place { lane, space, address, .. } = place;
        let agent = Agent::new(self.warp.index, lane, self.engine(space, effect));
        faults.add_pair(conflict.kind.into(), lane, address, || {
            self.describe_race(self.pc, agent, space, address, bytes, effect, conflict)
        });
    }

    /// Whether this is a write-write conflict between lanes of one warp in shared memory. The last writer is
    /// undetermined, which matters only to a reader: several lanes may write a slot that is not read.
    fn is_between_lanes(&self, place: Place, conflict: Conflict) -> bool {
        let Conflict { agent, writes, .. } = conflict;
        let by_threads = agent.engine == Engine::Thread && self.engine(place.space, Effect::Write) == Engine::Thread;
        place.space == Space::Shared && writes && by_threads && agent.warp == self.warp.index
    }

    /// Marks what a write has just stored in shared memory as undetermined, unless its race was reported.
    #[cold]
    fn doubt_written(&mut self, place: Place, bytes: usize, conflict: Conflict) {
        let origin = Origin::Race(Read { writes: true, ..self.read_at(place, bytes) }, conflict);
        if self.cluster.reported.contains(&origin) {
            return;
        }
        let mut unknown = UnknownBytes::default();
        (0..bytes).for_each(|index| unknown.push(index, Unknown { bits: 0xff, origin, is_computed: false }));
        self.cluster.shared.set_unknown(place.address, &unknown);
    }

    /// The announcements to other clusters, locked for the duration of a strong access to global memory.
    pub(super) fn announcements(&self, place: Place) -> Option<MutexGuard<'a, Shard>> {
        let reaches = self.instruction.semantics.strength.reaches_other_clusters() && self.machine.races;
        (reaches && place.space == Space::Global).then(|| self.machine.announcements.shard(place.address))
    }

    /// Reports a volatile load of what other lanes of a converged warp wrote: that is correct only if lanes run in
    /// lockstep. Polling a single flag is allowed.
    pub fn check_lockstep(&mut self) {
        let Some(races) = &mut self.cluster.races else { return };
        let active = self.active;
        let mut met = races.take_lockstep();
        met.retain(|(_, _, write)| active >> write.agent.lane & 1 == 1);
        let Some((reader, address, write)) = met.first().copied() else { return };
        if met.iter().all(|(_, other, _)| *other == address) {
            return;
        }
        let which = met.iter().map(|(reader, address, _)| LaneAddress { lane: reader.lane, address: Some(*address) });
        let mut which: Vec<LaneAddress> = which.collect();
        which.dedup_by_key(|access| access.lane);
        let instruction = &self.machine.program.instructions[write.pc as usize];
        let other = OtherAccess {
            writes: true,
            engine: Engine::Thread,
            at: self.machine.location(instruction, self.cluster.number, reader.warp, Some(write.agent.lane)),
        };
        let line = instruction.line;
        self.report_pair(FindingClass::Race, which, Some(other), || {
            format!(
                "a volatile read of shared memory that lane {} of the warp wrote in line {line} of the PTX: nothing orders the two, as \
                 lanes do not run in lockstep since sm_70; a bar.warp.sync (__syncwarp) has to lie in between",
                write.agent.lane
            )
        });
    }

    /// The engine that accesses `space` for the thread.
    fn engine(&self, space: Space, effect: Effect) -> Engine {
        match (self.instruction.semantics.engine, space, effect) {
            // Reads of a tensor map count as the thread's.
            (Engine::BulkReads, Space::Global, Effect::Read) => Engine::Thread,
            (Engine::BulkReads, Space::Global, _) => Engine::BulkWrites,
            (engine, ..) => engine,
        }
    }

    /// The earlier access with which an access to shared or global memory races.
    pub(super) fn race(
        &mut self,
        faults: &mut Faults,
        place: Place,
        data: &[u8],
        effect: Effect,
        shard: Option<&mut Shard>,
    ) -> Option<Conflict> {
        let Place { lane, space, address, .. } = place;
        let engine = self.engine(space, effect);
        let races = self.cluster.races.as_mut().filter(|_| matches!(space, Space::Shared | Space::Global))?;
        let semantics = self.instruction.semantics;
        let writes = effect != Effect::Read;
        let agent = Agent::new(self.warp.index, lane, engine);
        let unfinished = self.machine.unfinished.as_ref();
        let may_meet = || unfinished.is_none_or(|grids| grids.meets(address, data.len() as u64, writes));
        let meets_previous_grid = space == Space::Global && races.meets_previous_grid(agent) && may_meet();
        let (pc, is_tested) = (self.pc, self.instruction.is_tested && effect != Effect::Write);
        let conflict = races.access(&Access { agent, semantics, pc, space, address, data, writes, is_tested });
        // What an engine reads, its thread does not see.
        let observes = effect != Effect::Write && !engine.is_asynchronous();
        if let Some(shard) = shard {
            if observes {
                races.observe_others(agent, semantics, shard, address, effect == Effect::Update);
            }
            if writes {
                races.announce_to_others(agent, semantics, shard, address, effect == Effect::Update);
            }
        }
        if semantics.strength.is_strong() {
            if observes {
                races.observe(agent, semantics, space, address, effect == Effect::Update);
            }
            if writes {
                races.announce(agent, semantics, space, address, effect == Effect::Update);
            }
        }
        if meets_previous_grid {
            faults.add(FindingClass::PreviousGridNotWaited, lane, address, || {
                format!(
                    "{} global memory{}{} comes behind no griddepcontrol.wait: the grid before this one may still {} it",
                    effect.of(data.len()),
                    agent.engine.by(),
                    self.location(space, address, data.len()),
                    if writes { "use" } else { "write" },
                )
            });
        }
        // A write that conflicts with a known read in flight would only repeat that report.
        let is_known = |conflict: &Conflict| conflict.agent.engine.reads_shared() && faults.has_not_waited(lane);
        // CUDA's own headers assume lanes in lockstep.
        let is_of_system = space == Space::Shared && own_shared(address) < SYSTEM_SHARED_BYTES;
        conflict.filter(|conflict| !is_of_system && !is_known(conflict))
    }

    /// Describes the race of a thread's read, or of writes between lanes, and the other access.
    pub(super) fn describe_racing_read(&self, read: Read, conflict: Conflict) -> (String, Option<OtherAccess>) {
        let Read { pc, warp, lane, space, address, bytes, writes, .. } = read;
        let agent = Agent::new(warp, lane as usize, Engine::Thread);
        let effect = if writes { Effect::Write } else { Effect::Read };
        self.describe_race(pc, agent, space, address, bytes as usize, effect, conflict)
    }

    /// Adds a fault if an mbarrier is initialised or invalidated without order to its other uses.
    /// One lane of a warp may invalidate it for all (`ends`).
    pub fn check_mbarrier_races(&mut self, faults: &mut Faults, lane: usize, address: u64, writes: bool, ends: bool) {
        let Some(races) = &mut self.cluster.races else { return };
        let (space, semantics) = (Space::Shared, self.instruction.semantics);
        let agent = Agent::new(self.warp.index, lane, Engine::Thread);
        let data = &[0; MBARRIER_BYTES as usize];
        let (pc, is_tested) = (self.pc, false);
        let conflict = races.access(&Access { agent, semantics, pc, space, address, data, writes, is_tested });
        if let Some(conflict) = conflict.filter(|conflict| !ends || !races.is_after_warp_of(agent, conflict)) {
            let effect = match (semantics.strength, writes) {
                (_, false) => Effect::Read,
                (Strength::Weak, true) => Effect::Write,
                (_, true) => Effect::Update,
            };
            faults.add_pair(FindingClass::Race, lane, address, || {
                self.describe_race(self.pc, agent, space, address, data.len(), effect, conflict)
            });
        }
    }

    #[expect(clippy::too_many_arguments, reason = "an access has that many parts")]
    fn describe_race(
        &self,
        here: u32,
        agent: Agent,
        space: Space,
        address: u64,
        bytes: usize,
        effect: Effect,
        conflict: Conflict,
    ) -> (String, Option<OtherAccess>) {
        let Conflict { agent: other, pc, writes, .. } = conflict;
        let instruction = &self.machine.program.instructions[pc as usize];
        let cause = format!(
            "{} {space} memory{}{} races with the {}{} in line {} of the PTX by {}, lane {}: {}",
            effect.of(bytes),
            agent.engine.by(),
            self.location(space, address, bytes),
            if writes { "write" } else { "read" },
            other.engine.by(),
            instruction.line,
            self.name_of(agent.warp, other.warp),
            other.lane,
            self.describe_order((agent, here), effect, conflict)
        );
        let other = OtherAccess {
            writes,
            engine: other.engine,
            at: self.machine.location(instruction, self.cluster.number, other.warp, Some(other.lane)),
        };
        (cause, Some(other))
    }
}

impl Context<'_> {
    /// Describes which order exists between two racing accesses, and which is missing.
    fn describe_order(&self, (agent, here): (Agent, u32), effect: Effect, conflict: Conflict) -> String {
        if effect == Effect::Read && self.machine.program.instructions[here as usize].reads_texels {
            return "textures and surfaces do not see what the same grid writes, whether or not something orders the two: only \
                    what an earlier launch or copy wrote can be read"
                .to_owned();
        }
        let excuse = if conflict.is_excused { EXCUSE } else { "" };
        if conflict.kind == Kind::Volatile {
            return format!("nothing orders the two, {VOLATILE}{excuse}");
        }
        let missing = if self.is_swap_behind_plain_read(here, effect, conflict) {
            "and a plain read is no part of a compare-and-swap loop: although the swap checks it, the value the loop begins \
             with has to be read by a strong read (ld.relaxed, ld.volatile)"
        } else {
            match self.are_of_one_block(agent, conflict.agent) {
                true => missing_order(agent, conflict.agent),
                false => missing_order_of_blocks(agent, conflict.agent),
            }
        };
        format!("nothing orders the two, {missing}{excuse}")
    }

    /// Whether one of two accesses is a plain read and the other a compare-and-swap.
    fn is_swap_behind_plain_read(&self, here: u32, effect: Effect, conflict: Conflict) -> bool {
        let instructions = &self.machine.program.instructions;
        let (here, there) = (&instructions[here as usize], &instructions[conflict.pc as usize]);
        let is_plain = |instruction: &Instruction| instruction.semantics == Semantics::WEAK;
        match (effect, conflict.writes) {
            (Effect::Read, true) => is_plain(here) && there.is_compare_and_swap,
            (Effect::Update, false) => here.is_compare_and_swap && is_plain(there),
            _ => false,
        }
    }
}

impl Context<'_> {
    /// Whether two agents act for threads of the same block.
    fn are_of_one_block(&self, agent: Agent, other: Agent) -> bool {
        let of_block = self.machine.warps_of_block();
        agent.warp / of_block == other.warp / of_block
    }

    /// The name of a warp in a message about another one.
    pub(super) fn name_of(&self, speaker: u32, warp: u32) -> String {
        let (machine::Place { block: [x, y, z], rank, .. }, index) = self.machine.warp_place(self.cluster.number, warp);
        match rank == speaker / self.machine.warps_of_block() {
            true => format!("warp {index}"),
            false => format!("block ({x}, {y}, {z}), warp {index}"),
        }
    }
}

/// What would order two accesses if liberties were taken.
pub(crate) const EXCUSE: &str = "; without `strict`, the atomic operation or the barrier that follows the other thread's release \
                                 would count as the fence that acquires it";

/// Why volatile accesses race, and which do not.
pub(crate) const VOLATILE: &str = "and volatile makes them neither atomic nor ordered: it suits a word of one warp, and a flag that \
                                   its reader tests, with a fence in front of the store and one behind the test";

/// The missing synchronisation between racing accesses of different blocks of a cluster.
fn missing_order_of_blocks(agent: Agent, other: Agent) -> &'static str {
    match (agent.engine, other.engine) {
        (_, Engine::Copies | Engine::BulkReads) => {
            "whoever accesses what the copy does has to come after a wait for the mbarrier that says when it is done"
        }
        (_, Engine::Matrix) => {
            "the warpgroup has to wait for its wgmma before it lets other blocks overwrite what that reads"
        }
        (_, Engine::BulkWrites) => {
            "the thread that issued the copy has to wait for it (cp.async.bulk.wait_group; wait_group.read does not wait for \
             its writes), and then both blocks have to pass a barrier of the cluster"
        }
        _ => {
            "both blocks have to pass a barrier of the cluster in between, or an mbarrier at which the first one arrives and \
             for which the second one waits"
        }
    }
}

/// The missing synchronisation between two racing accesses.
fn missing_order(agent: Agent, other: Agent) -> &'static str {
    match (agent.engine, other.engine) {
        (_, Engine::Matrix) => {
            "the warpgroup has to wait for its wgmma before it lets others overwrite what that reads"
        }
        (_, Engine::BulkReads) => "the thread has to wait for its copy before it lets others overwrite what that reads",
        (_, Engine::BulkWrites) if (agent.warp, agent.lane) == (other.warp, other.lane) => {
            "the thread has to wait for its copy in between (cp.async.bulk.wait_group; wait_group.read does not wait for its \
             writes)"
        }
        (_, Engine::BulkWrites) => {
            "the thread that issued the copy has to wait for it (cp.async.bulk.wait_group; wait_group.read does not wait for \
             its writes), and then both have to pass a barrier"
        }
        (_, Engine::Copies) if (agent.warp, agent.lane) == (other.warp, other.lane) => {
            "the thread has to wait for its copy in between"
        }
        (_, Engine::Copies) => {
            "the thread that issued the copy has to wait for it, and then both have to pass a barrier"
        }
        (Engine::Copies | Engine::BulkReads | Engine::BulkWrites, Engine::Thread) => {
            "a barrier has to lie between the access and the issue of the copy"
        }
        _ if agent.warp == other.warp => "lanes of a warp are ordered by bar.warp.sync or a barrier only",
        _ => "both warps have to pass a barrier in between",
    }
}
