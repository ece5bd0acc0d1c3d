//! The cost of an access: shared-memory wavefronts and global sectors.

use crate::counters::Counters;
use crate::lane_accesses::LaneAccesses;
use crate::lanes::{LANES, lanes};
use crate::parse::Space;

/// Bytes of a shared-memory wavefront: 32 banks of 4 bytes.
const WAVEFRONT_BYTES: usize = 128;
/// Bytes of a bank's word.
const BANK_BYTES: u64 = 4;
/// Banks of shared memory.
const BANKS: usize = 32;
/// Bytes of a global-memory sector.
const SECTOR_BYTES: u64 = 32;

/// Whether lanes read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// The addresses that an instruction accesses in shared and global memory, by lane.
pub(crate) struct Traffic {
    /// Bytes each lane accesses.
    bytes: usize,
    shared: [Option<u64>; LANES],
    global: [Option<u64>; LANES],
    local: bool,
}

impl Traffic {
    /// No accesses yet, of `bytes` bytes each.
    pub fn new(bytes: usize) -> Traffic {
        Traffic { bytes, shared: [None; LANES], global: [None; LANES], local: false }
    }

    /// Adds a lane's access.
    pub fn add(&mut self, lane: usize, space: Space, address: u64) {
        match space {
            Space::Shared => self.shared[lane] = Some(address),
            Space::Global | Space::Constant => self.global[lane] = Some(address),
            Space::Local => self.local = true,
            Space::Parameter => {}
        }
    }

    /// Adds the cost of the accesses to `counters`.
    pub fn count(&self, direction: Direction, counters: &mut Counters) {
        counters.local_memory_instructions += u64::from(self.local);
        if self.shared.iter().any(Option::is_some) {
            // The hardware serves at once as many lanes as fill a wavefront.
            for lanes in self.shared.chunks((WAVEFRONT_BYTES / self.bytes.max(4)).max(1)) {
                let wavefronts = wavefronts(lanes, self.bytes);
                counters.shared_wavefronts += wavefronts;
                counters.shared_bank_conflicts += wavefronts.saturating_sub(1);
            }
        }
        let global = self.global.iter().flatten();
        let bytes = global.clone().count() as u64 * self.bytes as u64;
        match direction {
            Direction::Read => counters.global_bytes_read += bytes,
            Direction::Write => counters.global_bytes_written += bytes,
        }
        counters.global_sectors += sectors(global.copied(), self.bytes as u64);
    }
}

/// Counts the accesses of a whole warp, `bytes` bytes per lane.
pub(super) fn count_lanes(
    space: Space,
    direction: Direction,
    accesses: &LaneAccesses,
    bytes: u64,
    counters: &mut Counters,
) {
    if !accesses.are_contiguous(bytes) {
        let mut traffic = Traffic::new(bytes as usize);
        lanes(accesses.active).for_each(|lane| traffic.add(lane, space, accesses.addresses[lane]));
        return traffic.count(direction, counters);
    }
    if space == Space::Shared {
        // No two words of a wavefront share a bank.
        counters.shared_wavefronts += accesses.span.div_ceil(WAVEFRONT_BYTES as u64);
        return;
    }
    match direction {
        Direction::Read => counters.global_bytes_read += accesses.span,
        Direction::Write => counters.global_bytes_written += accesses.span,
    }
    let (first, last) = (accesses.first / SECTOR_BYTES, (accesses.first + (accesses.span - 1)) / SECTOR_BYTES);
    counters.global_sectors += last - first + 1;
}

/// Number of passes in which every bank serves at most one word.
fn wavefronts(addresses: &[Option<u64>], bytes: usize) -> u64 {
    let words = |address: u64| address / BANK_BYTES..=address.saturating_add(bytes as u64 - 1) / BANK_BYTES;
    // Fast path: usually no bank has two words.
    let mut of_bank = [u64::MAX; BANKS];
    let is_alone = |word: u64| {
        let known = &mut of_bank[(word % BANKS as u64) as usize];
        let before = std::mem::replace(known, word);
        before == u64::MAX || before == word
    };
    if addresses.iter().flatten().copied().flat_map(words).all(is_alone) {
        return u64::from(addresses.iter().any(Option::is_some));
    }
    let mut words = [0_u64; 2 * BANKS];
    let mut count = 0;
    for address in addresses.iter().flatten() {
        let (first, last) = (address / BANK_BYTES, address.saturating_add(bytes as u64 - 1) / BANK_BYTES);
        for word in first..=last {
            if count < words.len() && !words[..count].contains(&word) {
                words[count] = word;
                count += 1;
            }
        }
    }
    let mut load = [0_u64; BANKS];
    for word in &words[..count] {
        load[(word % BANKS as u64) as usize] += 1;
    }
    load.into_iter().max().unwrap_or(0)
}

fn sectors(addresses: impl Iterator<Item = u64>, bytes: u64) -> u64 {
    let mut sectors = [0_u64; 2 * LANES];
    let mut count = 0;
    for address in addresses {
        for sector in [address / SECTOR_BYTES, address.saturating_add(bytes - 1) / SECTOR_BYTES] {
            if count == 0 || sectors[count - 1] != sector {
                sectors[count] = sector;
                count += 1;
            }
        }
    }
    let sectors = &mut sectors[..count];
    sectors.sort_unstable();
    sectors.chunk_by(|a, b| a == b).count() as u64
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const BYTES: [u64; 6] = [1, 2, 4, 8, 16, 32];

    #[test]
    fn accesses_together_count_as_lane_by_lane() {
        for bytes in BYTES {
            for (first, step) in [(0, 1), (5, 1), (3, 2), (7, 0), (0, 33)] {
                let addresses = std::array::from_fn(|lane| 4096 + bytes * (first + step * lane as u64));
                for (space, active) in
                    [(Space::Shared, u32::MAX), (Space::Global, u32::MAX), (Space::Global, 0x00ff_f00f)]
                {
                    let accesses = LaneAccesses::new(active, addresses, bytes).expect("aligned addresses");
                    let mut one_by_one = Traffic::new(bytes as usize);
                    lanes(active).for_each(|lane| one_by_one.add(lane, space, addresses[lane]));
                    for direction in [Direction::Read, Direction::Write] {
                        let (mut together, mut expected) = (Counters::default(), Counters::default());
                        count_lanes(space, direction, &accesses, bytes, &mut together);
                        one_by_one.count(direction, &mut expected);
                        assert_eq!(together, expected, "{bytes} bytes, {first}, {step}, {space}, {active:#x}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_wavefront_takes_one_word_of_each_bank() {
        for bytes in BYTES {
            for step in [0, 1, 3, 8, 31, 32, 64] {
                let addresses: Vec<u64> =
                    (0..32 / bytes.div_ceil(4)).map(|lane| bytes * ((lane * step) % 96)).collect();
                let words = addresses.iter().flat_map(|address| address / 4..=(address + bytes - 1) / 4);
                let words: HashSet<u64> = words.collect();
                let of_bank = |bank: u64| words.iter().filter(|word| *word % 32 == bank).count() as u64;
                let expected = (0..32).map(of_bank).max().expect("a bank");
                let addresses: Vec<Option<u64>> = addresses.into_iter().map(Some).collect();
                assert_eq!(wavefronts(&addresses, bytes as usize), expected, "{bytes} bytes, {step}");
            }
        }
    }
}
