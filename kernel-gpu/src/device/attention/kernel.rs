//! What a kernel is made for, as one type: every entry has one, and each function of the kernels is generic over it.

use super::head_dim::HeadDim;
use super::mask::Mask;
use super::score_mod::ScoreMod;
use super::sequence::Sequence;
use crate::device::ptx::element::Element;

/// All that is known of an entry when it is compiled, whatever its family. The families add their tiles to it:
/// `sm80::Sm80Kernel`, `sm90::CpAsyncKernel` and `sm90::tma::TmaKernel`.
pub trait Kernel: Copy + 'static {
    /// Element of Q, K, V and O, and of P where it is multiplied with V.
    type Element: Element;
    /// The columns of its tiles.
    type HeadDim: HeadDim;
    /// The lengths of the sequences.
    type Sequence: Sequence;
    /// Which keys a row attends to.
    type Mask: Mask;
    /// What is done to scores before their softmax.
    type ScoreMod: ScoreMod;

    /// As a power of two, how large the probabilities under a shift may grow before it is chosen anew; 0 for not beyond the
    /// maximum of their row ([`contract::tile::Rescale`]).
    const RESCALE_THRESHOLD: u32;
    /// Whether O is stored from registers and does not go through shared memory ([`contract::tile::Epilogue`]).
    const EXCHANGE: bool;
}
