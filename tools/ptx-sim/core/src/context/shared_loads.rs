//! Checks of copies by the async proxy against earlier loads from shared memory, which they may overtake.

use super::races::Effect;
use super::view::Context;
use crate::finding::{FindingClass, LaneAddress, OtherAccess};
use crate::lanes::{LANES, lanes};
use crate::machine::SharedLoad;
use crate::memory::resolve;
use crate::parse::Space;
use crate::program::Address;
use crate::race::{Agent, Engine};

impl Context<'_> {
    /// Notes a load of `bytes` bytes by each lane in `reading`, if it may read shared memory.
    pub fn note_load(&mut self, space: Option<Space>, address: Address, bytes: usize, mut reading: u32) {
        if !self.cluster.loads.is_watching() || !matches!(space, None | Some(Space::Shared)) {
            return;
        }
        let mut addresses = [0; LANES];
        for lane in lanes(reading) {
            let address = self.address(address, lane);
            let (space, address) = space.map_or_else(|| resolve(address), |space| (space, address));
            match u32::try_from(address) {
                Ok(address) if space == Space::Shared => addresses[lane] = address,
                _ => reading &= !(1 << lane),
            }
        }
        if reading != 0 {
            let (warp, pc, lanes, bytes) = (self.warp.index, self.pc, self.active, bytes as u32);
            let load = SharedLoad { warp, pc, lanes, reading, addresses, bytes, time: self.time_of_warp() };
            self.cluster.loads.begin(load, &self.instruction.writes);
        }
    }

    /// The warp's time, as the detection of races counts it.
    fn time_of_warp(&self) -> u32 {
        self.race_time(Agent::new(self.warp.index, 0, Engine::Thread))
    }

    /// Notes which loaded values the instruction uses, unless it only `moves` them. Reports their loads if copies may have
    /// overtaken them.
    pub fn use_loads(&mut self, moves: bool) {
        let here = (self.warp.index, self.active, self.time_of_warp());
        for (load, copier, pc) in self.cluster.loads.execute(here, self.instruction, moves) {
            self.report_overtaken(&load, copier, pc);
        }
    }

    /// `fence.proxy.async`, as far as loads are concerned.
    pub fn fence_loads(&mut self) {
        let here = (self.warp.index, self.active, self.time_of_warp());
        if let Some(races) = &self.cluster.races {
            self.cluster.loads.fence(here, races);
        }
    }

    /// Reports loads of bytes that a lane's copy overwrites if it may overtake them. A load whose value is not used yet is
    /// reported when it is.
    pub(super) fn check_loads(&mut self, lane: usize, address: u64, bytes: usize) {
        let Some(races) = &self.cluster.races else { return };
        let copier = Agent::new(self.warp.index, lane, Engine::Thread);
        for load in self.cluster.loads.overwrite((address, bytes), (copier, self.pc), races) {
            self.report_overtaken(&load, copier, self.pc);
        }
    }

    fn report_overtaken(&mut self, load: &SharedLoad, copier: Agent, pc: u32) {
        let instructions = &self.machine.program.instructions;
        let (instruction, copy) = (&instructions[load.pc as usize], &instructions[pc as usize]);
        let of_lane = |lane: usize| LaneAddress { lane: lane as u32, address: Some(load.addresses[lane].into()) };
        let which: Vec<LaneAddress> = lanes(load.reading).map(of_lane).collect();
        let other = OtherAccess {
            writes: true,
            engine: Engine::Copies,
            at: self.machine.location(copy, self.cluster.number, copier.warp, Some(copier.lane)),
        };
        let (first, bytes) = (load.addresses[load.reading.trailing_zeros() as usize % LANES], load.bytes as usize);
        let message = format!(
            "{} shared memory{} may come after the write by an asynchronous copy in line {} of the PTX by {}, lane {}: a barrier \
             orders the two only if the read is complete when its thread arrives there, and neither a use of the value nor a \
             fence.proxy.async before says so",
            Effect::Read.of(bytes),
            self.location(Space::Shared, first.into(), bytes),
            copy.line,
            self.name_of(load.warp, copier.warp),
            copier.lane,
        );
        self.report_of((instruction, load.warp), FindingClass::MissingProxyFence, which, Some(other), || message);
    }
}
