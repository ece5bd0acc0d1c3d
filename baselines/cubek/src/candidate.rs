//! The strategies of cubek-attention that are tried.

use std::fmt;

use cubek_attention::forward::launch::{BlueprintStrategy, Strategy};
use cubek_attention::forward::routines::blackbox_accelerated::BlackboxAcceleratedStrategy;

/// Warps of a block that are tried with tensor cores.
const PLANES: [u8; 4] = [4, 8, 2, 1];
/// Tiles of keys of a step.
const KEY_TILES: [u8; 3] = [1, 2, 4];
/// Tiles of queries of a warp.
const QUERY_TILES: [u8; 2] = [1, 2];

/// Which candidates are tried. A kernel takes NVRTC seconds to compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// One size after the other, each with the best of those before it.
    Best,
    /// All.
    Every,
}

impl Search {
    /// Every search.
    pub const ALL: [Self; 2] = [Self::Best, Self::Every];

    /// Its name as a backend.
    pub fn name(self) -> &'static str {
        match self {
            Self::Best => "best",
            Self::Every => "every",
        }
    }

    /// The search called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|search| search.name() == name)
    }

    /// What is tried in a round, when `best` is the fastest of the rounds before; none after the last round.
    pub fn round(self, round: usize, best: Option<Candidate>) -> Vec<Candidate> {
        let accelerated = |planes, query_tiles, key_tiles| Candidate::Accelerated { planes, query_tiles, key_tiles };
        match (self, round, best) {
            (Self::Best, 0, _) => {
                PLANES.map(|planes| accelerated(planes, 1, 1)).into_iter().chain([Candidate::Unit]).collect()
            }
            (Self::Best, 1, Some(Candidate::Accelerated { planes, query_tiles, .. })) => {
                KEY_TILES[1..].iter().map(|&key_tiles| accelerated(planes, query_tiles, key_tiles)).collect()
            }
            (Self::Best, 2, Some(Candidate::Accelerated { planes, key_tiles, .. })) => {
                QUERY_TILES[1..].iter().map(|&query_tiles| accelerated(planes, query_tiles, key_tiles)).collect()
            }
            (Self::Every, 0, _) => {
                let sizes = PLANES.iter().flat_map(|planes| QUERY_TILES.iter().map(move |queries| (planes, queries)));
                let sizes = sizes.flat_map(|sizes| KEY_TILES.iter().map(move |keys| (sizes, keys)));
                sizes
                    .map(|((&planes, &queries), &keys)| accelerated(planes, queries, keys))
                    .chain([Candidate::Unit])
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

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
    /// Without tensor cores.
    Unit,
}

impl Candidate {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_size_after_the_other_starts_from_the_best_before() {
        let names = |round, best| Search::Best.round(round, best).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names(0, None).len(), 5);
        let best = Some(Candidate::Accelerated { planes: 8, query_tiles: 1, key_tiles: 2 });
        assert_eq!(names(2, best), ["BlackboxAccelerated: num_planes 8, seq_q 2, seq_kv 2"]);
        assert_eq!(names(3, best), Vec::<String>::new());
        assert_eq!(names(1, Some(Candidate::Unit)), Vec::<String>::new(), "it has no sizes");
    }

    #[test]
    fn every_candidate_of_the_search_is_among_all() {
        let all = Search::Every.round(0, None);
        assert_eq!(all.len(), 25);
        let best = all[0];
        for round in 0..3 {
            assert!(Search::Best.round(round, Some(best)).iter().all(|candidate| all.contains(candidate)));
        }
        assert_eq!(Search::from_name("flash"), None);
    }
}
