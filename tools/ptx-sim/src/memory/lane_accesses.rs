//! Accesses of the lanes of a warp that lie in one memory and are done together.

use crate::lanes::{LANES, lanes};

/// Where the lanes of a warp access memory, each as many bytes, which are aligned by their number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneAccesses {
    /// Lanes that access memory; at least one.
    pub active: u32,
    /// By lane; lanes that are not active have the address of one that is.
    pub addresses: [u64; LANES],
    /// The least address.
    pub first: u64,
    /// Bytes from there to the end of the last one.
    pub span: u64,
}

impl LaneAccesses {
    /// Of `bytes` bytes, a power of two; `None` when an address is not aligned, or the last one is beyond all memory.
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

    /// The same that far lower.
    pub fn lower(mut self, distance: u64) -> LaneAccesses {
        self.first -= distance;
        self.addresses.iter_mut().for_each(|address| *address -= distance);
        self
    }

    /// Whether every lane accesses the bytes behind those of the lane before it.
    pub fn are_contiguous(&self, bytes: u64) -> bool {
        let expected = (0..LANES as u64).map(|lane| self.first + lane * bytes);
        self.active == u32::MAX && self.addresses.iter().zip(expected).all(|(one, other)| *one == other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
