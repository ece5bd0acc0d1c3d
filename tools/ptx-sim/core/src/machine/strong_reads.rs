//! What the lanes of a warp last read by instructions that may spin. A read that returns what it returned before may belong to
//! a loop that waits.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Reads that are remembered at most; more are not polled in one loop.
const MOST: usize = 4096;

/// The last reads of a warp.
#[derive(Default)]
pub(crate) struct StrongReads {
    /// The value, by instruction and lane, and by address.
    values: HashMap<(u64, u64), u64, BuildHasherDefault<Mixed>>,
}

impl StrongReads {
    /// Forgets all reads.
    pub fn clear(&mut self) {
        self.values.clear();
    }

    /// Records a read of a lane by the instruction at `pc`; whether it returned the same as the last time.
    pub fn note(&mut self, pc: u32, lane: usize, address: u64, value: u64) -> bool {
        if self.values.len() == MOST {
            self.values.clear();
        }
        self.values.insert((u64::from(pc) << 8 | lane as u64, address), value) == Some(value)
    }
}

/// A hash of a few integers.
#[derive(Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_that_polls_several_words_repeats_its_reads() {
        let mut reads = StrongReads::default();
        let mut round = |value: u64| (0..8).filter(|index| reads.note(7 + *index as u32, 3, 64 * index, value)).count();
        assert_eq!([round(0), round(1), round(1)], [0, 0, 8]);
        reads.clear();
        assert!(!reads.note(7, 3, 0, 1));
    }
}
