//! Parameters of a kernel besides its tile: instruction family, mask, sequence lengths. Also the sizes that all kernels
//! share.

/// Columns of the tiles of Q, K, V and O.
pub const HEAD_DIM: u32 = 64;
/// Bytes of one fp16 row of [`HEAD_DIM`] elements.
pub const ROW_BYTES: u32 = HEAD_DIM * 2;
/// Threads of a warp.
pub const WARP_SIZE: u32 = 32;
/// Rows of an `mma.m16n8k16` tile.
pub const MMA_M: u32 = 16;
/// Columns of an `mma.m16n8k16` tile.
pub const MMA_N: u32 = 8;
/// Depth of an `mma.m16n8k16` tile.
pub const MMA_K: u32 = 16;
/// Warps of a warpgroup, which executes `wgmma` collectively.
pub const WARPGROUP_WARPS: u32 = 4;
/// Rows of a `wgmma.m64nNk16` tile: 16 per warp.
pub const WARPGROUP_ROWS: u32 = WARPGROUP_WARPS * MMA_M;

/// A kernel family: the instructions it is built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Family {
    /// `cp.async`, `ldmatrix`, `mma.sync`: compute capability 8.0 and every later GPU.
    Sm80,
    /// `cp.async`, `wgmma`: compute capability 9.0 only, since no other GPU has `wgmma`.
    Sm90a,
}

impl Family {
    /// Whether the family runs on `architecture`, such as 80 for `sm_80`.
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

/// Size of an [`Element`], the same for all, bytes.
pub const ELEMENT_BYTES: u64 = 2;

/// The element type of Q, K, V and O. Scores, row sums and O are accumulated in f32 for all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Element {
    /// IEEE 754 binary16: 11 significant bits, largest number 65504.
    #[default]
    F16,
    /// bfloat16: 8 significant bits, the range of f32.
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

/// Which keys a query attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Mask {
    /// Every key.
    Full,
    /// Keys at or before the query's own position (top-left aligned).
    Causal,
    /// Keys within a [window](crate::spec::problem::Window) around the query's own position.
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

/// Whether an entry supports score modifications before the softmax ([`ScoreMod`](crate::spec::problem::ScoreMod)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Scores {
    /// It does not: scores are scale · QKᵀ.
    #[default]
    Unmodified,
    /// It does, as the launch specifies (softcap, ALiBi, bias). Such an entry applies every mask as a window.
    Modified,
}

/// Which sequence lengths an entry accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Sequence {
    /// Exactly this length, which is a compile-time constant in the kernel.
    Exact(u32),
    /// Any length from 1, with masked tails.
    Any,
    /// Packed sequences of any lengths ([`crate::schedule::packed`]).
    Packed,
}

impl Sequence {
    /// Whether an entry accepts sequences that all have `length` rows.
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
    use crate::schedule::architecture::ARCHITECTURES;

    #[test]
    fn a_family_runs_where_its_instructions_are() {
        let runs_on = |family: Family| ARCHITECTURES.map(|limits| family.runs_on(limits.architecture));
        assert_eq!(runs_on(Family::Sm80), [true; 4]);
        assert_eq!(runs_on(Family::Sm90a), [false, false, false, true]);
        assert!(Family::Sm80.runs_on(100) && !Family::Sm90a.runs_on(100), "sm_90a code does not run on later GPUs");
    }
}
