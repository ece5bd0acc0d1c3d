//! Plain loads and stores of a whole warp at once, as a fast path: all checks are made on the union of the lanes'
//! accesses. If anything but a race may be wrong, the access is left to the lane-by-lane path.

use super::faults::Faults;
use super::place::Place;
use super::races::Effect;
use super::traffic::{Direction, count_lanes};
use super::view::Context;
use crate::cluster_addresses::shared_rank;
use crate::lane_accesses::LaneAccesses;
use crate::lanes::LANES;
use crate::memory::resolve;
use crate::parse::Space;
use crate::program::Address;
use crate::race::{Semantics, WarpAccess};
use crate::unknown::UnknownBytes;

/// The result of a warp's load.
pub(crate) struct Loaded<const BYTES: usize> {
    /// Data by lane; arbitrary for inactive lanes.
    pub data: [[u8; BYTES]; LANES],
    /// The undetermined bytes of some lanes.
    pub unknown: Vec<(usize, Box<UnknownBytes>)>,
}

impl Context<'_> {
    /// Loads `BYTES` bytes in each active lane; `None`, without effect, if it has to be done lane by lane.
    pub fn load_together<const BYTES: usize>(
        &mut self,
        space: Option<Space>,
        address: Address,
    ) -> Option<Loaded<BYTES>> {
        let (space, accesses) = self.accesses_together(space, address, BYTES)?;
        let mut data = match space {
            Space::Global | Space::Constant => self.machine.memory.load_lanes::<BYTES>(&accesses)?,
            Space::Shared => self.cluster.shared.load_lanes::<BYTES>(&accesses)?,
            Space::Local | Space::Parameter => return None,
        };
        count_lanes(space, Direction::Read, &accesses, BYTES as u64, &mut self.cluster.counters);
        let mut unknown = Vec::new();
        let mut faults = Faults::default();
        self.watch_together::<BYTES>(space, &accesses, None, |context, place| {
            let data = &mut data[place.lane];
            if let Some(conflict) = context.race(&mut faults, place, data, Effect::Read, None)
                && let Some(doubt) = context.unknown_of_load(place, data, false, Some(conflict))
            {
                unknown.push((place.lane, doubt));
            }
        });
        self.report_faults(faults);
        Some(Loaded { data, unknown })
    }

    /// Stores the determined values of each active lane; false, without effect, if it has to be done lane by lane.
    pub fn store_together<const BYTES: usize>(
        &mut self,
        space: Option<Space>,
        address: Address,
        data: &[[u8; BYTES]; LANES],
    ) -> bool {
        let Some((space, accesses)) = self.accesses_together(space, address, BYTES) else { return false };
        let is_stored = match space {
            Space::Global => self.machine.memory.store_lanes(&accesses, data),
            Space::Shared => {
                let is_read = self.cluster.bulk_reads.overlapping(accesses.first, accesses.span as usize).is_some();
                !is_read && self.cluster.shared.store_lanes(&accesses, data)
            }
            Space::Local | Space::Parameter | Space::Constant => false,
        };
        if !is_stored {
            return false;
        }
        match space {
            Space::Shared => self.cluster.ordinary_writes(self.warp.index, &accesses, BYTES),
            _ => self.cluster.global_writes += u64::from(accesses.active.count_ones()),
        }
        count_lanes(space, Direction::Write, &accesses, BYTES as u64, &mut self.cluster.counters);
        let mut faults = Faults::default();
        self.watch_together(space, &accesses, Some(data), |context, place| {
            context.check_races(&mut faults, place, &data[place.lane], Effect::Write, None);
        });
        self.report_faults(faults);
        true
    }

    /// The space and offsets of the active lanes' accesses of `bytes` bytes each, if they are all in one space,
    /// aligned, in the own block, outside of mbarriers, and without memory ordering.
    fn accesses_together(&self, space: Option<Space>, address: Address, bytes: usize) -> Option<(Space, LaneAccesses)> {
        if self.instruction.semantics != Semantics::WEAK {
            return None;
        }
        let mut addresses = self.warp.registers.values[address.base as usize];
        addresses.iter_mut().for_each(|base| *base = base.wrapping_add_signed(address.offset));
        let accesses = LaneAccesses::new(self.active, addresses, bytes as u64)?;
        let last = accesses.first + (accesses.span - 1);
        let (space, accesses) = match space {
            Some(space) => (space, accesses),
            None => {
                let ((space, first), (other, _)) = (resolve(accesses.first), resolve(last));
                (space == other).then(|| (space, accesses.lower(accesses.first - first)))?
            }
        };
        if space == Space::Shared {
            let (first, last) = (accesses.first, accesses.first + (accesses.span - 1));
            let is_near = self.cluster.blocks == 1
                || [first, last].iter().all(|address| shared_rank(*address) == u64::from(self.warp.rank));
            let is_free = self.cluster.mbarriers.overlapping(first, accesses.span as usize).is_none();
            return (is_near && is_free).then_some((space, accesses));
        }
        Some((space, accesses))
    }

    /// Checks all lanes for races, if race checks are on: a line of memory at a time; if that finds anything, lane by
    /// lane with `look`.
    fn watch_together<const BYTES: usize>(
        &mut self,
        space: Space,
        accesses: &LaneAccesses,
        written: Option<&[[u8; BYTES]; LANES]>,
        mut look: impl FnMut(&mut Self, Place),
    ) {
        let Some(races) = &self.cluster.races else { return };
        if !matches!(space, Space::Shared | Space::Global) {
            return;
        }
        let is_simple = !races.concerns_others(self.warp.index, space);
        let access = WarpAccess { warp: self.warp.index, pc: self.pc, space, lanes: accesses, written };
        let mut lane = 0;
        while lane < LANES {
            let races = self.cluster.races.as_mut().filter(|_| is_simple);
            let done = races.map_or(0, |races| races.access_together(&access, lane));
            if done == 0 && accesses.active >> lane & 1 == 1 {
                let address = accesses.addresses[lane];
                look(self, Place { lane, space, address, alignment: BYTES as u64, is_texel: false });
            }
            lane += done.max(1);
        }
    }
}
