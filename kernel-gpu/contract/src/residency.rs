//! How many blocks of a grid share a multiprocessor.
//!
//! Where launches overlap, a grid that leaves places free is spread unevenly: blocks go to whichever multiprocessors the launch
//! before has left, as many as fit on each, and the launch takes as long as the fullest of them. Shared memory that nobody uses
//! keeps every multiprocessor to its share.

use crate::architecture::MOST_GENEROUS;
use crate::tile::{Configuration, Grid};

/// Bytes of shared memory that CUDA takes for itself in each block (CUDA C++ Programming Guide, "Compute Capabilities").
const OWN_BYTES: u32 = 1 << 10;
/// Multiples of which shared memory is allocated.
const UNIT: u32 = 128;

/// Dynamic shared memory of a block with which a multiprocessor takes `share` blocks and no more.
const fn bytes_of_share(share: u32) -> u32 {
    let one_more = MOST_GENEROUS.shared_bytes_per_multiprocessor / (share + 1);
    one_more.saturating_sub(OWN_BYTES) / UNIT * UNIT + UNIT
}

impl Configuration {
    /// Dynamic shared memory that a launch of `blocks` blocks on `multiprocessors` asks for: [`Self::shared_bytes`], or as much as
    /// keeps a persistent grid to even shares. A share of one is not kept to: the next launch could not begin before this one ends.
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

    /// Most that [`Self::shared_bytes_of_launch`] asks for.
    #[inline]
    pub const fn most_shared_bytes(self) -> u32 {
        self.shared_bytes_of_launch(2, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variants::VARIANTS;

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
