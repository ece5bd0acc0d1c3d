//! Number of blocks of a grid that share a multiprocessor.
//!
//! When launches overlap, a grid that leaves room is spread unevenly: blocks go to whichever multiprocessors the previous
//! launch has freed, as many as fit on each, and the launch takes as long as the fullest of them. Reserving unused shared
//! memory limits every multiprocessor to its share.

use crate::schedule::architecture::MOST_GENEROUS;
use crate::schedule::tile::{Configuration, Grid};

/// Shared memory that CUDA reserves in each block, bytes (CUDA C++ Programming Guide, "Compute Capabilities").
const OWN_BYTES: u32 = 1 << 10;
/// Allocation granularity of shared memory, bytes.
const UNIT: u32 = 128;

/// Dynamic shared memory per block with which a multiprocessor holds exactly `share` blocks.
const fn bytes_of_share(share: u32) -> u32 {
    let one_more = MOST_GENEROUS.shared_bytes_per_multiprocessor / (share + 1);
    one_more.saturating_sub(OWN_BYTES) / UNIT * UNIT + UNIT
}

impl Configuration {
    /// Dynamic shared memory that a launch of `blocks` blocks on `multiprocessors` requests: [`Self::shared_bytes`], or enough to
    /// spread a persistent grid evenly. Not for a share of one block: the next launch could not begin before this one ends.
    #[inline]
    pub const fn shared_bytes_of_launch(self, blocks: u32, multiprocessors: u32) -> u32 {
        let share = match multiprocessors {
            0 => return self.shared_bytes(),
            multiprocessors => blocks.div_ceil(multiprocessors),
        };
        let is_spread = matches!(self.grid(), Grid::Persistent) && share > 1 && share < self.min_blocks();
        let of_share = bytes_of_share(share);
        if is_spread && of_share > self.shared_bytes() { of_share } else { self.shared_bytes() }
    }

    /// Maximum that [`Self::shared_bytes_of_launch`] requests.
    #[inline]
    pub const fn most_shared_bytes(self) -> u32 {
        self.shared_bytes_of_launch(2, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::variants::VARIANTS;

    const MULTIPROCESSORS: u32 = 132;

    fn resident(bytes: u32) -> u32 {
        MOST_GENEROUS.shared_bytes_per_multiprocessor / (bytes + OWN_BYTES).next_multiple_of(UNIT)
    }

    #[test]
    fn a_multiprocessor_takes_its_share_and_no_more() {
        for variant in VARIANTS.iter().filter(|variant| variant.config.grid() == Grid::Persistent) {
            for blocks in MULTIPROCESSORS + 1..=MULTIPROCESSORS * variant.config.min_blocks() {
                let bytes = variant.config.shared_bytes_of_launch(blocks, MULTIPROCESSORS);
                let share = blocks.div_ceil(MULTIPROCESSORS);
                let most =
                    if share < variant.config.min_blocks() { share } else { resident(variant.config.shared_bytes()) };
                assert_eq!(resident(bytes), most, "{blocks} blocks of {}", variant.entry);
                assert!(bytes <= variant.config.most_shared_bytes(), "{blocks} blocks of {}", variant.entry);
            }
        }
    }

    #[test]
    fn what_has_one_block_a_multiprocessor_or_no_persistent_grid_asks_for_what_it_needs() {
        for variant in VARIANTS {
            let config = variant.config;
            assert_eq!(config.shared_bytes_of_launch(MULTIPROCESSORS, MULTIPROCESSORS), config.shared_bytes());
            if config.grid() != Grid::Persistent {
                assert_eq!(config.most_shared_bytes(), config.shared_bytes(), "{}", variant.entry);
            }
        }
    }
}
