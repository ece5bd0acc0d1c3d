//! The specialisation of a kernel, as one type per entry; all functions of the kernels are generic over it.

use crate::device::mask::Mask;
use crate::device::ptx::element::Element;
use crate::device::scores::ScoreMod;
use crate::device::sequence::Sequence;
use crate::device::tile::head_dim::HeadDim;
#[cfg(feature = "sm_80")]
use crate::shared_tile::SharedTile;

/// Everything known about an entry at compile time that is independent of its family. The families extend it by their tiles:
/// `forward::sm80::Sm80Kernel` and `tma::kernel::TmaKernel`.
pub trait Kernel: Copy + 'static {
    /// Element type of Q, K, V and O, and of P in the PV product.
    type Element: Element;
    /// The columns of its tiles.
    type HeadDim: HeadDim;
    /// The lengths of the sequences.
    type Sequence: Sequence;
    /// Which keys a row attends to.
    type Mask: Mask;
    /// The score modifications.
    type ScoreMod: ScoreMod;

    /// Whether kernels for sm_90a guess the shift of a row from its first scores. Not where it may not attend to those, where scores are
    /// changed, at 96 columns, where it costs more than it gains (docs/results/ladder.md), and at more than 128, where P of a row's only
    /// key is 1 and O exact.
    #[cfg(any(feature = "sm_90a", not(target_arch = "nvptx64")))]
    const GUESSES_SHIFTS: bool = !Self::Mask::HAS_BEGIN
        && !Self::ScoreMod::MODIFIES
        && Self::HeadDim::COLUMNS != 96
        && Self::HeadDim::COLUMNS <= 128;
}

/// Unnormalised O of a strip of 16 rows.
pub type OutputStrip<K> = <<K as Kernel>::HeadDim as HeadDim>::Output;

/// Unnormalised O of one warp, or a gradient: 8-column tiles, for each strip of 16 rows.
#[cfg(feature = "sm_80")]
pub type Output<K, const M_TILES: usize> = [OutputStrip<K>; M_TILES];

/// A gradient of one warp of a pair: half of the columns, 32 of each 64, for each strip of 16 rows.
#[cfg(feature = "sm_80")]
pub type HalfOutput<K, const M_TILES: usize> = [<<K as Kernel>::HeadDim as HeadDim>::HalfOutput; M_TILES];

/// A tile of `ROWS` whole rows of a head in shared memory.
#[cfg(feature = "sm_80")]
pub type Tile<K, const ROWS: u32> = SharedTile<<K as Kernel>::Element, ROWS, <<K as Kernel>::HeadDim as HeadDim>::Row>;
