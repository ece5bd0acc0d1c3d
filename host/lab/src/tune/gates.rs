//! Gates that reject points before compilation: those that cannot work, and duplicates of other points.

use std::collections::BTreeMap;
use std::fmt;

use contract::architecture::ArchitectureLimits;
use contract::config::{ROW_BYTES, Sequence};
use contract::tile::{self, Configuration};
use serde::{Deserialize, Serialize};

use super::space::{Point, Space};

/// Bytes of a chunk: the unit of swizzles and of `ldmatrix` rows.
const CHUNK_BYTES: u32 = 16;
/// Number of chunks that the 32 banks serve in one wavefront.
const CHUNKS_PER_WAVEFRONT: u32 = 8;
/// Rows of the 8×8 matrices that `ldmatrix` and `wgmma` read.
const MATRIX_ROWS: u32 = 8;

/// Why a point is not compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The tile configuration cannot work.
    Config(tile::Rejection),
    /// The rows of a matrix have bank conflicts.
    BankConflicts {
        /// Wavefronts of a read that should take one.
        wavefronts: u32,
    },
    /// More K/V stages than the sequence has blocks.
    StagesBeyondSequence,
}

impl fmt::Display for Rejection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(rejection) => rejection.fmt(formatter),
            Self::BankConflicts { wavefronts } => {
                write!(formatter, "bank conflicts: 8 rows of a tile take {wavefronts} wavefronts, not 1")
            }
            Self::StagesBeyondSequence => formatter.write_str("more stages than the sequence has K/V blocks"),
        }
    }
}

/// The gates of a search space.
#[derive(Clone, Copy, Debug)]
pub struct Gates {
    /// The sequence lengths that the kernels accept.
    pub sequence: Sequence,
    /// The limits of the GPU.
    pub limits: ArchitectureLimits,
}

impl Gates {
    /// Checks that `point` can work.
    pub fn check(&self, point: &Point) -> Result<(), Rejection> {
        point.config.check(self.sequence, self.limits).map_err(Rejection::Config)?;
        let wavefronts = matrix_wavefronts(point.swizzle);
        if wavefronts > 1 {
            return Err(Rejection::BankConflicts { wavefronts });
        }
        match self.sequence {
            Sequence::Exact(length) if point.config.stages() * point.config.block_n() > length => {
                Err(Rejection::StagesBeyondSequence)
            }
            _ => Ok(()),
        }
    }

    /// Sorts the points of `space` into survivors and rejected ones.
    pub fn sift(&self, space: &Space) -> Sifted {
        let mut survivors = Vec::new();
        let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
        for point in space.points() {
            match self.check(&point) {
                Ok(()) => survivors.push(point.config),
                Err(rejection) => *reasons.entry(rejection.to_string()).or_default() += 1,
            }
        }
        let mut rejected: Vec<_> = reasons.into_iter().map(|(reason, points)| Rejected { reason, points }).collect();
        rejected.sort_by_key(|rejected| std::cmp::Reverse(rejected.points));
        Sifted { points: space.count(), rejected, survivors }
    }
}

/// The result of sifting a space.
#[derive(Clone, Debug)]
pub struct Sifted {
    /// Number of points.
    pub points: u64,
    /// Rejected points by the first gate that they failed, most frequent first.
    pub rejected: Vec<Rejected>,
    /// Points that pass all gates.
    pub survivors: Vec<Configuration>,
}

/// Number of points that a gate rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// The requirement.
    pub reason: String,
    /// Number of points that do not meet it.
    pub points: u64,
}

/// Wavefronts of a shared-memory read of the same chunk in 8 neighbouring rows, if `swizzle` bytes of each row are
/// permuted as by a tensor map's swizzle mode: chunk index XOR row, over as many bits as index the permuted chunks.
fn matrix_wavefronts(swizzle: u32) -> u32 {
    let mask = (swizzle / CHUNK_BYTES).saturating_sub(1);
    let mut rows_by_banks = [0; CHUNKS_PER_WAVEFRONT as usize];
    for row in 0..MATRIX_ROWS {
        let offset = row * ROW_BYTES / CHUNK_BYTES + (row & mask);
        rows_by_banks[(offset % CHUNKS_PER_WAVEFRONT) as usize] += 1;
    }
    rows_by_banks.into_iter().max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::space::tests::small;
    use super::*;
    use contract::architecture::ARCHITECTURES;
    use contract::config::Family;
    use contract::tile::Sm80;
    use contract::variants::VARIANTS;

    fn gates(architecture: u32) -> Gates {
        let limits = ARCHITECTURES.into_iter().find(|limits| limits.architecture == architecture).unwrap();
        Gates { sequence: Sequence::Exact(512), limits }
    }

    #[test]
    fn every_gate_rejects_what_it_is_for_and_says_why() {
        let tile = Sm80 { min_blocks: 2, ..Sm80::new(128, 64, 4, 2) };
        let point = |tile| Point { config: Configuration::Sm80(tile), swizzle: 128 };
        let good = point(tile);
        let gates = gates(90);
        assert_eq!(gates.check(&good), Ok(()));
        let cases = [
            (point(Sm80 { warps: 33, ..tile }), "1", "warps"),
            (point(Sm80 { block_m: 24, ..tile }), "16", "block_m"),
            (point(Sm80 { block_n: 24, ..tile }), "16", "block_n"),
            (point(Sm80 { stages: 1, ..tile }), "2", "stages"),
            (point(Sm80 { block_m: 512, ..tile }), "registers", "accumulators"),
            (point(Sm80 { stages: 16, ..tile }), "shared memory", "tiles"),
            (point(Sm80 { block_n: 48, warps: 8, ..tile }), "evenly", "chunks"),
            (point(Sm80 { block_n: 48, ..tile }), "multiple of block_m and block_n", "sequence"),
            (point(Sm80 { stages: 9, min_blocks: 1, ..tile }), "stages than", "more"),
            (Point { swizzle: 0, ..good }, "8 wavefronts", "bank conflicts"),
            (Point { swizzle: 32, ..good }, "4 wavefronts", "bank conflicts"),
            (Point { swizzle: 64, ..good }, "2 wavefronts", "bank conflicts"),
        ];
        for (point, what, whose) in cases {
            let reason = gates.check(&point).expect_err(&format!("{point:?} passes")).to_string();
            assert!(reason.contains(what) && reason.contains(whose), "{point:?}: {reason}");
        }
    }

    #[test]
    fn points_are_survivors_or_have_a_reason() {
        for (family, architecture) in [(Family::Sm80, 80), (Family::Sm80, 89), (Family::Sm80, 90), (Family::Sm90a, 90)]
        {
            for space in Space::built_in(family).unwrap() {
                let (kind, sifted) = (space.kind(), gates(architecture).sift(&space));
                let rejected: u64 = sifted.rejected.iter().map(|rejected| rejected.points).sum();
                assert_eq!(rejected + sifted.survivors.len() as u64, sifted.points);
                assert!(sifted.survivors.len() >= 20, "{kind:?} on sm_{architecture}: {}", sifted.survivors.len());
                assert!(sifted.rejected.len() >= 6, "{kind:?} on sm_{architecture}: {:?}", sifted.rejected);
                assert!(sifted.rejected.is_sorted_by_key(|rejected| std::cmp::Reverse(rejected.points)));
            }
        }
    }

    #[test]
    fn less_shared_memory_leaves_fewer_survivors() {
        let space = small();
        let survivors = |architecture| gates(architecture).sift(&space).survivors.len();
        assert!(survivors(89) < survivors(80), "{} on sm_89, {} on sm_80", survivors(89), survivors(80));
    }

    #[test]
    fn what_is_shipped_is_in_the_space() {
        for space in [Family::Sm80, Family::Sm90a].into_iter().flat_map(|family| Space::built_in(family).unwrap()) {
            let survivors = gates(90).sift(&space).survivors;
            let shipped = VARIANTS
                .iter()
                .filter(|variant| variant.config.kind() == space.kind() && variant.sequence == Sequence::Exact(512));
            for variant in shipped {
                assert!(
                    survivors.contains(&variant.config),
                    "{} is not in space.toml: give it its values",
                    variant.entry
                );
            }
        }
    }
}
