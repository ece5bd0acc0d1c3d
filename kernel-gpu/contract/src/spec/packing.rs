//! What the host knows of packed sequences: their number, not their lengths ([`crate::schedule::packed`]).

/// The sequences of a packed problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
pub struct Packing {
    /// Number of sequences.
    pub sequences: u32,
    /// Length of the longest sequence, or a bound. It only helps to choose a kernel; results are right with any value.
    pub longest: u32,
    /// Which length arrays there are.
    #[cfg_attr(feature = "manifest", serde(default))]
    pub lengths: Lengths,
}

impl Packing {
    /// `sequences` sequences, each with as many keys as queries.
    pub const fn new(sequences: u32, longest: u32) -> Self {
        Self { sequences, longest, lengths: Lengths::Shared }
    }

    /// `sequences` sequences whose K and V have other lengths than Q.
    pub const fn separate(sequences: u32, longest: u32) -> Self {
        Self { sequences, longest, lengths: Lengths::Separate }
    }
}

/// Which arrays describe the sequences of a packed problem.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "manifest", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "manifest", serde(rename_all = "snake_case"))]
pub enum Lengths {
    /// One `cu_seqlens` for Q, K and V.
    #[default]
    Shared,
    /// `cu_seqlens` for Q, and `cu_seqlens_k` for K and V; `seqused_q` and `seqused_k` may shorten them.
    Separate,
    /// Equal room for all sequences in Q, and in K and V; `seqused_q` and `seqused_k` may say how much of it is used.
    Padded,
}
