//! Candidate strategies of cubek-attention.

use std::fmt;

use cubek_attention::forward::launch::{BlueprintStrategy, Strategy};
use cubek_attention::forward::routines::blackbox_accelerated::BlackboxAcceleratedStrategy;

/// Backends; the fastest candidate of each is kept.
pub const BACKENDS: [&str; 2] = ["accelerated", "unit"];

/// Warps per block tried with tensor cores.
const PLANES: [u8; 4] = [4, 8, 2, 1];
/// Query tiles per warp.
const QUERY_TILES: [u8; 2] = [1, 2];
/// Key tiles per step.
const KEY_TILES: [u8; 3] = [1, 2, 4];

/// Maximum head dimension without tensor cores.
const UNIT_COLUMNS: usize = 64;

/// A strategy with its tile sizes.
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
    /// Without tensor cores. NVRTC takes minutes to compile it, and a second for the others.
    Unit,
}

impl Candidate {
    /// The candidates of a backend; empty for an unknown one.
    pub fn of(backend: &str) -> Vec<Self> {
        let sizes = PLANES.into_iter().flat_map(|planes| QUERY_TILES.map(|query_tiles| (planes, query_tiles)));
        let accelerated = sizes.flat_map(|(planes, query_tiles)| {
            KEY_TILES.map(|key_tiles| Self::Accelerated { planes, query_tiles, key_tiles })
        });
        match backend {
            "accelerated" => accelerated.collect(),
            "unit" => vec![Self::Unit],
            _ => Vec::new(),
        }
    }

    /// Why it is skipped for a head dimension; `None` if it is tried.
    pub fn refusal(self, columns: usize) -> Option<String> {
        let takes_too_long = self == Self::Unit && columns > UNIT_COLUMNS;
        takes_too_long.then(|| {
            format!("NVRTC takes over ten minutes to compile it for D = {columns}; this program asks for at most {UNIT_COLUMNS}")
        })
    }

    /// As an argument of cubek-attention.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_has_candidates() {
        assert_eq!(BACKENDS.map(|backend| Candidate::of(backend).len()), [24, 1]);
        assert!(Candidate::of("flash").is_empty());
    }

    #[test]
    fn what_would_be_compiled_for_too_long_is_refused() {
        assert_eq!(Candidate::Unit.refusal(64), None);
        assert!(Candidate::Unit.refusal(72).unwrap().contains("D = 72"));
        assert!(Candidate::of("accelerated").iter().all(|candidate| candidate.refusal(128).is_none()));
    }
}
