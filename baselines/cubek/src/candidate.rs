//! The strategies of cubek-attention that are tried.

use std::fmt;

use cubek_attention::forward::launch::{BlueprintStrategy, Strategy};
use cubek_attention::forward::routines::blackbox_accelerated::BlackboxAcceleratedStrategy;

/// The one backend: whichever candidate is fastest.
pub const BACKEND: &str = "best";

/// Warps of a block that are tried with tensor cores.
const PLANES: [u8; 4] = [4, 8, 2, 1];
/// Tiles of queries of a warp.
const QUERY_TILES: [u8; 2] = [1, 2];
/// Tiles of keys of a step.
const KEY_TILES: [u8; 3] = [1, 2, 4];

/// A strategy with its sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidate {
    /// Tensor cores, with scores in shared memory.
    Accelerated {
        /// Warps of a block.
        planes: u8,
        /// Tiles of queries of a warp.
        query_tiles: u8,
        /// Tiles of keys of a step.
        key_tiles: u8,
    },
    /// Without tensor cores. NVRTC takes minutes to compile it, and a second for each of the others.
    Unit,
}

impl Candidate {
    /// Those with tensor cores.
    pub fn accelerated() -> impl Iterator<Item = Self> {
        let sizes = PLANES.into_iter().flat_map(|planes| QUERY_TILES.map(|query_tiles| (planes, query_tiles)));
        sizes.flat_map(|(planes, query_tiles)| {
            KEY_TILES.map(|key_tiles| Self::Accelerated { planes, query_tiles, key_tiles })
        })
    }

    /// As cubek-attention takes it.
    pub fn strategy(self) -> Strategy {
        match self {
            Self::Accelerated { planes, query_tiles, key_tiles } => {
                Strategy::BlackboxAccelerated(BlueprintStrategy::Inferred(BlackboxAcceleratedStrategy {
                    num_planes: planes,
                    seq_q: query_tiles,
                    seq_kv: key_tiles,
                }))
            }
            Self::Unit => Strategy::Unit(BlueprintStrategy::Inferred(())),
        }
    }
}

impl fmt::Display for Candidate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accelerated { planes, query_tiles, key_tiles } => {
                write!(formatter, "BlackboxAccelerated: num_planes {planes}, seq_q {query_tiles}, seq_kv {key_tiles}")
            }
            Self::Unit => write!(formatter, "Unit"),
        }
    }
}
