//! Tile configurations: the work of one thread block. There is a type for each kind of kernels, with the options that it has,
//! and gates that decide before compilation whether a configuration can work.
//!
//! What a kind supports in one form only is not a field, so that an unsupported configuration cannot be written. Kernels with
//! tensor maps may have a persistent grid:
//!
//! ```
//! use contract::tile::{Grid, Sm90Tma};
//! let tile = Sm90Tma { grid: Grid::Persistent, ..Sm90Tma::new(2, 8) };
//! ```
//!
//! In the sm_80 family each block computes a single item:
//!
//! ```compile_fail,E0560
//! use contract::tile::{Grid, Sm80};
//! let tile = Sm80 { grid: Grid::Persistent, ..Sm80::new(128, 64, 4, 2) };
//! ```

mod block;
mod options;
mod rejection;
pub mod sm80;
pub mod sm90_tma;
#[cfg(feature = "manifest")]
mod written;

use crate::schedule::architecture::{ARCHITECTURES, ArchitectureLimits};
use crate::spec::config::{Family, Sequence, WARPGROUP_WARPS};
use block::Block;

pub use options::{BiasTiles, Epilogue, Grid, Keys, Overlap, Rescale};
pub use rejection::Rejection;
pub use sm80::Sm80;
pub use sm90_tma::Sm90Tma;
#[cfg(feature = "manifest")]
pub use written::{Unreadable, Written};

/// Kinds of kernels: those of one family and one way of loading, whose configurations have the same fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Kind {
    /// [`Sm80`].
    Sm80,
    /// [`Sm90Tma`].
    Sm90Tma,
}

impl Kind {
    /// All kinds, the newest first.
    pub const ALL: [Self; 2] = [Kind::Sm90Tma, Kind::Sm80];

    /// The family.
    pub const fn family(self) -> Family {
        match self {
            Kind::Sm80 => Family::Sm80,
            Kind::Sm90Tma => Family::Sm90a,
        }
    }

    /// The name in files.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Sm80 => "sm80",
            Kind::Sm90Tma => "sm90_tma",
        }
    }
}

/// The tile configuration of a kernel. In files, a flat object: `kind`, then the fields of that kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(tag = "kind", rename_all = "snake_case", try_from = "Written"))]
pub enum Configuration {
    /// `cp.async`, `ldmatrix`, `mma.sync`.
    Sm80(Sm80),
    /// `cp.async.bulk.tensor`, `wgmma`.
    Sm90Tma(Sm90Tma),
}

/// Evaluates the same expression for the configuration of any kind.
macro_rules! of_every_kind {
    ($configuration:expr, $tile:ident => $value:expr) => {
        match $configuration {
            Configuration::Sm80($tile) => $value,
            Configuration::Sm90Tma($tile) => $value,
        }
    };
}

impl Configuration {
    /// The kind.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Sm80(_) => Kind::Sm80,
            Self::Sm90Tma(_) => Kind::Sm90Tma,
        }
    }

    /// The family.
    pub const fn family(self) -> Family {
        self.kind().family()
    }

    /// Query rows of one work item.
    pub const fn block_m(self) -> u32 {
        match self {
            Self::Sm80(tile) => tile.block_m,
            Self::Sm90Tma(tile) => tile.block_m(),
        }
    }

    /// Keys per step of the K/V loop.
    pub const fn block_n(self) -> u32 {
        match self {
            Self::Sm80(tile) => tile.block_n,
            Self::Sm90Tma(_) => Sm90Tma::BLOCK_N,
        }
    }

    /// Groups of warps that share the keys of a step.
    pub const fn key_groups(self) -> u32 {
        match self {
            Self::Sm80(tile) => tile.key_groups,
            Self::Sm90Tma(_) => 1,
        }
    }

    /// Warps of a block that compute (not the producer's).
    pub const fn warps(self) -> u32 {
        match self {
            Self::Sm80(tile) => tile.warps,
            Self::Sm90Tma(tile) => tile.warpgroups.saturating_mul(WARPGROUP_WARPS),
        }
    }

    /// Number of K/V stages in shared memory.
    pub const fn stages(self) -> u32 {
        of_every_kind!(self, tile => tile.stages)
    }

    /// Blocks that must fit on a multiprocessor (`.minnctapersm`).
    pub const fn min_blocks(self) -> u32 {
        of_every_kind!(self, tile => tile.min_blocks)
    }

    /// Columns of the tiles of Q, K, V and O, at least D.
    pub const fn columns(self) -> u32 {
        of_every_kind!(self, tile => tile.columns())
    }

    /// Threads of a block.
    pub const fn threads(self) -> u32 {
        of_every_kind!(self, tile => tile.threads())
    }

    /// Dynamic shared memory of a block in bytes.
    pub const fn shared_bytes(self) -> u32 {
        of_every_kind!(self, tile => tile.shared_bytes())
    }

    /// How work items are spread over blocks.
    pub const fn grid(self) -> Grid {
        match self {
            Self::Sm80(_) => Grid::OneShot,
            Self::Sm90Tma(tile) => tile.grid,
        }
    }

    /// Whether the kernel loads and stores through tensor maps, which are its second argument.
    pub const fn uses_tensor_maps(self) -> bool {
        matches!(self, Self::Sm90Tma(_))
    }

    /// Whether a work item is a whole head, whose K and V stay in shared memory.
    pub const fn holds_whole_heads(self) -> bool {
        match self {
            Self::Sm80(_) => false,
            Self::Sm90Tma(tile) => tile.holds_whole_heads(),
        }
    }

    /// Mbarriers of a block.
    pub const fn mbarriers(self) -> u32 {
        match self {
            Self::Sm80(_) => 0,
            Self::Sm90Tma(tile) => tile.mbarriers(),
        }
    }

    /// Whether a block has tiles in shared memory for a bias.
    pub const fn has_bias_tiles(self) -> bool {
        matches!(self, Self::Sm90Tma(Sm90Tma { bias_tiles: BiasTiles::OnePerWarpgroup, .. }))
    }

    /// What the softmax of a warpgroup overlaps with; without a choice, the products of other warpgroups.
    pub const fn overlap(self) -> Overlap {
        match self {
            Self::Sm80(_) => Overlap::BetweenWarpgroups,
            Self::Sm90Tma(tile) => tile.overlap,
        }
    }

    /// Whether blocks leave [parts](crate::schedule::parts) of an item if the launch says so.
    pub const fn leaves_parts(self) -> bool {
        match self {
            Self::Sm80(tile) => matches!(tile.keys, Keys::InParts),
            Self::Sm90Tma(_) => false,
        }
    }

    /// The same without [parts](crate::schedule::parts): kernels with equal ones take equally long where items are computed whole.
    pub const fn of_whole_items(self) -> Self {
        match self {
            Self::Sm80(tile) => Self::Sm80(Sm80 { keys: Keys::Whole, ..tile }),
            other => other,
        }
    }

    /// Blocks that fit on a multiprocessor if a thread uses `registers`. The configuration must pass its gate.
    #[inline]
    pub const fn blocks_per_multiprocessor(self, registers: u32, limits: ArchitectureLimits) -> u32 {
        let block: Block = of_every_kind!(self, tile => tile.block());
        block.per_multiprocessor(registers, limits)
    }

    /// The part of the gate that does not depend on the sequence.
    ///
    /// # Errors
    /// Why it cannot work.
    #[inline]
    pub const fn check_tile(self, limits: ArchitectureLimits) -> Result<(), Rejection> {
        of_every_kind!(self, tile => tile.check_tile(limits))
    }

    /// The gate: checks the configuration of a kernel for `sequence` on an architecture. Called by the tuner and by the variant
    /// list's const assertion.
    ///
    /// # Errors
    /// Why it cannot work.
    #[inline]
    pub const fn check(self, sequence: Sequence, limits: ArchitectureLimits) -> Result<(), Rejection> {
        of_every_kind!(self, tile => tile.check(sequence, limits))
    }

    /// The gate on every architecture in [`ARCHITECTURES`] that the family runs on.
    ///
    /// # Errors
    /// Why it cannot work.
    pub const fn check_everywhere(self, sequence: Sequence) -> Result<(), Rejection> {
        let mut index = 0;
        while index < ARCHITECTURES.len() {
            let limits = ARCHITECTURES[index];
            if self.family().runs_on(limits.architecture) {
                if let Err(rejection) = self.check(sequence, limits) {
                    return Err(rejection);
                }
            }
            index += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn occupancy_is_the_scarcest_resource() {
        let tile = Configuration::Sm80(Sm80::new(64, 64, 4, 2));
        let blocks = |registers, index: usize| tile.blocks_per_multiprocessor(registers, ARCHITECTURES[index]);
        assert_eq!(blocks(168, 0), 3, "168 registers leave room for 3 blocks");
        assert_eq!(blocks(64, 0), 4, "41 KiB of shared memory leave room for 4 of 164");
        assert_eq!(blocks(64, 1), 2, "and for 2 of 100");
    }

    #[test]
    fn what_a_kind_has_in_one_form_only_is_told_by_methods() {
        for tile in [Configuration::Sm80(Sm80::new(128, 64, 4, 2)), Configuration::Sm90Tma(Sm90Tma::new(2, 4))] {
            assert_eq!((tile.block_m(), tile.block_n(), tile.grid()), (128, 64, Grid::OneShot), "{tile:?}");
            assert_eq!(tile.warps(), if tile.kind() == Kind::Sm80 { 4 } else { 8 }, "{tile:?}");
            assert_eq!(tile.uses_tensor_maps(), tile.mbarriers() > 0, "{tile:?}");
            assert!(!tile.holds_whole_heads(), "{tile:?}");
        }
        let persistent = Sm90Tma { grid: Grid::Persistent, passes: 2, ..Sm90Tma::new(2, 4) };
        let persistent = Configuration::Sm90Tma(persistent);
        assert_eq!((persistent.grid(), persistent.holds_whole_heads()), (Grid::Persistent, true));
    }
}
