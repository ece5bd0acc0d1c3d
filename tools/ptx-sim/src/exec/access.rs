//! Every access to memory that an instruction makes, and every check of one.

use super::Context;
use super::mbarriers::{MBARRIER_BYTES, Mbarrier};
use crate::finding::{FindingClass, LaneAddress, OtherAccess};
use crate::memory::{OutOfBounds, resolve};
use crate::parse::Space;
use crate::race::{Access, Agent, Conflict, Engine, Strength};

/// What is wrong with the accesses of one instruction, gathered over its lanes.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    kinds: Vec<Fault>,
}

#[derive(Debug)]
struct Fault {
    class: FindingClass,
    /// Describes the first lane's access; `{}`-free text.
    cause: String,
    which: Vec<LaneAddress>,
    /// The other access of a race.
    other: Option<OtherAccess>,
}

impl Faults {
    /// Whether the lane's access was found to meet something asynchronous that was not waited for.
    fn has_not_waited(&self, lane: usize) -> bool {
        let not_waited = self.kinds.iter().filter(|fault| fault.class == FindingClass::AsyncCopyNotWaited);
        not_waited.flat_map(|fault| &fault.which).any(|access| access.lane == lane as u32)
    }

    #[cold]
    pub fn add(&mut self, class: FindingClass, lane: usize, address: u64, cause: impl FnOnce() -> String) {
        self.add_pair(class, lane, address, || (cause(), None));
    }

    #[cold]
    fn add_pair(
        &mut self,
        class: FindingClass,
        lane: usize,
        address: u64,
        describe: impl FnOnce() -> (String, Option<OtherAccess>),
    ) {
        let access = LaneAddress { lane: lane as u32, address: Some(address) };
        match self.kinds.iter_mut().find(|fault| fault.class == class) {
            // An instruction may access several places in one lane, of which the first is enough.
            Some(fault) if fault.which.iter().any(|known| known.lane == access.lane) => {}
            Some(fault) => fault.which.push(access),
            None => {
                let (cause, other) = describe();
                self.kinds.push(Fault { class, cause, which: vec![access], other });
            }
        }
    }
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Read,
    Write,
    /// Both, as one atomic operation.
    Update,
}

impl Effect {
    /// What it is, before the name of the memory.
    fn of(self) -> &'static str {
        match self {
            Effect::Read => "read of",
            Effect::Write => "write to",
            Effect::Update => "atomic operation on",
        }
    }
}

/// `lane 1 at 0x82, lane 2 at 0x104, …`
fn addresses(which: &[LaneAddress]) -> String {
    const SHOWN: usize = 4;
    let shown = which.iter().take(SHOWN).map(|access| match access.address {
        Some(address) => format!("lane {} at {address:#x}", access.lane),
        None => format!("lane {}", access.lane),
    });
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if which.len() > SHOWN {
        text.push_str(&format!(" and {} more lanes", which.len() - SHOWN));
    }
    text
}

impl Context<'_> {
    /// Reports what was gathered.
    pub fn report_faults(&mut self, faults: Faults) {
        for Fault { class, cause, which, other } in faults.kinds {
            let list = addresses(&which);
            self.report_pair(class, which, other, || format!("{cause}: {list}"));
        }
    }

    /// The space and the address there; `None` stands for a generic address.
    fn place(space: Option<Space>, address: u64) -> (Space, u64) {
        space.map_or_else(|| resolve(address), |space| (space, address))
    }

    /// Whether `address` is a multiple of `alignment`; a fault otherwise.
    pub fn check_alignment(
        &self,
        faults: &mut Faults,
        lane: usize,
        space: Space,
        address: u64,
        alignment: u64,
        what: impl FnOnce() -> String,
    ) -> bool {
        let aligned = address.is_multiple_of(alignment);
        if !aligned {
            let cause = || {
                let location = self.location(space, address, 1);
                format!("{} in {space} memory needs an address that is a multiple of {alignment}{location}", what())
            };
            faults.add(FindingClass::Misaligned, lane, address, cause);
        }
        aligned
    }

    /// Whether an ordinary access may be where it is: aligned, and away from mbarriers; a fault otherwise.
    fn check_place(
        &self,
        faults: &mut Faults,
        lane: usize,
        space: Space,
        (address, alignment): (u64, u64),
        bytes: usize,
        what: impl Fn() -> String,
    ) -> bool {
        if !self.check_alignment(faults, lane, space, address, alignment, &what) {
            return false;
        }
        let found = match space {
            Space::Shared => self.block.mbarriers.overlapping(address, bytes),
            _ => None,
        };
        if let Some(mbarrier) = found {
            let cause = || format!("{} touches the mbarrier at {mbarrier:#x}, which only mbarrier may access", what());
            faults.add(FindingClass::MbarrierMisuse, lane, address, cause);
        }
        found.is_none()
    }

    /// A fault when a write changes what a bulk copy, not yet waited for, reads.
    fn check_bulk_reads(
        &self,
        faults: &mut Faults,
        lane: usize,
        address: u64,
        bytes: usize,
        what: impl Fn() -> String,
    ) {
        if let Some(read) = self.block.bulk_reads.overlapping(address, bytes) {
            let line = self.machine.program.instructions[read.pc as usize].line;
            let cause = || {
                format!(
                    "{} changes what the {} has not waited for",
                    what(),
                    match read.reader {
                        Agent { warp, engine: Engine::Matrix, .. } =>
                            format!("wgmma in line {line} reads, which warp {warp}"),
                        Agent { warp, lane, .. } =>
                            format!("bulk copy in line {line} reads, which warp {warp} lane {lane}"),
                    }
                )
            };
            faults.add(FindingClass::AsyncCopyNotWaited, lane, address, cause);
        }
    }

    /// A fault when the async proxy reads or overwrites what an ordinary write, without a fence, wrote; `does` says
    /// which.
    pub fn check_proxy(&mut self, faults: &mut Faults, lane: usize, address: u64, bytes: usize, does: &str) {
        if let Some(warp) = self.block.proxies.unfenced(address, bytes) {
            let cause = || {
                let variable = self.variable(Space::Shared, address);
                format!(
                    "shared memory that ordinary instructions of warp {warp} wrote is {does} by the async proxy without a \
                     fence.proxy.async in between{variable}"
                )
            };
            faults.add(FindingClass::MissingProxyFence, lane, address, cause);
        }
    }

    /// A fault when the async proxy counts at an mbarrier that it may not see.
    pub fn check_mbarrier_proxy(&self, faults: &mut Faults, lane: usize, mbarrier: u64) {
        if let Some(warp) = self.block.mbarriers.get(mbarrier).and_then(Mbarrier::unfenced) {
            let cause = || {
                let variable = self.variable(Space::Shared, mbarrier);
                format!(
                    "the async proxy counts bytes at the mbarrier{variable}, which warp {warp} initialised, without a \
                     fence.mbarrier_init or fence.proxy.async in between"
                )
            };
            faults.add(FindingClass::MissingProxyFence, lane, mbarrier, cause);
        }
    }

    /// Reads `data.len()` bytes, which have to be naturally aligned. A faulty access reads zeros. Returns the space.
    pub fn load(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Option<Space>,
        address: u64,
        data: &mut [u8],
    ) -> Space {
        let (space, address) = Self::place(space, address);
        let alignment = data.len() as u64;
        self.load_aligned(faults, lane, space, address, alignment, data);
        space
    }

    /// Reads `data.len()` bytes with a given alignment.
    pub fn load_aligned(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Space,
        address: u64,
        alignment: u64,
        data: &mut [u8],
    ) {
        if self.load_bytes(faults, lane, space, address, alignment, data) {
            self.check_races(faults, lane, space, address, data, Effect::Read);
        }
    }

    /// Reads without a check for races; whether there are such bytes, none of which a copy in flight will write.
    fn load_bytes(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Space,
        address: u64,
        alignment: u64,
        data: &mut [u8],
    ) -> bool {
        let bytes = data.len();
        if !self.check_place(faults, lane, space, (address, alignment), bytes, || read_of(bytes)) {
            data.fill(0);
            return false;
        }
        let state = match space {
            Space::Global | Space::Constant => {
                self.machine.memory.load(address, data).map(|initialised| (!initialised, false))
            }
            Space::Parameter => self.machine.parameters.load(address, data).map(|()| (false, false)),
            Space::Shared => self.block.shared.load(address, data).map(|state| (state.uninitialised, state.in_flight)),
            Space::Local => match self.warp.local.get(lane) {
                Some(local) => local.load(address, data).map(|state| (state.uninitialised, false)),
                None => Err(OutOfBounds("the entry has no local memory".to_owned())),
            },
        };
        match state {
            Err(OutOfBounds(location)) => {
                data.fill(0);
                let variable = self.variable(space, address);
                let cause = || format!("{} from {space} memory out of bounds, {location}{variable}", read_of(bytes));
                faults.add(FindingClass::OutOfBounds, lane, address, cause);
                false
            }
            Ok((_, true)) => {
                let what = read_of(bytes);
                let cause =
                    || format!("{what} of {space} memory that an asynchronous copy, not yet waited for, will write");
                faults.add(FindingClass::AsyncCopyNotWaited, lane, address, cause);
                false
            }
            Ok((uninitialised, false)) => {
                if uninitialised {
                    let cause = || {
                        let location = self.location(space, address, bytes);
                        format!("{} of {space} memory that was never written{location}", read_of(bytes))
                    };
                    faults.add(FindingClass::Uninitialised, lane, address, cause);
                }
                true
            }
        }
    }

    /// Whether `bytes` bytes of memory lie at `address` and are aligned; a fault otherwise. Nothing is read.
    pub fn check_reachable(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Option<Space>,
        address: u64,
        (bytes, alignment): (usize, u64),
        what: impl Fn() -> String,
    ) {
        let (space, address) = Self::place(space, address);
        if !self.check_alignment(faults, lane, space, address, alignment, &what) {
            return;
        }
        let mut data = vec![0; bytes];
        let found = match space {
            Space::Global | Space::Constant => self.machine.memory.load(address, &mut data).map(drop),
            Space::Parameter => self.machine.parameters.load(address, &mut data),
            Space::Shared | Space::Local => Err(OutOfBounds("where none can be".to_owned())),
        };
        if let Err(OutOfBounds(location)) = found {
            let cause = || format!("{} in {space} memory out of bounds, {location}", what());
            faults.add(FindingClass::OutOfBounds, lane, address, cause);
        }
    }

    /// Where an address lies, for messages.
    fn location(&self, space: Space, address: u64, bytes: usize) -> String {
        match space {
            Space::Global | Space::Constant => format!(", {}", self.machine.memory.describe(address, bytes as u64)),
            Space::Parameter => format!(", {}", self.machine.parameters.describe(address, bytes as u64)),
            Space::Shared | Space::Local => self.variable(space, address),
        }
    }

    /// The shared variable at or below an address, for messages.
    pub fn variable(&self, space: Space, address: u64) -> String {
        let names = &self.machine.program.layout.shared_names;
        let below = names.iter().filter(|(_, first)| space == Space::Shared && *first <= address);
        let nearest = below.max_by_key(|(_, first)| *first);
        nearest.map_or(String::new(), |(name, first)| format!(", offset {} of `{name}`", address - first))
    }

    /// Writes `data`, which has to be naturally aligned. A faulty access writes nothing. Returns the space.
    pub fn store(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Option<Space>,
        address: u64,
        data: &[u8],
    ) -> Space {
        let (space, address) = Self::place(space, address);
        let alignment = data.len() as u64;
        self.store_aligned(faults, lane, space, address, alignment, data);
        space
    }

    /// Writes `data` with a given alignment.
    pub fn store_aligned(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Space,
        address: u64,
        alignment: u64,
        data: &[u8],
    ) {
        if self.store_bytes(faults, lane, space, address, alignment, data) {
            self.check_races(faults, lane, space, address, data, Effect::Write);
        }
    }

    /// Writes without a check for races; whether there are such bytes, none of which a copy in flight will write.
    fn store_bytes(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Space,
        address: u64,
        alignment: u64,
        data: &[u8],
    ) -> bool {
        let what = || format!("a {}-byte write", data.len());
        if !self.check_place(faults, lane, space, (address, alignment), data.len(), what) {
            return false;
        }
        let result = match space {
            Space::Global => self.machine.memory.store(address, data).map(|()| false),
            Space::Shared => {
                self.check_bulk_reads(faults, lane, address, data.len(), what);
                let result = self.block.shared.store(address, data);
                if result.is_ok() {
                    self.block.ordinary_write(self.warp.index, address, data.len());
                }
                result
            }
            Space::Local => match self.warp.local.get_mut(lane) {
                Some(local) => local.store(address, data),
                None => Err(OutOfBounds("the entry has no local memory".to_owned())),
            },
            Space::Parameter | Space::Constant => {
                let cause = || {
                    let location = self.location(space, address, data.len());
                    format!("{} to {space} memory, which can only be read{location}", what())
                };
                faults.add(FindingClass::OutOfBounds, lane, address, cause);
                return false;
            }
        };
        match result {
            Err(OutOfBounds(location)) => {
                let variable = self.variable(space, address);
                let cause = || format!("{} to {space} memory out of bounds, {location}{variable}", what());
                faults.add(FindingClass::OutOfBounds, lane, address, cause);
                false
            }
            Ok(true) => {
                let cause = || {
                    format!("{} to {space} memory that an asynchronous copy, not yet waited for, will write", what())
                };
                faults.add(FindingClass::AsyncCopyNotWaited, lane, address, cause);
                false
            }
            Ok(false) => true,
        }
    }

    /// Replaces a naturally aligned value by `update` of it as one atomic operation; the old value and the space. A
    /// faulty access changes nothing and gives 0.
    pub fn update(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Option<Space>,
        address: u64,
        bytes: usize,
        update: &dyn Fn(u64) -> u64,
    ) -> (u64, Space) {
        let (space, address) = Self::place(space, address);
        if space != Space::Global {
            let mut data = [0; 8];
            let mut is_right = self.load_bytes(faults, lane, space, address, bytes as u64, &mut data[..bytes]);
            let old = u64::from_le_bytes(data);
            if faults.kinds.is_empty() {
                let new = update(old).to_le_bytes();
                is_right &= self.store_bytes(faults, lane, space, address, bytes as u64, &new[..bytes]);
            }
            if is_right {
                self.check_races(faults, lane, space, address, &data[..bytes], Effect::Update);
            }
            return (old, space);
        }
        let what = || format!("a {bytes}-byte atomic operation");
        if !self.check_alignment(faults, lane, space, address, bytes as u64, what) {
            return (0, space);
        }
        match self.machine.memory.update(address, bytes as u32, update) {
            Err(OutOfBounds(location)) => {
                let cause = || format!("{} on {space} memory out of bounds, {location}", what());
                faults.add(FindingClass::OutOfBounds, lane, address, cause);
                (0, space)
            }
            Ok((old, initialised)) => {
                if !initialised {
                    let location = self.location(space, address, bytes);
                    let cause = || format!("{} on {space} memory that was never written{location}", what());
                    faults.add(FindingClass::Uninitialised, lane, address, cause);
                }
                self.check_races(faults, lane, space, address, &old.to_le_bytes()[..bytes], Effect::Update);
                (old, space)
            }
        }
    }

    /// Checks whether an access to shared or global memory races with an earlier one.
    fn check_races(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        space: Space,
        address: u64,
        data: &[u8],
        effect: Effect,
    ) {
        let Some(races) = self.block.races.as_mut().filter(|_| matches!(space, Space::Shared | Space::Global)) else {
            return;
        };
        let semantics = self.instruction.operation.semantics();
        let writes = effect != Effect::Read;
        let engine = match (semantics.engine, space) {
            // What a bulk copy writes to global memory is taken as the thread's.
            (Engine::BulkReads, Space::Global) => Engine::Thread,
            (engine, _) => engine,
        };
        let agent = Agent::new(self.warp.index, lane, engine);
        let meets_previous_grid = space == Space::Global && races.meets_previous_grid(agent);
        let conflict = races.access(&Access { agent, semantics, pc: self.pc, space, address, data, writes });
        if semantics.strength == Strength::Strong {
            if effect != Effect::Write {
                races.observe(agent, semantics, space, address);
            }
            if writes {
                races.announce(agent, semantics, space, address, effect == Effect::Update);
            }
        }
        if meets_previous_grid {
            faults.add(FindingClass::PreviousGridNotWaited, lane, address, || {
                format!(
                    "a {}-byte {} global memory{}{} comes behind no griddepcontrol.wait: the grid before this one may still \
                     {} it",
                    data.len(),
                    effect.of(),
                    agent.engine.by(),
                    self.location(space, address, data.len()),
                    if writes { "use" } else { "write" },
                )
            });
        }
        // Where a write meets a read in flight that was found before, to say so again would not help.
        let is_known = |conflict: &Conflict| conflict.agent.engine.reads_shared() && faults.has_not_waited(lane);
        if let Some(conflict) = conflict.filter(|conflict| !is_known(conflict)) {
            faults.add_pair(FindingClass::Race, lane, address, || {
                self.describe_race(agent, space, address, data.len(), effect, conflict)
            });
        }
    }

    /// A fault when an mbarrier begins or ends without order to its other uses.
    pub fn check_mbarrier_races(&mut self, faults: &mut Faults, lane: usize, address: u64, writes: bool) {
        let Some(races) = &mut self.block.races else { return };
        let (space, semantics) = (Space::Shared, self.instruction.operation.semantics());
        let agent = Agent::new(self.warp.index, lane, Engine::Thread);
        let data = &[0; MBARRIER_BYTES as usize];
        if let Some(conflict) = races.access(&Access { agent, semantics, pc: self.pc, space, address, data, writes }) {
            let effect = match (semantics.strength, writes) {
                (_, false) => Effect::Read,
                (Strength::Weak, true) => Effect::Write,
                (Strength::Strong, true) => Effect::Update,
            };
            faults.add_pair(FindingClass::Race, lane, address, || {
                self.describe_race(agent, space, address, data.len(), effect, conflict)
            });
        }
    }

    fn describe_race(
        &self,
        agent: Agent,
        space: Space,
        address: u64,
        bytes: usize,
        effect: Effect,
        conflict: Conflict,
    ) -> (String, Option<OtherAccess>) {
        let Conflict { agent: other, pc, writes } = conflict;
        let instruction = &self.machine.program.instructions[pc as usize];
        let cause = format!(
            "a {bytes}-byte {} {space} memory{}{} races with the {}{} in line {} by warp {}, lane {}: nothing \
             orders the two, {}",
            effect.of(),
            agent.engine.by(),
            self.location(space, address, bytes),
            if writes { "write" } else { "read" },
            other.engine.by(),
            instruction.line,
            other.warp,
            other.lane,
            missing_order(agent, other)
        );
        let other = OtherAccess {
            writes,
            engine: other.engine,
            at: self.machine.location(instruction, self.block.position, other.warp, Some(other.lane)),
        };
        (cause, Some(other))
    }

    /// Begins an asynchronous copy of `bytes` bytes to shared memory; false when it cannot be done.
    pub fn begin_copy(
        &mut self,
        faults: &mut Faults,
        lane: usize,
        (address, alignment): (u64, u64),
        bytes: usize,
        what: impl Fn() -> String,
    ) -> bool {
        if !self.check_place(faults, lane, Space::Shared, (address, alignment), bytes, &what) {
            return false;
        }
        self.check_bulk_reads(faults, lane, address, bytes, &what);
        match self.block.shared.begin_copy(address, bytes) {
            Ok(false) => {
                // What is written is not known yet; no write of the same value is forgiven to a copy.
                self.check_races(faults, lane, Space::Shared, address, &vec![0; bytes], Effect::Write);
                true
            }
            Ok(true) => {
                let cause = || format!("{} overlaps that of another copy not yet waited for", what());
                faults.add(FindingClass::AsyncCopyNotWaited, lane, address, cause);
                true
            }
            Err(OutOfBounds(location)) => {
                let variable = self.variable(Space::Shared, address);
                let cause = || format!("{} in shared memory is out of bounds, {location}{variable}", what());
                faults.add(FindingClass::OutOfBounds, lane, address, cause);
                false
            }
        }
    }
}

/// What has to lie between two accesses that race.
fn missing_order(agent: Agent, other: Agent) -> &'static str {
    match (agent.engine, other.engine) {
        (_, Engine::Matrix) => {
            "the warpgroup has to wait for its wgmma before it lets others overwrite what that reads"
        }
        (_, Engine::BulkReads) => "the thread has to wait for its copy before it lets others overwrite what that reads",
        (_, Engine::Copies) if (agent.warp, agent.lane) == (other.warp, other.lane) => {
            "the thread has to wait for its copy in between"
        }
        (_, Engine::Copies) => {
            "the thread that issued the copy has to wait for it, and then both have to pass a barrier"
        }
        (Engine::Copies | Engine::BulkReads, Engine::Thread) => {
            "a barrier has to lie between the access and the issue of the copy"
        }
        _ if agent.warp == other.warp => "lanes of a warp are ordered by bar.warp.sync or a barrier only",
        _ => "both warps have to pass a barrier in between",
    }
}

fn read_of(bytes: usize) -> String {
    format!("a {bytes}-byte read")
}
