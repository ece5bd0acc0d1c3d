//! What tile configurations choose from.

/// How work items are spread over thread blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Grid {
    /// A block for each.
    OneShot,
    /// As many blocks as fit on the device at once; each computes one after the other.
    Persistent,
    /// A cluster of blocks for each, among which its keys are split ([`crate::split_keys`]).
    SplitKeys,
}

/// Where the product with K reads Q.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Queries {
    /// From registers, in which its fragments stay.
    Registers,
    /// From shared memory, in every step anew.
    Shared,
}

/// How O gets from the accumulators to global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Epilogue {
    /// Through shared memory, where its rows become whole: then by 16-byte stores, in kernels with tensor maps by bulk copies.
    SharedMemory,
    /// By 16-byte stores of registers, when the lanes that hold parts of the same 16 bytes have exchanged them.
    Exchange,
}

/// What the softmax of a warpgroup overlaps with on the tensor cores, in kernels with a producer ("inter-warpgroup" and
/// "intra-warpgroup" overlap; Shah et al., arXiv 2407.08608, section 3). Each adds to the one before, and takes more registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Overlap {
    /// With the products of other warpgroups.
    #[default]
    BetweenWarpgroups,
    /// With its own product with V of the step before in the strip.
    WithinStrip,
    /// With that of the strip before, too, whose O is stored afterwards.
    AcrossStrips,
}

impl Overlap {
    /// What the line of a variant says of it: nothing of what is so unless it says otherwise.
    pub const fn words(self) -> Option<&'static str> {
        match self {
            Overlap::BetweenWarpgroups => None,
            Overlap::WithinStrip => Some("overlap within strips"),
            Overlap::AcrossStrips => Some("overlap across strips"),
        }
    }
}

/// When the sm_80 kernels rescale O and the sums of its rows to a new shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Rescale {
    /// In every step, whose shifts are the maxima so far.
    EveryStep,
    /// Never while a guess of the shifts holds; all steps are done again with the true maxima when fp16 overflows under it.
    OnOverflow,
}

impl Rescale {
    /// As a power of two, how large the probabilities under a shift may grow: 0 for not beyond its row's maximum.
    pub const fn threshold(self) -> u32 {
        match self {
            Rescale::EveryStep => 0,
            Rescale::OnOverflow => RESCALE_ON_OVERFLOW,
        }
    }
}

/// Rescale threshold of kernels that keep a shift as long as fp16, which ends below 2¹⁶, holds the probabilities under it.
pub const RESCALE_ON_OVERFLOW: u32 = 14;
