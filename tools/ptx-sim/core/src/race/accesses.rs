//! Global memory accesses of a whole launch, for comparison with other launches.

use super::agent::Strength;
use super::shadow::{CELL_BYTES, Record};
use crate::source_location::SourceLocation;

/// Adjacent bytes of global memory that one instruction of a launch read or wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalAccess {
    /// First byte.
    pub address: u64,
    /// Size, bytes.
    pub bytes: u64,
    /// Whether they were written.
    pub writes: bool,
    /// Whether the accesses were atomic or otherwise strong at GPU scope; those do not race with each other.
    pub is_strong: bool,
    /// Line of the instruction in the PTX, from 1.
    pub ptx_line: u32,
    /// Source location, if the PTX has line information.
    pub source: Option<SourceLocation>,
}

/// Bytes accessed in the same way by one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Touched {
    pub pc: u32,
    pub writes: bool,
    pub is_strong: bool,
    pub address: u64,
    pub bytes: u64,
}

impl Touched {
    /// The accesses of a cell's record: one per run of bytes.
    pub fn of(cell: u64, record: &Record) -> impl Iterator<Item = Touched> {
        let Record { pc, writes, bytes, strength, .. } = *record;
        let is_strong = Strength::reaches_other_clusters(strength);
        let mut rest = bytes;
        std::iter::from_fn(move || {
            let first = rest.trailing_zeros();
            let count = (rest >> first.min(7)).trailing_ones();
            if rest == 0 {
                return None;
            }
            rest &= !(((1_u16 << count) - 1) as u8).wrapping_shl(first);
            Some(Touched { pc, writes, is_strong, address: cell * CELL_BYTES + u64::from(first), bytes: count.into() })
        })
    }

    /// The same bytes with adjacent ranges merged.
    pub fn merged(mut all: Vec<Touched>) -> Vec<Touched> {
        all.sort_unstable();
        all.dedup_by(|next, before| {
            let is_one = (next.pc, next.writes, next.is_strong) == (before.pc, before.writes, before.is_strong)
                && next.address <= before.address + before.bytes;
            if is_one {
                before.bytes = before.bytes.max(next.address + next.bytes - before.address);
            }
            is_one
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(pc: u32, address: u64, bytes: u64) -> Touched {
        Touched { pc, writes: true, is_strong: false, address, bytes }
    }

    #[test]
    fn a_record_is_as_many_runs_as_it_has() {
        let record = |bytes: u8| Record {
            group: 0,
            bytes,
            writes: true,
            is_tested: false,
            strength: Strength::Weak,
            lanes: 1,
            time: 0,
            pc: 3,
            foreign: 0,
            value: 0,
        };
        assert_eq!(Touched::of(5, &record(0b1111)).collect::<Vec<_>>(), [touched(3, 20, 4)]);
        assert_eq!(Touched::of(5, &record(0b1001)).collect::<Vec<_>>(), [touched(3, 20, 1), touched(3, 23, 1)]);
        assert_eq!(Touched::of(5, &record(0)).count(), 0);
    }

    #[test]
    fn neighbours_of_one_instruction_are_one() {
        let all = vec![touched(1, 8, 4), touched(0, 4, 4), touched(0, 0, 4), touched(0, 2, 4), touched(0, 12, 1)];
        assert_eq!(Touched::merged(all), [touched(0, 0, 8), touched(0, 12, 1), touched(1, 8, 4)]);
    }
}
