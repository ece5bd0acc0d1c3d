//! Plain accesses of a warp, processed line by line instead of lane by lane.

use super::agent::{Agent, Semantics};
use super::cluster::Races;
use super::line::{LINE_BYTES, LINE_CELLS, Whole};
use super::shadow::{CELL_BYTES, Record};
use crate::lane_accesses::LaneAccesses;
use crate::lanes::LANES;
use crate::parse::Space;

/// A plain access of the lanes of a warp, as input of the race detection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WarpAccess<'a, const BYTES: usize> {
    pub warp: u32,
    /// Index of the instruction.
    pub pc: u32,
    pub space: Space,
    pub lanes: &'a LaneAccesses,
    /// The written values; empty for a read.
    pub written: Option<&'a [[u8; BYTES]; LANES]>,
}

/// A line that consecutive lanes access, each cell once.
struct Run {
    address: u64,
    lanes: [u32; LINE_CELLS],
    values: [u32; LINE_CELLS],
}

impl<const BYTES: usize> WarpAccess<'_, BYTES> {
    /// Number of lanes that access a line.
    const LANES_OF_LINE: usize = match (LINE_BYTES as usize).checked_div(BYTES) {
        Some(lanes) => lanes,
        None => 0,
    };

    /// The line that the lanes from `first` on access, if each cell is accessed by exactly one lane.
    fn run(&self, first: usize) -> Option<Run> {
        if !(CELL_BYTES as usize..=LINE_BYTES as usize).contains(&BYTES) {
            return None;
        }
        let addresses = self.lanes.addresses.get(first..first + Self::LANES_OF_LINE)?;
        let here = (u32::MAX >> (LANES - Self::LANES_OF_LINE)) << first;
        if self.lanes.active & here != here {
            return None;
        }
        let address = addresses[0] - addresses[0] % LINE_BYTES;
        let (mut lanes, mut values) = ([0; LINE_CELLS], [0; LINE_CELLS]);
        for (lane, one) in (first..).zip(addresses) {
            if one.wrapping_sub(address) >= LINE_BYTES {
                return None;
            }
            let cells = BYTES / CELL_BYTES as usize;
            let start = (one % LINE_BYTES / CELL_BYTES) as usize;
            lanes[start..start + cells].iter_mut().for_each(|lanes| *lanes |= 1 << lane);
            if let Some(data) = self.written {
                let words = data[lane].as_chunks().0.iter().map(|word| u32::from_le_bytes(*word));
                values[start..start + cells].iter_mut().zip(words).for_each(|(value, word)| *value = word);
            }
        }
        // With as many lanes as cells, all cells are filled only if no two lanes share one.
        lanes.iter().all(|lanes| *lanes != 0).then_some(Run { address, lanes, values })
    }
}

impl Races {
    /// Adds the accesses of `lane` and of the following lanes if they cover one line without conflicts; returns their
    /// number. 0, with nothing changed, if the lane must be processed alone.
    pub fn access_together<const BYTES: usize>(&mut self, access: &WarpAccess<'_, BYTES>, lane: usize) -> usize {
        let Some(Run { address, lanes, values }) = access.run(lane) else { return 0 };
        let agent = Agent::new(access.warp, lane, Semantics::WEAK.engine);
        let line = match access.space {
            Space::Shared => self.shape.shared_line(address).and_then(|index| self.shared.get_mut(index)),
            _ => Some(self.global.line_mut(address)),
        };
        let Some(line) = line else { return 0 };
        let record = Record {
            group: self.clocks.group(agent) as u16,
            bytes: 0,
            writes: access.written.is_some(),
            is_tested: false,
            strength: Semantics::WEAK.strength,
            lanes: 0,
            time: self.clocks.now(agent),
            pc: access.pc,
            foreign: 0,
            value: 0,
        };
        let is_done = line.access_together(&self.clocks, agent, Whole::by_lanes(record, values, lanes));
        if is_done { WarpAccess::<BYTES>::LANES_OF_LINE } else { 0 }
    }

    /// Whether a warp's accesses to a space can conflict with more than the accesses of its own cluster.
    pub fn concerns_others(&self, warp: u32, space: Space) -> bool {
        space == Space::Global && (self.overlaps_previous || self.clocks.knows_of_others(warp))
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::ChaCha8Rng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::lanes::lanes;
    use crate::memory::SYSTEM_SHARED_BYTES;
    use crate::race::{Access, Conflict, Shape, Strength};

    const WARPS: u32 = 3;
    /// Accessed bytes of shared memory and of global memory.
    const BYTES_IN_USE: u64 = 160;

    fn races() -> Races {
        let bytes = (SYSTEM_SHARED_BYTES + BYTES_IN_USE) as usize;
        Races::new(Shape { blocks: 1, warps: WARPS as usize, barriers: 1, shared_bytes: bytes }, false, false)
    }

    /// The complete history of each cell, and the cluster's accesses to global memory.
    fn remembered(races: &mut Races) -> Vec<Vec<Record>> {
        let shared = races.shared.iter().flat_map(|line| line.cells());
        let mut all: Vec<Vec<Record>> = shared.map(|cell| cell.to_vec()).collect();
        all.push(races.take_trace().accesses.into_iter().map(|(_, record)| record).collect());
        all
    }

    /// Adds the access of lane `lane` alone; returns its conflict.
    fn access<const BYTES: usize>(races: &mut Races, access: &WarpAccess<'_, BYTES>, lane: usize) -> Option<Conflict> {
        let data = access.written.map_or([0; BYTES], |data| data[lane]);
        races.access(&Access {
            agent: Agent::new(access.warp, lane, Semantics::WEAK.engine),
            semantics: Semantics::WEAK,
            pc: access.pc,
            space: access.space,
            address: access.lanes.addresses[lane],
            data: &data,
            writes: access.written.is_some(),
            is_tested: false,
        })
    }

    /// The same plain access, processed by lines where possible and lane by lane; returns the number of lanes processed
    /// by lines.
    fn both<const BYTES: usize>(random: &mut ChaCha8Rng, pc: u32, [fast, slow]: &mut [Races; 2]) -> usize {
        let space = if random.random() { Space::Shared } else { Space::Global };
        let base = if space == Space::Shared { SYSTEM_SHARED_BYTES } else { 1 << 33 };
        let places = BYTES_IN_USE / BYTES as u64;
        let (first, flip) = (random.random_range(0..places), random.random_range(0..4));
        let is_regular = random.random_bool(0.8);
        let place = |lane: u64| (first + (lane ^ flip)) % places;
        let addresses = std::array::from_fn(|lane| {
            base + BYTES as u64 * if is_regular { place(lane as u64) } else { random.random_range(0..places) }
        });
        let active = if random.random() { u32::MAX } else { random.random_range(1..=u32::MAX) };
        let lanes_of_access = LaneAccesses::new(active, addresses, BYTES as u64).expect("aligned addresses");
        // Few distinct values, so that different lanes often write the same.
        let data = std::array::from_fn(|_| [random.random_range(0..2); BYTES]);
        let written = random.random::<bool>().then_some(&data);
        let warp = random.random_range(0..WARPS);
        let one = WarpAccess { warp, pc, space, lanes: &lanes_of_access, written };
        let (mut lane, mut together) = (0, 0);
        let mut met = Vec::new();
        while lane < LANES {
            let done = fast.access_together(&one, lane);
            if done == 0 && active >> lane & 1 == 1 {
                met.extend(access(fast, &one, lane).map(|conflict| (lane, conflict)));
            }
            together += done;
            lane += done.max(1);
        }
        let expected = lanes(active).filter_map(|lane| Some((lane, access(slow, &one, lane)?)));
        assert_eq!(met, expected.collect::<Vec<_>>(), "{one:?}");
        together
    }

    /// Operations that order lanes or warps, or accesses that split lines.
    fn event(random: &mut ChaCha8Rng, phase: &mut u64, races: &mut [Races; 2]) {
        let (warp, active) = (random.random_range(0..WARPS), random.random_range(1..=u32::MAX));
        let (what, lane, offset) =
            (random.random_range(0..8), random.random_range(0..LANES), random.random_range(0..64));
        for races in races {
            match what {
                0..3 => {
                    (0..WARPS).for_each(|warp| races.arrive(0, *phase, warp, u32::MAX, true));
                    (0..WARPS).for_each(|warp| races.pass(0, *phase, warp, u32::MAX));
                }
                3..6 => races.synchronise_warp(warp, active),
                6 => races.synchronise_warp(warp, u32::MAX),
                _ => {
                    let semantics = Semantics { strength: Strength::Volatile, ..Semantics::WEAK };
                    let agent = Agent::new(warp, lane, semantics.engine);
                    let address = SYSTEM_SHARED_BYTES + offset;
                    let (space, pc, writes, data) = (Space::Shared, 0, offset % 2 == 0, &[1_u8; 2][..]);
                    let is_tested = offset % 3 == 0;
                    races.access(&Access { agent, semantics, pc, space, address, data, writes, is_tested });
                }
            }
        }
        *phase += 1;
    }

    #[test]
    fn lines_looked_at_together_remember_and_meet_what_lane_by_lane_they_do() {
        let mut together = 0;
        for seed in 0..400 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let mut races = [races(), races()];
            let mut phase = 0;
            for pc in 0..30 {
                together += match random.random_range(0..4) {
                    0 => both::<8>(&mut random, pc % 7, &mut races),
                    1 => both::<16>(&mut random, pc % 7, &mut races),
                    _ => both::<4>(&mut random, pc % 7, &mut races),
                };
                if random.random() {
                    event(&mut random, &mut phase, &mut races);
                }
            }
            let [fast, slow] = &mut races;
            for (cell, (fast, slow)) in remembered(fast).into_iter().zip(remembered(slow)).enumerate() {
                assert_eq!(fast, slow, "seed {seed}, cell {cell}");
            }
        }
        assert!(together > 10_000, "{together} lanes together");
    }
}
