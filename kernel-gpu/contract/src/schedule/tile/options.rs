//! Options of tile configurations.

/// How work items are spread over thread blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Grid {
    /// One block per work item.
    OneShot,
    /// As many blocks as are resident on the device at once; each computes several items in turn.
    Persistent,
    /// A cluster of blocks per work item, which split its keys ([`crate::schedule::split_keys`]).
    SplitKeys,
}

/// Which keys of a work item a block attends to, in the sm_80 family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Keys {
    /// All of them.
    #[default]
    Whole,
    /// If the launch says so, one of several [parts](crate::schedule::parts).
    InParts,
}

/// How O gets from accumulators to global memory, in the sm_80 family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Epilogue {
    /// Through shared memory, which makes rows contiguous, then by 16-byte stores.
    SharedMemory,
    /// By 16-byte stores from registers, after the lanes that hold parts of the same 16 bytes have exchanged them.
    Exchange,
}

/// What the softmax of a warpgroup overlaps with on the tensor cores, in kernels with a producer ("inter-warpgroup" and
/// "intra-warpgroup" overlap; Shah et al., arXiv 2407.08608, section 3). Each level adds to the previous one and needs more registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Overlap {
    /// The products of other warpgroups.
    #[default]
    BetweenWarpgroups,
    /// Also its own PV product of the previous step in the strip.
    WithinStrip,
    /// Also the PV product of the previous strip, whose O is then stored later.
    AcrossStrips,
}

impl Overlap {
    /// The option's words in the line of a variant; `None` for the default.
    pub const fn words(self) -> Option<&'static str> {
        match self {
            Overlap::BetweenWarpgroups => None,
            Overlap::WithinStrip => Some("overlap within strips"),
            Overlap::AcrossStrips => Some("overlap across strips"),
        }
    }
}

/// Whether a block has room in shared memory for a bias, in kernels with a producer that change scores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum BiasTiles {
    /// No.
    #[default]
    NoTiles,
    /// For each warpgroup a tile, with the bias of a step.
    OnePerWarpgroup,
}

/// When the sm_80 kernels rescale O and the row sums to larger shifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Rescale {
    /// When a row max exceeds its shift, which is tested in every step.
    EveryStep,
    /// Never, as long as guessed shifts work. If a probability overflows under them, or is likely to, as in `EveryStep`.
    OnOverflow,
}

impl Rescale {
    /// Binary logarithm of how large probabilities may grow under a guessed shift; 0: shifts are not guessed.
    pub const fn threshold(self) -> u32 {
        match self {
            Rescale::EveryStep => 0,
            Rescale::OnOverflow => RESCALE_ON_OVERFLOW,
        }
    }
}

/// Rescale threshold of kernels that keep a shift as long as fp16 (below 2¹⁶) can hold the probabilities under it.
pub(super) const RESCALE_ON_OVERFLOW: u32 = 14;
