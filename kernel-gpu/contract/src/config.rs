//! What a kernel is made for besides its tiles: a family of instructions, a mask, sequence lengths; and the sizes that all
//! kernels share.

/// Columns of the tiles of Q, K, V and O.
pub const HEAD_DIM: u32 = 64;
/// Bytes of one fp16 row of [`HEAD_DIM`] elements.
pub const ROW_BYTES: u32 = HEAD_DIM * 2;
/// Lanes of a warp.
pub const WARP_SIZE: u32 = 32;
/// Rows of an `mma.m16n8k16` tile.
pub const MMA_M: u32 = 16;
/// Columns of an `mma.m16n8k16` tile.
pub const MMA_N: u32 = 8;
/// Depth of an `mma.m16n8k16` tile.
pub const MMA_K: u32 = 16;
/// Warps of a warpgroup, which executes `wgmma` together.
pub const WARPGROUP_WARPS: u32 = 4;
/// Rows of a `wgmma.m64nNk16` tile: 16 for each warp.
pub const WARPGROUP_ROWS: u32 = WARPGROUP_WARPS * MMA_M;

/// A kernel family: the instructions it is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Family {
    /// `cp.async`, `ldmatrix`, `mma.sync`: compute capability 8.0 and every later GPU.
    Sm80,
    /// `cp.async`, `wgmma`: compute capability 9.0 alone, since no other GPU has these instructions.
    Sm90a,
}

impl Family {
    /// Whether the family runs on `architecture`, as in 80 for `sm_80`.
    pub const fn runs_on(self, architecture: u32) -> bool {
        match self {
            Family::Sm80 => architecture >= 80,
            Family::Sm90a => architecture == 90,
        }
    }

    /// The architectures the family runs on, for error messages.
    pub const fn requirement(self) -> &'static str {
        match self {
            Family::Sm80 => "sm_80 or later",
            Family::Sm90a => "sm_90, as H100, H200 and GH200 have it",
        }
    }
}

/// Bytes of an [`Element`], whichever it is.
pub const ELEMENT_BYTES: u64 = 2;

/// The element type of Q, K, V and O. Scores, sums and O are accumulated in f32 whatever it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Element {
    /// IEEE 754 binary16: 11 significant bits, up to 65504.
    #[default]
    F16,
    /// bfloat16: 8 significant bits, and the range of f32.
    Bf16,
}

impl Element {
    /// Every element type.
    pub const ALL: [Element; 2] = [Element::F16, Element::Bf16];

    /// The name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Element::F16 => "f16",
            Element::Bf16 => "bf16",
        }
    }
}

/// Which keys a query may attend to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Mask {
    /// Every key.
    Full,
    /// Keys at or before the query's own position (top-left aligned).
    Causal,
    /// Keys within a [window](crate::problem::Window) around the query's own position.
    Window,
}

impl Mask {
    /// The name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Mask::Full => "full",
            Mask::Causal => "causal",
            Mask::Window => "window",
        }
    }
}

/// Whether an entry changes scores before their softmax ([`ScoreMod`](crate::problem::ScoreMod)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Scores {
    /// They are scale · QKᵀ.
    #[default]
    Unmodified,
    /// They are capped, biased, or both, as the launch says. Such an entry applies every mask as a window.
    Modified,
}

/// Which sequence lengths an entry accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Sequence {
    /// Exactly this length, a compile-time constant in the kernel.
    Exact(u32),
    /// Any length from 1 up, with masked tails.
    Any,
    /// Any lengths, of sequences that are packed ([`crate::packed`]).
    Packed,
}

impl Sequence {
    /// Whether an entry for `self` accepts sequences that are all of `length`.
    pub const fn accepts(self, length: u32) -> bool {
        match self {
            Sequence::Exact(exact) => exact == length,
            Sequence::Any => length >= 1,
            Sequence::Packed => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::ARCHITECTURES;

    #[test]
    fn a_family_runs_where_its_instructions_are() {
        let runs_on = |family: Family| ARCHITECTURES.map(|limits| family.runs_on(limits.architecture));
        assert_eq!(runs_on(Family::Sm80), [true; 4]);
        assert_eq!(runs_on(Family::Sm90a), [false, false, false, true]);
        assert!(Family::Sm80.runs_on(100) && !Family::Sm90a.runs_on(100), "sm_90a code does not run on later GPUs");
    }
}
