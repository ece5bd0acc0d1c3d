//! Accesses of a warp's lanes in one memory, performed together.

use crate::lanes::{LANES, lanes};

/// The addresses of a warp's accesses of equal, naturally aligned size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneAccesses {
    /// Lanes that access memory; at least one.
    pub active: u32,
    /// Addresses by lane; inactive lanes have the address of an active one.
    pub addresses: [u64; LANES],
    /// The lowest address.
    pub first: u64,
    /// Bytes from there to the end of the highest access.
    pub span: u64,
}

impl LaneAccesses {
    /// Accesses of `bytes` bytes, a power of two; `None` if an address is misaligned or beyond the address space.
    pub fn new(active: u32, mut addresses: [u64; LANES], bytes: u64) -> Option<LaneAccesses> {
        if active != u32::MAX {
            let first = addresses[(active.trailing_zeros() as usize).min(LANES - 1)];
            lanes(!active).for_each(|lane| addresses[lane] = first);
        }
        let bits = addresses.iter().fold(0, |bits, address| bits | address);
        let first = addresses.iter().fold(u64::MAX, |first, address| first.min(*address));
        let last = addresses.iter().fold(0, |last, address| last.max(*address));
        let span = (last - first).checked_add(bytes).filter(|span| first.checked_add(*span).is_some())?;
        (bits & (bytes - 1) == 0).then_some(LaneAccesses { active, addresses, first, span })
    }

    /// The same accesses at addresses lower by `distance`.
    pub fn lower(mut self, distance: u64) -> LaneAccesses {
        self.first -= distance;
        self.addresses.iter_mut().for_each(|address| *address -= distance);
        self
    }

    /// Whether each lane's access directly follows that of the previous lane.
    pub fn are_contiguous(&self, bytes: u64) -> bool {
        let expected = (0..LANES as u64).map(|lane| self.first + lane * bytes);
        self.active == u32::MAX && self.addresses.iter().zip(expected).all(|(one, other)| *one == other)
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::ChaCha8Rng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::memory::{Bytes, GlobalMemory};

    /// Bytes of the memories that are compared.
    const SIZE: u64 = 512;

    fn random_accesses<const BYTES: usize>(
        random: &mut ChaCha8Rng,
        start: u64,
    ) -> (LaneAccesses, [[u8; BYTES]; LANES]) {
        let places = SIZE / BYTES as u64;
        let (first, is_regular) = (random.random_range(0..places), random.random());
        let addresses = std::array::from_fn(|lane| {
            let place = if is_regular { first + lane as u64 } else { random.random_range(0..places) };
            start + BYTES as u64 * (place % places)
        });
        let active = if random.random() { u32::MAX } else { random.random_range(1..=u32::MAX) };
        let accesses = LaneAccesses::new(active, addresses, BYTES as u64).expect("aligned addresses");
        (accesses, std::array::from_fn(|_| [random.random(); BYTES]))
    }

    /// What the lanes read one by one; `None` if `load` finds uninitialised bytes.
    fn one_by_one<const BYTES: usize>(
        accesses: &LaneAccesses,
        load: impl Fn(u64, &mut [u8]) -> bool,
    ) -> Option<[[u8; BYTES]; LANES]> {
        let mut all = [[0; BYTES]; LANES];
        let is_written = |(data, address): (&mut [u8; BYTES], &u64)| load(*address, data);
        all.iter_mut().zip(&accesses.addresses).map(is_written).fold(true, |all, one| all & one).then_some(all)
    }

    fn compare<const BYTES: usize>(seed: u64) -> usize {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut global: [GlobalMemory; 2] = std::array::from_fn(|_| GlobalMemory::new());
        let [start, _] = global.each_mut().map(|memory| memory.allocate("memory", SIZE).expect("memory"));
        let mut bytes: [Bytes; 2] = std::array::from_fn(|_| Bytes::new(start, SIZE as usize));
        let mut loaded = 0;
        for _ in 0..40 {
            let (accesses, data) = random_accesses::<BYTES>(&mut random, start);
            let ([fast, slow], [fast_bytes, slow_bytes]) = (&global, &mut bytes);
            if random.random() {
                assert!(fast.store_lanes(&accesses, &data) && fast_bytes.store_lanes(&accesses, &data));
                for lane in lanes(accesses.active) {
                    slow.store(accesses.addresses[lane], &data[lane]).expect("inside");
                    slow_bytes.store(accesses.addresses[lane], &data[lane]).expect("inside");
                }
            }
            let found = fast.load_lanes::<BYTES>(&accesses);
            assert_eq!(found, one_by_one(&accesses, |address, data| slow.load(address, data).expect("inside")));
            assert_eq!(
                fast_bytes.load_lanes::<BYTES>(&accesses),
                one_by_one(&accesses, |address, data| !slow_bytes.load(address, data).expect("inside").uninitialised)
            );
            loaded += usize::from(found.is_some());
        }
        loaded
    }

    #[test]
    fn lanes_together_read_and_write_what_they_do_one_by_one() {
        let loaded = (0..50).map(|seed| {
            [compare::<1>(seed), compare::<2>(seed), compare::<4>(seed), compare::<8>(seed), compare::<16>(seed)]
        });
        let loaded = loaded.fold([0; 5], |all, one| std::array::from_fn(|index| all[index] + one[index]));
        assert!(loaded.iter().all(|count| *count > 100), "{loaded:?}");
    }

    #[test]
    fn copies_in_flight_and_ends_are_left_to_one_by_one() {
        let mut bytes = Bytes::new(64, 128);
        let at = |first: u64| LaneAccesses::new(u32::MAX, [first; LANES], 4).expect("aligned");
        assert!(bytes.store_lanes(&at(64), &[[1; 4]; LANES]) && bytes.load_lanes::<4>(&at(64)).is_some());
        assert!(!bytes.store_lanes(&at(60), &[[1; 4]; LANES]) && !bytes.store_lanes(&at(192), &[[1; 4]; LANES]));
        bytes.begin_copy(66, 1).expect("inside");
        assert!(!bytes.store_lanes(&at(64), &[[1; 4]; LANES]) && bytes.load_lanes::<4>(&at(64)).is_none());
        let mut memory = GlobalMemory::new();
        let address = memory.allocate("memory", 6).expect("memory");
        assert!(memory.store_lanes(&at(address), &[[1; 4]; LANES]));
        assert!(!memory.store_lanes(&at(address + 4), &[[1; 4]; LANES]), "past the end");
        memory.free(address).expect("a buffer");
        assert!(memory.load_lanes::<4>(&at(address)).is_none(), "freed");
    }

    #[test]
    fn lanes_that_are_not_active_do_not_count() {
        let addresses = std::array::from_fn(|lane| if lane == 3 { 1 } else { 0x1000 + 8 * lane as u64 });
        assert!(LaneAccesses::new(u32::MAX, addresses, 8).is_none(), "one is not aligned");
        let accesses = LaneAccesses::new(!(1 << 3), addresses, 8).expect("aligned");
        assert_eq!((accesses.first, accesses.span, accesses.addresses[3]), (0x1000, 256, 0x1000));
        assert!(!accesses.are_contiguous(8));
        assert!(LaneAccesses::new(1, [u64::MAX - 7; LANES], 8).is_none(), "the end of all memory");
        let all = LaneAccesses::new(u32::MAX, std::array::from_fn(|lane| 8 * lane as u64), 8).expect("aligned");
        assert!(all.are_contiguous(8) && !all.are_contiguous(4));
    }
}
